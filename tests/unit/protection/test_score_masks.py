"""Masked parts of scores: totals for who asks, random words for everything else."""

import numpy as np
import pytest
import scipy.stats

from plait.errors import PrivacyError, ProtocolError
from plait.protection.score_masks import QUERIES_IN_A_MEETING, ScoreMasks, meeting_of, read_totals
from plait.protection.secure_sums import WIDE

from .test_secure_sums import Certificates

NAMES = ("shop", "tele", "train")
IDS = [f"n{i}" for i in range(50)]
RUN = "20260101-120000-0a1b2c"
ALL = np.ones(len(IDS), dtype=bool)


def masks(names: tuple[str, ...] = NAMES, key: str = "ab" * 32) -> dict[str, ScoreMasks]:
    certificates = Certificates(list(names))
    made = {
        n: ScoreMasks("job", n, names, lambda data, n=n: certificates.sign(n, data), certificates.verify)  # type: ignore[misc]
        for n in names
    }
    for each in made.values():
        each.join(key)
    return made


def met(parties: dict[str, ScoreMasks]) -> str:
    keys = [party.announce() for party in parties.values()]
    for party in parties.values():
        party.meet(keys)
    return meeting_of(keys)


def parts(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    sizes = np.array([1e-9, 1.0, 1e9])  # no scaling of columns is asked for
    return {n: np.round(rng.standard_normal(len(IDS)) * sizes[i], 12) for i, n in enumerate(NAMES)}


def test_totals_are_the_sums_of_the_parts_to_the_last_bit_or_so() -> None:
    parties, values = masks(), parts()
    meeting = met(parties)
    shares = {n: p.mask(meeting, 0, RUN, IDS, values[n], ALL) for n, p in parties.items()}
    assert all(share is not None and share.size == WIDE * len(IDS) for share in shares.values())
    found = read_totals(shares, ALL)  # type: ignore[arg-type]
    np.testing.assert_allclose(found, np.sum(list(values.values()), axis=0), rtol=4e-16)


def test_a_share_and_a_row_that_somebody_lacks_are_random() -> None:
    parties, values = masks(), parts()
    meeting = met(parties)
    lacks = ALL.copy()
    lacks[::2] = False
    shares = {n: p.mask(meeting, 0, RUN, IDS, values[n], lacks if n == "tele" else ALL) for n, p in parties.items()}
    found = read_totals(shares, lacks)  # type: ignore[arg-type]
    np.testing.assert_allclose(found[lacks], np.sum(list(values.values()), axis=0)[lacks], rtol=4e-16)
    summed = sum(share.reshape(WIDE, -1) for share in shares.values())[:, ~lacks]  # type: ignore[union-attr, misc]
    assert isinstance(summed, np.ndarray)
    for words in (*shares.values(), summed):
        assert words is not None
        bits = np.unpackbits(np.ascontiguousarray(words).view(np.uint8))
        assert scipy.stats.binomtest(int(bits.sum()), bits.size).pvalue > 1e-4
    with pytest.raises(ProtocolError, match="must cancel"):
        read_totals(shares, ALL)  # type: ignore[arg-type]


def test_parties_that_are_asked_for_different_rows_give_nothing_that_can_be_read() -> None:
    """Else A_i + B_j and A_i + B_i would show B_i - B_j."""
    parties, values = masks(), parts()
    meeting = met(parties)
    for other_ids, other_run in ((IDS[::-1], RUN), (IDS, RUN.replace("a", "b"))):
        shares = {n: p.mask(meeting, 1, RUN, IDS, values[n], ALL) for n, p in parties.items()}
        shares["tele"] = parties["tele"].mask(meeting, 1, other_run, other_ids, values["tele"], ALL)
        with pytest.raises(ProtocolError, match="must cancel"):
            read_totals(shares, ALL)  # type: ignore[arg-type]


def test_a_mask_hides_one_vector() -> None:
    parties, values = masks(), parts()
    meeting, party = met(parties), parties["shop"]
    first = party.mask(meeting, 3, RUN, IDS, values["shop"], ALL)
    again = party.mask(meeting, 3, RUN, IDS, values["shop"], ALL)
    assert first is not None
    np.testing.assert_array_equal(first, again)  # the same bytes
    with pytest.raises(PrivacyError, match="a mask must hide one vector"):
        party.mask(meeting, 3, RUN, IDS, values["shop"] + 1e-3, ALL)
    with pytest.raises(PrivacyError, match="a mask must hide one vector"):
        party.mask(meeting, 3, RUN, IDS, values["shop"], ~ALL)
    with pytest.raises(ProtocolError, match="Meet anew"):
        party.mask(meeting, QUERIES_IN_A_MEETING, RUN, IDS, values["shop"], ALL)


def test_after_a_new_meeting_or_another_prediction_old_masks_are_gone() -> None:
    parties, values = masks(), parts()
    meeting, party = met(parties), parties["shop"]
    before = party.mask(meeting, 0, RUN, IDS, values["shop"], ALL)
    later = met(parties)
    assert party.mask(meeting, 0, RUN, IDS, values["shop"], ALL) is None
    after = party.mask(later, 0, RUN, IDS, values["shop"], ALL)
    assert before is not None
    assert after is not None
    assert not (before == after).any()
    party.join("cd" * 32)
    assert party.mask(later, 0, RUN, IDS, values["shop"], ALL) is None
    assert party.mask("", 0, RUN, IDS, values["shop"], ALL) is None


@pytest.mark.parametrize("what", ["too few", "twice", "an old own key", "another prediction", "another signature"])
def test_keys_that_are_not_one_each_signed_for_this_prediction_are_refused(what: str) -> None:
    parties = masks()
    keys = {n: party.announce() for n, party in parties.items()}
    given = list(keys.values())
    if what == "too few":
        given = given[:2]
    elif what == "twice":
        given[2] = given[1]
    elif what == "an old own key":
        parties["shop"].announce()
    elif what == "another prediction":
        parties["tele"].join("cd" * 32)
        given[1] = parties["tele"].announce()
    else:
        given[1] = masks()["tele"].announce()
    with pytest.raises(ProtocolError):
        parties["shop"].meet(given)
    assert parties["shop"].mask(meeting_of(given), 0, RUN, IDS, parts()["shop"], ALL) is None
