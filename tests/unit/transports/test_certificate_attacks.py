"""What the authority must never do, whoever asks, and what an owner is told about his own certificate."""

import base64
import datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID
from typer.testing import CliRunner

from plait.cli.app import app
from plait.errors import CertificateError
from plait.transports import certificate_authority, certificates
from plait.transports.certificates import Folder
from plait.transports.handshake import proven
from plait.transports.revocation import revoke
from plait.transports.tls import Identity, check_proof

RUN = CliRunner()


@pytest.fixture
def bank(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path / "bank")
    certificate_authority.init_authority(folder, "bank")
    return folder


def request(tmp_path: Path, name: str, where: str = "other") -> Path:
    return certificate_authority.make_request(Folder(tmp_path / where), name)


def sign(file: Path, folder: Folder, *more: str) -> tuple[int, str]:
    done = RUN.invoke(app, ["cert", "sign", str(file), "--in", str(folder.path), *more])
    return done.exit_code, f"{done.output}{done.exception or ''}"


@pytest.mark.threat(
    "requester of a certificate",
    "the label party's name, or one that exists",
    "refused; the fingerprint is compared before signing",
)
def test_a_request_with_the_authoritys_own_name_is_refused_and_nothing_is_overwritten(
    bank: Folder, tmp_path: Path
) -> None:
    before = {path: path.read_bytes() for path in bank.path.rglob("*") if path.is_file()}
    for more in (["--yes"], ["--yes", "--renew"]):
        code, said = sign(request(tmp_path, "bank", f"other{len(more)}"), bank, *more)
        assert code == 1
        assert "the label party's own name" in said
    assert {path: path.read_bytes() for path in bank.path.rglob("*") if path.is_file()} == before


def test_a_name_is_signed_once(bank: Folder, tmp_path: Path) -> None:
    assert sign(request(tmp_path, "shop", "a"), bank, "--yes")[0] == 0
    before = bank.certificate("shop").read_bytes()
    code, said = sign(request(tmp_path, "shop", "b"), bank, "--yes")
    assert (code, "signed once" in said) == (1, True)
    assert bank.certificate("shop").read_bytes() == before


def test_nothing_is_signed_before_the_fingerprint_was_compared(bank: Folder, tmp_path: Path) -> None:
    file = request(tmp_path, "shop")
    shown = certificates.fingerprint(certificates.read_request(file))
    for more in ([], ["--fingerprint", "0000 1111"], ["--name", "other", "--yes"]):
        code, said = sign(file, bank, *more)
        assert code == 1
        assert "shop" in said
        assert shown in said
    assert not bank.certificate("shop").exists()
    assert sign(file, bank, "--fingerprint", shown.replace(" ", "").upper())[0] == 0


@pytest.mark.parametrize("days", ["-5", "0", "999999"])
def test_impossible_days_are_refused_in_one_sentence(bank: Folder, tmp_path: Path, days: str) -> None:
    code, said = sign(request(tmp_path, "shop"), bank, "--yes", "--days", days)
    assert (code, "valid for 1 to" in said) == (1, True)


