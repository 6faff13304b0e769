"""Faults put into the shipped code, one at a time: each must make a probe fail, or the audit is blind to it."""

import importlib
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from plait.errors import PlaitError
from plait.methods.private.pass_messages import Step
from plait.privacy.accounting import Cost
from plait.privacy.ledger.known_tables import LABEL_HOLDER
from plait.privacy.mechanisms.permanent import RecordStream
from plait.privacy.noise import Keystream
from plait.studies import privacy_noise_probes as noise_probes
from plait.studies import privacy_probes as probes
from plait.studies import privacy_row_probes as row_probes

Probe = Callable[[], bool]

PROBES: tuple[tuple[str, Probe], ...] = (
    ("the whole private pass: noise against independent sensitivities", noise_probes.one_pass),
    ("rows that count less: slopes within their bound", noise_probes.weighted_rows),
    ("rows centred by released values: norms within 1", noise_probes.framed_rows),
    ("noisy shares", noise_probes.noisy_shares),
    ("one account for the same people", probes.one_account),
    ("fits that are announced and covered", probes.announced_fits),
    ("one unit for every price", probes.one_unit),
    ("the newest ledger, with its key", probes.newest_ledger),
    ("the people of an account", probes.people),
    ("permanent labels", probes.permanent_labels),
    ("a helper's steps, each once", probes.helper_order),
    ("digests of everything", probes.digests),
    ("scores that are covered", probes.covered_scores),
    ("limits of scores", probes.score_limits),
    ("rows that stop nothing, errors that say nothing", probes.quiet),
    ("rows that are read each on its own", row_probes.rows_apart),
)


@dataclass(frozen=True)
class Mutation:
    """A fault: `make` gets what stands at `where` ("module:name" or "module:Class.name") and returns the faulty one."""

    name: str
    where: str
    make: Callable[[Any], Any]
    probe: Probe

    def caught(self) -> bool:
        """Whether the probe fails, or plait refuses, with the fault in place; other errors are the fault's own."""
        with self.applied():
            try:
                return not self.probe()
            except (PlaitError, ArithmeticError, AssertionError):
                return True

    @contextmanager
    def applied(self) -> Iterator[None]:
        module, _, path = self.where.partition(":")
        owner: Any = importlib.import_module(f"plait.{module}")
        *parents, last = path.split(".")
        for name in parents:
            owner = getattr(owner, name)
        original = owner.__dict__[last]
        setattr(owner, last, self.make(original))
        try:
            yield
        finally:
            setattr(owner, last, original)


def _constant(value: Any) -> Callable[[Any], Any]:
    """A method that does nothing but return this."""
    return lambda original: lambda *args, **kwargs: value


