"""The coordinator's runs of one job: that of all parties, then the label party with each partner, for its report."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plait.alignment.proposal import Consent, agree
from plait.deployment.coordinator_program import coordinate
from plait.deployment.endpoints import Listen
from plait.deployment.job_file import Job, PartyFile
from plait.deployment.pairs import keep_pair, pair_job, pair_runs, partners
from plait.deployment.progress import COMPARING, PHASE, Look, Progress, Silent
from plait.deployment.run_folder import COORDINATOR, RESUMABLE, RunFolder, find_run
from plait.errors import PlaitError, TransportError


class _OfAPair(Silent):
    """Tells what is said in the run of a pair, and who comes and goes; pages and trackers show the run of all."""

    def __init__(self, progress: Progress, pair: str) -> None:
        self._progress = progress
        self._pair = pair

    def say(self, text: str) -> None:
        self._progress.say(f"{self._pair}: {text}")

    def event(self, what: str, facts: dict[str, Any]) -> None:
        if what in ("joined", "left", "refused"):
            self._progress.event(what, facts)

    def peers(self, look: Look) -> None:
        self._progress.peers(look)


def coordinate_all(
    job: Job,
    file: PartyFile,
    local: Sequence[PartyFile],
    listen: Listen,
    progress: Progress,
    fresh: bool = False,
    consent: Consent = agree,
) -> Path:
    """Run the job, and the pairs that its report asks for; returns the coordinator's folder of the run of all.

    Where a finished run lacks some of its pairs, these are trained, and nothing else.  A pair that fails does not keep
    the others from training.
    """
    folder = None if fresh else _lacks_pairs(job, file)
    if folder is None:
        folder = RunFolder(coordinate(job, file, local, listen, progress, fresh, consent))
    else:
        progress.say(f"run {folder.status.run} is finished, but for its pairs. --fresh would train all anew.")
    failed: list[PlaitError] = []
    for partner in _lacking(job, folder):
        name = f"{file.name} with {partner}"
        progress.event(PHASE, {"phase": COMPARING})
        progress.say(f"{name}: a run for the report, over the columns of these two only")
        try:
            run = coordinate(pair_job(job, partner), file, local, listen, _OfAPair(progress, name), fresh, consent)
            keep_pair(folder, partner, run.parent.name)
        except PlaitError as error:
            progress.say(f"{name}: not trained. {error}")
            failed.append(error)
    if failed:
        progress.event(PHASE, {"phase": "done"})
        raise TransportError(
            f"every pair of the report must be trained. Found {len(failed)} that were not, as said above. The model of "
            "all parties is finished. Start all programs again: the missing pairs are trained then."
        )
    if partners(job):
        progress.event(PHASE, {"phase": "done"})
    return folder.path


def _lacks_pairs(job: Job, file: PartyFile) -> RunFolder | None:
    """The newest run of the job, where it is finished and lacks pairs."""
    runs = file.path(file.runs)
    newest = find_run(runs, COORDINATOR, job.model_digest, (*RESUMABLE, "finished"))
    finished = newest is not None and newest.status.status == "finished"
    return newest if newest is not None and finished and _lacking(job, newest) else None


def _lacking(job: Job, folder: RunFolder) -> list[str]:
    trained = pair_runs(folder)
    return [partner for partner in partners(job) if partner not in trained]
