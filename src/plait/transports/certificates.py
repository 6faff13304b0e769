"""A small certificate authority: the label party signs, and private keys never leave the party that made them.

A certificate's name is a party's identity: it stands as common name and as DNS name, so that TLS itself checks it.
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
from plait.errors import CertificateError

AUTHORITY_YEARS = 10  # years: longer than most cooperations; a new authority means new certificates for all
PARTY_DAYS = 397  # days: the longest that browsers and public authorities accept, about 13 months


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

    def request(self, name: str) -> Path:
        return self.path / f"{name}.csr"


def init_authority(folder: Folder, name: str) -> None:
    """Make a new authority and a certificate for its owner."""
    if folder.authority_key.exists():
        raise CertificateError(
            f"an authority must be made once. Found {folder.authority_key}. Keep it, or move it away."
        )
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"plait authority of {check_name(name)}")])
    certificate = (
        _builder(subject, subject, key.public_key(), datetime.timedelta(days=365 * AUTHORITY_YEARS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write_key(folder.authority_key, key)
    _write(folder.authority, certificate)
    make_request(folder, name)
    sign_request(folder, folder.request(name))


def make_request(folder: Folder, name: str) -> Path:
    """A new private key, which stays, and the request to sign its public half, which goes to the authority."""
    if folder.key(check_name(name)).exists():
        raise CertificateError(f"a key must be made once. Found {folder.key(name)}. Use it, or move it away.")
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    request = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(subject)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write_key(folder.key(name), key)
    write_atomically(folder.request(name), request.public_bytes(serialization.Encoding.PEM))
    return folder.request(name)


def sign_request(folder: Folder, request_file: Path, days: int = PARTY_DAYS) -> Path:
    """Sign a party's request; the certificate carries the request's name and nothing else of it."""
    request = read_request(request_file)
    authority = read_certificate(folder.authority)
    name = name_of(request)
    certificate = (
        _builder(request.subject, authority.subject, request.public_key(), datetime.timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .sign(_read_key(folder.authority_key), hashes.SHA256())
    )
    _write(folder.certificate(name), certificate)
    return folder.certificate(name)


def read_certificate(path: Path) -> x509.Certificate:
    """A certificate from a PEM file."""
    try:
        return x509.load_pem_x509_certificate(_read(path))
    except ValueError as error:
        raise CertificateError(f"a certificate must be PEM. Found {path}: {error}.") from error


def read_request(path: Path) -> x509.CertificateSigningRequest:
    """A signing request from a PEM file, its own signature checked."""
    try:
        request = x509.load_pem_x509_csr(_read(path))
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
    return check_name(str(names[0].value))


def fingerprint(thing: x509.Certificate | x509.CertificateSigningRequest) -> str:
    """SHA-256 of the public key, in groups of four to read out on the phone: the same in request and certificate."""
    raw = thing.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    sum_ = hashes.Hash(hashes.SHA256())
    sum_.update(raw)
    text = sum_.finalize().hex()
    return " ".join(text[i : i + 4] for i in range(0, 32, 4))


def check_pair(certificate: x509.Certificate, authority: x509.Certificate, key_file: Path) -> None:
    """Raise CertificateError unless the key belongs to the certificate and the authority signed it."""
    if _read_key(key_file).public_key() != certificate.public_key():
        raise CertificateError(f"a key must belong to its certificate. Found {key_file}, which does not. Request anew.")
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature) as error:
        raise CertificateError(
            "a certificate must be signed by the job's authority. Found another issuer. Ask the label party for ca.crt."
        ) from error


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
    write_atomically(path, raw, private=True)


def _read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(_read(path), password=None)
    except (ValueError, TypeError) as error:
        raise CertificateError(f"a private key must be PEM without a password. Found {path}: {error}.") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError(f"a private key must be on an elliptic curve. Found another kind in {path}.")
    return key


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(f"{path.name} must be readable at {path}. Found: {error.strerror}.") from error
