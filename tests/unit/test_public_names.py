"""The public names are a promise: adding one is a decision, losing one breaks somebody."""

import plait

PROMISED = """
    L1 L2 Augmented Ball Box Cauchy ConvergenceWarning DivergedError ElasticNet Fit
    GaussSeidel GroupLasso Hinge History Huber
    InputError Jacobi LogPenalty Logistic Loss Method NoPenalty NonNegative Penalty Pinball PlaitError Poisson
    ProtocolError Proximal Round SettingError Sgd Squared SquaredHinge Stopping Subspace VerticalLogisticRegression
    VerticalRegression VerticalSVC __version__ datasets fit
"""


def test_public_names_are_these() -> None:
    assert set(plait.__all__) == set(PROMISED.split())
    assert all(hasattr(plait, name) for name in plait.__all__)


def test_data_sets_are_one_import_away() -> None:
    assert plait.datasets.names() == ["a9a", "gisette", "credit"]