def _property(value: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda original: property(lambda self: value(self))


def _scaled(factor: float) -> Callable[[Any], Any]:
    """A property that gives this many times the true value."""
    return lambda original: property(lambda self: factor * original.fget(self))


def _clean(original: Any) -> Any:
    """A release without its noise."""
    return lambda self, *args: self.value(*args[:-1]) * self.unit


def _halved_beside(original: Any) -> Any:
    """A Gram matrix with half of its noise beside the diagonal."""

    def noisy(self: Any, normalised: Any, stream: Keystream) -> Any:
        found = original(self, normalised, stream)
        row, column = np.triu_indices(self.width)
        return np.where(row == column, found, (found + normalised * self.unit) / 2)

    return noisy


def _unclipped(original: Any) -> Any:
    return classmethod(lambda cls, matrix, radius=1.0: cls(np.asarray(matrix, dtype=float) / radius, 20))


def _unclipped_frame(original: Any) -> Any:
    def framed(cls: Any, rows: Any, centre: Any, radius: float) -> Any:
        moved = np.column_stack([(rows.matrix - centre) / radius, np.full(rows.shape[0], 0.3)])
        return cls(type(rows)(moved, rows.bits), centre, radius, True)

    return classmethod(framed)


def _without(position: int) -> Callable[[Any], Any]:
    """A digest that leaves out one of its values."""
    return lambda original: lambda *values: original(*values[:position], *values[position + 1 :])


def _fresh_secret(original: Any) -> Any:
    def made(self: RecordStream, key: bytes, records: Any) -> None:
        original(self, secrets.token_bytes(32), records)

    return made


def _uncharged_second(original: Any) -> Any:
    def reserve(self: Any, release: Any, cost: Cost, mechanism: str, noise: Any) -> Any:
        known = [c for c in self.charges() if c.release.name == release.name and c.release.round == release.round]
        return known[0] if known else original(self, release, cost, mechanism, noise)

    return reserve


def _as_labels(original: Any) -> Any:
    def admit(self: Any, table: str, parties: Any) -> None:
        if parties == [LABEL_HOLDER]:
            self.admit_labels(table)
        else:
            original(self, table, parties)

    return admit


def _clean_cache(original: Any) -> Any:
    def respond(self: Any, state: Any, broadcast: Any) -> Any:
        after, share = original(self, state, broadcast)
        return type(after)(self.rows.forward(after.x), after.x, after.plan, after.round), share

    return respond


_PRIVACY = "privacy.mechanisms"
MUTATIONS: tuple[Mutation, ...] = (
    Mutation("half the noise", "privacy.noise:discrete_gaussian", lambda f: lambda *a: f(*a) // 2,
             noise_probes.one_pass),
    Mutation("no clip of rows", "privacy.clipping:ClippedRows.of", _unclipped, noise_probes.one_pass),
    Mutation("no clip of slopes", f"{_PRIVACY}.releases:NoisyGradient.value",
             lambda f: lambda self, rows, q: rows.adjoint(q / self.bound), noise_probes.one_pass),
    Mutation("the adjacency factor forgotten", "privacy.clipping:Adjacency.factor", _property(lambda s: 1.0),
             noise_probes.one_pass),
    Mutation("an un-noised Gram matrix", f"{_PRIVACY}.releases:NoisyGram.release", _clean, noise_probes.one_pass),
    Mutation("half the noise beside the diagonal", f"{_PRIVACY}.releases:NoisyGram._noisy", _halved_beside,
             noise_probes.one_pass),
    Mutation("rows that count more than their bound allows", f"{_PRIVACY}.helper_fit:Lesson.gradient_bound",
             lambda f: lambda self, clip: 0.5 * f(self, clip), noise_probes.weighted_rows),
    Mutation("slopes beyond the bound of rows that count less", f"{_PRIVACY}.releases:NoisyGradient.value",
             lambda f: lambda self, rows, q: 2 * f(self, rows, q), noise_probes.weighted_rows),
    Mutation("un-noised gradients", f"{_PRIVACY}.releases:NoisyGradient.release", _clean, noise_probes.one_pass),
    Mutation("un-noised scores", f"{_PRIVACY}.releases:NoisyScores.release", _clean, noise_probes.one_pass),
    Mutation("an un-noised sketch", f"{_PRIVACY}.releases:NoisySketch.release", _clean, noise_probes.one_pass),
    Mutation("an un-noised sum of rows", f"{_PRIVACY}.row_frame:NoisyMean.release", _clean, noise_probes.one_pass),
    Mutation("a sum of rows for half its sensitivity", f"{_PRIVACY}.row_frame:NoisyMean.release",
             lambda f: lambda self, rows, s: (f(self, rows, s) + self.value(rows)) / 2, noise_probes.one_pass),
    Mutation("an un-noised spread of rows", f"{_PRIVACY}.row_frame:NoisySpread.release", _clean,
             noise_probes.one_pass),
    Mutation("a spread that far rows dominate", f"{_PRIVACY}.row_frame:NoisySpread.value",
             lambda f: lambda self, apart, bits: np.array([apart.sum(), apart @ apart]), noise_probes.one_pass),
    Mutation("centred rows that are not clipped", f"{_PRIVACY}.row_frame:FramedRows.of", _unclipped_frame,
             noise_probes.framed_rows),
    Mutation("rows centred for nothing", f"{_PRIVACY}.row_frame:FramePlan.cost", _property(lambda s: Cost()),
             noise_probes.one_pass),
    Mutation("scores that are not clipped", f"{_PRIVACY}.releases:NoisyScores.value",
             lambda f: lambda self, rows, x: rows.forward(x / self.bound), noise_probes.one_pass),
    Mutation("noise for a smaller unit", f"{_PRIVACY}.releases:NoisyRelease._noisy",
             lambda f: lambda self, v, s: (v + 0.5 * (self.grid.noisy(v, s) - v)) * self.unit, noise_probes.one_pass),
    Mutation("one noise for all releases", "privacy.noise:KeyedNoise.stream",
             lambda f: lambda self, release: Keystream(self.secret), noise_probes.one_pass),
    Mutation("gradients charged as if rows were blanked", f"{_PRIVACY}.joint_sensitivity:Joint._shift_square",
             lambda f: lambda self, k: sum(g.precision for g in self.gradients[:k]) + self.gram.precision,
             noise_probes.one_pass),
    Mutation("a sketch for half its sensitivity", f"{_PRIVACY}.releases:_sketch_sensitivity", _constant(0.5),
             noise_probes.one_pass),
    Mutation("a plan for twice the epsilon", f"{_PRIVACY}.recommended:_largest",
             lambda f: lambda build, e, d: f(build, 2 * e, d), noise_probes.one_pass),
    Mutation("MechanismA: half the sensitivity", f"{_PRIVACY}.noisy_admm:MechanismA.sensitivity", _scaled(0.5),
             noise_probes.noisy_shares),
    Mutation("MechanismA: a round asked for twice", "methods.private.noisy_shares:AdmmSide._target",
             lambda f: lambda self, state, b: state.released - b.vector, noise_probes.noisy_shares),
    Mutation("MechanismA: goes on from the clean share", "methods.private.noisy_shares:AdmmSide.respond", _clean_cache,
             noise_probes.noisy_shares),
    Mutation("a budget that covers everything", "privacy.ledger.budget:Budget.covers", _constant(True),
             probes.one_account),
    Mutation("an uncharged second release", "privacy.ledger.ledger:Ledger.reserve", _uncharged_second,
             probes.one_account),
    Mutation("a plan that is not checked as a whole", "privacy.ledger.ledger:Ledger.check",
             lambda f: lambda self, cost, run, plan="": None, probes.one_account),
    Mutation("a new account for any new name", "privacy.ledger.known_tables:Tables.admit", _constant(None),
             probes.one_account),
    Mutation("a party under the name of the labels", "privacy.ledger.known_tables:Tables.admit", _as_labels,
             probes.one_account),
    Mutation("a party with a budget in a run without noise", "privacy.ledger.release_gate:LedgerFolder.need_no_account",
             _constant(None), probes.one_account),
    Mutation("a new account for any version of the data", "privacy.ledger.ledger:Ledger.folder",
             lambda f: staticmethod(lambda root, party, table: root / secrets.token_hex(12)), probes.one_account),
    Mutation("a search that is not asked how many fits it makes", "estimators.base:Vertical.__sklearn_clone__",
             lambda f: lambda self: type(self)(**self.get_params(deep=False)), probes.announced_fits),
    Mutation("fits that the budget does not cover", "privacy.ledger.ledger:Ledger.need_room", _constant(None),
             probes.announced_fits),
    Mutation("more fits than announced", "privacy.ledger.ledger:need_announced", _constant(None),
             probes.announced_fits),
    Mutation("a witness that is not asked", "privacy.ledger.witness:Witness.check", _constant(None),
             probes.newest_ledger),
    Mutation("a witness that may be gone", "privacy.ledger.witness:Witness._need_new", _constant(None),
             probes.newest_ledger),
    Mutation("prices in a smaller unit", "privacy.ledger.budget:Budget.need_adjacency", _constant(None),
             probes.one_unit),
    Mutation("people that are forgotten", "privacy.ledger.noted_file:NotedFile.write", _constant(None),
             probes.people),
    Mutation("a list of people that may be lost", "privacy.ledger.noted_file:NotedFile._notes", _constant([]),
             probes.people),
    Mutation("a chain without its key", "privacy.ledger.keys:chain_key", _constant(b"no such key" * 3),
             probes.newest_ledger),
    Mutation("labels drawn anew", f"{_PRIVACY}.permanent:RecordStream.__init__", _fresh_secret,
             probes.permanent_labels),
    Mutation("label noise that does not know epsilon", f"{_PRIVACY}.permanent:canonical_digest", _without(2),
             probes.permanent_labels),
    Mutation("changed labels reported for nothing", f"{_PRIVACY}.permanent:PermanentLabels._charge", _constant(None),
             probes.permanent_labels),
    Mutation("labels reported for nothing under other ids", f"{_PRIVACY}.permanent:_names", _constant(1),
             probes.permanent_labels),
    Mutation("labels that lie half as often", f"{_PRIVACY}.labels:RandomisedResponse.lie", _scaled(0.5),
             probes.permanent_labels),
    Mutation("half the noise on numeric labels", f"{_PRIVACY}.labels:NoisyLabel._scale",
             lambda f: property(lambda self: f.fget(self) // 2), probes.permanent_labels),
    Mutation("a helper that answers in any order", "methods.private.pass_parties:HelperSide._next",
             lambda f: lambda self, state, b: Step(int(b.scalars[0])), probes.helper_order),
    Mutation("a ledger that repeats a release of a plan", "privacy.ledger.ledger:_need_once", _constant(None),
             probes.helper_order),
    Mutation("a digest without arrays", "privacy.ledger.canonical:_feed_array", _constant(None), probes.digests),
    Mutation("a digest without the mechanism", f"{_PRIVACY}.helper_fit:canonical_digest", _without(4), probes.digests),
    Mutation("a digest without the penalty", f"{_PRIVACY}.helper_fit:canonical_digest", _without(3), probes.digests),
    Mutation("uncovered weights scored with", f"{_PRIVACY}.noisy_admm:MechanismA.covers_weights",
             lambda value: True, probes.covered_scores),
    Mutation("class weights from true labels", "estimators.classifiers:_check_class_weight", _constant(None),
             probes.covered_scores),
    Mutation("sample weights from true labels", "privacy.policy:Policy.check_weights", _constant(None),
             probes.covered_scores),
    Mutation("a start at a model of true labels", "training.fit:_need_no_start", _constant(None),
             probes.covered_scores),
    Mutation("no limit per minute", "deployment.score_limits:ScoreLimits._minute", _constant(True),
             probes.score_limits),
    Mutation("no limit per id", "deployment.score_limits:ScoreLimits._count",
             lambda f: lambda self, store, run, ids: np.ones(len(ids), dtype=np.bool_), probes.score_limits),
    Mutation("values that stop the clip", "privacy.clipping:_finite", lambda f: lambda rows: rows, probes.quiet),
    Mutation("slopes that stop a release", f"{_PRIVACY}.releases:_bounded",
             lambda f: lambda values: np.clip(values, -1.0, 1.0), probes.quiet),
    Mutation("lessons that no noise is made for", f"{_PRIVACY}.helper_fit:_need_moderate", _constant(None),
             probes.quiet),
    Mutation("a text that renames the values of all rows", "data.tables:_gathered",
             lambda f: lambda *a, by_row=False: f(*a), row_probes.rows_apart),
    Mutation("an infinite number that stops a run", "deployment.local_data:without_infinity",
             lambda f: lambda matrix: matrix, row_probes.rows_apart),
    Mutation("values that are no number where all are", "data.one_hot:_as_number", lambda f: str,
             row_probes.rows_apart),
    Mutation("errors that say what was found", "errors:unspecific", lambda f: str, probes.quiet),
)  # fmt: skip
