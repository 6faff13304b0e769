"""Signatures that carry their certificate, so that parties without a direct connection can check them.

size of the certificate u16 | certificate (DER) | signature of its key (ECDSA, SHA-256)
"""

import datetime

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from plait.errors import CertificateError
from plait.transports import certificates
from plait.transports.revocation import is_revoked
from plait.transports.tls import Identity, bare

_SIZE_BYTES = 2  # of the certificate's size


def signed(identity: Identity, content: bytes) -> bytes:
    """This party's certificate, and its key's signature of the content."""
    certificate = certificates.parse_certificate(identity.certificate, "the own certificate")
    encoded = certificate.public_bytes(serialization.Encoding.DER)
    return len(encoded).to_bytes(_SIZE_BYTES, "big") + encoded + bytes.fromhex(identity.sign(content))


def has_signed(identity: Identity, name: str, content: bytes, proof: bytes, pinned: str = "") -> bool:
    """Whether the party `name` has signed the content: by a certificate of the same authority that is valid now.

    Where the job pins its fingerprint, the key must have that one.
    """
    size = int.from_bytes(proof[:_SIZE_BYTES], "big")
    encoded, signature = proof[_SIZE_BYTES : _SIZE_BYTES + size], proof[_SIZE_BYTES + size :]
    now = datetime.datetime.now(datetime.UTC)
    try:
        certificate = certificates.parse_certificate(encoded, f"the certificate of {name!r}")
        certificate.verify_directly_issued_by(certificates.parse_certificate(identity.authority, "the authority"))
        key = certificate.public_key()
        if not isinstance(key, ec.EllipticCurvePublicKey) or certificates.name_of(certificate) != name:
            return False
        key.verify(signature, content, ec.ECDSA(hashes.SHA256()))
        current = certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc
        known = not pinned or bare(certificates.fingerprint(certificate)) == bare(pinned)
        return current and known and not is_revoked(identity.folder, certificate)
    except (ValueError, TypeError, InvalidSignature, CertificateError):
        return False
