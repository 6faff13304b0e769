"""Every honest run passes the door: each message of a whole run is framed, read by the law, and checked by the method.

What a law refuses in an honest run it refuses in the middle of somebody's training.  The runs end at their tolerance,
because the end of a run has messages of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

import plait
from plait.data.parts import equal_weights
from plait.messages import Broadcast, Form, Share
from plait.methods.base import Method
from plait.privacy.policy import Policy
from plait.problem.features import Features
from plait.problem.losses import Loss
from plait.problem.penalties import Penalty
from plait.training.assembly import RunSpec, assemble_coordinator, assemble_party
from plait.training.party import Party
from plait.training.run import conduct
from plait.transports.frames import frames
from plait.transports.law import Agreement, AnswerLaw, PartyLaw, Request
from plait.transports.mailbox import Ask

ROWS, WIDTHS, ROUNDS = 300, (6, 5, 7), 400


@dataclass
class Lawful:
    """A transport on which both sides read bytes, each through its own law."""

    parties: Mapping[str, Party]
    method: Method
    precision: str
    seq: int = 0
    last: dict[str, int] = field(default_factory=dict)
    answered: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lengths = self.method.lengths(ROWS)
        agreed = Agreement("fit", Form(lengths), self.precision, ROUNDS)
        self.asked = {name: PartyLaw(agreed) for name in self.parties}
        self.heard = {name: AnswerLaw(name, Form(lengths | {ROWS}), self.precision) for name in self.parties}

    def exchange(self, requests: Mapping[str, Broadcast]) -> dict[str, Share]:
        self.seq += 1
        return {name: self._answer(name, broadcast) for name, broadcast in requests.items()}

    def _answer(self, name: str, broadcast: Broadcast) -> Share:
        before, self.last[name] = self.last.get(name, 0), self.seq
        *_, request = [self.asked[name].read(data) for data in frames(broadcast, self.seq, before)]
        assert isinstance(request, Request)
        assert isinstance(request.item, Broadcast)
        self.parties[name].check(request.item)
        share = self.parties[name].handle(request.item)
        self.answered[name] = self.answered.get(name, 0) + 1
        assert self.answered[name] <= self.method.exchanges(ROUNDS, ROWS)
        self.heard[name].expect(Ask(self.seq, broadcast, before))
        *_, answer = [self.heard[name].read(data) for data in frames(share, self.seq)]
        assert isinstance(answer, Share)
        return answer


def train(
    loss: Loss, penalties: list[Penalty], method: Method, precision: str = "float64", repeated: bool = False
) -> bool:
    """Whether a run converges; `repeated` gives two parties the same column."""
    rng = np.random.default_rng(5)
    tables = [rng.normal(size=(ROWS, width)) for width in WIDTHS]
    tables[1][:, 0] = tables[0][:, 0] + 0.1 * rng.normal(size=ROWS) * (not repeated)
    scores = sum(x @ rng.normal(size=x.shape[1]) for x in tables) / 4
    y = loss.labels(np.where(scores + rng.logistic(size=ROWS) > 0, 1.0, 0.0))
    names = [f"p{i}" for i in range(len(tables))]
    policy = Policy.of(None)
    spec = RunSpec(
        dict(zip(names, penalties, strict=True)),
        method,
        plait.Stopping(tol=1e-5, max_rounds=ROUNDS),
        True,
        policy.protections(names, loss),
        policy,
        precision,
    )
    equal = equal_weights(ROWS)
    parties = {n: assemble_party(spec, n, Features(x), equal) for n, x in zip(names, tables, strict=True)}
    transport = Lawful(parties, method, precision)
    return conduct(spec, assemble_coordinator(spec, y, None), transport).outcome.reason.converged


@pytest.mark.parametrize("precision", ["float64", "float32", "int16"])
@pytest.mark.parametrize("alpha", [1e-4, 3e-3, 3e-2])
def test_l1_runs_that_end_in_the_middle_of_a_round(alpha: float, precision: str) -> None:
    assert train(plait.Logistic(), [plait.L1(alpha)] * 3, plait.Subspace(), precision)


@pytest.mark.parametrize("penalty", [plait.L2(1e-3), plait.L1(1e-2)], ids=str)
def test_runs_in_int16_that_go_on_in_float32(penalty: Penalty) -> None:
    assert train(plait.Hinge(), [penalty] * 3, plait.Augmented(), "int16")


@pytest.mark.parametrize(
    "penalties",
    [
        [plait.L2(1e-3)] * 3,
        [plait.L1(1e-3), plait.L2(1e-3), plait.NonNegative()],
        [plait.ElasticNet(1e-3, 0.5), plait.Box(-0.2, 0.2), plait.Ball(0.5)],
    ],
    ids=["L2", "L1, L2 and positive", "elastic net, box and ball"],
)
@pytest.mark.parametrize(
    "method", [plait.Subspace(), plait.Subspace(sums_only=True), plait.Subspace(memory=2)], ids=str
)
@pytest.mark.parametrize("loss", [plait.Logistic(), plait.Squared()], ids=str)
def test_runs_of_the_subspace_method(loss: Loss, method: Method, penalties: list[Penalty]) -> None:
    train(loss, penalties, method)


@pytest.mark.parametrize("method", [plait.Subspace(), plait.Subspace(sums_only=True)], ids=str)
@pytest.mark.parametrize("penalties", [[plait.NoPenalty()] * 3, [plait.NoPenalty()] * 2 + [plait.L2(0.1)]], ids=str)
def test_runs_that_look_for_the_least_weights(penalties: list[Penalty], method: Method) -> None:
    assert train(plait.Squared(), penalties, method, repeated=True)


@pytest.mark.parametrize("penalty", [plait.L2(1e-2), plait.L1(1e-2)], ids=str)
@pytest.mark.parametrize("method", [plait.Augmented(), plait.Proximal(), plait.GaussSeidel()], ids=str)
def test_runs_of_other_methods_on_a_loss_with_a_kink(method: Method, penalty: Penalty) -> None:
    train(plait.Hinge(), [penalty] * 3, method)
