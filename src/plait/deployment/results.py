"""What the coordinator keeps of a finished run, what it tells the parties, and what it measures for its own report."""

import math
from dataclasses import dataclass
from typing import Any

from plait._types import Array
from plait.deployment.job_file import Job
from plait.deployment.local_data import Labels
from plait.deployment.registry import loss_name
from plait.deployment.report.evidence import TOGETHER, Evidence
from plait.deployment.run_folder import RunFolder, plain_rounds
from plait.problem.metrics import metrics
from plait.training.private_pass import Conducted

_MOST_ROUNDS_TOLD = 2000  # rounds of the history that parties are sent: more points than a picture is wide

_MOST_MEASURED = 1 << 19  # rows: more give the same three digits, and measuring sorts them in memory


@dataclass(frozen=True)
class Results:
    """A finished run at the coordinator."""

    job: Job
    labels: Labels
    conducted: Conducted

    @property
    def sentence(self) -> str:
        """How the run ended, for people."""
        outcome = self.conducted.outcome
        objective = outcome.history.last.objective
        found = f", objective {objective:.6g}" if math.isfinite(objective) else ""
        return f"{outcome.reason.text} after {len(outcome.history)} rounds{found}"

    @property
    def told(self) -> dict[str, Any]:
        """What every party is told."""
        rounds = list(self.conducted.outcome.history)
        return {**self._summary, "rounds": plain_rounds(rounds[:: math.ceil(len(rounds) / _MOST_ROUNDS_TOLD) or 1])}

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """What the coordinator's report draws its pictures from."""
        if (measured := self._measured) is None:
            return ()
        scores, labels = measured
        where = "training rows" if self._every == 1 else f"every {self._every}th of the training rows"
        return (Evidence(where, False, self.job.loss, {TOGETHER: scores}, labels),)

    def write(self, folder: RunFolder) -> None:
        """Write model.json and history.json."""
        result = {**self._summary, "metrics": self._metrics}
        folder.write_model(self.conducted.intercept, loss_name(self.job.loss), self.job.parties, result)
        folder.write_history(plain_rounds(list(self.conducted.outcome.history)))

    @property
    def _summary(self) -> dict[str, Any]:
        outcome = self.conducted.outcome
        objective = outcome.history.last.objective
        return {
            "rows": len(self.labels.ids),
            "rounds_taken": len(outcome.history),
            "objective": objective if math.isfinite(objective) else None,
            "converged": outcome.reason.converged,
            "reason": outcome.reason.text,
        }

    @property
    def _metrics(self) -> dict[str, float]:
        """How good the model is on the training rows; the other parties are not told, for it is about the labels."""
        return {} if (measured := self._measured) is None else metrics(self.job.loss, *measured)

    @property
    def _every(self) -> int:
        """One in how many training rows is measured."""
        return -(-len(self.labels.ids) // _MOST_MEASURED)

    @property
    def _measured(self) -> tuple[Array, Array] | None:
        """Scores and labels of training rows, where they may be measured, and there is something to measure."""
        scores, labels = self.conducted.scores, self.labels.values
        if scores is None or self.job.policy.private or labels.min() == labels.max():
            return None
        return scores[:: self._every], labels[:: self._every]
