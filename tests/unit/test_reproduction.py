"""The reproduction: its runs against second implementations, its verdicts against made-up runs, its report whole."""

import html
import json
import math
import re
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import plait
from reproduction.__main__ import app
from reproduction.claims import judge
from reproduction.costs import costs
from reproduction.plans import FULL, QUICK
from reproduction.prototype import Prototype, time_updates
from reproduction.records import Noisy, Race, Shelf, Trail, read_record
from reproduction.study import Outcome, reproduce
from reproduction.subject import Subject
from reproduction.theory import EXAMPLE_ALPHA, EXAMPLE_RHO, counterexample, crowd, replay
from reproduction.verdicts import Verdict, needed_rho, slope

ROOT = Path(__file__).resolve().parents[2]
FIGURES = ("Figure 1a", "Figure 1b", "Figure 2a", "Figure 2b", "Figure 3", "Why ADMM can beat", "convergence theory")


@pytest.fixture(scope="module")
def subject() -> Subject:
    return Subject.of(QUICK.wide.load())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reproduction")


@pytest.fixture(scope="module")
def outcome(folder: Path) -> Outcome:
    return reproduce(QUICK, folder, lambda text: None)


@pytest.mark.parametrize("method", [plait.Jacobi(rho=0.1), plait.Sgd(step=0.03, batch=32), plait.Subspace()])
def test_objective_and_test_loss_belong_to_the_weights_of_the_same_epoch(
    subject: Subject, method: plait.Method
) -> None:
    trail, states = subject.run_with_weights(method, 5, "")
    x, x_test = (np.hstack(list(p.values())) for p in (subject.data.parts, subject.data.test_parts))
    assert len(trail.objective) == len(trail.test) == len(states) == 6
    for objective, test, state in zip(trail.objective, trail.test, states, strict=True):
        w = np.concatenate(list(state.values()))
        loss = np.logaddexp(0, -subject.data.y * (x @ w)).mean() + w @ w / (2 * len(x))
        assert objective == pytest.approx(loss, rel=1e-9)
        assert test == pytest.approx(np.logaddexp(0, -subject.data.y_test * (x_test @ w)).mean(), rel=1e-9)


def test_admm_starts_at_zero_and_sgd_at_random(subject: Subject) -> None:
    _, admm = subject.run_with_weights(plait.Jacobi(rho=0.1), 1, "")
    _, sgd = subject.run_with_weights(plait.Sgd(), 1, "")
    assert all(not x.any() for x in admm[0].values())
    assert all(x.std() > 1e-3 for x in sgd[0].values())


def test_the_prototype_takes_the_same_way_as_plait(subject: Subject) -> None:
    rho = 0.3
    _, states = subject.run_with_weights(plait.Jacobi(rho=rho), 3, "")
    proto = Prototype(subject.data.parts, subject.data.y, rho)
    for state in states[1:]:
        v = proto.total - proto.z + proto.u
        proto.x = {name: proto.x_update(name, v) for name in proto.x}
        proto.z = proto.z_update(proto.total + proto.u)
        proto.dual_update()
        ours = sum(d @ state[name] for name, d in subject.data.parts.items())
        np.testing.assert_allclose(proto.total, ours, atol=2e-3)


def test_both_implementations_are_timed_on_equal_results(subject: Subject) -> None:
    found = time_updates(subject, 0.3, 2, lambda text: None)
    assert 0 <= found.x_excess < 1e-4
    assert found.z_gap < 1e-5
    assert found.x_first <= found.x_plait
    assert found.z_prototype > found.z_plait


def test_the_lagrangian_is_that_of_the_prototypes_own_variables(subject: Subject) -> None:
    rho, n = 0.3, subject.data.y.size
    proto = Prototype(subject.data.parts, subject.data.y, rho)
    states, values, norms = [dict(proto.x)], [], []
    for _ in range(3):
        v = proto.total - proto.z + proto.u
        proto.x = {name: proto.x_update(name, v) for name in proto.x}
        proto.z = proto.z_update(proto.total + proto.u)
        proto.dual_update()
        y, gap = rho * proto.u, proto.total - proto.z
        ridge = sum(x @ x for x in proto.x.values()) / 2
        losses = np.logaddexp(0, -subject.data.y * proto.z).sum()
        values.append((losses + ridge + y @ gap + rho / 2 * gap @ gap) / n)
        norms += [np.linalg.norm(q) for q in (y, proto.z, *proto.x.values())]
        states.append(dict(proto.x))
    found, bound = replay(subject, states, rho)
    np.testing.assert_allclose(found, values, rtol=1e-5)
    assert bound == pytest.approx(max(norms), rel=1e-5)


