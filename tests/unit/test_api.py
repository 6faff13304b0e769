"""The public names: none may vanish unnoticed."""

import plait

PROMISED = {
    *("fit", "Fit", "History", "Round", "Stopping", "ConvergenceWarning"),
    *("Jacobi", "Proximal", "GaussSeidel", "Method"),
    *("Loss", "Logistic", "Squared", "SquaredHinge", "Hinge", "Huber", "Poisson", "Pinball", "Cauchy"),
    *("Penalty", "NoPenalty", "L2", "L1", "ElasticNet", "GroupLasso", "LogPenalty", "Box", "NonNegative", "Ball"),
    *("PlaitError", "InputError", "SettingError", "DivergedError", "ProtocolError"),
}


def test_every_promised_name_is_public() -> None:
    assert set(plait.__all__) >= PROMISED


def test_every_public_name_exists() -> None:
    assert all(hasattr(plait, name) for name in plait.__all__)


def test_every_error_has_one_root() -> None:
    errors = [getattr(plait, name) for name in plait.__all__ if name.endswith("Error")]
    assert all(issubclass(error, plait.PlaitError) for error in errors)
