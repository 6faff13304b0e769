"""Private jobs: simulated and deployed, killed and resumed, they give the same numbers and pay once."""

import json
import re
import signal

import numpy as np
import pytest

import plait
from plait.deployment.job_file import read_job
from plait.privacy import (
    Budget,
    InsecureTestNoise,
    LedgerFolder,
    NoPrivacy,
    Policy,
    RandomisedResponse,
    Recommended,
)
from plait.privacy.ledger.spending import read_spending

from .conftest import Job, JobMaker

BUDGET = "[privacy]\nepsilon = 2.0\ntest_noise = 7\n"
RANGES = '[prepare]\nscale = "ranges"\nranges = { a = [-5, 5], b = [-5, 5], c = [-5, 5], d = [-5, 5] }\n'
ONE_PASS: dict[str, object] = {
    "parties": ("bank", "post", "shop", "tele"),
    "method": 'name = "auto"',
    "rounds": 60,
    "tol": 1e-9,
    "rows": 600,
    "more": '[privacy.parties]\nshop = { name = "recommended", epsilon = 2.0 }\n'
    'tele = { name = "recommended", epsilon = 1.0, clip = 0.5 }\n',
    "own": {"shop": RANGES + BUDGET, "tele": RANGES + BUDGET},
}
IN_THE_LOOP: dict[str, object] = {
    "method": 'name = "auto"',
    "rows": 600,
    "more": '[privacy.parties]\nshop = { name = "mechanism-a", epsilon = 2.0, rounds = 6 }\n',
    "own": {"shop": RANGES + BUDGET},
}
LABELS: dict[str, object] = {
    "method": 'name = "auto"',
    "rows": 600,
    "tol": 1e-9,
    "model": "weighted = true",
    "more": '[privacy]\nlabels = { name = "randomised-response", epsilon = 2.0 }\n'
    'parties = { shop = { name = "recommended", epsilon = 1.0 } }\n',
    "own": {
        "bank": f'weight = "d"\n[prepare]\nscale = "none"\n{BUDGET}public_weights = true\n',
        "shop": RANGES + BUDGET,
    },
}


def finish(job: Job) -> None:
    for name in job.programs:
        assert job.wait(name) == 0, job.log(name)


def weighted(job: Job) -> Job:
    """Column d of the bank as weights, which must not be negative."""
    path = job.folder / "bank.csv"
    head, *rows = path.read_text().splitlines()
    cells = [row.split(",") for row in rows]
    path.write_text("\n".join([head, *(",".join([*c[:4], c[4].lstrip("-"), *c[5:]]) for c in cells)]) + "\n")
    return job


@pytest.mark.parametrize("options", [ONE_PASS, IN_THE_LOOP], ids=["one pass", "in the loop"])
def test_private_programs_give_the_numbers_of_a_simulation(jobs: JobMaker, options: dict[str, object]) -> None:
    job = jobs(**options)
    for name in job.parties:
        job.start(name)
    finish(job)
    assert job.result() == jobs.undisturbed(**options)
    words = "party shop: every customer's features are protected with epsilon = 2.00, delta = 1e-5 (replace one row)"
    assert words in job.log("shop")
    assert words in job.log("bank")
    run = max((job.folder / "runs").iterdir())
    report = (run / "shop" / "report.html").read_text()
    assert "epsilon = 2.00" in report
    assert "Running total of the budget" in report
    figures = re.findall("<figure>.*?</figure>", (run / "coordinator" / "report.html").read_text(), re.DOTALL)
    assert all('<polyline class="line' in figure for figure in figures), "no chart is empty"
    assert bool(figures) == (options is IN_THE_LOOP), "one pass measures nothing"


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(("shop", "plait.privacy.ledger.ledger:Ledger.reserve", "after", 3), marks=pytest.mark.slow),
        ("shop", "plait.privacy.ledger.ledger:Ledger.release", "after", 5),
        pytest.param(("bank", "plait.deployment.journal:Journal.append_behind", "before", 12), marks=pytest.mark.slow),
    ],
    ids=["reserved", "released", "coordinator"],
)
def test_a_killed_private_run_resumes_and_pays_once(jobs: JobMaker, point: tuple[str, str, str, int]) -> None:
    job = jobs(**ONE_PASS)
    victim, target, when, count = point
    for name in job.parties:
        job.start(name, killed_at=(target, when, str(count)) if name == victim else None)
    assert job.wait(victim) == -signal.SIGKILL, job.log(victim)
    job.start(victim)
    finish(job)
    assert job.result() == jobs.undisturbed(**ONE_PASS)
    charges = {s.party: len(s.charges) for s in read_spending(job.folder / "ledgers")}
    assert charges == {"shop": 16, "tele": 16}, "mean, spread, Gram matrix, twelve gradients, sketch: once each"


