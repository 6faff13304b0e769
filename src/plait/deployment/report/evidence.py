"""What a report shows of a model's quality: its scores and labels of some rows, beside models of fewer parties."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from plait._types import Array
from plait.alignment.order import Order
from plait.data import preparation
from plait.deployment.job_file import Job, PartyFile
from plait.deployment.joint_scores import JointScores
from plait.deployment.local_data import (
    Labels,
    load_ids,
    load_labels,
    load_rows,
    prepare_rows,
    read_new_rows,
    read_training_rows,
)
from plait.deployment.run_folder import RunFolder
from plait.problem.losses import Loss
from plait.training.convergence import ConvergenceWarning
from plait.training.fit import fit
from plait.training.fit_result import Fit

TOGETHER = "all together"


@dataclass(frozen=True)
class Evidence:
    """Scores (N,) of one or several models on the same rows, and their labels (N,) in the loss's own form.

    where     in words, which rows these are
    held      whether these rows were held out of training
    scores    by model; the last one is the model of the run, and the first is what it is compared with
    trained   by model: how many rows it was trained on, where that is known
    note      a sentence about the models with one partner, or why there are none
    gaps      a sentence about rows that some party lacks
    """

    where: str
    held: bool
    loss: Loss
    scores: Mapping[str, Array]
    labels: Array
    trained: Mapping[str, int] = field(default_factory=dict)
    note: str = ""
    gaps: str = ""


class _Model(NamedTuple):
    """Scores (K,) of the new rows by a model, and how many rows it was trained on."""

    scores: Array
    rows: int


def evidence_on_new_rows(
    job: Job, file: PartyFile, local: Sequence[PartyFile], rows_file: str, scores: JointScores
) -> Evidence:
    """Scores by the run's model, by the label party alone, and with each partner where that was trained.

    Only rows with a score count.  The model of the label party alone is trained here, on all rows that it has, with the
    job's loss and its penalty; nobody else is asked.  Pairs come from runs of their own ([report] in the job), or are
    trained here where this program has all files and nothing is private: in a private job it would be one more release.
    """
    labels, known = load_labels(job, file, rows_file).values, scores.complete
    rows = int(RunFolder(scores.folder).model().get("rows", 0))
    models = {TOGETHER: _Model(scores.values[known], rows)}
    pairs = {name: z[known] for name, z in scores.by_pair.items() if np.isfinite(z[known]).all()}
    paired = {f"{file.name} with {name}": _Model(z, rows) for name, z in pairs.items()}
    own = RunFolder(scores.folder.parent / file.name)
    if file.name in job.parties and (own.path / "preparation.json").exists():
        prepared = preparation.load(own.path)
        here = prepare_rows(file, read_training_rows(file), prepared).matrix
        there = prepare_rows(file, read_new_rows(job, file, rows_file).table, prepared)
        ids = [there.ids[int(i)] for i in np.flatnonzero(known)]
        base = _Base(job, file, here, there.matrix[known], ids, load_labels(job, file))
        trains = not paired and len(job.parties) > 2 and not job.policy.private
        others = [p for p in local if p.name != file.name and trains]
        paired |= {f"{file.name} with {p.name}": m for p in others if (m := base.with_partner(p)) is not None}
        models = {f"{file.name} alone": base.alone(), **paired, **models}
    else:
        models = {**paired, **models}
    return Evidence(
        "new rows",
        True,
        job.loss,
        {name: model.scores for name, model in models.items()},
        labels[known],
        {name: model.rows for name, model in models.items()},
        _about_partners(job, file.name, tuple(paired)),
        scores.gaps,
    )


def _about_partners(job: Job, name: str, paired: tuple[str, ...]) -> str:
    """What the models with one partner are, or why there are none."""
    others = [party for party in job.parties if party != name]
    if len(others) < 2:
        return f"There is one partner, {others[0]}: all together is {name} with {others[0]}." if others else ""
    if paired:
        return "Each model with one partner was trained over the columns of these two only."
    if job.policy.private or (job.protection is not None and job.protection.mode != "labels"):
        return "What each partner brings by itself was not measured: it would show scores that this run hides."
    return (
        "What each partner brings by itself was not measured. With partners = true in the section [report] of the job "
        "file, the next start of all programs trains these models, and plait evaluate measures them."
    )


@dataclass(frozen=True)
class _Base:
    """The label party's own columns: of the training rows (N, d) and of the new rows (K, d) with their ids."""

    job: Job
    file: PartyFile
    here: Any
    new: Any
    ids: Sequence[str]
    labels: Labels

    def alone(self) -> _Model:
        """A model of its own columns."""
        name = self.file.name
        model = _trained(self.job, {name: self.here}, self.labels)
        return _Model(np.asarray(model.scores({name: self.new})), len(self.labels.values))

    def with_partner(self, partner: PartyFile) -> _Model | None:
        """A model with one partner, whose rows are found by their ids; None where it lacks some of the new ones."""
        job, mine, labels = self.job, self.here, self.labels
        new = read_new_rows(job, partner, partner.data.score).table
        place = {name: i for i, name in enumerate(new.ids)}
        if not place.keys() >= set(self.ids):
            return None
        order = None
        if job.alignment is not None:
            own, theirs = load_ids(job, self.file), load_ids(job, partner)
            _, here, there = np.intersect1d(list(own.texts), list(theirs.texts), return_indices=True)
            order, at = Order(theirs.rows[there], theirs.texts.take(there), {}), own.rows[here]
            mine = mine[at]
            labels = Labels((), labels.values[at], None if labels.weights is None else labels.weights[at])
        rows = load_rows(job, partner, order)
        matrix = prepare_rows(partner, new, rows.prepared).matrix[[place[name] for name in self.ids]]
        model = _trained(job, {self.file.name: mine, partner.name: rows.matrix}, labels)
        scores = np.asarray(model.scores({self.file.name: self.new, partner.name: matrix}))
        return _Model(scores, len(labels.values))


def _trained(job: Job, parts: Mapping[str, Any], labels: Labels) -> Fit:
    penalties = {name: job.penalties[name] for name in parts}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a baseline that is nearly trained will do
        return fit(
            parts,
            labels.values,
            loss=job.loss,
            penalty=penalties,
            fit_intercept=job.intercept,
            sample_weight=labels.weights,
        )
