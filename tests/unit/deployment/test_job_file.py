"""Job files and party files: what they become, and what their errors say."""

import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import plait
from plait.alignment.ids import AlignmentOptions
from plait.cli import templates
from plait.data.csv_format import CsvFormat
from plait.data.guess import Guess
from plait.data.prepare_options import PrepareOptions
from plait.deployment.endpoints import Dial
from plait.deployment.job_file import read_job, read_party
from plait.deployment.job_settings import CoordinatorSpec, RunOptions, ScoringOptions
from plait.deployment.party_settings import ClusterOptions, DataOptions, NetworkOptions, PrivacyOptions, TrustOptions
from plait.deployment.registry import LOSSES, METHODS, PENALTIES
from plait.errors import ConfigError
from plait.privacy import Adjacency, NoPrivacy, RandomisedResponse, Recommended
from plait.transports.tls import PlainText

MINIMAL = 'format = 1\nname = "t"\nparties = ["a", "b"]\nprotection = "plain"\n[coordinator]\nname = "a"\n'


def job_of(folder: Path, text: str) -> plait.deployment.job_file.Job:  # type: ignore[name-defined]
    path = folder / "job.toml"
    path.write_text(text)
    return read_job(path)


def test_defaults_are_those_of_the_api(tmp_path: Path) -> None:
    job = job_of(tmp_path, MINIMAL)
    assert job.loss == plait.Logistic()
    assert job.method == plait.Subspace()
    assert job.stopping == plait.Stopping()
    assert job.penalties == {"a": plait.L2(1e-4), "b": plait.L2(1e-4)}


def test_names_and_tables_become_objects(tmp_path: Path) -> None:
    job = job_of(
        tmp_path,
        MINIMAL
        + """
        [model]
        loss = { name = "huber", delta = 2 }
        penalty = ["non-negative", { name = "l1", alpha = 0.1 }]
        penalties = { b = { name = "group-lasso", alpha = 1.0, groups = [0, 0, 1] } }
        [method]
        name = "proximal"
        rho = 1
        [stopping]
        max_rounds = 7
        max_seconds = 5
        """,
    )
    assert job.loss == plait.Huber(2.0)
    assert job.penalties["a"] == plait.NonNegative() + plait.L1(0.1)
    assert job.penalties["b"] == plait.GroupLasso(1.0, [0, 0, 1])
    assert job.method == plait.Proximal(rho=1.0)
    assert job.stopping == plait.Stopping(max_rounds=7, max_seconds=5.0)


def test_privacy_becomes_a_policy(tmp_path: Path) -> None:
    more = """
        [privacy]
        parties = { b = { name = "recommended", epsilon = 1, adjacency = "zero-out", clip = 2 } }
        labels = { name = "randomised-response", epsilon = 3 }
        offset = false
        """
    job = job_of(tmp_path, MINIMAL + more)
    mechanism = Recommended(1.0, adjacency=Adjacency.ZERO_OUT, clip=2.0)
    assert job.policy.mechanisms(job.parties) == {"a": NoPrivacy(), "b": mechanism}
    assert job.policy.labels == RandomisedResponse(3.0)
    assert not job.policy.offset
    elsewhere = job_of(tmp_path, MINIMAL + 'address = "other:1"\n' + more)
    assert job.policy.run == elsewhere.policy.run, "the same release, wherever the coordinator listens"
    assert job.policy.run != job_of(tmp_path, MINIMAL + more.replace("3", "4")).policy.run


