"""The secrets of a protected run on disk: made once, durable before anything is sent, gone when the run has finished.

    checkpoint/protection.json   the secret of this run
    checkpoint/signature         a party's certificate and its signature of its masking key
    counts/<name>-<run>-masks    the digest of every vector that was masked, written before the masked vector leaves

The last one lies beside the party file, and stays: an older copy of the run's folder that is put back masks nothing
else under a mask that was used since.

A new run (`--fresh`) has a new folder, and so new secrets.  Everything that a protected run sends follows from them, so
a program that was killed sends the same bytes again, and never another vector under the same mask.
"""

import secrets
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Any

from plait._files import make_folder, open_private, read_json, sync_folder, write_atomically, write_durably, write_json
from plait._names import is_hex
from plait.deployment.job_file import Job
from plait.deployment.run_folder import RunFolder
from plait.errors import StorageError
from plait.protection.randomness import KEY_BYTES
from plait.protection.secure_sums import Run, Sign, Verify
from plait.training.party_shield import PartyKeys
from plait.transports.signatures import has_signed, signed
from plait.transports.tls import Identity, Security

_DIGEST_BYTES = 32  # of SHA-256


def run_secret(folder: RunFolder) -> bytes:
    """The secret of this side of a run."""
    path = folder.checkpoint / "protection.json"
    if not path.exists():
        make_folder(path.parent)
        write_json(path, {"format": 1, "owner": folder.owner, "secret": secrets.token_hex(KEY_BYTES)})
    content: dict[str, Any] = read_json(path, "the secret of a protected run", {"owner": str, "secret": str})
    if content["owner"] != folder.owner or not is_hex(content["secret"], KEY_BYTES):
        raise StorageError(f"{path} must be of {folder.owner}. Found another run's. Restore it, or start over.")
    return bytes.fromhex(content["secret"])


def party_keys(folder: RunFolder, job: Job, security: Security | None, masks: Path, rows: str = "") -> PartyKeys:
    """What a party keeps to itself in one protected run; with certificates, its masking key is signed.

    The record of what was masked is at `masks`.  `rows` is a digest of the ids, where no coordinator compares them:
    only parties with the same one agree on masks.
    """
    secret, used = run_secret(folder), UsedMasks(masks)
    run = Run(job.digest, f"{folder.path.parent.name} {rows}".rstrip())
    if not isinstance(security, Identity):
        return PartyKeys(secret, run, used=used)
    sign, verify = signing(security, job.fingerprints)

    def sign_once(data: bytes) -> bytes:
        """Sign once and keep the signature: a second one of the same bytes would differ, and so would the message."""
        path = folder.checkpoint / "signature"
        if not path.exists():
            write_atomically(path, sign(data))
        return path.read_bytes()

    return PartyKeys(secret, run, sign_once, verify, used)


def signing(security: Security | None, pins: Mapping[str, str]) -> tuple[Sign, Verify]:
    """How a party signs a masking key and checks those of others; without certificates nothing is signed.

    A key of a party whose fingerprint is pinned must be signed by the key with that one.
    """
    if not isinstance(security, Identity):
        return lambda data: b"", lambda name, data, proof: proof == b""
    return (
        lambda data: signed(security, data),
        lambda name, data, proof: has_signed(security, name, data, proof, pins.get(name, "")),
    )


def _read_digest(text: str, path: Path) -> bytes:
    if not is_hex(text, _DIGEST_BYTES):
        raise StorageError(
            f"{path} must hold digests. Found a damaged line. Start over with `plait coordinator --fresh`."
        )
    return bytes.fromhex(text)


class UsedMasks(MutableMapping[str, bytes]):
    """What was masked in a run: exchange -> digest.  An entry is on disk when the assignment returns, and stays."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: dict[str, bytes] = {}
        if path.exists():
            for line in path.read_text(encoding="ascii", errors="replace").splitlines():
                place, _, digest = line.partition(" ")
                if len(digest) == 2 * _DIGEST_BYTES:  # else a crash cut the line short, and nothing was sent
                    self._entries.setdefault(place, _read_digest(digest, path))

    def __getitem__(self, place: str) -> bytes:
        return self._entries[place]

    def __setitem__(self, place: str, digest: bytes) -> None:
        if place in self._entries:
            raise StorageError(f"{self._path} must keep what was masked in exchange {place}. Found it changed.")
        new = not self._path.exists()
        make_folder(self._path.parent)
        with open_private(self._path, "ab") as file:
            write_durably(file, f"\n{place} {digest.hex()}\n".encode("ascii"), self._path)
        if new:
            sync_folder(self._path.parent)
        self._entries[place] = digest

    def __delitem__(self, place: str) -> None:
        raise StorageError(f"{self._path} must keep what was masked in exchange {place}. Nothing is removed from it.")

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
