"""The warning of a run that ended too early; loaded only where it is needed, as scikit-learn takes its time."""

import sklearn.exceptions


class ConvergenceWarning(sklearn.exceptions.ConvergenceWarning):  # type: ignore[misc]
    """A run ended by its limit on rounds or time, before its tolerance was reached.

    It is one of scikit-learn's `ConvergenceWarning` too, so that one filter catches both.
    """
