"""The scikit-learn facade: estimators whose columns belong to several parties.

    minimise   sum_i w_i loss(z_i; y_i) / sum_i w_i + sum_m penalty_m(x_m),     z = X w + b

alpha = 1 / (C N) gives the model of scikit-learn's LogisticRegression(C).  On the squared hinge it gives that of
LinearSVC(C), up to LinearSVC's penalty on the intercept.

Public: plait.VerticalLogisticRegression, plait.VerticalRegression, plait.VerticalSVC.
"""

from plait.estimators.logistic import VerticalLogisticRegression
from plait.estimators.regression import VerticalRegression
from plait.estimators.svc import VerticalSVC

__all__ = ["VerticalLogisticRegression", "VerticalRegression", "VerticalSVC"]
