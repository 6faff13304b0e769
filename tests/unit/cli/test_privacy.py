"""The `plait privacy` commands, run as a user runs them."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from plait import fit
from plait.cli.app import app
from plait.errors import PrivacyError, SettingError
from plait.privacy import Budget, InsecureTestNoise, LedgerFolder, NoPrivacy, Policy, Recommended
from plait.privacy.audit.suite import CHECKS, MUTANTS, SHORT, Check, Effort
from plait.studies.attack_study import measure, settings
from plait.studies.privacy_figures import draw_preview
from plait.studies.privacy_preview import breast_cancer, preview, synthetic


def run(*words: str) -> str:
    result = CliRunner().invoke(app, ["privacy", *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize(("epsilon", "multiplier"), [("0.5", 22.24), ("1", 11.80), ("3", 4.397), ("8", 1.898)])
def test_calibrate_prints_the_exact_noise_multiplier(epsilon: str, multiplier: float) -> None:
    shown = run("calibrate", "--epsilon", epsilon, "--delta", "1e-5", "--rounds", "10")
    found = re.search(r"exact \(plait\)\s+([\d.]+)", shown)
    assert found
    assert float(found.group(1)) == pytest.approx(multiplier, rel=0.005)


def test_spend_shows_what_a_run_has_cost(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    own, other = rng.uniform(-1, 1, (200, 3)) / 2, rng.uniform(-1, 1, (200, 3)) / 2
    policy = Policy([NoPrivacy(), Recommended(1.0)], ledger=LedgerFolder(tmp_path, Budget(2.0)))
    fit({"own": own, "bank": other}, (own[:, 0] + other[:, 0] > 0).astype(float), privacy=policy, fit_intercept=False)
    shown = run("spend", str(tmp_path), "--each")
    assert re.search(r"bank\s+people\s+1\s+2\s+1\.6\d+\s+1e-5\s+13\s+0", shown)
    assert "Gram" in shown
    assert "gradient" in shown
    journal = next(p for p in tmp_path.glob("*/journal.jsonl") if "bank" in p.read_text())
    journal.write_text(journal.read_text().replace("bank", "tank", 1))
    with pytest.raises(PrivacyError, match="must be whole"):
        run("spend", str(tmp_path))


def test_an_error_is_one_message_without_a_traceback(tmp_path: Path) -> None:
    words = [sys.executable, "-c", "from plait.cli import main; main()", "privacy", "spend", str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: There must be a ledger")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("calibrate", "--epsilon", "0"),
        ("calibrate", "--delta", "2"),
        ("attack", "--data", "x"),
        ("preview", "--records", "0"),
    ],
)
def test_impossible_options_are_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(SettingError):
        run(*words)


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.name)
def test_the_audit_passes_plait(check: Check) -> None:
    assert check.run(Effort(SHORT, InsecureTestNoise(0))).passed


@pytest.mark.parametrize("check", MUTANTS, ids=lambda c: c.name)
def test_the_audit_catches_every_fault(check: Check) -> None:
    assert not check.run(Effort(SHORT, InsecureTestNoise(0))).passed


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.name)
def test_the_long_audit_passes_plait(check: Check) -> None:
    assert check.run(Effort(2000, InsecureTestNoise(1))).passed


def test_attacks_find_everything_unprotected_and_nothing_that_is_protected(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="figures are an extra: pip install 'plait[plots]'")
    sample = breast_cancer()
    own, helper = sample.train
    plain, few, paper, admm, recommended, labels = (
        measure(s, own, helper, sample.labels) for s in settings(30, InsecureTestNoise(0))
    )
    assert plain.labels == few.labels == paper.labels == recommended.labels == 1.0
    assert min(plain.column_space, paper.column_space) > 0.9
    assert min(plain.records, paper.records) > 0.99
    assert few.records == admm.records == recommended.records == labels.records == 0.0
    assert admm.column_space < 0.1
    assert labels.labels == pytest.approx(np.e / (1 + np.e), abs=0.08)
    shown = run("attack", "--output", str(tmp_path))
    assert "100.0%" in shown
    assert "blind" in shown
    assert all((tmp_path / name).stat().st_size > 10_000 for name in ("attacks.png", "modes.png"))


def test_the_preview_lies_between_no_helper_and_an_unprotected_one(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="figures are an extra: pip install 'plait[plots]'")
    found = preview(synthetic(3000, 5, 5), [0.5, 8.0], repeats=1)
    assert found.pooled < found.private[8.0] < found.local
    assert found.private[8.0] < found.private[0.5] + 0.01
    assert draw_preview(found, tmp_path / "preview.png").stat().st_size > 10_000
    assert "of the helper's gain" in run("preview", "--records", "900", "--repeats", "1", "--epsilon", "2")
