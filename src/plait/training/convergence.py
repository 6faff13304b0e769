"""The warning of a run that ended too early."""

import sys
from functools import cache


class ConvergenceWarning(UserWarning):
    """A run ended by its limit on rounds or time, before its tolerance was reached.

    Where scikit-learn is loaded, plait warns with one that is scikit-learn's `ConvergenceWarning` too: one filter
    catches both.
    """


def convergence_warning() -> type[ConvergenceWarning]:
    """The class to warn with.  It does not load scikit-learn, which takes half a second: then no filter names it."""
    return _of_both() if "sklearn.exceptions" in sys.modules else ConvergenceWarning


@cache
def _of_both() -> type[ConvergenceWarning]:
    from sklearn.exceptions import ConvergenceWarning as Theirs

    name, bases = ConvergenceWarning.__name__, (ConvergenceWarning, Theirs)
    return type(name, bases, {"__doc__": ConvergenceWarning.__doc__, "__module__": __name__})
