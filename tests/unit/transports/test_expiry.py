"""A certificate that expires in the middle of a run: TLS itself asks only when a connection begins."""

import datetime
import time
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from plait._version import __version__
from plait.errors import CertificateError, MissingPartyError
from plait.messages import Broadcast
from plait.transports.admission import Terms
from plait.transports.certificate_authority import init_authority, make_request, sign_request
from plait.transports.certificates import Folder, read_certificate, read_key
from plait.transports.client import Link
from plait.transports.handshake import PROTOCOL, Hello, Welcome
from plait.transports.server import Hub
from plait.transports.tls import Identity

JOB, IDS, KEY = "ab" * 32, "cd" * 32, "ef" * 32


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    found = Folder(tmp_path / "certs")
    init_authority(found, "bank")
    sign_request(found, make_request(found, "shop"))
    return found


def shorten(folder: Folder, name: str, seconds: float) -> None:
    """Sign the same name and key again, for a few seconds only."""
    old = read_certificate(folder.certificate(name))
    builder = x509.CertificateBuilder(old.issuer, old.subject, old.public_key(), x509.random_serial_number())
    now = datetime.datetime.now(datetime.UTC)
    builder = builder.not_valid_before(now - datetime.timedelta(hours=1))
    builder = builder.not_valid_after(now + datetime.timedelta(seconds=seconds))
    for extension in old.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    signed = builder.sign(read_key(folder.authority_key), hashes.SHA256())
    folder.certificate(name).write_bytes(signed.public_bytes(serialization.Encoding.PEM))


def silent(what: str, **facts: Any) -> None:
    return


@pytest.mark.threat("a party", "its certificate expires in the middle of a run", "read again before every new call")
def test_a_party_whose_certificate_expires_is_told_so_when_its_connection_breaks(folder: Folder) -> None:
    identity = Identity.load(folder, "shop")
    shorten(folder, "shop", 0.1)
    time.sleep(1.2)
    link = Link("127.0.0.1:1", "bank", identity, 30.0, silent)  # nobody listens: the connection is broken
    with pytest.raises(CertificateError, match=r"shop.crt must be valid now.*--renew"):
        link.serve(Hello(PROTOCOL, __version__, "shop", JOB, "fit"), nobody)


def test_a_coordinator_whose_certificate_expires_is_told_so_when_nobody_can_come_back(folder: Folder) -> None:
    shorten(folder, "bank", 2.5)
    hub = Hub(Terms(("shop",), JOB, "fit", "20260101-120000-0a1b2c", KEY, 1, IDS, patience=3.0), silent)
    hub.open("127.0.0.1:0", Identity.load(folder, "bank"))
    try:
        with pytest.raises(CertificateError, match=r"bank.crt must be valid now"):
            hub.ask(1, {"shop": Broadcast(1)})
    finally:
        hub.close()


def test_a_renewed_certificate_is_used_at_the_next_call_without_a_restart(folder: Folder) -> None:
    shorten(folder, "shop", 3.0)
    noted: list[str] = []

    def note(what: str, **facts: Any) -> None:
        if not noted:  # the first call has failed, with the old certificate
            sign_request(folder, make_request(folder, "shop", renew=True), renew=True)
        noted.append(what)

    link = Link("127.0.0.1:1", "bank", Identity.load(folder, "shop"), 4.0, note)
    with pytest.raises(MissingPartyError, match="reachable"):  # and not that its certificate has expired
        link.serve(Hello(PROTOCOL, __version__, "shop", JOB, "fit"), nobody)
    assert len(noted) > 1


def nobody(welcome: Welcome) -> Any:
    raise AssertionError(welcome)
