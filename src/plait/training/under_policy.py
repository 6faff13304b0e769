"""What a policy means for a run: which method, which side each party plays, and when to stop."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from plait.methods.admm.jacobi import Jacobi
from plait.methods.admm.proximal import Proximal
from plait.methods.auto import Choice, choose_method
from plait.methods.base import Block, Method
from plait.methods.private.noisy_shares import guard
from plait.methods.private.pass_parties import Protected, Unprotected
from plait.privacy.ledger.release_gate import Book
from plait.privacy.mechanisms.noisy_admm import MechanismA
from plait.privacy.mechanisms.paper import NoPrivacy, PaperMechanism, PaperNoise
from plait.privacy.mechanisms.recommended import Recommended
from plait.privacy.policy import Policy
from plait.problem.losses import Loss
from plait.problem.penalties import Penalty
from plait.training.stopping import Stopping


def helpers(policy: Policy, names: Sequence[str]) -> tuple[str, ...]:
    """The parties that learn in a private pass."""
    return tuple(name for name, m in policy.mechanisms(names).items() if isinstance(m, Recommended))


def choose(policy: Policy, names: Sequence[str], loss: Loss, penalties: Mapping[str, Penalty]) -> Choice:
    """`method="auto"` under a policy."""
    mechanisms = policy.mechanisms(names).values()
    if any(isinstance(m, MechanismA) for m in mechanisms):
        return Choice(Proximal(adaptive=False, acceleration=0), "Proximal, rho fixed: MechanismA needs it")
    if any(isinstance(m, PaperMechanism | PaperNoise) for m in mechanisms):
        return Choice(Jacobi(), "Jacobi: the paper's algorithm, for the paper's noise")
    if not helpers(policy, names):
        return choose_method(loss, penalties)
    unprotected = {name: penalty for name, penalty in penalties.items() if name not in helpers(policy, names)}
    inner = choose_method(loss, unprotected).method
    return Choice(inner, "Recommended: unprotected parties first, then one private pass")


def party_method(method: Method, policy: Policy, names: Sequence[str], book: Book, block: Block) -> Method:
    """The method as the party of this book plays it."""
    mechanism = policy.mechanisms(names)[book.party]
    if isinstance(mechanism, Recommended):
        sketch = len(helpers(policy, names)) > 1 and not policy.disjoint
        return Protected(method, mechanism, book, sketch)
    if not isinstance(mechanism, NoPrivacy):
        return guard(method, mechanism, book, len(names), block)
    return Unprotected(method) if helpers(policy, names) else method


def limits(policy: Policy, names: Sequence[str], stopping: Stopping) -> Stopping:
    """Noise in the loop never settles, and a private round is paid for: nobody asks for more of them."""
    noisy = [m for m in policy.mechanisms(names).values() if not isinstance(m, NoPrivacy | Recommended)]
    paid = [m.rounds for m in noisy if isinstance(m, MechanismA)]
    limited = replace(stopping, max_rounds=min([stopping.max_rounds, *paid]))
    return replace(limited, guarded=stopping.guarded and not noisy)
