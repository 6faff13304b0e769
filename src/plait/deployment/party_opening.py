"""A party's side of one run, put together from its files."""

from plait._names import check_run
from plait.data import transformers
from plait.data.parts import equal_weights
from plait.data.texts import keyed_digest
from plait.deployment.earlier_rows import note_rows
from plait.deployment.earlier_sums import join_sum
from plait.deployment.job_file import Job, PartyFile
from plait.deployment.law import Tally
from plait.deployment.local_data import Rows, load_labels, room_of
from plait.deployment.party_privacy import admit, check_preparation, mechanism_of, spec_at
from plait.deployment.run_folder import RunFolder, Status
from plait.deployment.run_keys import party_keys
from plait.deployment.stored_party import StoredParty
from plait.deployment.trained_rows import note_people
from plait.errors import InputError
from plait.problem.features import Features
from plait.training.assembly import assemble_party
from plait.transports.tls import Security


def need_preparable(job: Job, file: PartyFile) -> None:
    """Raise for a way to prepare columns that cannot work, before rows are read and anybody is asked to align."""
    if file.name in job.parties and mechanism_of(job, file.name).guaranteed:
        check_preparation(file.name, file.prepare)
    if file.prepare.transformer:
        transformers.make(file.prepare.transformer, file.prepare.options)


def open_party(
    job: Job,
    file: PartyFile,
    rows: Rows,
    run: str,
    key: str,
    lasting: bool = True,
    security: Security | None = None,
) -> StoredParty:
    """The party's side of one run, new or resumed; see `StoredParty` for one that is not `lasting`."""
    spec = spec_at(job, file)  # what a party refuses, it refuses before a folder is made
    admit(job, file, spec.policy)
    note_people(job, file, spec.policy, rows)
    folder = RunFolder(file.path(file.runs) / check_run(run) / file.name)
    # A party in the coordinator's process is asked everything again after a restart, and has no file of its own.
    masks = file.path("counts") / f"{file.name}-{run}-masks" if lasting else folder.checkpoint / "masks"
    equal, ids = equal_weights(len(rows.ids)), keyed_digest(rows.ids, bytes.fromhex(key))
    if job.blind is not None and len(rows.ids) != job.blind.rows:
        raise InputError(
            f"the job says blind.rows = {job.blind.rows}. Found {len(rows.ids)} rows. Correct one of them."
        )
    labels = load_labels(job, file).values if job.blind is not None and file.name == job.label_party else None
    if lasting and labels is not None:
        note_rows(job, file, rows.ids, labels, None)
    party = assemble_party(
        spec,
        file.name,
        Features(rows.matrix),
        equal,
        keys=lambda: party_keys(folder, job, security, masks, "" if job.blind is None else ids),
        labels=labels,
        workspace=room_of(job, file).workspace(len(rows.ids)),
    )
    tally = Tally(file) if lasting else None
    if tally is not None:
        join_sum(job, file, rows.ids)
    settings = dict(job.settings)
    folder.begin(Status(run, job.model_digest, file.name, key="", checksum=rows.checksum, settings=settings))
    return StoredParty(job, party, folder, rows, ids, tally, file.trust)
