"""A coordinator that chooses its broadcasts instead of training, and what a party's rules leave of that attack.

With an L1 penalty a column moves only where |D_j^T g| is above the penalty.  So the attacker sends a gradient smaller
and smaller, by bisection, until one column is left that moves: the share is then that column, times a number.  What it
has read it takes out of its next gradient.  A penalty without kinks shows mixtures of all columns, so there it sends
what it likes and learns their space.  It attacks the party's own side of the method, the one that is deployed.  Where
labels are protected the party receives D^T v of the chosen vector v, and answers in the same way.
"""

from dataclasses import dataclass

import numpy as np

from plait._types import Array
from plait.data.parts import equal_weights
from plait.errors import ProtocolError
from plait.messages import Broadcast
from plait.methods.base import Block, Method
from plait.methods.protected.method import ProtectedSubspace
from plait.methods.protected.outlook import MOVES, Outlook
from plait.methods.subspace.messages import StepProposal
from plait.methods.subspace.method import Subspace
from plait.privacy.audit.attacks import column_space_revealed
from plait.problem.features import Features
from plait.problem.losses import Logistic
from plait.problem.penalties import L1, L2, Penalty

ALPHA = 1e-3  # strength of the penalty, per row: a usual value for standardised columns
MANY, FEW = 1000, 20  # broadcasts: the default of trust.max_rounds, and the rounds of a usual job
SEEDS = 5  # attacks of which the median is shown
MOST_ROWS, MOST_COLUMNS = 400, 15  # of the table that is attacked: as many as the smallest sample has
_CLOSE = 0.02  # relative width at which a bisection ends: columns pull with forces that differ by more, mostly
_READ = 1 - 1e-9  # correlation of a share and a column from which on the column counts as read
_NOTHING = 1e-12  # largest entry of a share that no column moves in


@dataclass(frozen=True)
class PartyRules:
    """What a party insists on: gradients that the loss can have, so many answers, shares of so many columns."""

    name: str
    penalty: Penalty
    checked: bool
    rounds: int
    least: int
    hidden: bool = False
    """Whether labels are protected: the party opens D^T v, and never sees v."""


@dataclass(frozen=True)
class ColumnsRead:
    """What one attack read: columns up to sign and scale, the share of their space, in so many answers."""

    columns: int
    space: float
    answers: int
    ended: bool
    """Whether the party ended the conversation by itself."""


def rules() -> tuple[PartyRules, ...]:
    """The lines of the table, each a rule more than the one before, and a penalty without kinks."""
    return (
        PartyRules("L1, no rules", L1(ALPHA), False, MANY, 0),
        PartyRules("L1, gradients that the loss can have", L1(ALPHA), True, MANY, 0),
        PartyRules(f"L1, and {FEW} rounds", L1(ALPHA), True, FEW, 0),
        PartyRules("L1, and no share of a single column", L1(ALPHA), True, MANY, 2),
        PartyRules("L2, no rules", L2(ALPHA), False, MANY, 0),
        PartyRules("L2, all rules", L2(ALPHA), True, FEW, 2),
        PartyRules("L1, labels protected, all rules", L1(ALPHA), True, FEW, 2, hidden=True),
        PartyRules("L2, labels protected, all rules", L2(ALPHA), True, FEW, 2, hidden=True),
    )


class _Refused(Exception):
    """The party has ended the conversation."""


class _Victim:
    """The party's side of the method, under its rules."""

    def __init__(self, columns: Array, under: PartyRules) -> None:
        rows = columns.shape[0]
        block = Block(Features(columns), under.penalty, Logistic(), equal_weights(rows))
        method: Method = ProtectedSubspace(Subspace()) if under.hidden else Subspace()
        self._side = method.party_side(block)
        self._columns = columns
        self._state = self._side.start()
        self._rules = under
        self._width = 2 * columns.shape[1]
        self.shares: list[Array] = []

    def answer(self, gradient: Array) -> Array:
        """The share (N,) that answers a gradient (N,); the attacker never lets the party take a step."""
        if len(self.shares) >= self._rules.rounds:
            raise _Refused
        none = np.empty(0)
        told = Outlook(0.0, 0.0, 1.0, 0.25, 1.0, np.zeros(MOVES)).pack() if self._rules.hidden else none
        orders = StepProposal(0.0, 3, 0.0, 0.0, 1.0, self._width, 0.0, 1.0, none, none, told)
        vector = self._columns.T @ gradient if self._rules.hidden else gradient
        broadcast = Broadcast(len(self.shares) + 1, vector, orders.pack())
        if self._rules.checked:
            try:
                self._side.check(self._state, broadcast)
            except ProtocolError:
                raise _Refused from None
        self._state, share = self._side.respond(self._state, broadcast)
        if 0 < self._side.shown(self._state) < self._rules.least or share.vector is None:
            raise _Refused
        self.shares.append(share.vector)
        return share.vector


def attack(columns: Array, under: PartyRules, seed: int) -> ColumnsRead:
    """Read as many columns (N, d) as the party's rules let through."""
    rng, victim = np.random.default_rng(seed), _Victim(columns, under)
    read: list[Array] = []
    signs = rng.choice([-1.0, 1.0], columns.shape[0])
    try:
        while len(read) < columns.shape[1]:
            gradient = _gradient(rng, signs, read, under.checked)
            found = victim.answer(gradient) if under.penalty.smooth else _bisected(victim, gradient)
            if found is not None:
                read.append(found / np.linalg.norm(found))
    except _Refused:
        pass
    moved = np.array([share for share in victim.shares if np.abs(share).max() > _NOTHING])
    ended = len(victim.shares) < under.rounds and len(read) < columns.shape[1]
    if not len(moved):
        return ColumnsRead(0, 0.0, len(victim.shares), ended)
    alike = np.abs(np.corrcoef(moved, columns.T)[: len(moved), len(moved) :])
    space = column_space_revealed(moved.T, columns)
    return ColumnsRead(int((alike > _READ).any(axis=0).sum()), space, len(victim.shares), ended)


def _gradient(rng: np.random.Generator, signs: Array, read: list[Array], checked: bool) -> Array:
    """One that pulls at no column that was read; with the signs of fixed labels and of possible size where checked."""
    rows = len(signs)
    known = np.array(read).reshape(-1, rows)
    if not checked:
        g = rng.standard_normal(rows)
        return np.asarray(g - known.T @ np.linalg.lstsq(known.T, g, rcond=None)[0]) / rows
    size = rng.uniform(0.0, 1.0, rows)
    pulls = known * signs
    for _ in range(20):  # between the two demands in turn: both hold nearly at the end
        size = np.clip(size - pulls.T @ np.linalg.lstsq(pulls.T, size, rcond=None)[0], 0.0, 1.0)
    return signs * size / rows


def _bisected(victim: _Victim, gradient: Array) -> Array | None:
    """The share at the smallest size of the gradient at which any column moves; None where none does."""
    low, high, last = 0.0, 1.0, None
    scale = high
    while high - low > _CLOSE * high:
        share = victim.answer(scale * gradient)
        if np.abs(share).max() > _NOTHING:
            high, last = scale, share
        else:
            low = scale
        if last is None and low >= 1.0:
            return None
        scale = (low + high) / 2
    return last


def median_of(columns: Array, under: PartyRules) -> ColumnsRead:
    """The attack with the median number of columns read, over SEEDS random ones, on a part of the table (N, d)."""
    part = columns[:MOST_ROWS, :MOST_COLUMNS]
    found = sorted((attack(part, under, seed) for seed in range(SEEDS)), key=lambda r: (r.columns, r.answers))
    return found[len(found) // 2]
