"""What is run: a job is a data set, a penalty, the goals that matter there and the solvers that take part."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from benchmarks.datasets import synthetic
from benchmarks.datasets.a9a import a9a
from benchmarks.datasets.credit import credit
from benchmarks.datasets.gisette import gisette
from benchmarks.datasets.small import breast_cancer, digits
from benchmarks.solvers import Limits, Solver
from benchmarks.solvers.partitioned_lbfgs import PartitionedLbfgs
from benchmarks.solvers.plait_methods import GAUSS_SEIDEL, JACOBI, PLAIN, PROXIMAL, SEPARATE, SGD, SHORT, SUMS
from benchmarks.solvers.skglm_pooled import SkglmPooled
from benchmarks.solvers.sklearn_pooled import SKLEARN, SklearnPooled

FEDERATED: list[Solver] = [SEPARATE, SUMS, SHORT, PROXIMAL, JACOBI, GAUSS_SEIDEL, SGD, PartitionedLbfgs()]
EVERY: list[Solver] = [*FEDERATED, *SKLEARN]
KINKS: list[Solver] = [SEPARATE, SUMS, SHORT, PROXIMAL, JACOBI, PLAIN, GAUSS_SEIDEL, SGD, *SKLEARN, SkglmPooled()]
FINE = (1e-2, 1e-3, 1e-4, 1e-6)


@dataclass(frozen=True)
class Job:
    """targets: the rounds that a solver must not pass, one per goal; None where nothing is asked."""

    name: str
    data: Callable[[], object]
    kind: str = "l2"
    strength: float = 1e-4
    goals: tuple[float, ...] = FINE
    solvers: list[Solver] = field(default_factory=lambda: list(EVERY))
    targets: dict[str, tuple[int | None, ...]] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    timed_to: float = 1e-4
    memory: dict[str, Any] | None = None
    """The shape of synthetic data whose peak memory is measured."""


A9A_2 = Job(
    "a9a, M=2, L2(1e-4)",
    partial(a9a, 2),
    targets={SEPARATE.name: (None, 4, 8, 10), SUMS.name: (None, 4, 11, 13)},
)
A9A_10 = Job(
    "a9a, M=10, L2(1e-4)",
    partial(a9a, 10),
    solvers=FEDERATED,
    targets={SEPARATE.name: (None, 6, 8, 13)},
)
GISETTE = Job(
    "gisette, M=3, L2(1e-3)",
    gisette,
    strength=1e-3,
    goals=(1e-1, 1e-2, 1e-3, 1e-4),
    targets={SEPARATE.name: (4, 7, 16, 30)},
    limits=Limits(rounds=100, seconds=120, finest=1e-5),
)
_MILLION = {"rows": 1_000_000, "width": 25_000, "parties": 4, "per_row": 10}
SPARSE = Job(
    "sparse synthetic 1,000,000 x 100,000, M=4, L2(1e-6)",
    partial(synthetic.sparse, **_MILLION),
    memory=_MILLION,
    strength=1e-6,
    goals=(1e-1, 1e-2, 1e-3),
    solvers=[SEPARATE, SUMS, SHORT, PartitionedLbfgs(), SklearnPooled("lbfgs"), SklearnPooled("newton-cg")],
    limits=Limits(rounds=60, seconds=300, finest=1e-4),
    timed_to=1e-3,
)
FULL = [
    A9A_2,
    A9A_10,
    GISETTE,
    Job("credit, M=2, L2(1e-4)", credit),
    Job("dense synthetic 100,000 x 330, M=2, L2(1e-4)", partial(synthetic.dense, 100_000, [30, 300])),
    Job("a9a, M=2, L1(1e-4)", partial(a9a, 2), kind="l1", solvers=KINKS),
    Job("a9a, M=10, L1(1e-4)", partial(a9a, 10), kind="l1", solvers=KINKS),
    SPARSE,
]
_SHORT = Limits(rounds=60, seconds=3)
QUICK = [
    Job("breast_cancer, M=3, L2(1e-4)", breast_cancer, limits=_SHORT),
    Job("digits, M=2, L2(1e-4)", digits, limits=_SHORT),
    Job("dense synthetic 5,000 x 60, M=3, L2(1e-4)", partial(synthetic.dense, 5_000, [10, 20, 30]), limits=_SHORT),
    Job("digits, M=2, L1(1e-3)", digits, kind="l1", strength=1e-3, solvers=KINKS, limits=_SHORT),
    Job(
        "a9a, M=2, L2(1e-4)",
        partial(a9a, 2),
        solvers=[SEPARATE, SUMS, SHORT, PROXIMAL, PartitionedLbfgs(), *SKLEARN],
        targets=A9A_2.targets,
        limits=Limits(rounds=60, seconds=5),
    ),
]