@pytest.mark.parametrize("parties", [2, 3])
def test_the_counterexample_follows_the_papers_three_lines(parties: int) -> None:
    rho, weight, b = EXAMPLE_RHO, 2 * EXAMPLE_ALPHA, np.array([1.0, 2.0])
    x, z, y = np.zeros(parties), np.zeros(2), np.zeros(2)
    values = [0.5 * (b @ b) / 2]
    for _ in range(20):
        others = x.sum() - x
        x = np.array([(rho * (z.sum() - 2 * o) - y.sum()) / (weight + 2 * rho) for o in others])
        z = (b + y + rho * x.sum()) / (1 + rho)
        y = y + rho * (x.sum() - z)
        values.append(((x.sum() - b) @ (x.sum() - b) / 2 + weight * x @ x / 2) / 2)
    np.testing.assert_allclose(counterexample(parties)[:21], values, rtol=1e-8)


def test_more_parties_hold_the_same_columns(subject: Subject) -> None:
    many = crowd(subject.data, 5)
    np.testing.assert_array_equal(np.hstack(list(many.parts.values())), np.hstack(list(subject.data.parts.values())))
    assert len(many.parts) == len(many.test_parts) == 5


def test_the_exponent_of_a_power_law_is_found() -> None:
    t = np.arange(1, 101)
    assert slope(Trail("", (), (), tuple(3.0 / t**2))) == pytest.approx(-2)


def test_privacy_costs_follow_the_papers_formulas(outcome: Outcome) -> None:
    plan, m, rounds, delta = QUICK.narrow, outcome.narrow, 5, 1e-5
    bound = m.theory.replays[0].bound
    narrowest = min(h.columns for h in m.facts.holdings)
    c = 3 / (narrowest * m.race.rho) * (1.0 + (1 + 2 * m.race.rho) * bound)
    for cost in costs(plan, m, rounds):
        step = math.sqrt(2 * math.log(1.25 * 2 * rounds / delta)) * c / cost.sigma
        assert cost.sensitivity == pytest.approx(c)
        assert cost.step == pytest.approx(step)
        assert cost.exact <= cost.paper


def test_verdicts_follow_the_runs(outcome: Outcome) -> None:
    def verdict(wanted: str, changed: Outcome) -> Verdict:
        return next(c.verdict for c in judge(changed) if wanted in c.says)

    def with_race(admm: list[float], sgd: list[float]) -> Outcome:
        trails = {"admm": Trail("", tuple(admm), tuple(admm)), "sgd": Trail("", tuple(sgd), tuple(sgd))}
        narrow = replace(outcome.narrow, race=replace(outcome.narrow.race, **trails))
        return replace(outcome, narrow=narrow)

    best = outcome.narrow.optimum
    fast, slow, slower = [1.0] * 2 + [best] * 20, [1.0] * 4 + [best] * 18, [1.0] * 15 + [best] * 7
    assert verdict("slightly slower", with_race(slow, fast)) == "holds"
    assert verdict("slightly slower", with_race(slower, fast)) == "partly"
    assert verdict("slightly slower", with_race(fast, slow)) == "does not hold here"
    assert verdict("same test log loss", with_race(slow, fast)) == "holds"
    assert verdict("same test log loss", with_race([*slow[:-1], best * 1.02], fast)) == "partly"

    def with_noise(loss: float) -> Outcome:
        noise = [Noisy(s, 0, Trail("", (), (0.6931,) + (loss if s else 1e-3,) * 8)) for s in QUICK.narrow.sigmas]
        wide = [replace(n, sigma=s) for n, s in zip(noise, QUICK.wide.sigmas, strict=True)]
        return replace(
            outcome,
            narrow=replace(outcome.narrow, noise=tuple(noise)),
            wide=replace(outcome.wide, noise=tuple(wide)),
        )

    assert verdict("moderate perturbation", with_noise(1e-3)) == "holds"
    assert verdict("moderate perturbation", with_noise(2.0)) == "does not hold here"
    assert verdict("ruin", with_noise(1e-3)) == "does not hold here"
    assert verdict("ruin", with_noise(2.0)) == "holds"


