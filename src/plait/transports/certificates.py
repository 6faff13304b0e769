"""A folder of certificates: what lies in it, how it is read, and what is checked.

A certificate's name is a party's identity: it stands as common name and as DNS name, so that TLS itself checks it.

    ca.crt, ca.key             the authority
    ca.crl                     the certificates that it has revoked, signed by it; read again at every handshake
    NAME.key, .csr, .crt       a party's key, its request, its certificate
    NAME.next.key              the key of a renewal that is not signed yet
    issued/NAME-SERIAL.crt     every certificate that was ever signed here
"""

import contextlib
import datetime
import warnings
from collections.abc import Iterator
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.utils import CryptographyDeprecationWarning
from cryptography.x509.oid import NameOID

from plait._names import check_party, plain
from plait.errors import CertificateError, ConfigError

_PEM = b"-----BEGIN"
AUTHORITY = "plait authority of "  # before the label party's name: what its authority is called


class Folder:
    """A folder of certificates: ca.crt, and for each name name.key, name.csr, name.crt; ca.key only where it signs."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def authority(self) -> Path:
        return self.path / "ca.crt"

    @property
    def authority_key(self) -> Path:
        return self.path / "ca.key"

    def certificate(self, name: str) -> Path:
        return self.path / f"{name}.crt"

    def key(self, name: str) -> Path:
        return self.path / f"{name}.key"

    def next_key(self, name: str) -> Path:
        return self.path / f"{name}.next.key"

    def request(self, name: str) -> Path:
        return self.path / f"{name}.csr"

    @property
    def revoked(self) -> Path:
        return self.path / "ca.crl"

    @property
    def archive(self) -> Path:
        return self.path / "issued"

    def issued(self, name: str) -> list[Path]:
        """Every certificate that was signed here for this name, oldest first."""
        found = sorted(self.archive.glob(f"{name}-*.crt"), key=lambda path: path.stat().st_mtime)
        known = [self.certificate(name)] if self.certificate(name).is_file() else []
        return [path for path in found if path.stem.rpartition("-")[0] == name] or known

    @property
    def owner(self) -> str:
        """The label party, whose authority this is."""
        return name_of(read_certificate(self.authority)).removeprefix(AUTHORITY)


def check_valid_now(certificate: x509.Certificate, path: Path) -> None:
    """Raise CertificateError, to the one who has it, when a certificate is not valid at this time."""
    now = datetime.datetime.now(datetime.UTC)
    start, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if not start <= now <= end:
        name = path.stem
        raise CertificateError(
            f"{path} must be valid now. Found {start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC, and this clock says "
            f"{now:%Y-%m-%d %H:%M}. Renew it: `plait cert request {name} --renew`, or correct the clock."
        )


def use_renewed_key(folder: Folder, name: str, certificate: x509.Certificate) -> None:
    """Put a renewed key in its place, once the certificate for it is here; the old key is kept beside it."""
    waiting = folder.next_key(name)
    if waiting.is_file() and read_key(waiting).public_key() == certificate.public_key():
        folder.key(name).replace(folder.path / f"{name}.old.key")
        waiting.replace(folder.key(name))


@contextlib.contextmanager
def parsing(what: str) -> Iterator[None]:
    """CertificateError where bytes are no certificate; the one place where the library's errors are translated."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CryptographyDeprecationWarning)  # it is about others' certificates
            yield
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        raise CertificateError(f"{what} must be PEM that plait can read. Found: {plain(str(error), 200)}.") from error


def parse_certificate(data: bytes, what: str) -> x509.Certificate:
    """A certificate, PEM or DER, of which everything that plait asks for can be read."""
    with parsing(what):
        load = x509.load_pem_x509_certificate if _PEM in data else x509.load_der_x509_certificate
        found = load(data)
        _ = found.subject, found.public_key(), found.serial_number  # parsed when they are asked for
        _ = found.not_valid_before_utc, found.not_valid_after_utc
        return found


def read_certificate(path: Path) -> x509.Certificate:
    """A certificate from a PEM file."""
    if _PEM not in (data := read(path)):
        raise CertificateError(f"a certificate must be PEM. Found something else in {path}.")
    return parse_certificate(data, f"the certificate {path}")


def read_request(path: Path) -> x509.CertificateSigningRequest:
    """A signing request from a PEM file, of a key as plait makes them, its own signature checked."""
    with parsing(f"the signing request {path}"):
        request = x509.load_pem_x509_csr(read(path))
        key, sound, _ = request.public_key(), request.is_signature_valid, request.subject
    if not sound:
        raise CertificateError(f"a signing request must be signed by its own key. Found {path}, which is not.")
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise CertificateError(
            f"a signing request must be of a key that `plait cert request` made. Found another kind in {path}."
        )
    return request


def name_of(certificate: x509.Certificate | x509.CertificateSigningRequest) -> str:
    """The party that a certificate or request names."""
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if len(names) != 1:
        raise CertificateError(f"a certificate must carry one name. Found {len(names)}.")
    return checked_name(str(names[0].value))


def checked_name(name: str) -> str:
    """A name in a certificate: a party's, or an authority's; CertificateError for any other."""
    try:
        check_party(name.removeprefix(AUTHORITY))
    except ConfigError as error:
        raise CertificateError(f"a certificate must carry a party's name: {error}") from None
    return name


def fingerprint(thing: x509.Certificate | x509.CertificateSigningRequest) -> str:
    """SHA-256 of the public key, in groups of four to read out on the phone: the same in request and certificate."""
    raw = thing.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    sum_ = hashes.Hash(hashes.SHA256())
    sum_.update(raw)
    text = sum_.finalize().hex()
    return " ".join(text[i : i + 4] for i in range(0, 32, 4))


def check_pair(certificate: x509.Certificate, authority: x509.Certificate, key_file: Path) -> None:
    """Raise CertificateError unless the key belongs to the certificate and the authority signed it."""
    if read_key(key_file).public_key() != certificate.public_key():
        raise CertificateError(f"a key must belong to its certificate. Found {key_file}, which does not. Request anew.")
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature) as error:
        raise CertificateError(
            "a certificate must be signed by the job's authority. Found another issuer. Ask the label party for ca.crt."
        ) from error


def read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """A private key from a PEM file."""
    try:
        key = serialization.load_pem_private_key(read(path), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise CertificateError(f"a private key must be PEM without a password. Found {path}: {error}.") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError(f"a private key must be on an elliptic curve. Found another kind in {path}.")
    return key


def read(path: Path) -> bytes:
    """The content of a file; CertificateError where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(f"{path.name} must be readable at {path}. Found: {error.strerror}.") from error
    except ValueError as error:
        raise CertificateError(f"a path must be a path. Found {str(path)!r}: {error}.") from error