def test_labels_and_weights_are_told_and_give_the_numbers_of_the_library(jobs: JobMaker) -> None:
    job = weighted(jobs(**LABELS))
    for name in job.parties:
        job.start(name)
    finish(job)
    assert "labels: protected with epsilon = 2.00" in job.log("shop")
    run = max((job.folder / "runs").iterdir())
    bank, shop = (
        np.loadtxt(job.folder / f"{n}.csv", delimiter=",", skiprows=1, usecols=(1, 2, 3, 4)) for n in job.parties
    )
    labels = np.loadtxt(job.folder / "bank.csv", delimiter=",", skiprows=1, usecols=5)
    policy = Policy(
        {"bank": NoPrivacy(), "shop": Recommended(1.0)},
        labels=RandomisedResponse(2.0),
        public_weights=True,
        ledger=LedgerFolder(job.folder / "ours", Budget(2.0)),
        noise=InsecureTestNoise(7),
        run=read_job(job.file).policy.run,
        ids=[f"r{j}" for j in range(600)],
    )
    # The key of the noise covers every bit of the inputs, so the tables must be laid out alike, too.
    model = plait.fit(
        {"bank": bank[:, :3].copy(), "shop": np.clip(0.1 * shop, -0.5, 0.5)},
        labels,
        sample_weight=bank[:, 3],
        penalty=plait.L2(1e-3),
        privacy=policy,
        fit_intercept=True,
        stopping=plait.Stopping(max_rounds=40, tol=1e-9),
    )
    assert isinstance(model.weights, dict)
    for name, weights in model.weights.items():
        found = json.loads((run / name / "weights.json").read_text())["weights"]
        assert np.allclose(found, weights, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("own", "words"),
    [
        (RANGES, "must say what 'shop' will spend"),
        ('[prepare]\nscale = "standard"\n' + BUDGET, "ranges = { column = [low, high] }"),
        (RANGES + "[privacy]\nepsilon = 0.5\n", "Spending must stay within epsilon = 0.5"),
        ('[prepare]\nscale = "ranges"\nranges = { a = [0, 1] }\n' + BUDGET, r"prepare.ranges must give"),
    ],
    ids=["no budget", "statistics", "too little", "no range"],
)
def test_a_party_that_cannot_keep_the_promise_does_not_begin(jobs: JobMaker, own: str, words: str) -> None:
    job = jobs(**{**ONE_PASS, "parties": ("bank", "shop"), "own": {"shop": own},
                  "more": '[privacy.parties]\nshop = { name = "recommended", epsilon = 2.0 }\n'})  # fmt: skip
    job.start("bank")
    job.start("shop")
    assert job.wait("shop") == 1
    assert words in job.log("shop")
    if "Spending" in words:  # known only once the shop has heard which run it is
        job.until("bank", "party 'shop' cannot join: this party protects its data and does not say why")
        assert "Spending" not in job.log("bank"), "its own log says why, and nobody else's"
    charges = list((job.folder / "ledgers").glob("*/releases/*"))
    assert charges == []
