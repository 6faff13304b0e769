"""Judge plait on many problems:  python -m benchmarks.sweep [--quick] [--only REGEX]  (also `make sweep`).

Ends with code 1 when a fit claims more than its weights hold.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.sweep.report import line, page, write_page
from benchmarks.sweep.run import RESULTS, cases, run, say


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sweep", description=__doc__)
    parser.add_argument("--only", default="", metavar="REGEX", help="only the cases whose name matches")
    parser.add_argument("--quick", action="store_true", help="a slice: some minutes")
    parser.add_argument("--list", action="store_true", help="print the names of the cases and end")
    parser.add_argument("--seed", type=int, default=0, help="draws generated tables and splits anew")
    parser.add_argument("--seconds", type=float, default=30.0, help="limit for one fit")
    parser.add_argument("--budget-minutes", type=float, default=float("inf"), help="start no case after this time")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of verdicts and references")
    parser.add_argument("--docs", type=Path, help="write the table into this page, between its two sweep marks")
    given = parser.parse_args(arguments)
    listed = cases(given.seed, given.only, given.quick)
    if given.list:
        print("\n".join(case.name for case in listed))
        return 0
    verdicts = []
    file = given.results / f"verdicts-{given.seed}.jsonl"
    for found in run(listed, file, given.seconds, 60 * given.budget_minutes, given.results / "references"):
        verdicts.append(found)
        say(f"{len(verdicts)}/{len(listed)}", line(found))
    print(page(verdicts))
    if given.docs:
        write_page(given.docs, verdicts, len(listed))
    return int(any(v.false_claim for v in verdicts))


if __name__ == "__main__":
    sys.exit(main())
