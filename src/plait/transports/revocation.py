"""The certificates that no longer count: a list that the authority signs, beside its own certificate (ca.crl)."""

import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from plait._files import write_atomically
from plait._names import check_party
from plait.errors import CertificateError
from plait.transports.certificate_authority import AUTHORITY_YEARS
from plait.transports.certificates import Folder, read, read_certificate, read_key


def revoke(folder: Folder, name: str, older: bool = False) -> int:
    """Revoke every certificate of a name, or with `older` all but the newest; returns how many are new on the list."""
    found = [read_certificate(path) for path in folder.issued(check_party(name))]
    if name == folder.owner and not older:
        raise CertificateError(
            f"{name!r} is the label party itself. Make a new authority instead, and send ca.crt to everyone."
        )
    wanted = found[:-1] if older else found
    if not wanted:
        raise CertificateError(f"a certificate of {name!r} must be in {folder.path} to revoke it. Found none.")
    listed = _revoked(folder)
    serials = {certificate.serial_number for certificate in wanted} - listed
    now = datetime.datetime.now(datetime.UTC)
    authority = read_certificate(folder.authority)
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(authority.subject)
        .last_update(now)
        .next_update(now + datetime.timedelta(days=365 * AUTHORITY_YEARS))
    )
    for serial in sorted(listed | serials):
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now).build()
        builder = builder.add_revoked_certificate(entry)
    signed = builder.sign(read_key(folder.authority_key), hashes.SHA256())
    write_atomically(folder.revoked, signed.public_bytes(serialization.Encoding.PEM))
    return len(serials)


def is_revoked(folder: Folder, certificate: x509.Certificate) -> bool:
    """Whether the authority's list, as it stands now, has this certificate; CertificateError for a list of others."""
    return certificate.serial_number in _revoked(folder)


def _revoked(folder: Folder) -> set[int]:
    if not folder.revoked.exists():
        return set()
    try:
        listed = x509.load_pem_x509_crl(read(folder.revoked))
        key = read_certificate(folder.authority).public_key()
        sound = isinstance(key, ec.EllipticCurvePublicKey) and listed.is_signature_valid(key)
    except ValueError:
        sound = False
    if not sound:
        raise CertificateError(
            f"{folder.revoked} must be signed by {folder.authority}. Found another list. Ask the label party for it."
        )
    return {entry.serial_number for entry in listed}
