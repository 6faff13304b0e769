"""The label party with one partner, as a job of its own: what a report needs to say what each partner brings.

The coordinator trains such pairs after the run of all parties, one after the other.  They use the rows of that run.
pairs.json in the coordinator's folder of that run names their runs.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

from plait._files import read_json, write_json
from plait.deployment.job_file import Job, job_of
from plait.deployment.run_folder import RunFolder
from plait.transports.handshake import Finished

PAIR = "pair"
"""The phase in which pairs train."""
A_DAY = 86_400.0  # seconds that a party waits for its turn: the pairs before its own train meanwhile
_MORE = "more"


def partners(job: Job) -> tuple[str, ...]:
    """The parties whose pairs are trained for the report; none where there is one partner, which is the whole job."""
    others = tuple(name for name in job.parties if name != job.label_party)
    return others if job.report.partners and len(others) > 1 and not job.pair_of else ()


def pair_job(job: Job, partner: str) -> Job:
    """The job of the label party, if it has columns, and one partner; parties know it by the digest of the whole."""
    names = [name for name in job.parties if name in (job.label_party, partner)]
    table = _only({**job.settings, "name": job.name, "parties": names}, "fingerprints", {*names, job.coordinator.name})
    for section, key in (("model", "penalties"), ("privacy", "parties")):
        if section in table:
            table[section] = _only(table[section], key, names)
    made = job_of(table, f"{job.name}, {job.label_party} with {partner}")
    return replace(made, digest=job.digest, model_digest=pair_digest(job, partner), pair_of=job.parties)


def pair_digest(job: Job, partner: str) -> str:
    """By what the runs of a pair are known: the model of the whole job, and the partner."""
    return sha256(f"{job.model_digest} {partner}".encode()).hexdigest()


def _only(table: Mapping[str, Any], key: str, names: Collection[str]) -> dict[str, Any]:
    """The table, with what it says under `key` of these names only."""
    if key not in table:
        return dict(table)
    return {**table, key: {name: value for name, value in table[key].items() if name in names}}


def with_more(details: Mapping[str, Any]) -> dict[str, Any]:
    """Details of an end after which a party calls again, because it will be asked for something else."""
    return {**details, _MORE: True}


def more_follows(finished: Finished) -> bool:
    """Whether a party calls again after this end."""
    return finished.ok and finished.details.get(_MORE) is True


def pair_runs(folder: RunFolder) -> dict[str, str]:
    """The run of each pair that was trained for a run, by the partner's name; `folder` is the coordinator's."""
    path = folder.path / "pairs.json"
    return dict(read_json(path, "the runs of pairs", {"runs": {...: str}})["runs"]) if path.exists() else {}


def keep_pair(folder: RunFolder, partner: str, run: str) -> None:
    """Note the finished run of a pair."""
    write_json(folder.path / "pairs.json", {"format": 1, "runs": {**pair_runs(folder), partner: run}})
