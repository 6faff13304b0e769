"""The sweep's solver against others, its judge against answers that are made wrong, and a slice of its cases."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import ElasticNet, LogisticRegression, QuantileRegressor, Ridge

from benchmarks.sweep.__main__ import main
from benchmarks.sweep.cases import Case, problem
from benchmarks.sweep.certificate import lower_bound
from benchmarks.sweep.judge import CERTIFIED, Answer, Verdict, judge
from benchmarks.sweep.mixtures import grouped
from benchmarks.sweep.problems import Array, Loss, Problem, Terms
from benchmarks.sweep.reference import Reference, reference
from benchmarks.sweep.report import page, write_page
from benchmarks.sweep.reproductions import gene_table
from benchmarks.sweep.run import cases, run, verdict
from tests.oracle import HUBER_DELTA, LOSSES, QUANTILE
from tests.oracle import Problem as OracleProblem
from tests.oracle import Terms as OracleTerms
from tests.oracle import solve as oracle_solve

NAMES = {
    "logistic": "Logistic",
    "squared": "Squared",
    "squared_hinge": "SquaredHinge",
    "huber": "Huber",
    "poisson": "Poisson",
    "hinge": "Hinge",
    "pinball": "Pinball",
}
SHAPES = {"huber": HUBER_DELTA, "pinball": QUANTILE}
MIXTURES = {
    "l2 and nonneg": (Terms(ridge=0.05), Terms(ridge=0.02, lower=0.0)),
    "l1 and box": (Terms(l1=0.03), Terms(ridge=0.01, l1=0.02, lower=-0.1, upper=0.3)),
    "group and ball": (grouped(4, 2, group=0.05), Terms(radius=0.3)),
    "group and nonneg": (grouped(4, 2, group=0.02, ridge=0.01, lower=0.0), Terms(l1=0.01, radius=0.5)),
}


def small(loss: str, mixture: str, intercept: bool = True) -> Problem:
    """Thirty rows at two parties of four columns, with sample weights."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(30, 8))
    z = x @ rng.normal(size=8) + rng.normal(size=30)
    y = np.where(z > 0, 1.0, -1.0) if Loss(loss).classifies else z
    y = rng.poisson(np.exp(0.3 * z)).astype(float) if loss == "poisson" else y
    weights = rng.uniform(0.5, 2.0, size=30)
    parts = (x[:, :4], x[:, 4:])
    return Problem(Loss(loss, SHAPES.get(loss, 1.0)), parts, y, MIXTURES[mixture], intercept, weights)


def oracle_terms(terms: Terms) -> OracleTerms:
    groups = tuple((terms.group * np.sqrt(g.size), tuple(int(k) for k in g)) for g in terms.members)
    return OracleTerms(terms.ridge, terms.l1, groups, terms.lower, terms.upper, terms.radius)


@pytest.mark.parametrize("mixture", MIXTURES)
@pytest.mark.parametrize("loss", NAMES)
def test_the_reference_agrees_with_a_barrier_method_and_is_certified(loss: str, mixture: str) -> None:
    p = small(loss, mixture)
    blocks = tuple((b.start, b.stop, oracle_terms(t)) for b, t in zip(p.blocks, p.terms, strict=True))
    value, _, _ = oracle_solve(OracleProblem(LOSSES[NAMES[loss]], p.table, p.y, blocks, True, p.weights))
    known = reference(p)
    assert known.relative < CERTIFIED
    assert p.violation(known.x) < 1e-12
    assert known.value == pytest.approx(value, rel=1e-7)


@pytest.mark.parametrize("loss", NAMES)
def test_no_model_lies_below_the_lower_bound_of_any_slopes(loss: str) -> None:
    p = small(loss, "l1 and box")
    known = reference(p)
    rng = np.random.default_rng(0)
    for spread in (1e-3, 1e-1, 1.0):
        slopes = known.slopes + spread * rng.normal(size=p.y.size)
        assert lower_bound(p, known.x, known.b, slopes).value <= known.value + 1e-12


