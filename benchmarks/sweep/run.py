"""Run cases one after another, keep every verdict as a line of JSON, and go on where the last run ended."""

import hashlib
import json
import re
import sys
import time
import zlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import numpy as np

import plait
from benchmarks.sweep import cases as families
from benchmarks.sweep.cases import Case
from benchmarks.sweep.judge import CERTIFIED, Verdict, judge
from benchmarks.sweep.problems import Problem
from benchmarks.sweep.reference import Reference, reference
from benchmarks.sweep.reproductions import reproductions
from benchmarks.sweep.trial import ask
from plait.errors import DatasetError

RESULTS = Path(__file__).parent.parent / "results" / "sweep"
FAMILIES = (
    families.plain,
    families.constrained,
    families.stress,
    families.formats,
    families.methods,
    families.party_counts,
    families.public,
)
_QUICK = 20  # every twentieth case, beside the reproductions: some minutes


_AGAIN = ("absent", "unjudged")  # data may have been brought, and the solver of references may have become better
_SOLVER = ("problems", "scaled", "conic", "simplex", "certificate", "reference")


def say(*words: object) -> None:
    print(*words, file=sys.stderr, flush=True)


def cases(seed: int, only: str = "", quick: bool = False) -> list[Case]:
    """The cases whose name matches the regular expression; mixed well, so that a run that is cut short is a sample."""
    mixed = [case for family in FAMILIES for case in family(seed)]
    mixed.sort(key=lambda case: zlib.crc32(case.name.encode()))
    listed = [*reproductions(seed), *(mixed[::_QUICK] if quick else mixed)]
    return [case for case in listed if re.search(only, case.name)]


def program() -> str:
    """Names the program that is judged: a hash of plait's source."""
    return _hash(sorted(Path(plait.__file__).parent.rglob("*.py")))


@cache
def _solver() -> str:
    """Names the solver of references, which are solved anew when it changes."""
    return _hash([Path(__file__).with_name(f"{name}.py") for name in _SOLVER])


def _hash(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def known_reference(problem: Problem, folder: Path | None) -> Reference:
    """From the folder if these very numbers were solved before, else solved and stored."""
    if folder is None:
        return reference(problem)
    file = folder / f"{problem.key}-{_solver()}.npz"
    if file.exists():
        with np.load(file) as stored:
            value, gap, proved, scale, b = (float(v) for v in stored["figures"])
            return Reference(stored["x"], b, stored["slopes"], value, gap, bool(proved), scale)
    found = reference(problem)
    folder.mkdir(parents=True, exist_ok=True)
    figures = np.array([found.value, found.gap, float(found.proved), found.scale, found.b])
    np.savez(file, x=found.x, slopes=found.slopes, figures=figures)
    return found


def verdict(case: Case, seconds: float, references: Path | None = None) -> Verdict:
    """Solve, ask and judge one case; nothing that plait raises stops the sweep."""

    def unfinished(status: str, words: object, known: float = 0.0) -> Verdict:
        return Verdict(case.name, case.loss, case.penalty, status, str(words), reference_gap=known)

    try:
        problem = case.build()
    except DatasetError as absent:
        return unfinished("absent", absent)
    try:
        known = known_reference(problem, references)
    except (np.linalg.LinAlgError, ValueError) as error:
        return unfinished("unjudged", f"the reference failed: {error}")
    if not known.relative <= CERTIFIED:
        return unfinished("unjudged", "the reference is not certified", known.relative)
    try:
        answer = ask(case, problem, seconds)
    except plait.SettingError as error:
        return unfinished("refused", error)
    except TimeoutError as error:
        return unfinished("timeout", error)
    except Exception as error:  # the sweep reports whatever a user would have met
        return unfinished("error", f"{type(error).__name__}: {error}")
    return judge(case, problem, known, answer)


def run(listed: Iterable[Case], file: Path, seconds: float, budget: float, references: Path) -> Iterator[Verdict]:
    """Verdicts of all cases, those of earlier runs of the same program first read from the file."""
    which = program()
    done = _stored(file, which)
    begun, left = time.monotonic(), 0
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as lines:
        for case in listed:
            if case.name in done:
                yield done[case.name]
                continue
            if time.monotonic() - begun > budget:
                left += 1
                continue
            found = verdict(case, seconds, references)
            lines.write(json.dumps({"program": which, **found.record()}) + "\n")
            lines.flush()
            yield found
    if left:
        say(f"{left} cases were not begun within {budget / 60:g} minutes; run it again to go on")


def _stored(file: Path, which: str) -> dict[str, Verdict]:
    if not file.exists():
        return {}
    records = [json.loads(line) for line in file.read_text().splitlines()]
    kept = [r for r in records if r.pop("program") == which and r["status"] not in _AGAIN]
    return {r["case"]: Verdict(**r) for r in kept}
