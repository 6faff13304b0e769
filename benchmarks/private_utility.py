"""What privacy costs in accuracy: `study` compares with noisy gradient descent, `parties` varies helpers and labels.

python -m benchmarks.private_utility study [--docs docs/benchmarks.md]
python -m benchmarks.private_utility parties a9a credit gisette
"""

import argparse
import json
import re
import time
from pathlib import Path

import numpy as np
import scipy
from sklearn.linear_model import LogisticRegression

from benchmarks.noisy_gradient_descent import RIDGE, Task, best_setting
from benchmarks.private_tables import TABLES, Split, a9a, credit, gisette
from plait import L2, Logistic, fit
from plait.methods.base import Block
from plait.methods.private.pass_messages import Step, say
from plait.methods.private.pass_parties import Protected
from plait.methods.subspace.method import Subspace
from plait.privacy import ClippedRows, InsecureTestNoise, NoPrivacy, Policy, RandomisedResponse, Recommended
from plait.privacy.ledger.release_gate import Book
from plait.problem.features import Features

_MARKS = re.compile(r"(<!-- private -->\n).*?(<!-- /private -->)", re.DOTALL)


def log_loss(z: np.ndarray, t: np.ndarray) -> float:
    return round(float(np.mean(np.logaddexp(0, z) - t * z)), 5)


def reference(train: list[np.ndarray], t: np.ndarray, test: list[np.ndarray], tt: np.ndarray) -> float:
    """Pooled training without privacy on the same clipped rows."""
    rows, held = (np.hstack([ClippedRows.of(p).matrix for p in parts]) for parts in (train, test))
    model = LogisticRegression(C=1.0, max_iter=2000).fit(rows, t)
    return log_loss(model.decision_function(held), tt)


def helped(task: Task, epsilon: float, seed: int) -> float:
    """The test loss of a helper with the defaults: it is told what a label party tells it, and asked what that asks."""
    rows = task.labels.size
    block = Block(Features(task.rows), L2(RIDGE), Logistic(), np.full(rows, 1 / rows))
    book = Book(f"seed {seed}", "helper", InsecureTestNoise(seed))
    side = Protected(Subspace(), Recommended(epsilon), book, sketch=False).party_side(block)
    state, _ = side.respond(side.start(), say(Step.LABELS, vector=2 * task.labels - 1))
    state, share = side.respond(state, say(Step.FIT, 0.0, 1.0, vector=task.offset))
    return task.loss(side.weights(state), share.scalars[3])


def losses_of(split: Split, epsilon: float, seeds: int, label_epsilon: float | None = None) -> list[float]:
    """Test losses of private runs with the defaults, one for each draw of the noise."""
    train, t, test, tt = split
    train, test = ([ClippedRows.of(p[0]).matrix, *p[1:]] for p in (train, test))
    losses = []
    for seed in range(seeds):
        policy = Policy(
            [NoPrivacy(), *[Recommended(epsilon, clip=1.0)] * (len(train) - 1)],
            labels=None if label_epsilon is None else RandomisedResponse(label_epsilon),
            noise=InsecureTestNoise(seed),
            run=f"seed {seed}",
        )
        model = fit(train, t, privacy=policy, fit_intercept=True)
        losses.append(log_loss(model.scores(test), tt))
    return losses


def study(names: list[str], swapped: bool = False) -> str:
    """Mean test log losses over splits and draws, as a Markdown table; `swapped` exchanges the two parties."""
    head = ["data", "rows", "columns", "epsilon", "label party alone", "plait", "best of 12 rivals", "plait / rival"]
    lines = [head, ["---"] * len(head)]
    for name in names:
        table = TABLES[name]
        splits = (table.split(seed) for seed in range(table.splits))
        tasks = [Task.of(_swapped(split) if swapped else split) for split in splits]
        alone = float(np.mean([task.loss(np.zeros(task.rows.shape[1])) for task in tasks]))
        for epsilon in (0.1, 0.5, 1.0, 4.0, 8.0) if name == "a9a" else (0.5, 1.0, 4.0):
            ours = float(np.mean([helped(task, epsilon, seed) for task in tasks for seed in range(table.draws)]))
            rival, _ = best_setting(tasks, epsilon, table.draws)
            cells = [
                name,
                *map(str, tasks[0].rows.shape),
                f"{epsilon:g}",
                f"{alone:.4f}",
                f"{ours:.4f}",
                f"{rival:.4f}",
            ]
            lines.append([*cells, f"{ours / rival:.4f}"])
            print(*lines[-1], flush=True)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _swapped(split: Split) -> Split:
    train, t, test, tt = split
    return train[::-1], t, test[::-1], tt


def report(name: str, split: Split, runs: list[tuple[float, float | None]], seeds: int) -> None:
    train, t, test, tt = split
    head = {"data": name, "pooled": reference(*split), "local": reference(train[:1], t, test[:1], tt)}
    print(json.dumps({**head, "numpy": np.__version__, "scipy": scipy.__version__}), flush=True)
    for epsilon, label_epsilon in runs:
        start = time.process_time()
        losses = losses_of(split, epsilon, seeds, label_epsilon)
        seconds = round((time.process_time() - start) / seeds, 1)
        print(json.dumps({"data": name, "epsilon": epsilon, "label epsilon": label_epsilon,
                          "median": float(np.median(losses)), "losses": losses, "seconds each": seconds}),
              flush=True)  # fmt: skip


def parties(names: list[str]) -> None:
    """Several helpers, the same helper twice, noisy labels, many columns."""
    plain: list[tuple[float, float | None]] = [(0.1, None), (1.0, None), (8.0, None)]
    if "a9a" in names:
        report("a9a", a9a(), [*plain, (1.0, 1.0)], seeds=5)
        report("a9a, three helpers", a9a((66, 85, 104)), plain, seeds=5)
        one, t, two, tt = a9a()
        report("a9a, helper twice", ([*one, one[1]], t, [*two, two[1]], tt), plain[1:], seeds=5)
    if "credit" in names:
        report("credit", credit(), plain, seeds=5)
    if "gisette" in names:
        report("gisette", gisette(), plain[1:], seeds=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["study", "parties"])
    parser.add_argument("names", nargs="*", help="data sets; all of them by default")
    parser.add_argument("--docs", type=Path, help="write the table into this page, between its two marks")
    given = parser.parse_args()
    if given.what == "parties":
        parties(given.names or ["a9a", "credit", "gisette"])
        return
    names = given.names or list(TABLES)
    tables = f"{study(names)}\n\nThe parties exchanged:\n\n{study(names, swapped=True)}"
    if given.docs:
        given.docs.write_text(_MARKS.sub(lambda m: f"{m[1]}{tables}\n{m[2]}", given.docs.read_text()))


if __name__ == "__main__":
    main()