def test_the_reference_agrees_with_scikit_learn_on_breast_cancer() -> None:
    p = problem("breast", "logistic", "l1(1e-2)", 3, "random", False, 0)
    pooled = LogisticRegression(
        C=100 / p.y.size, l1_ratio=1.0, solver="liblinear", tol=1e-9, max_iter=10_000, fit_intercept=False
    ).fit(p.table, p.y)
    assert reference(p).value == pytest.approx(p.objective(pooled.coef_[0], 0.0), rel=1e-7)


@pytest.mark.parametrize(
    ("loss", "penalty", "model"),
    [
        ("squared", "l2(1e-4)", Ridge(alpha=1e-4 * 442)),
        ("squared", "enet(1e-2)", ElasticNet(alpha=1e-2, tol=1e-10, max_iter=100_000)),
        ("pinball", "l1(1e-2)", QuantileRegressor(quantile=0.9, alpha=1e-2)),
    ],
)
def test_the_reference_agrees_with_scikit_learn_on_diabetes(loss: str, penalty: str, model: Ridge) -> None:
    p = problem("diabetes", loss, penalty, 3, "interleaved", True, 0)
    pooled = model.fit(p.table, p.y)
    assert reference(p).value == pytest.approx(p.objective(pooled.coef_, pooled.intercept_), rel=1e-8)


def test_a_wide_table_with_l1_has_a_certified_reference() -> None:
    p = gene_table()
    few = replace(p, parts=tuple(part[:, :400] for part in p.parts))
    known = reference(few)
    assert known.relative < CERTIFIED
    assert 5 < np.count_nonzero(np.abs(known.x) > 1e-8) < 72


@pytest.fixture(scope="module")
def solved() -> tuple[Case, Problem, Reference]:
    p = problem("breast", "logistic", "l1(1e-2)", 3, "contiguous", True, 0)
    return Case("a | case", lambda: p, "logistic", "l1(1e-2)"), p, reference(p)


def answer(known: Reference, x: Array, objective: float, gap: float | None = None, certified: bool = False) -> Answer:
    return Answer(x, known.b, objective, 9, True, "both residuals at most 1e-06", 0.1, certified, gap)


def cleaned(known: Reference) -> Array:
    return np.where(np.abs(known.x) > 1e-7, known.x, 0.0)


def test_the_optimum_itself_is_accepted(solved: tuple[Case, Problem, Reference]) -> None:
    case, p, known = solved
    x = cleaned(known)
    found = judge(case, p, known, answer(known, x, p.objective(x, known.b), gap=1e-7, certified=True))
    assert found.within
    assert not found.false_claim
    assert found.support is True
    assert abs(found.misreported) < 1e-12


def test_perturbed_weights_that_claim_convergence_are_a_false_claim(solved: tuple[Case, Problem, Reference]) -> None:
    case, p, known = solved
    x = cleaned(known)
    x[np.argmax(np.abs(x))] *= 1.02
    found = judge(case, p, known, answer(known, x, p.objective(x, known.b)))
    assert found.false_claim
    assert not found.within
    doubtful = replace(answer(known, x, p.objective(x, known.b)), reason="estimated, not certified")
    assert not judge(case, p, known, doubtful).false_claim


def test_an_objective_reported_too_low_is_a_false_claim(solved: tuple[Case, Problem, Reference]) -> None:
    case, p, known = solved
    x = cleaned(known)
    found = judge(case, p, known, answer(known, x, 0.999 * p.objective(x, known.b)))
    assert found.within
    assert found.false_claim
    assert found.misreported == pytest.approx(-1e-3, rel=1e-3)


def test_a_certificate_below_the_true_gap_is_a_false_claim(solved: tuple[Case, Problem, Reference]) -> None:
    case, p, known = solved
    x = cleaned(known)
    x[np.argmax(np.abs(x))] *= 1 + 1e-4
    true = p.objective(x, known.b)
    gap = (true - known.value) / true
    assert 1e-12 < gap < 1e-6
    assert judge(case, p, known, answer(known, x, true, gap=gap / 10, certified=True)).false_claim
    assert not judge(case, p, known, answer(known, x, true, gap=2 * gap, certified=True)).false_claim


