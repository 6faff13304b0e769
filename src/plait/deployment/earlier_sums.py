"""The sums that a party's scores have been part of, over all runs on its rows: their differences show no party's share.

All runs begin at weights of zero, so that with the same labels a party's first share is the same in each of them.  A
sum over a, b and c less one over a and b is then c's share.  c does not see the second run; a and b do, and refuse.
Where only some of the rows of two runs are the same, it is nearly c's share.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from plait._files import read_json, write_json
from plait.deployment.job_file import Job, PartyFile
from plait.deployment.row_sets import RowSets, among, digest_of, names_of
from plait.errors import PrivacyError
from plait.training.protected import summed_groups

Group = tuple[str, ...]


def single_shares(sums: Iterable[Group], reader: str) -> list[str]:
    """Parties whose share is a combination of these sums and of the reader's own share."""
    rows = [set(group) - {reader} for group in sums]
    names = sorted(set().union(*rows))
    table = np.array([[name in row for name in names] for row in rows], dtype=float).reshape(len(rows), len(names))
    rank = np.linalg.matrix_rank(table) if table.size else 0
    return [
        name
        for name, alone in zip(names, np.eye(len(names)), strict=True)
        if np.linalg.matrix_rank(np.vstack([table, alone])) == rank
    ]


def join_sum(job: Job, file: PartyFile, ids: Sequence[str]) -> None:
    """Note durably the sum that this run shows of the party's scores; PrivacyError where earlier ones forbid it."""
    name, reader = file.name, job.label_party
    if job.protection is None or job.protection.mode != "sums" or name == reader:
        return
    group = sorted(next(each for each in summed_groups(job.protection, job.parties) if name in each))
    rows = names_of(ids, np.zeros(len(ids)))
    sets = RowSets(file.path("counts") / f"{name}-sums")
    with sets.locked():
        path = sets.folder / "sums.json"
        known: dict[str, list[list[str]]] = {}
        if path.exists():
            known = read_json(path, "the record of a party's sums", {"sums": {...: [[str]]}})["sums"]
        told, this = known.get(reader, []), [digest_of(rows), *group]
        if this in told:
            return
        earlier = [tuple(each) for digest, *each in told if among(sets.read(digest), rows).any()]
        exposed = sorted(set(single_shares([*earlier, tuple(group)], reader)) - set(single_shares(earlier, reader)))
        if exposed and not file.trust.accept_other_sums:
            raise PrivacyError(
                f"the sums that {reader} learns of the same rows must not show one party's share. Found that this one, "
                f"over {_listed(group)}, shows that of {_listed(exposed)} together with "
                f"{'; '.join(_listed(each) for each in dict.fromkeys(earlier))} before. Train with the same parties as "
                f"before. If {_listed(exposed)} may be shown, set trust.accept_other_sums = true in {name}.toml."
            )
        sets.add(rows, 0)
        write_json(path, {"format": 1, "sums": {**known, reader: [*told, this]}})


def _listed(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
