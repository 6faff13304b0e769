"""Where a party's releases are charged, drawn and kept: the one door through which private numbers leave."""

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from plait._files import write_atomically
from plait._types import Array
from plait.errors import PrivacyError
from plait.privacy.accounting import Cost
from plait.privacy.ledger.ledger import Budget, Ledger, Unlimited, fingerprint
from plait.privacy.noise import KeyedNoise, Keystream, Noise, Release

SECRET_BYTES = 32  # bytes of the key of all noise: 256 bits, as AES-256 takes


class Account(Protocol):
    """Charges a release before it is computed and keeps what was released."""

    def check(self, cost: Cost, run: str) -> None: ...

    def release(
        self, release: Release, cost: Cost, mechanism: str, noise: Noise, compute: Callable[[], bytes]
    ) -> bytes: ...


class Unrecorded:
    """No ledger: a single simulated run, whose spending nobody adds up."""

    def check(self, cost: Cost, run: str) -> None:
        """Every cost is allowed."""

    def release(
        self, release: Release, cost: Cost, mechanism: str, noise: Noise, compute: Callable[[], bytes]
    ) -> bytes:
        return compute()


@dataclass(frozen=True)
class Book:
    """One party's door in one run."""

    run: str
    party: str
    noise: Noise = field(default_factory=KeyedNoise)
    account: Account = field(default_factory=Unrecorded)

    def draw(
        self, round_: int, name: str, cost: Cost, mechanism: object, inputs: bytes, make: Callable[[Keystream], Array]
    ) -> Array:
        """Charge, compute with this release's own noise, keep, and return the numbers, flat.

        `inputs` covers all that the release depends on; the mechanism, with its noise scale, is added to it: one
        keystream at two scales would reveal the value.
        """
        tag = hashlib.sha256(inputs + repr((mechanism, cost)).encode()).hexdigest()
        release = Release(self.run, self.party, round_, name, tag)

        def compute() -> bytes:
            return np.ascontiguousarray(make(self.noise.stream(release)), dtype="<f8").tobytes()

        content = self.account.release(release, cost, type(mechanism).__name__, self.noise, compute)
        return np.frombuffer(content, dtype="<f8").astype(np.float64)


@dataclass(frozen=True)
class LedgerFolder:
    """A folder that keeps each party's ledger, its stored releases and the secret of its noise.

    In a deployment every party has its own folder, which nobody else may read; in a simulation they share one.
    `budget` is what each party will spend on one data set, over all runs.
    """

    root: Path | str
    budget: Budget

    def ledger(self, party: str, matrix: Any, guaranteed: bool) -> Ledger:
        """The party's ledger for this data; one without a limit where nothing is guaranteed anyway."""
        return Ledger(Path(self.root), party, data_fingerprint(matrix), self.budget if guaranteed else Unlimited())

    def noise(self, party: str) -> KeyedNoise:
        """Noise under the party's persisted secret, made at first use."""
        name = hashlib.sha256(party.encode()).hexdigest()[:24]
        return KeyedNoise(_secret(Path(self.root) / f"{name}.secret"))


def digest(*arrays: Any) -> bytes:
    """SHA-256 of arrays, dense or CSR, with their shapes."""
    state = hashlib.sha256()
    for array in arrays:
        for part in (array.data, array.indices, array.indptr) if sp.issparse(array) else (np.asarray(array),):
            state.update(repr((array.shape, part.shape, part.dtype.str)).encode())
            state.update(np.ascontiguousarray(part).tobytes())
    return state.digest()


def data_fingerprint(matrix: Any) -> str:
    """The fingerprint of a party's table."""
    return fingerprint(digest(matrix))


def _secret(path: Path) -> bytes:
    if path.exists():
        content = path.read_bytes()
        if len(content) != SECRET_BYTES:
            raise PrivacyError(
                f"A noise secret must have {SECRET_BYTES} bytes. Found {len(content)} in {path}. Restore it from a "
                "copy; with another secret every release is a new one and pays again."
            )
        return content
    secret = secrets.token_bytes(SECRET_BYTES)
    write_atomically(path, secret, private=True)
    return _secret(path)
