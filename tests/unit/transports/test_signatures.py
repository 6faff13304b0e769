"""A signature counts only with a certificate of the same authority and of that name."""

from pathlib import Path

import pytest

from plait.transports import certificate_authority, certificates
from plait.transports.certificates import Folder
from plait.transports.signatures import has_signed, signed
from plait.transports.tls import Identity


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path)
    certificate_authority.init_authority(made, "bank")
    for name in ("shop", "tele"):
        certificate_authority.sign_request(made, certificate_authority.make_request(made, name))
    return made


def test_only_the_named_party_has_signed(folder: Folder) -> None:
    bank, shop, tele = (Identity.load(folder, name) for name in ("bank", "shop", "tele"))
    proof = signed(shop, b"key")
    assert has_signed(bank, "shop", b"key", proof)
    assert not has_signed(bank, "tele", b"key", proof)
    assert not has_signed(bank, "shop", b"other", proof)
    assert not has_signed(bank, "shop", b"key", signed(tele, b"key"))
    assert not has_signed(bank, "shop", b"key", b"")
    assert not has_signed(bank, "shop", b"key", proof[:-1])


def test_a_pinned_fingerprint_must_be_the_one(folder: Folder) -> None:
    bank, shop = Identity.load(folder, "bank"), Identity.load(folder, "shop")
    pin = certificates.fingerprint(certificates.read_certificate(folder.certificate("shop")))
    proof = signed(shop, b"key")
    assert has_signed(bank, "shop", b"key", proof, pin)
    assert not has_signed(bank, "shop", b"key", proof, "0" * 32)


def test_another_authority_counts_for_nothing(folder: Folder, tmp_path: Path) -> None:
    elsewhere = Folder(tmp_path / "elsewhere")
    certificate_authority.init_authority(elsewhere, "shop")
    proof = signed(Identity.load(elsewhere, "shop"), b"key")
    assert not has_signed(Identity.load(folder, "bank"), "shop", b"key", proof)