def test_weights_outside_their_constraints_are_a_false_claim() -> None:
    p = small("logistic", "l2 and nonneg")
    known = reference(p)
    x = known.x.copy()
    x[4 + np.argmin(x[4:])] = -1e-6
    case = Case("a | case", lambda: p, "logistic", "l2 and nonneg")
    found = judge(case, p, known, answer(known, x, p.objective(x, known.b)))
    assert found.false_claim
    assert not found.within


def test_one_weight_too_many_is_not_the_support(solved: tuple[Case, Problem, Reference]) -> None:
    case, p, known = solved
    x = cleaned(known)
    x[np.flatnonzero(x == 0)[0]] = 1e-9
    found = judge(case, p, known, answer(known, x, p.objective(x, known.b)))
    assert found.support is False
    assert found.nonzeros == found.best_nonzeros + 1


def test_what_a_solver_leaves_of_weights_that_are_all_zero_is_no_support(
    solved: tuple[Case, Problem, Reference],
) -> None:
    case, p, known = solved
    strong = replace(p, terms=tuple(replace(t, l1=1e3) for t in p.terms))
    rest = replace(reference(strong), x=1e-12 * np.sign(known.x))
    none = np.zeros(known.x.size)
    assert judge(case, strong, rest, answer(rest, none, strong.objective(none, rest.b))).support is not False


def test_repeated_columns_have_no_support_to_judge() -> None:
    p = problem("same columns", "logistic", "l1(1e-3)", 3, "contiguous", False, 0)
    known = reference(p)
    case = Case("a | case", lambda: p, "logistic", "l1(1e-3)")
    assert judge(case, p, known, answer(known, known.x, known.value)).support is None


SLICE = (
    r"^plain \| (diabetes|iris|linnerud) \| (squared|poisson|logistic) \| (l2\(1e-4\)|l2\(1e-2\)) ",
    r"^stress \| (normal|weighted|imbalance|constant columns) \| (logistic|squared_hinge|hinge) \| l2\(1e-4\) ",
    r"^format \| wine \| (logistic|squared) \| l2\(1e-4\) ",
)


@pytest.mark.parametrize("case", [case for part in SLICE for case in cases(0, part)], ids=lambda case: case.name)
def test_a_slice_of_the_sweep_is_right_and_says_so(case: Case) -> None:
    found = verdict(case, seconds=30.0)
    assert found.status == "judged", found.words
    assert found.within, found
    assert not found.false_claim, found
    assert found.converged


def test_a_sweep_goes_on_where_it_ended(tmp_path: Path) -> None:
    few = cases(0, r"^plain \| iris \| squared \| l2")
    file = tmp_path / "verdicts.jsonl"
    first = list(run(few[:1], file, 30.0, 60.0, tmp_path / "references"))
    again = list(run(few, file, 30.0, 60.0, tmp_path / "references"))
    assert again[0] == first[0]
    assert len(file.read_text().splitlines()) == len(few) == len(again) == 3


def test_the_command_fails_when_a_fit_claims_too_much(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--only", r"^plain \| iris \| squared \| l2\(1e-4\)", "--results", str(tmp_path)]
    assert main(asked) == 0
    file = tmp_path / "verdicts-0.jsonl"
    record = json.loads(file.read_text())
    file.write_text(json.dumps(record | {"false_claim": True, "gap": 0.25}) + "\n")
    assert main(asked) == 1
    assert "2.5e-01" in capsys.readouterr().out


def test_the_page_gets_its_table_between_the_marks(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text("before\n<!-- sweep -->\nold\n<!-- /sweep -->\nafter\n")
    right = Verdict("plain | a", "logistic", "l1(1e-2)", "judged", gap=1e-9, within=True, converged=True, rounds=7)
    wrong = replace(right, case="plain | b", gap=1e-3, within=False, false_claim=True)
    write_page(file, [right, wrong], 4)
    text = file.read_text()
    assert text.startswith("before\n<!-- sweep -->\nFrom 2 of 4 cases.")
    assert text.endswith("<!-- /sweep -->\nafter\n")
    assert "old" not in text
    assert "| plain | 2 | 50.0 % | 1 | 0.0 % | 1 |" in text
    assert "plain, b" in page([wrong])