def test_an_expired_certificate_is_told_to_its_owner(bank: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    class Later(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> "Later":
            return cls(2099, 1, 1, tzinfo=tz)

    monkeypatch.setattr(certificates.datetime, "datetime", Later)  # the clock of the machine, not our own code
    with pytest.raises(CertificateError, match=r"must be valid now.*plait cert request bank --renew"):
        Identity.load(bank, "bank")


def test_a_renewed_key_takes_its_place_when_its_certificate_comes(bank: Folder, tmp_path: Path) -> None:
    shop = Folder(tmp_path / "shop")
    certificate_authority.sign_request(bank, certificate_authority.make_request(shop, "shop"))
    for path in (bank.authority, bank.certificate("shop")):
        (shop.path / path.name).write_bytes(path.read_bytes())
    old = Identity.load(shop, "shop")
    certificate_authority.make_request(shop, "shop", renew=True)
    assert Identity.load(shop, "shop") == old  # until the new one is signed the old one works
    certificate_authority.sign_request(bank, shop.request("shop"), renew=True)
    shop.certificate("shop").write_bytes(bank.certificate("shop").read_bytes())
    assert Identity.load(shop, "shop").key != old.key
    assert revoke(bank, "shop", older=True) == 1
    shop.revoked.write_bytes(bank.revoked.read_bytes())
    Identity.load(shop, "shop")  # the newest one is not on the list
    assert revoke(bank, "shop") == 1
    shop.revoked.write_bytes(bank.revoked.read_bytes())
    with pytest.raises(CertificateError, match="must not be revoked"):
        Identity.load(shop, "shop")


def test_a_list_of_another_authority_is_not_believed(bank: Folder, tmp_path: Path) -> None:
    other = Folder(tmp_path / "other")
    certificate_authority.init_authority(other, "eve")
    certificate_authority.sign_request(other, certificate_authority.make_request(other, "shop"))
    revoke(other, "shop")
    bank.revoked.write_bytes(other.revoked.read_bytes())
    with pytest.raises(CertificateError, match="must be signed by"):
        Identity.load(bank, "bank")


@pytest.mark.threat(
    "requester of a certificate",
    "a name that looks like another, or as plait's own files have",
    "one form for names: no case, no look-alike; names of plait's own files are taken",
)
@pytest.mark.parametrize(
    "name",
    [
        "Bank",
        "bank ",
        " bank",
        "b\u0430nk",
        "bank\u200b",
        "bank\0",
        "bank.",
        "bank/../x",
        "*",
        "plait authority of bank",
        "ca",
        "coordinator",
        "job",
    ],
)
@pytest.mark.parametrize("how", [["--yes"], ["--yes", "--renew"]])
def test_a_request_with_a_name_that_looks_like_another_is_refused(
    tmp_path: Path, bank: Folder, name: str, how: list[str]
) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    asked = x509.CertificateSigningRequestBuilder().subject_name(subject)
    asked = asked.add_extension(x509.SubjectAlternativeName([x509.DNSName("bank")]), critical=False)
    file = tmp_path / "odd.csr"
    signed = asked.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    before = {path: path.read_bytes() for path in bank.path.rglob("*.crt")}
    code, said = sign(file, bank, *how)
    assert code != 0, said
    assert {path: path.read_bytes() for path in bank.path.rglob("*.crt")} == before


@pytest.mark.threat(
    "second holder of the label party's name",
    "a certificate of the authority for another key",
    "pinned fingerprints; the coordinator signs a random number",
)
def test_a_proof_holds_for_the_pinned_key_and_this_party_and_number_only(bank: Folder, tmp_path: Path) -> None:
    other = Folder(tmp_path / "second")
    certificate_authority.init_authority(other, "bank")
    mine, theirs = (Identity.load(folder, "bank") for folder in (bank, other))
    pinned = certificates.fingerprint(certificates.read_certificate(bank.certificate("bank")))
    said = proven("ab" * 32, "shop", "cd" * 32)
    check_proof(mine.certificate.decode(), mine.sign(said), said, pinned)
    with pytest.raises(CertificateError, match="the job file pins"):
        check_proof(theirs.certificate.decode(), theirs.sign(said), said, pinned)
    for content in (proven("00" * 32, "shop", "cd" * 32), proven("ab" * 32, "tele", "cd" * 32)):
        with pytest.raises(CertificateError, match=r"does not hold|can read"):
            check_proof(mine.certificate.decode(), mine.sign(content), said, pinned)
    for pem, signature in (
        (mine.certificate.decode(), theirs.sign(said)),
        ("nothing", mine.sign(said)),
        (mine.certificate.decode(), "zz"),
    ):
        with pytest.raises(CertificateError, match=r"does not hold|can read"):
            check_proof(pem, signature, said, pinned)


@pytest.mark.threat(
    "requester of a certificate", "bytes that no library reads", "one reader, which refuses them by name"
)
def test_a_request_of_a_foreign_key_is_refused_and_nothing_is_signed(bank: Folder, tmp_path: Path) -> None:
    keys = (ec.generate_private_key(ec.SECP384R1()), rsa.generate_private_key(65537, 1024))
    for number, key in enumerate(keys):
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "shop")])
        foreign = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
        path = tmp_path / f"{number}.csr"
        path.write_bytes(foreign.public_bytes(serialization.Encoding.PEM))
        with pytest.raises(CertificateError, match="plait cert request"):
            certificate_authority.sign_request(bank, path)
    first, *lines, last = request(tmp_path, "shop").read_bytes().splitlines()
    curve = bytes([0x06, 0x08, 0x2A, 0x86, 0x48])  # how the name of the curve begins
    unknown = base64.b64decode(b"".join(lines)).replace(curve, curve[:2] + b"***")
    (tmp_path / "broken.csr").write_bytes(b"\n".join([first, base64.b64encode(unknown), last, b""]))
    with pytest.raises(CertificateError, match="must be PEM that plait can read"):
        certificate_authority.sign_request(bank, tmp_path / "broken.csr")
    assert not bank.issued("shop")
