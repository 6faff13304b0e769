"""The certificate authority, checked by OpenSSL through Python's ssl module."""

import ssl
import stat
from pathlib import Path

import pytest

from plait.errors import CertificateError, ConfigError
from plait.transports import certificate_authority, certificates
from plait.transports.certificates import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    place = Folder(tmp_path / "bank")
    certificate_authority.init_authority(place, "bank")
    return place


def test_openssl_loads_the_pair_and_trusts_the_authority(folder: Folder) -> None:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder.authority))
    context.load_cert_chain(folder.certificate("bank"), folder.key("bank"))
    assert context.get_ca_certs()[0]["subject"] == ((("commonName", "plait authority of bank"),),)


def test_signing_a_request_needs_no_private_key_of_the_party(folder: Folder, tmp_path: Path) -> None:
    theirs = Folder(tmp_path / "shop")
    request = certificate_authority.make_request(theirs, "shop")
    (folder.path / "received.csr").write_bytes(request.read_bytes())
    certificate = certificates.read_certificate(
        certificate_authority.sign_request(folder, folder.path / "received.csr")
    )
    assert certificates.name_of(certificate) == "shop"
    assert certificates.fingerprint(certificate) == certificates.fingerprint(certificates.read_request(request))
    certificates.check_pair(certificate, certificates.read_certificate(folder.authority), theirs.key("shop"))
    assert not folder.key("shop").exists()


def test_keys_are_readable_by_their_owner_only(folder: Folder) -> None:
    for key in (folder.authority_key, folder.key("bank")):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600


def test_foreign_certificates_and_keys_are_told_apart(folder: Folder, tmp_path: Path) -> None:
    other = Folder(tmp_path / "other")
    certificate_authority.init_authority(other, "bank")
    ours = certificates.read_certificate(folder.certificate("bank"))
    authority = certificates.read_certificate(folder.authority)
    with pytest.raises(CertificateError, match="belong to its certificate"):
        certificates.check_pair(ours, authority, other.key("bank"))
    with pytest.raises(CertificateError, match="signed by the job's authority"):
        certificates.check_pair(ours, certificates.read_certificate(other.authority), folder.key("bank"))


def test_nothing_is_overwritten_and_names_are_plain(folder: Folder) -> None:
    with pytest.raises(CertificateError, match="made once"):
        certificate_authority.init_authority(folder, "bank")
    with pytest.raises(CertificateError, match="made once"):
        certificate_authority.make_request(folder, "bank")
    with pytest.raises(ConfigError, match="lower-case"):
        certificate_authority.make_request(folder, "../bank")
