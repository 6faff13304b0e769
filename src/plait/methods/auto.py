"""`method="auto"`: which method fits the loss and the penalties, and why."""

from collections.abc import Mapping
from dataclasses import dataclass

from plait.errors import SettingError
from plait.losses import Loss
from plait.methods.admm import Proximal
from plait.methods.base import Method
from plait.methods.subspace import Subspace
from plait.penalties import Penalty


@dataclass(frozen=True)
class Choice:
    """A method and the reason for it, in words."""

    method: Method
    reason: str


def choose_method(loss: Loss, penalties: Mapping[str, Penalty]) -> Choice:
    """Subspace wherever it applies, since it needs the fewest rounds; else Proximal, which always applies."""
    subspace = Subspace()
    try:
        subspace.check(loss, penalties)
    except SettingError as error:
        why = str(error).removesuffix(subspace.remedy).strip()
        return Choice(Proximal(), f"Proximal, because {why[0].lower()}{why[1:]}")
    kinks = [name for name, penalty in penalties.items() if not penalty.smooth]
    if kinks:
        return Choice(subspace, f"Subspace with proximal Newton steps at {', '.join(kinks)}: the loss is smooth")
    return Choice(subspace, "Subspace: the loss and all penalties are smooth")
