"""Secrets of a protected run: made once, and no mask serves two vectors, also after a kill."""

from pathlib import Path

import numpy as np
import pytest

from plait.deployment.run_folder import RunFolder
from plait.deployment.run_keys import UsedMasks, run_secret
from plait.errors import PrivacyError, StorageError
from plait.protection.secure_sums import MaskingParty, Run


def test_a_run_keeps_its_secret_and_another_run_has_another(tmp_path: Path) -> None:
    one, other = (RunFolder(tmp_path / run / "shop") for run in ("20260101-120000-0a1b2c", "20260101-120001-0a1b2c"))
    assert run_secret(one) == run_secret(one) != run_secret(other)
    copied = (one.checkpoint / "protection.json").read_bytes()
    (other.checkpoint / "protection.json").write_bytes(copied)
    with pytest.raises(StorageError, match="another run's"):
        run_secret(other)


def masking(path: Path) -> MaskingParty:
    party = MaskingParty(Run("job", "run"), "a", bytes(range(32)), UsedMasks(path))
    peer = MaskingParty(Run("job", "run"), "b", bytes(range(1, 33)))
    party.meet([peer.announce(lambda data: b"")], lambda *_: True)
    return party


def test_after_a_kill_the_same_vector_gives_the_same_share_and_another_is_refused(tmp_path: Path) -> None:
    first = masking(tmp_path / "masks").share(np.arange(3.0), 7, "share")
    again = masking(tmp_path / "masks")
    np.testing.assert_array_equal(again.share(np.arange(3.0), 7, "share"), first)
    with pytest.raises(PrivacyError, match="a second one"):
        again.share(np.arange(3.0) + 1, 7, "share")


def test_a_line_cut_short_by_a_crash_is_dropped_and_the_next_one_is_read(tmp_path: Path) -> None:
    used = UsedMasks(tmp_path / "masks")
    used["1/share"] = bytes(32)
    with (tmp_path / "masks").open("ab") as file:
        file.write(b"\n2/share 00ff")
    again = UsedMasks(tmp_path / "masks")
    again["3/share"] = bytes(range(32))
    assert dict(UsedMasks(tmp_path / "masks")) == {"1/share": bytes(32), "3/share": bytes(range(32))}
    with pytest.raises(StorageError):
        again["1/share"] = bytes(range(32))