def test_no_rho_is_enough_for_dependent_columns(outcome: Outcome) -> None:
    needs = needed_rho(outcome.wide)
    for name, part in outcome.study.wide.load().parts.items():
        values = np.linalg.svd(part, compute_uv=False) ** 2
        if values[-1] < 1e-6:
            assert needs[name] == math.inf
        else:
            assert needs[name] == pytest.approx((2 * values[0] - 1) / values[-1], rel=1e-6)


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    def stop(text: str) -> None:
        if "noise" in text:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce(QUICK, tmp_path, stop)
    kept = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    assert "breast-cancer-race.json" in kept
    assert "breast-cancer-noise.json" not in kept
    said: list[str] = []
    reproduce(QUICK, tmp_path, said.append)
    assert not any("breast-cancer, stage 3" in text for text in said)
    assert all((tmp_path / name).read_bytes() == content for name, content in kept.items())


def test_an_interruption_from_the_keyboard_ends_cleanly(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "reproduction", "--quick", "--output", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        for line in running.stderr:
            if "stage 3" in line:
                running.send_signal(signal.SIGINT)
                break
        rest = running.stderr.read()
    assert running.returncode == 130
    assert "resumes where it stopped" in rest
    assert "Traceback" not in rest
    assert all(json.loads(path.read_text())["format"] == 1 for path in tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(app, ["--quick", "--output", str(tmp_path / "file" / "folder")])
    assert result.exit_code == 1
    assert "must be there, or can be made" in str(result.exception)


def test_another_run_gives_the_same_curves(outcome: Outcome, tmp_path: Path) -> None:
    again = reproduce(QUICK, tmp_path, lambda text: None)
    assert again.narrow.race == outcome.narrow.race
    assert again.wide.noise == outcome.wide.noise


def test_a_stage_of_other_settings_or_damaged_is_computed_again(tmp_path: Path) -> None:
    trails = iter(Trail(str(i), (float(i),), ()) for i in range(5))

    def ask(settings: object, fresh: bool = False) -> str:
        return Shelf(tmp_path, settings, fresh).stage("a", Trail, lambda: next(trails)).setting

    assert [ask("one"), ask("one"), ask("two"), ask("two", fresh=True)] == ["0", "0", "1", "2"]
    (tmp_path / "a.json").write_text("{")
    assert ask("two") == "3"


def test_records_survive_json(outcome: Outcome) -> None:
    race = outcome.wide.race
    assert read_record(Race, json.loads(json.dumps(asdict(race)))) == race


def test_the_command_writes_a_report_with_every_figure_and_claim(outcome: Outcome, folder: Path) -> None:
    summary = folder / "docs" / "page.md"
    options = ["--quick", "--output", str(folder), "--summary", str(summary)]
    result = CliRunner().invoke(app, options)
    assert result.exit_code == 0, result.output
    page, text = (folder / "report.html").read_text(), summary.read_text()
    for figure in FIGURES:
        assert figure in page
        assert figure in text
    for claim in judge(outcome):
        assert html.escape(claim.says) in page
        assert f"| {claim.verdict} |" in text
    assert len(re.findall(r'src="data:image/png;base64,', page)) == len(FIGURES)
    assert not re.search(r'(src|href)="(?!data:|#)', page)
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert (summary.parent / link).read_bytes().startswith(b"\x89PNG")
    assert "QUICK VERSION" in page
    assert [p.name for p in folder.glob("**/*") if "tmp" in p.name or "part" in p.name] == []


def test_without_data_the_command_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAIT_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("plait.data.datasets.A9A_TRAIN", replace(plait.datasets.A9A_TRAIN, url=None))
    result = CliRunner().invoke(app, ["--output", str(tmp_path / "out")])
    assert result.exit_code == 1
    assert "PLAIT_DATA" in str(result.exception)


def test_the_published_page_is_that_of_the_papers_data() -> None:
    text = (ROOT / "docs" / "reproduction.md").read_text()
    assert "GISETTE IS A REBUILD" in text
    assert "QUICK VERSION" not in text
    for figure in FIGURES:
        assert figure in text
    for plan in FULL.plans:
        assert f"On {plan.data}" in text
    rows = re.findall(r"^\| \d+ \| .*?\| (holds|partly|does not hold here) \|", text, re.MULTILINE)
    assert len(rows) == 16
