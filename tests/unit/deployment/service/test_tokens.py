"""Who may ask the service, and how often."""

import hashlib
import json
import time
from pathlib import Path

import pytest

from plait.deployment.service.serve_options import ServeOptions
from plait.deployment.service.tokens import Allowance, Tokens
from plait.errors import ConfigError, StorageError


def test_a_token_is_found_by_its_digest_and_never_stored(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    token = Tokens(path).make("crm", 60)
    text = path.read_text()
    assert token not in text
    assert hashlib.sha256(token.encode()).hexdigest() in text
    assert path.stat().st_mode & 0o777 == 0o600
    found = Tokens(path).find(token)
    assert found is not None
    assert (found.name, found.per_minute) == ("crm", 60)
    assert Tokens(path).find(token[:-1]) is None
    assert Tokens(path).find("") is None


def test_a_new_token_of_the_same_client_replaces_the_old_one(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "tokens.json")
    old, new = tokens.make("crm", 0), tokens.make("crm", 0)
    assert tokens.find(old) is None
    assert tokens.find(new) is not None
    assert len(tokens) == 1


def test_a_revoked_token_is_refused_by_a_service_that_runs(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    owner, service = Tokens(path), Tokens(path)
    token = owner.make("crm", 0)
    time.sleep(1.1)  # seconds: it looks at the file once a second
    assert service.find(token) is not None
    owner.revoke("crm")
    time.sleep(1.1)
    assert service.find(token) is None
    assert service.needed, "without its last token a service answers nobody, rather than everybody"
    assert Tokens(path).needed
    path.unlink()
    time.sleep(1.1)
    assert service.needed, "nor while it runs and the file is away"
    assert not Tokens(path).needed
    assert not len(service)
    with pytest.raises(ConfigError, match="a client with a token"):
        owner.revoke("crm")
    with pytest.raises(ConfigError, match="a client's name must be"):
        owner.make("../crm", 1)


def test_a_file_that_was_edited_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    Tokens(path).make("crm", 1)
    path.write_text(path.read_text().replace('"per_minute": 1', '"per_minute": 0'))
    with pytest.raises(StorageError, match="checksum"):
        Tokens(path)
    path.write_text(json.dumps([]))
    with pytest.raises(StorageError):
        Tokens(path)


def test_an_allowance_is_all_or_nothing_and_fills_up_again() -> None:
    allowance = Allowance(600)  # ten a second
    assert allowance.take(595)
    assert not allowance.take(10)
    assert allowance.take(5)
    time.sleep(0.3)
    assert allowance.take(2)
    assert Allowance(0).take(10**9)


@pytest.mark.parametrize(
    ("options", "tokens", "found"),
    [
        ({"http": "0.0.0.0:80"}, True, "TLS"),
        ({"http": "0.0.0.0:80", "certificate": Path("c"), "key": Path("k")}, False, "token"),
    ],
)
def test_beyond_this_machine_tls_and_tokens_are_needed(options: dict[str, object], tokens: bool, found: str) -> None:
    with pytest.raises(ConfigError, match=found):
        ServeOptions(**options).check_reach(tokens)  # type: ignore[arg-type]
    ServeOptions(**options, anywhere=True).check_reach(tokens)  # type: ignore[arg-type]
    ServeOptions(http="127.0.0.1:80").check_reach(False)
