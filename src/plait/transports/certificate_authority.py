"""A small certificate authority: the label party signs, and private keys never leave the party that made them.

Nothing here is overwritten: a name is signed once, and again only to renew it, which keeps the old certificate.
"""

import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from plait._files import write_atomically
from plait._names import check_party
from plait.errors import CertificateError
from plait.transports.certificates import AUTHORITY, Folder, name_of, read_certificate, read_key, read_request

AUTHORITY_YEARS = 10  # years: longer than most cooperations; a new authority means new certificates for all
PARTY_DAYS = 397  # days: the longest that browsers and public authorities accept, about 13 months


def init_authority(folder: Folder, name: str) -> None:
    """Make a new authority and a certificate for its owner."""
    if folder.authority_key.exists():
        raise CertificateError(
            f"an authority must be made once. Found {folder.authority_key}. Keep it, or move it away."
        )
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(AUTHORITY + check_party(name))
    certificate = (
        _builder(subject, subject, key.public_key(), datetime.timedelta(days=365 * AUTHORITY_YEARS))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    for path in (folder.authority, folder.certificate(check_party(name)), folder.key(name)):
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
    check_party(name)
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

    The label party's own name is signed only with `own`: when the authority is made, or renewed.  A name that has a
    certificate is signed again only with `renew`.
    """
    if not 1 <= days <= 365 * AUTHORITY_YEARS:
        raise CertificateError(f"a certificate must be valid for 1 to {365 * AUTHORITY_YEARS} days. Found {days}.")
    request = read_request(request_file)
    authority = read_certificate(folder.authority)
    name = name_of(request)
    if name.startswith(AUTHORITY):
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
            "party has a new key, compare the fingerprint with it and sign with --renew; otherwise ask who sent this."
        )


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
