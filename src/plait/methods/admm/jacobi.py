"""The paper's Algorithm 1."""

from dataclasses import dataclass

from plait.methods.admm.sharing import Sharing


@dataclass(frozen=True)
class Jacobi(Sharing):
    """All parties at once, no proximal term.  It may diverge; `Proximal` does not.

    Parameters
    ----------
    rho : float, default=None
        The penalty parameter of ADMM; None takes the loss's own stiffness.
    adaptive : bool, default=False
        Whether rho follows the residuals.
    """

    adaptive: bool = False

    @property
    def adapts(self) -> bool:
        return self.adaptive
