"""`method="auto"`: which method fits the loss and the penalties, and why."""

from collections.abc import Mapping
from dataclasses import dataclass

from plait.errors import SettingError
from plait.methods.admm.proximal import Proximal
from plait.methods.base import Method
from plait.methods.subspace.augmented import Augmented
from plait.methods.subspace.method import Subspace
from plait.problem.losses import Loss
from plait.problem.penalties import Penalty


@dataclass(frozen=True)
class Choice:
    """A method and the reason for it, in words."""

    method: Method
    reason: str


def choose_method(loss: Loss, penalties: Mapping[str, Penalty]) -> Choice:
    """Subspace for smooth losses and Augmented for those with kinks, as they need the fewest rounds; else Proximal."""
    method, why = (Subspace(), "smooth") if loss.smooth else (Augmented(), "one with kinks")
    try:
        method.check(loss, penalties)
    except SettingError as error:
        reason = str(error).removesuffix(method.remedy).strip()
        return Choice(Proximal(), f"Proximal, because {reason[0].lower()}{reason[1:]}")
    kinks = [name for name, penalty in penalties.items() if not penalty.smooth]
    steps = f", with proximal Newton steps at {', '.join(kinks)}" if kinks else ""
    return Choice(method, f"{type(method).__name__}, because the loss is {why}{steps}")
