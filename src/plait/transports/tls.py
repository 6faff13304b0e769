"""How each side proves who it is: mutual TLS with certificates from one folder, or plain text on loopback."""

import ipaddress
from dataclasses import dataclass
from typing import Any

import grpc
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from plait.errors import CertificateError, ConfigError
from plait.transports import certificates
from plait.transports.certificates import Folder
from plait.transports.revocation import is_revoked


@dataclass(frozen=True)
class Identity:
    """A party's certificate, its key, and the authority that must have signed the peer's."""

    name: str
    authority: bytes
    certificate: bytes
    key: bytes
    folder: Folder

    @classmethod
    def load(cls, folder: Folder, name: str) -> "Identity":
        """Read and check the three files; CertificateError says which of them is wrong and what to do."""
        for path in (folder.authority, folder.certificate(name), folder.key(name)):
            if not path.is_file():
                raise CertificateError(f"{path.name} must be in {folder.path}. Found no such file. See `plait cert`.")
        certificate = certificates.read_certificate(folder.certificate(name))
        certificates.use_renewed_key(folder, name, certificate)
        certificates.check_pair(certificate, certificates.read_certificate(folder.authority), folder.key(name))
        if certificates.name_of(certificate) != name:
            raise CertificateError(
                f"{folder.certificate(name)} must name {name!r}. Found {certificates.name_of(certificate)!r}."
            )
        certificates.check_valid_now(certificate, folder.certificate(name))
        certificates.check_valid_now(certificates.read_certificate(folder.authority), folder.authority)
        if is_revoked(folder, certificate):
            raise CertificateError(
                f"{folder.certificate(name)} must not be revoked. Found it in {folder.revoked}. Make a new key: "
                f"`plait cert request {name} --renew`."
            )
        return cls(
            name,
            folder.authority.read_bytes(),
            folder.certificate(name).read_bytes(),
            folder.key(name).read_bytes(),
            folder,
        )

    def revoked(self, context: grpc.ServicerContext) -> str:
        """Why the peer's certificate no longer counts, as the list beside ca.crt says now; empty where it does."""
        try:
            certificate = peer_certificate(context)
            if certificate is None or not is_revoked(self.folder, certificate):
                return ""
        except CertificateError as error:
            return str(error)
        return (
            f"the certificate of {self.name!r}'s peer was revoked by the authority. Ask the label "
            "party, and make a new key: `plait cert request NAME --renew`."
        )

    def sign(self, content: bytes) -> str:
        """A signature by the key of the certificate, hexadecimal."""
        key = certificates.read_key(self.folder.key(self.name))
        return key.sign(content, ec.ECDSA(hashes.SHA256())).hex()

    def server(self) -> grpc.ServerCredentials:
        """Credentials that demand a certificate of every client."""
        return grpc.ssl_server_credentials(
            [(self.key, self.certificate)], root_certificates=self.authority, require_client_auth=True
        )

    def need_valid(self) -> None:
        """Raise CertificateError where this side's certificate has expired: TLS checks it only for new connections."""
        own = certificates.parse_certificate(self.certificate, f"the certificate of {self.name!r}")
        certificates.check_valid_now(own, self.folder.certificate(self.name))

    def client(self) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(self.authority, self.key, self.certificate)


@dataclass(frozen=True)
class PlainText:
    """No certificates: names are believed.  Only for loopback, unless someone insists."""

    name: str
    anywhere: bool = False

    def check(self, address: str) -> None:
        """Raise ConfigError for an address beyond this machine."""
        if not self.anywhere and not is_loopback(address):
            raise ConfigError(
                f"--insecure must stay on this machine. Found {address}. Use certificates (`plait cert`), "
                "or insist with --insecure-anywhere."
            )


Security = Identity | PlainText


def is_loopback(address: str) -> bool:
    """Whether host:port is this machine."""
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def peer_name(context: grpc.ServicerContext) -> str | None:
    """The name in the certificate of the client, None in plain text."""
    found: Any = context.auth_context()
    names = found.get("x509_common_name", [])
    if not names:
        return None
    try:
        return certificates.checked_name(names[0].decode())
    except UnicodeDecodeError:
        raise CertificateError("a certificate must carry a name of plain letters. Found others.") from None


def peer_certificate(context: grpc.ServicerContext) -> x509.Certificate | None:
    """The certificate of the client, None in plain text."""
    found: Any = context.auth_context()
    pem = found.get("x509_pem_cert", [])
    return certificates.parse_certificate(pem[0], "a peer's certificate") if pem else None


def peer_fingerprint(context: grpc.ServicerContext) -> str:
    """The fingerprint of the client's certificate, as `plait cert show` prints it; empty in plain text."""
    found = peer_certificate(context)
    return "" if found is None else certificates.fingerprint(found)


def check_proof(pem: str, signature: str, content: bytes, pinned: str) -> None:
    """Raise CertificateError unless a certificate has the pinned fingerprint and its key signed the content."""
    certificate = certificates.parse_certificate(pem.encode(errors="replace"), "the coordinator's certificate")
    found, key = certificates.fingerprint(certificate), certificate.public_key()
    try:
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise ValueError("another kind of key")
        key.verify(bytes.fromhex(signature), content, ec.ECDSA(hashes.SHA256()))
    except (ValueError, InvalidSignature):
        raise CertificateError("the coordinator must prove who it is. Found a proof that does not hold.") from None
    if bare(found) != bare(pinned):
        raise CertificateError(
            f"the coordinator's key must have the fingerprint {pinned}, which the job file pins. Found {found}. Ask "
            "the label party on another way than this one before you go on."
        )


def bare(fingerprint: str) -> str:
    """A fingerprint without the blanks that make it easy to read out."""
    return fingerprint.replace(" ", "").lower()
