"""Each claim of docs/protection.md has a test, and each test has a fault in the shipped code that it must notice.

A fault is one change of the text of one file.  It is made in a copy of the package, and the named test runs there.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
UNIT, TRAINING = "tests/unit/protection/", "tests/unit/training/test_protected.py::"


@dataclass(frozen=True)
class Fault:
    """`old`, which stands once in a file of the package, becomes `new`, and then `test` fails."""

    name: str
    file: str
    old: str
    new: str
    test: str


INNER, SUMS = "protection/inner_product.py", "protection/secure_sums.py"
SWAPPED = TRAINING + "test_labels_that_differ_with_the_same_moments_give_the_same_run"
TRANSCRIPT = TRAINING + "test_a_party_with_the_whole_transcript_reads_labels_no_better_than_the_leverage_rule"
NOISE = TRAINING + "test_what_a_party_receives_is_noise_and_what_the_coordinator_receives_is_noise_in_sums"
PRODUCT = UNIT + "test_inner_product.py::test_what_is_decrypted_is_the_integer_product"
SEAL = UNIT + "test_inner_product.py::test_seal_decrypts_the_same_numbers"
OTHER_ROUND = UNIT + "test_inner_product.py::test_keys_of_another_round_open_nothing"
GUESS = UNIT + "test_attacks.py::test_a_guessed_column_cannot_be_confirmed_from_its_hint"
TWO_TABLES = UNIT + "test_attacks.py::test_hints_of_two_tables_look_the_same"
HINTS = UNIT + "test_inner_product.py::test_hints_are_module_lwe_as_written_down"
FLOOD = UNIT + "test_attacks.py::test_the_flood_hides_the_noise_of_a_round"
SUM = UNIT + "test_secure_sums.py::test_the_sum_of_shares_is_the_fixed_point_sum_exactly"
COLLUDING = (
    UNIT + "test_secure_sums.py"
    "::test_all_but_two_parties_and_the_coordinator_learn_nothing_and_all_but_one_learn_everything"
)
SECOND = UNIT + "test_secure_sums.py::test_a_second_vector_under_one_mask_is_refused_also_after_a_restart"
KILLED = (
    "tests/e2e/test_protection.py"
    "::test_sums_are_hidden_between_three_programs_and_a_killed_one_sends_the_same_masked_shares"
)
REFUSED = TRAINING + "test_wide_tables_rows_that_stand_alone_and_sums_of_two_are_refused"
EARLIER = "tests/e2e/test_protection.py::test_a_sum_with_one_party_less_than_before_is_refused"
COPIED = (
    "tests/e2e/test_hostile_protection.py"
    "::test_an_older_copy_of_the_folder_hides_nothing_else_under_a_mask_that_was_used"
)
FINE = "tests/unit/training/test_fine_gradients.py::test_slopes_are_exact_enough_to_end_in_about_the_plain_rounds"
OUTSIDE = "tests/e2e/test_protection.py::test_sums_that_would_hide_nothing_are_refused"

FAULTS = (
    Fault(
        "gradients in single precision, whose last digit depends on the label",
        "protection/fixed_point.py",
        "_balanced(scaled, np.rint(scaled))",
        "_balanced(scaled, np.rint(scaled.astype(np.float32)))",
        SWAPPED,
    ),
    Fault(
        "the mean's gradient rounded in the place of the sum's",
        "training/protected.py",
        "left = request.vector * self._encryptor.rows",
        "left = request.vector * 1.0",
        SWAPPED,
    ),
    Fault(
        "row weights as they come, so that a label moves the rounding",
        "training/assembly.py",
        "each = encode_weights(weights)",
        "each = weights",
        SWAPPED,
    ),
    Fault(
        "row weights told to the parties",
        "training/assembly.py",
        "return (self.weighted and self.protection is None) or self.protections.labels",
        "return True",
        TRAINING + "test_row_weights_which_may_tell_the_labels_are_told_to_nobody",
    ),
    Fault(
        "a number beside the gradient that depends on labels",
        "methods/protected/outlook.py",
        "curvature = float(task.weights @ task.loss.hessian(z, task.labels))",
        "curvature = float(task.weights @ np.abs(task.loss.gradient(z, task.labels)))",
        SWAPPED,
    ),
    Fault(
        "an exposure that understates what a row's leverage tells",
        "protection/leverage.py",
        "scipy.special.ndtr(np.sqrt(h / (1 - h)))",
        "scipy.special.ndtr(h / (1 - h))",
        TRANSCRIPT,
    ),
    Fault(
        "a gradient under no secret",
        INNER,
        "spectrum = ring.transform(-secret.reshape(rank, RING_DEGREE))",
        "spectrum = ring.transform(0 * secret.reshape(rank, RING_DEGREE))",
        NOISE,
    ),
    Fault(
        "shares that are not masked",
        "training/protected.py",
        'cast(Array, self._party.mask(plain, exchange, "share"))',
        "cast(Array, plain)",
        NOISE,
    ),
    Fault("products rounded down", INNER, "(total + (1 << (shift - 1))) >> shift", "total >> shift", PRODUCT),
    Fault("products of a turned column", INNER, "np.conjugate(columns, out=columns)", "pass", SEAL),
    Fault(
        "one secret for all rounds",
        INNER,
        "return derive(self._secret, round_number, exponent, digest)",
        "return derive(self._secret, exponent, digest)",
        OTHER_ROUND,
    ),
    Fault(
        "hints without u p: a guessed column is confirmed",
        INNER,
        "return np.stack([stream.ternary(self.parameters.dimension) for stream in streams])",
        "return 0 * np.stack([stream.ternary(self.parameters.dimension) for stream in streams])",
        GUESS,
    ),
    Fault(
        "hints without u p: two tables are told apart",
        INNER,
        "return np.stack([stream.ternary(self.parameters.dimension) for stream in streams])",
        "return 0 * np.stack([stream.ternary(self.parameters.dimension) for stream in streams])",
        TWO_TABLES,
    ),
    Fault(
        "hints without e'",
        INNER,
        "errors = np.stack([stream.binomial(parameters.dimension) for stream in streams])",
        "errors = 0 * np.stack([stream.binomial(parameters.dimension) for stream in streams])",
        HINTS,
    ),
    Fault("no flood", INNER, "bound = 1 << self.parameters.flood_bits", "bound = 1", FLOOD),
    Fault(
        "a flood of a thousandth",
        INNER,
        "1 << self.parameters.flood_bits",
        "1 << (self.parameters.flood_bits - 10)",
        FLOOD,
    ),
    Fault("masks that do not cancel", SUMS, "if self.name < other else plain - mask", "if True else plain", SUM),
    Fault(
        "a mask with one other party only",
        SUMS,
        "for other, secret in self._shared.items():",
        "for other, secret in list(self._shared.items())[:1]:",
        COLLUDING,
    ),
    Fault(
        "masks of a key that everybody knows",
        SUMS,
        "return self._private.exchange(X25519PublicKey.from_public_bytes(other.public_key))",
        "return bytes(32) if X25519PublicKey.from_public_bytes(other.public_key) else b''",
        UNIT + "test_secure_sums.py::test_masks_need_the_private_key_of_one_of_the_two",
    ),
    Fault(
        "a mask that hides whatever comes",
        SUMS,
        "if self._used.setdefault(place, digest) != digest:",
        "if False:",
        SECOND,
    ),
    Fault(
        "masks that are forgotten with the run's folder",
        "deployment/party_opening.py",
        'masks = file.path("counts") / f"{file.name}-{run}-masks" if lasting else folder.checkpoint / "masks"',
        'masks = folder.checkpoint / "masks"',
        COPIED,
    ),
    Fault(
        "other secrets after a restart",
        "deployment/run_keys.py",
        'return bytes.fromhex(content["secret"])',
        "return secrets.token_bytes(KEY_BYTES)",
        KILLED,
    ),
    Fault("rows that stand alone", "protection/leverage.py", "if rows.size:", "if False:", REFUSED),
    Fault(
        "more columns than a tenth of the rows",
        "protection/leverage.py",
        "if columns > MAX_COLUMNS_SHARE * rows:",
        "if False:",
        REFUSED,
    ),
    Fault("a sum of two parties", "training/protected.py", "if len(names) < LEAST_GROUP:", "if False:", REFUSED),
    Fault(
        "sums that are forgotten",
        "deployment/earlier_sums.py",
        'write_json(path, {"format": 1, "sums": {**known, reader: [*told, this]}})',
        "pass",
        EARLIER,
    ),
    Fault(
        "rows that are forgotten",
        "deployment/earlier_rows.py",
        "sets.add(names, least)",
        "pass",
        "tests/e2e/test_protection.py::test_a_run_with_one_row_less_than_before_is_refused",
    ),
    Fault(
        "gradients of 28 bits to the end beside a loss with kinks",
        "methods/protected/method.py",
        "exact = state.kinked or state.bounds.open or self.judge is not self.task",
        "exact = state.kinked",
        FINE,
    ),
    Fault(
        "units of any size",
        "methods/protected/outlook.py",
        "_LEAST_UNIT <= self.unit <= 1",
        "True",
        "tests/unit/methods/protected/test_hostile_outlook.py"
        "::test_numbers_that_no_honest_coordinator_states_are_refused",
    ),
    Fault("one party outside", SUMS, "if len(outside) < LEAST_OUTSIDE:", "if False:", OUTSIDE),
)


def ran(package: Path, tests: list[str], basetemp: Path) -> tuple[int, str]:
    """pytest's exit code and its words, where the package is imported from this folder."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={basetemp}", *tests]
    env = {**os.environ, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=600)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package."""
    shutil.copytree(ROOT / "src" / "plait", tmp_path / "src" / "plait", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "src"


@pytest.mark.slow
def test_the_named_tests_pass_on_a_copy_without_a_fault(package: Path, tmp_path: Path) -> None:
    code, words = ran(package, sorted({fault.test for fault in FAULTS}), tmp_path / "tests")
    assert code == 0, words


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_every_fault_makes_its_test_fail(package: Path, tmp_path: Path, fault: Fault) -> None:
    file = package / "plait" / fault.file
    text = file.read_text()
    file.write_text(text.replace(fault.old, fault.new))
    code, words = ran(package, [fault.test], tmp_path / "tests")
    assert code == pytest.ExitCode.TESTS_FAILED, words
    assert re.search(r"^\d+ failed", words.splitlines()[-1]), words  # no error of a fixture or an import
    assert "SyntaxError" not in words


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_every_fault_can_be_made_and_is_listed(fault: Fault) -> None:
    assert (ROOT / "src" / "plait" / fault.file).read_text().count(fault.old) == 1
    path, _, name = fault.test.partition("::")
    assert f"def {name}(" in (ROOT / path).read_text()
    rows = [line for line in (ROOT / "docs" / "protection.md").read_text().splitlines() if fault.name in line]
    assert len(rows) == 1
    assert f"`{name}`" in rows[0]
