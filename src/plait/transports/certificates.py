"""A small certificate authority: the label party signs, and private keys never leave the party that made them.

A certificate's name is a party's identity: it stands as common name and as DNS name, so that TLS itself checks it.
Nothing here is overwritten: a name is signed once, and again only to renew it, which keeps the old certificate.

    ca.crt, ca.key             the authority
    ca.crl                     the certificates that it has revoked, signed by it; read again at every handshake
    NAME.key, .csr, .crt       a party's key, its request, its certificate
    NAME.next.key              the key of a renewal that is not signed yet
    issued/NAME-SERIAL.crt     every certificate that was ever signed here
"""

import datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from plait._files import write_atomically
from plait._names import check_name
from plait.errors import CertificateError, ConfigError

AUTHORITY_YEARS = 10  # years: longer than most cooperations; a new authority means new certificates for all
PARTY_DAYS = 397  # days: the longest that browsers and public authorities accept, about 13 months

_AUTHORITY = "plait authority of "  # before the label party's name: what its authority is called


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
        return name_of(read_certificate(self.authority)).removeprefix(_AUTHORITY)


def init_authority(folder: Folder, name: str) -> None:
    """Make a new authority and a certificate for its owner."""
    if folder.authority_key.exists():
        raise CertificateError(
            f"an authority must be made once. Found {folder.authority_key}. Keep it, or move it away."
        )
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(_AUTHORITY + check_name(name))
    certificate = (
        _builder(subject, subject, key.public_key(), datetime.timedelta(days=365 * AUTHORITY_YEARS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    for path in (folder.authority, folder.certificate(check_name(name)), folder.key(name)):
        if path.exists():
            raise CertificateError(f"an authority begins in an empty folder. Found {path}. Move it away.")
    _write_key(folder.authority_key, key)
    _write(folder.authority, certificate)
    make_request(folder, name)
    sign_request(folder, folder.request(name), own=True)


def make_request(folder: Folder, name: str, renew: bool = False) -> Path:
    """A new private key, which stays, and the request to sign its public half, which goes to the authority.

    To renew, the new key waits beside the old one until its certificate comes.
    """
    check_name(name)
    place = folder.next_key(name) if renew else folder.key(name)
    if place.exists():
        raise CertificateError(
            f"a key must be made once. Found {place}. Use it, renew it with --renew, or move it away."
        )
    key = ec.generate_private_key(ec.SECP256R1())
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(_subject(name))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write_key(place, key)
    write_atomically(folder.request(name), request.public_bytes(serialization.Encoding.PEM))
    return folder.request(name)


def sign_request(
    folder: Folder, request_file: Path, days: int = PARTY_DAYS, renew: bool = False, own: bool = False
) -> Path:
    """Sign a party's request; the certificate carries the request's name and nothing else of it.

    The label party's own name is signed only when the authority is made, or renewed with `own`; a name that exists
    only to renew it.
    """
    if not 1 <= days <= 365 * AUTHORITY_YEARS:
        raise CertificateError(f"a certificate must be valid for 1 to {365 * AUTHORITY_YEARS} days. Found {days}.")
    request = read_request(request_file)
    authority = read_certificate(folder.authority)
    name = name_of(request)
    if name.startswith(_AUTHORITY):
        raise CertificateError(f"a request must carry a party's name. Found {name!r}. Nothing was signed.")
    _need_free(folder, name, renew, own)
    certificate = (
        _builder(_subject(name), authority.subject, request.public_key(), datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .sign(read_key(folder.authority_key), hashes.SHA256())
    )
    _write(folder.archive / f"{name}-{certificate.serial_number:x}.crt", certificate)
    _write(folder.certificate(name), certificate)
    return folder.certificate(name)


def _need_free(folder: Folder, name: str, renew: bool, own: bool) -> None:
    if name == folder.owner and not own:
        raise CertificateError(
            f"a party must have a name of its own. Found a request for {name!r}, the label party's own name: whoever "
            "has that certificate is the coordinator. Nothing was signed. Ask who sent it."
        )
    if folder.issued(name) and not renew:
        raise CertificateError(
            f"a name is signed once. Found a certificate of {name!r} in {folder.path}. If the same "
            "party has a new key, "
            "compare the fingerprint with it and sign with --renew; otherwise ask who sent this."
        )


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


def read_certificate(path: Path) -> x509.Certificate:
    """A certificate from a PEM file."""
    try:
        return x509.load_pem_x509_certificate(read(path))
    except ValueError as error:
        raise CertificateError(f"a certificate must be PEM. Found {path}: {error}.") from error


def read_request(path: Path) -> x509.CertificateSigningRequest:
    """A signing request from a PEM file, its own signature checked."""
    try:
        request = x509.load_pem_x509_csr(read(path))
    except ValueError as error:
        raise CertificateError(f"a signing request must be PEM. Found {path}: {error}.") from error
    if not request.is_signature_valid:
        raise CertificateError(f"a signing request must be signed by its own key. Found {path}, which is not.")
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
        check_name(name.removeprefix(_AUTHORITY))
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


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(subject: x509.Name, issuer: x509.Name, key: object, valid: datetime.timedelta) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise CertificateError("a key must be on an elliptic curve. Found another kind. Use `plait cert request`.")
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=10))  # clocks differ a little
        .not_valid_after(now + valid)
    )


def _key_usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _write(path: Path, certificate: x509.Certificate) -> None:
    write_atomically(path, certificate.public_bytes(serialization.Encoding.PEM))


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    raw = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    write_atomically(path, raw)


def read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """A private key from a PEM file."""
    try:
        key = serialization.load_pem_private_key(read(path), password=None)
    except (ValueError, TypeError) as error:
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
