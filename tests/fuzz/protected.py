"""What protected runs read of one another: offers, encrypted columns, encrypted gradients, masking keys, signatures."""

import base64
import tempfile
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from plait.messages import Broadcast, Share
from plait.protection.modes import Protection
from plait.training.coordinator_shield import agree
from plait.training.party_shield import Agreed, PartyKeys, PartyShield
from plait.transports import certificate_authority
from plait.transports.certificates import Folder, fingerprint, name_of, read_certificate, read_request
from plait.transports.signatures import has_signed, signed
from plait.transports.tls import Identity, check_proof

ROWS = 40
PARTIES = ("bank", "shop", "inn")


def _words(data: bytes) -> np.ndarray:
    """Bytes as the words of a vector, as a frame would bring them."""
    return np.frombuffer(data[: len(data) // 8 * 8], dtype="<u8").astype(np.uint64)


class _Answers:
    """A transport on which one party answers with what it is told to, and the others are honest."""

    def __init__(self, shields: Mapping[str, PartyShield]) -> None:
        self._shields = shields
        self._agreed = {name: Agreed() for name in shields}
        self.wrong: Share | None = None

    def exchange(self, requests: Mapping[str, Broadcast]) -> dict[str, Share]:
        answers = {}
        for name, request in requests.items():
            self._agreed[name], answers[name] = self._shields[name].agree(self._agreed[name], request)
        wrong, self.wrong = self.wrong, None
        return answers if wrong is None else {**answers, "shop": wrong}


class ProtectedRun:
    """Three parties that have agreed on a run, and readers of what the next message may be."""

    def __init__(self) -> None:
        rng = np.random.default_rng(3)
        self._tables = {name: rng.integers(0, 2, (ROWS, 2)).astype(float) for name in PARTIES}
        self._shields = {name: self._shield(name) for name in PARTIES}
        self._line = _Recording(self._shields)
        coordinator = agree(Protection("sums", 1.0), PARTIES, ROWS, self._line, bytes(32))
        gradient = Broadcast(1, rng.uniform(-1, 1, ROWS) / ROWS)
        said = coordinator.seal({"shop": gradient}, inward=False)[0]["shop"].vector
        self.offer, self.keys = self._line.asked[0], self._line.asked[1]
        self.hints, self.gradient = self._line.answered[0], np.asarray(said)
        self._agreed = Agreed(self.offer, self.keys)

    def _shield(self, name: str) -> PartyShield:
        return PartyShield(
            Protection("sums", 1.0), name, PARTIES, self._tables[name], lambda: PartyKeys(name.encode() * 8)
        )

    def read_offer(self, data: bytes) -> object:
        return self._shields["shop"].agree(Agreed(), Broadcast(0, _words(data)))

    def read_keys(self, data: bytes) -> object:
        return self._shields["shop"].agree(Agreed(self.offer), Broadcast(0, _words(data)))

    def read_gradient(self, data: bytes) -> object:
        return self._shields["shop"].open(self._agreed, Broadcast(1, _words(data)))

    def read_hints(self, data: bytes) -> object:
        line = _Answers(self._shields)
        line.wrong = Share(0, _words(data))
        return agree(Protection("sums", 1.0), PARTIES, ROWS, line, bytes(32))


class _Recording(_Answers):
    """Keeps what the shop is asked and what it answers."""

    def __init__(self, shields: Mapping[str, PartyShield]) -> None:
        super().__init__(shields)
        self.asked: list[np.ndarray] = []
        self.answered: list[np.ndarray] = []

    def exchange(self, requests: Mapping[str, Broadcast]) -> dict[str, Share]:
        answers = super().exchange(requests)
        self.asked.append(np.asarray(requests["shop"].vector))
        if answers["shop"].vector is not None:
            self.answered.append(np.asarray(answers["shop"].vector))
        return answers


class Certified:
    """Certificates of an authority, and readers of what others send or leave in their place."""

    def __init__(self) -> None:
        self._folder = Folder(Path(tempfile.mkdtemp(prefix="plait-fuzz-")))
        certificate_authority.init_authority(self._folder, "bank")
        certificate_authority.sign_request(self._folder, certificate_authority.make_request(self._folder, "shop"))
        self._identity = Identity.load(self._folder, "shop")
        self.proof = signed(self._identity, b"content")
        self.request = _der(self._folder.request("shop"))
        self.certificate = _der(self._folder.certificate("shop"))

    def read_signature(self, data: bytes) -> object:
        return has_signed(self._identity, "shop", b"content", data)

    def read_proof(self, data: bytes) -> object:
        return check_proof(_pem(data, "CERTIFICATE"), "30", b"content", "ab")

    def reader(self, name: str) -> Callable[[bytes], object]:
        """Of a request or a certificate in a file."""
        readers: dict[str, Callable[[Path], object]] = {"CERTIFICATE REQUEST": read_request, "CERTIFICATE": _looked_at}
        path = self._folder.path / "fuzzed.pem"

        def read(data: bytes) -> object:
            path.write_text(_pem(data, name))
            return readers[name](path)

        return read


def _looked_at(path: Path) -> object:
    """What `plait cert show` reads of a certificate."""
    certificate = read_certificate(path)
    return name_of(certificate), fingerprint(certificate)


def _der(path: Path) -> bytes:
    return base64.b64decode("".join(path.read_text().splitlines()[1:-1]))


def _pem(data: bytes, name: str) -> str:
    """DER in PEM: changes of the text alone would hardly ever get beyond it."""
    lines = textwrap.wrap(base64.b64encode(data).decode(), 64)
    return "\n".join([f"-----BEGIN {name}-----", *lines, f"-----END {name}-----", ""])
