"""What a party answers between two gradients."""

import numpy as np
import pytest

import plait
from plait.data.parts import equal_weights
from plait.errors import ProtocolError
from plait.messages import Broadcast
from plait.methods.base import Block
from plait.methods.subspace.messages import StepProposal
from plait.methods.subspace.party import SubspaceParty
from plait.methods.subspace.party_state import SubspacePartyState
from plait.methods.subspace.questions import QUESTIONS
from plait.problem.features import Features

ROWS = 60


def begun() -> tuple[SubspaceParty, SubspacePartyState]:
    """A party with an L1 penalty after the first gradient."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(ROWS, 5))
    party = SubspaceParty(Block(Features(x), plait.L1(1e-3), plait.Logistic(), equal_weights(ROWS)))
    gradient = Broadcast(1, np.where(x[:, 0] > 0, -0.5, 0.5) / ROWS, orders())
    party.check(party.start(), gradient)
    return party, party.respond(party.start(), gradient)[0]


def orders(*coefficients: float) -> np.ndarray:
    asks, none = float(bool(coefficients)), np.empty(0)
    return StepProposal(asks, 5, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, np.array(coefficients), none).pack()


@pytest.mark.threat("coordinator", "questions without end about one step", "as many as an honest round asks")
def test_more_questions_than_an_honest_round_asks_are_not_answered() -> None:
    party, state = begun()
    for number in range(QUESTIONS):
        question = Broadcast(1, None, orders(1.0 + number / 100))
        party.check(state, question)
        state, share = party.respond(state, question)
        assert share.vector is None
    with pytest.raises(ProtocolError, match=f"at most {QUESTIONS} questions"):
        party.check(state, Broadcast(1, None, orders(0.5)))


def test_a_question_belongs_to_the_round_of_the_last_gradient() -> None:
    party, state = begun()
    with pytest.raises(ProtocolError, match="Found one of round 2"):
        party.check(state, Broadcast(2, None, orders(0.5)))
