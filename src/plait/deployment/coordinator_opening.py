"""The folder of the coordinator's run: a new one, or that of a run that was interrupted and goes on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from plait.deployment.align_party import PartyAlignment
from plait.deployment.alignment_folder import choose_alignment
from plait.deployment.job_file import Job, PartyFile
from plait.deployment.run_folder import COORDINATOR, RESUMABLE, RunFolder, Status, find_run, new_run


@dataclass(frozen=True)
class OpenedRun:
    """A run's folder, its name and its key.

    resumed     whether it goes on where it stopped
    alignment   the alignment that it uses, or makes; empty where the files hold the same rows
    """

    folder: RunFolder
    name: str
    key: str
    resumed: bool
    alignment: str


def open_run(
    job: Job,
    file: PartyFile,
    alignments: Sequence[PartyAlignment],
    fresh: bool,
    lasting: bool,
    say: Callable[[str], None],
) -> OpenedRun:
    """The newest run of this job that can be resumed, or a new one; a simulation (not `lasting`) is always new."""
    runs = file.path(file.runs)
    anew = fresh or not lasting
    folder = None if anew else find_run(runs, COORDINATOR, job.model_digest, RESUMABLE)
    resumed = folder is not None and folder.checkpoint.exists()
    if folder is None:
        last = None if anew else find_run(runs, COORDINATOR, job.model_digest, ("finished",))
        if last is not None:
            say(f"run {last.status.run} of this job has finished; a new one begins")
        name, key = new_run(runs)
        folder = RunFolder(runs / name / COORDINATOR)
    else:
        name, key = folder.status.run, folder.status.key
        say(f"resuming run {name}")
    alignment = choose_alignment(alignments, resume=lasting)[0] if alignments else ""
    status = Status(name, job.model_digest, COORDINATOR, key, settings=dict(job.settings), alignment=alignment)
    found = folder.begin(status)
    alignment = found.alignment if resumed else alignment
    if found.alignment != alignment:  # aligned anew before its first round
        folder.write(replace(folder.status, alignment=alignment))
    return OpenedRun(folder, name, key, resumed, alignment)