def test_bounds_per_column_and_sums_of_penalties_are_read(tmp_path: Path) -> None:
    model = """
        [model]
        loss = "squared"
        penalty = { name = "box", lower = [0, -inf, -1.5], upper = 2 }
        penalties = { b = ["l1", { name = "group-lasso", alpha = 1.0, groups = [0, 0, 1] }, "l2"] }
        """
    job = job_of(tmp_path, MINIMAL + model)
    assert job.penalties["a"] == plait.Box([0.0, -np.inf, -1.5], 2.0)
    assert job.penalties["b"] == sum([plait.L1(), plait.L2(), plait.GroupLasso(1.0, [0, 0, 1])])


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ('[model]\nloss = "logit"', "model.loss must be one of logistic, .*Found 'logit'"),
        ('[method]\nname = "proximal"\nroh = 1', "method knows the options .*rho.*Found roh"),
        ("[stopping]\nmax_rounds = 0", r"stopping: .*at least 1\. Found 0"),
        ('[stopping]\ntol = "small"', "stopping.tol must be a number. Found 'small'"),
        ('[model]\npenalty = { name = "group-lasso", alpha = 1.0 }', "must give groups"),
        ('[model]\npenalty = { name = "group-lasso", alpha = 1.0, groups = [0.2, 0.7] }', "a whole number"),
        ('[model]\npenalty = { name = "box", lower = [0, 1], upper = [1, 0] }', "for column 2"),
        ('[model]\npenalty = { name = "box", lower = inf, upper = inf }', "a finite number between"),
        ('[model]\npenalties = { c = "l1" }', "penalties knows a, b. Found c"),
        ('[method]\nname = "subspace"\n[model]\nloss = "hinge"', "smooth loss"),
        ("[extra]", "Found extra"),
        ('[run]\nwire = "int16"', "run.wire is called run.precision now.*Write precision"),
        ("[model]\nintercept = false", "model.intercept is called model.fit_intercept now.*Write fit_intercept"),
        ("[run]\nthreads = 0", "threads must be 1 to 1024"),
        ("[run]\nthreads = 100000000", "threads must be 1 to 1024"),
        ('[privacy.parties]\nc = "none"', "parties knows a, b. Found c"),
        ('[privacy.parties]\na = "recommended"', "must give epsilon"),
        ('[privacy.parties]\na = { name = "recommended", epsilon = -1 }', "epsilon"),
        ('[privacy.parties]\na = { name = "recommended", epsilon = 1, adjacency = "add" }', "replace, zero-out"),
        ('[privacy]\nlabels = { name = "noisy-label", epsilon = 1, low = 0, high = 1 }', "RandomisedResponse"),
        ('[stopping]\nmax_seconds = 1\n[privacy.parties]\na = { name = "recommended", epsilon = 1 }', "max_seconds"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, more: str, what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        job_of(tmp_path, MINIMAL + more)


def test_digest_ignores_comments_only(tmp_path: Path) -> None:
    first = job_of(tmp_path, MINIMAL).digest
    assert job_of(tmp_path, "# a comment\n" + MINIMAL).digest == first
    assert job_of(tmp_path, MINIMAL + "[run]\nthreads = 2").digest != first


def test_templates_show_every_option_and_every_name() -> None:
    for kind in (CoordinatorSpec, RunOptions, plait.Stopping):
        for option in fields(kind):
            assert f"{option.name} = " in templates.JOB
    party = templates.party_file(
        "bank", True, Guess(CsvFormat(";", ",", ".", "'", "cp1252"), (), positive="yes"), "bank.csv"
    )
    for option in fields(AlignmentOptions):
        assert f"{{aligned}}{option.name} = " in templates.JOB
    for option in fields(ScoringOptions):
        assert f"# {option.name} = " in templates.JOB
    for kind in (DataOptions, PrepareOptions, TrustOptions, PrivacyOptions, NetworkOptions, ClusterOptions):
        for option in fields(kind):
            assert f"{option.name} = " in party or f".{option.name}]" in party
    assert LOSSES
    assert PENALTIES
    assert METHODS


def test_party_file_stands_beside_the_job(tmp_path: Path) -> None:
    job_of(tmp_path, MINIMAL)
    with pytest.raises(ConfigError, match="party file of 'a' must be at"):
        read_party(tmp_path / "job.toml", "a")
    (tmp_path / "a.toml").write_text('[data]\nfile = "a.csv"\n[prepare]\nscale = "huge"\n')
    with pytest.raises(ConfigError, match=r"prepare\.scale must be one of .*'standard'.*Found 'huge'"):
        read_party(tmp_path / "job.toml", "a")
    (tmp_path / "a.toml").write_text('[data]\nfile = "a.csv"\n')
    party = read_party(tmp_path / "job.toml", "a")
    assert party.path(party.data.file) == tmp_path / "a.csv"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('[scoring]\njoin = "private"\n', "Add [alignment]"),
        ('[scoring]\nmissing = "guess"\n', "missing"),
        (
            '[scoring]\njoin = "list"\nmissing = "mean"\n'
            '[privacy.parties]\nshop = { name = "recommended", epsilon = 1.0 }\n',
            "no mechanism protects",
        ),
    ],
)
def test_impossible_ways_of_scoring_are_refused(tmp_path: Path, text: str, found: str) -> None:
    (tmp_path / "job.toml").write_text(
        'format = 1\nname = "t"\nparties = ["bank", "shop"]\nprotection = "plain"\n[coordinator]\nname = "bank"\n'
        + text
    )
    with pytest.raises(ConfigError, match=re.escape(found)):
        read_job(tmp_path / "job.toml")


def test_the_way_of_scoring_is_agreed_on_and_does_not_change_whose_runs_they_are(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    plain = 'format = 1\nname = "t"\nparties = ["bank", "shop"]\nprotection = "plain"\n[coordinator]\nname = "bank"\n'
    path.write_text(plain)
    before = read_job(path)
    path.write_text(plain + '[scoring]\nmissing = "leave out"\n')
    after = read_job(path)
    assert before.digest == before.model_digest == after.model_digest
    assert after.digest != before.digest
    assert before.policy.run == after.policy.run


@pytest.mark.parametrize("address", ["nonsense", "bank.example", ":7443", "bank:0", "bank:99999999", "bank:٧٤٤٣", ""])
def test_an_address_that_is_none_is_refused_before_anybody_is_called(address: str) -> None:
    with pytest.raises(ConfigError, match="must be host:port"):
        Dial(address, PlainText("shop"))
