"""The private pass at the coordinator: unprotected parties train, then every helper learns once.

The parties' sides are in `plait.methods.private.pass_parties`, the messages in `plait.methods.private.pass_messages`.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from plait._types import Array
from plait.messages import Broadcast, Share, Transport
from plait.methods.base import Method, Task, vector_of
from plait.methods.private.pass_messages import FOLDS, Step, Tagged, held_out, kept_weights, say
from plait.privacy.mechanisms.helper_fit import best_constant
from plait.privacy.mechanisms.helper_mixing import Sketch, bucket_count, mixing_factors
from plait.training.coordinator import Coordinator
from plait.training.history import History, Round
from plait.training.loop import Observer, Outcome, run
from plait.training.stopping import Reason, Stopping


@dataclass(frozen=True)
class Conducted:
    """How a run went; each party has its own weights."""

    intercept: float
    outcome: Outcome
    released: Mapping[str, Array] = field(default_factory=dict)
    """Noisy scores that helpers released, where they were asked to."""
    scores: Array | None = None
    """The scores (N,) of the training rows, where the coordinator knows them."""
    receipts: Mapping[str, int] = field(default_factory=dict)
    """What each helper's ledger gave for its label party to keep; 0 where there is none."""


@dataclass(frozen=True)
class PrivatePass:
    """One pass over a task.

    helpers    the parties that protect their features
    method     how the other parties train
    stopping   when each of their trainings ends
    offset     whether helpers get the other parties' score of each row
    receipts   the last receipt that each helper's ledger gave this label party
    """

    task: Task
    helpers: tuple[str, ...]
    method: Method
    stopping: Stopping
    offset: bool = True
    receipts: Mapping[str, int] = field(default_factory=dict)

    def run(self, transport: Transport, observers: Sequence[Observer] = ()) -> Conducted:
        """Train the unprotected parties, then let every helper learn, then weigh the helpers against each other."""
        talk = _Talk(transport, observers)
        task = self.task
        constant = best_constant(task.loss, task.labels, task.weights) if task.fit_intercept else 0.0
        intercept, reason = constant, Reason("one private pass of the protected parties", converged=True)
        if self._open:
            coordinator, own = self._train(talk, 0)
            intercept = coordinator.intercept
            before = f"one private pass of the protected parties, after the others by themselves ({own.reason.text})"
            reason = Reason(before, own.reason.converged)
        offset = self._out_of_fold(talk) if self._open and self.offset else None
        receipts = {name: float(self.receipts.get(name, 0)) for name in self.helpers}
        talk.exchange({name: say(Step.LABELS, r, vector=task.labels) for name, r in receipts.items()})
        fits = talk.tell(self.helpers, say(Step.FIT, constant, float(task.fit_intercept), vector=offset))
        released = {name: fit.vector for name, fit in fits.items() if fit.vector is not None}
        factors = self._weigh(talk, {name: fit.scalars[:3] for name, fit in fits.items()})
        intercept += sum(factors[name] * float(fit.scalars[3]) for name, fit in fits.items())
        new = {name: int(fit.scalars[4]) for name, fit in fits.items()}
        return Conducted(intercept, Outcome(History(Round(0), talk.rounds), reason), released, receipts=new)

    @property
    def _open(self) -> tuple[str, ...]:
        return tuple(name for name in self.task.parties if name not in self.helpers)

    def _train(self, talk: "_Talk", step: int) -> tuple[Coordinator, Outcome]:
        """The unprotected parties' training of this step."""
        weights = kept_weights(self.task.weights, held_out(self.task.rows, step))
        coordinator = Coordinator(replace(self.task, weights=weights, parties=self._open), self.method)
        return coordinator, run(coordinator, Tagged(talk, step), self.stopping)

    def _out_of_fold(self, talk: "_Talk") -> Array:
        """Each row's score by a model that did not see it: a model that overfits leaves no residual."""
        scores = np.zeros(self.task.rows)
        for step in range(1, FOLDS + 1):
            coordinator, _ = self._train(talk, step)
            parts = talk.tell(self._open, say(Step.SCORES))
            held = held_out(self.task.rows, step)
            total = coordinator.intercept + np.sum([vector_of(share) for share in parts.values()], axis=0)
            scores[held] = total[held]
        return scores

    def _weigh(self, talk: "_Talk", terms: Mapping[str, Array]) -> dict[str, float]:
        """How much of each helper's score is used; where every helper pays for a sketch, each is told."""
        if len(terms) < 2 or not all(mu for _, mu, _ in terms.values()):
            return dict.fromkeys(terms, 1.0)
        buckets = min(bucket_count(self.task.rows, mu, sensitivity) for _, mu, sensitivity in terms.values())
        found = talk.tell(self.helpers, say(Step.SKETCH, buckets))
        sketches = [Sketch(s[:-2], float(s[-2]), float(s[-1])) for s in (f.scalars for f in found.values())]
        alpha = mixing_factors([float(energy) for energy, _, _ in terms.values()], sketches)
        factors = dict(zip(found, alpha.tolist(), strict=True))
        talk.exchange({name: say(Step.FACTOR, a) for name, a in factors.items()})
        return factors


@dataclass
class _Talk:
    """A transport that numbers the exchanges and records what crossed: a round each, with no objective."""

    transport: Transport
    observers: Sequence[Observer]
    rounds: list[Round] = field(default_factory=list)
    began: float = field(default_factory=time.perf_counter)

    def tell(self, names: Sequence[str], broadcast: Broadcast) -> dict[str, Share]:
        return self.exchange(dict.fromkeys(names, broadcast))

    def exchange(self, requests: Mapping[str, Broadcast]) -> dict[str, Share]:
        number = len(self.rounds) + 1
        answers = self.transport.exchange({name: replace(b, round=number) for name, b in requests.items()})
        down, up = (sum(m.numbers for m in group.values()) for group in (requests, answers))
        seconds = time.perf_counter() - self.began
        self.rounds.append(
            Round(number, seconds=seconds, numbers_down=down, numbers_up=up, bytes_down=8 * down, bytes_up=8 * up)
        )
        for observe in self.observers:
            observe(self.rounds[-1])
        return answers
