"""The recommended private mode on arrays: one pass, with differential privacy for every helper's records.

    1. The label holder fits its own features, and sends every helper the targets and an offset: the score of
       a model that did not see the record (or no offset, where its own features are to be protected).
    2. Each helper draws a noisy Gram matrix and a few noisy gradients and takes its weights from those alone:
       see `newton`. Its weights are private; so is all that is computed from them and from public values.
    3. With several helpers, each sends a noisy sketch of its score, and the label holder chooses the shares.

The score of a record is own(record) + sum_k share_k (row_k . weights_k).
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import expit

from plait.errors import InputError
from plait.privacy.accounting import Cost
from plait.privacy.combine import CLIP, Layout, Sketch, bucket_count, shares
from plait.privacy.newton import NoisyNewton
from plait.privacy.noise import Keystream, Noise, Release
from plait.privacy.recommended import Plan, Recommended
from plait.privacy.releases import NoisyRelease
from plait.privacy.rows import ClippedRows

Floats = NDArray[np.float64]

FOLDS = 5
LEAST_CURVATURE = 0.02


@dataclass(frozen=True)
class SoftLogistic:
    """log(1 + e^z) - t z for targets t that may lie outside [0, 1]: |l'| <= max(t, 1 - t), l'' <= 1/4."""

    gradient_bound: float = 1.0
    curvature_bound: float = 0.25

    @classmethod
    def of(cls, targets: Floats) -> "SoftLogistic":
        return cls(gradient_bound=float(max(np.max(targets), np.max(1 - targets))))

    def value(self, z: Floats, t: Floats) -> Floats:
        return np.logaddexp(0.0, z) - t * z

    def gradient(self, z: Floats, t: Floats) -> Floats:
        slope: Floats = expit(z) - t
        return slope

    def curvature(self, z: Floats) -> Floats:
        p = expit(z)
        return np.maximum(p * (1 - p), LEAST_CURVATURE)


@dataclass(frozen=True, eq=False)
class OwnModel:
    """The label holder's own linear model with an unpenalised intercept."""

    weights: Floats
    intercept: float

    def score(self, rows: Floats) -> Floats:
        result: Floats = rows @ self.weights + self.intercept
        return result


@dataclass(frozen=True, eq=False)
class HelperFit:
    """A helper's private weights and what they cost; `energy` and `curvature` are private as well."""

    weights: Floats
    energy: float
    plan: Plan

    @property
    def cost(self) -> Cost:
        return self.plan.cost


@dataclass(frozen=True, eq=False)
class OnePass:
    """The fitted model: own part, each helper's fit, and each helper's share."""

    own: OwnModel
    helpers: tuple[HelperFit, ...]
    shares: Floats
    radii: tuple[float, ...]

    def score(self, own: ArrayLike, helpers: Sequence[ArrayLike]) -> Floats:
        """Scores of new records. The rows scored here are not protected by the training guarantee."""
        total = self.own.score(ClippedRows.of(own, self.radii[0]).matrix)
        for share, fit, rows, radius in zip(self.shares, self.helpers, helpers, self.radii[1:], strict=True):
            total = total + share * (ClippedRows.of(rows, radius).matrix @ fit.weights)
        return total


def fit_own(rows: Floats, targets: Floats, loss: SoftLogistic, penalty: float) -> OwnModel:
    """Minimise sum_i loss(z_i, t_i) + penalty |x|^2 / 2 over the label holder's own features."""
    n, d = rows.shape

    def objective(x: Floats) -> tuple[float, Floats]:
        z = rows @ x[:d] + x[d]
        q = loss.gradient(z, targets)
        value = float(loss.value(z, targets).sum() + penalty * (x[:d] @ x[:d]) / 2)
        return value / n, np.append(rows.T @ q + penalty * x[:d], q.sum()) / n

    found = minimize(objective, np.zeros(d + 1), jac=True, method="L-BFGS-B", options={"maxiter": 1000})
    return OwnModel(np.asarray(found.x[:d]), float(found.x[d]))


def out_of_fold_scores(rows: Floats, targets: Floats, loss: SoftLogistic, penalty: float) -> Floats:
    """Each record's score by a model that did not see it: an own model that overfits leaves no residual."""
    n = rows.shape[0]
    fold = np.random.default_rng(n).permutation(n) % FOLDS
    scores = np.zeros(n)
    for k in range(FOLDS):
        rest, held = fold != k, fold == k
        scores[held] = fit_own(rows[rest], targets[rest], loss, penalty).score(rows[held])
    return scores


def fit_helper(
    rows: ClippedRows,
    targets: Floats,
    offset: Floats,
    loss: SoftLogistic,
    plan: Plan,
    noise: Noise,
    release: Release,
    penalty: float,
) -> HelperFit:
    """A helper's weights from noisy releases of its rows; it may know the targets and the offset."""
    inputs = digest(rows.matrix, targets, offset)

    def stream(query: NoisyRelease, round_: int, weights: bytes = b"") -> Keystream:
        # The noise scale is an input as well: one keystream at two scales would reveal the value.
        tag = hashlib.sha256(inputs + repr((query, loss)).encode() + weights).hexdigest()
        return noise.stream(Release(release.run, release.party, round_, type(query).__name__, tag))

    hessian = plan.gram.release(rows, loss.curvature(offset), stream(plan.gram, 0))
    newton = NoisyNewton.of(hessian, plan.gram.sigma)
    state = newton.start()
    for k in range(plan.gradients):
        residuals = loss.gradient(offset + rows.matrix @ state.weights, targets)
        drawn = stream(plan.gradient, k + 1, state.weights.tobytes())
        gradient = plan.gradient.release(rows, residuals, drawn)
        state = newton.step(state, gradient, plan.gradient.sigma, penalty)
    return HelperFit(state.weights, newton.energy(state.weights), plan)


def sketch_helper(
    rows: ClippedRows, fit: HelperFit, curvature: Floats, layout: Layout, noise: Noise, release: Release
) -> Sketch:
    """A noisy sketch of sqrt(curvature) * score: all that a helper tells about its score."""
    n = rows.shape[0]
    bound = max(CLIP * float(np.sqrt(fit.energy / n)), 1e-6)
    query = fit.plan.sketch(layout.buckets, bound)
    scores = np.sqrt(curvature) * (rows.matrix @ fit.weights)
    inputs = digest(rows.matrix, curvature, fit.weights, layout.sign, layout.bucket.astype(float))
    tag = hashlib.sha256(inputs + repr(query).encode()).hexdigest()
    stream = noise.stream(Release(release.run, release.party, fit.plan.gradients + 1, "NoisySketch", tag))
    released = query.release(scores, layout.bucket, layout.sign, rows.bits, stream)
    # The energy is a sum of squares in units of B, the sums are in units of B: bring both to squares.
    return Sketch(released[:-1], float(released[-1]) * bound, query.sigma)


def fit_one_pass(
    own: ArrayLike,
    helpers: Sequence[ArrayLike],
    targets: ArrayLike,
    mechanism: Recommended | Sequence[Recommended],
    noise: Noise,
    *,
    run: str = "run",
    penalty: float = 1.0,
    send_offset: bool = True,
    disjoint: bool = False,
    radii: Sequence[float] | None = None,
) -> OnePass:
    """Fit own features in the clear and every helper's under its mechanism, in one pass.

    `targets` are 0/1 labels, or soft targets of randomised response. `disjoint` says that no two helpers
    hold the same signal, which saves the sketch. Without `send_offset` the helpers learn nothing about the
    own features.
    """
    t = np.asarray(targets, dtype=np.float64)
    radii = tuple(radii) if radii is not None else (1.0,) * (len(helpers) + 1)
    mechanisms = [mechanism] * len(helpers) if isinstance(mechanism, Recommended) else list(mechanism)
    mine = ClippedRows.of(own, radii[0]).matrix
    theirs = [ClippedRows.of(rows, radius) for rows, radius in zip(helpers, radii[1:], strict=True)]
    if any(rows.shape[0] != t.size for rows in theirs) or mine.shape[0] != t.size:
        raise InputError("Every party must hold the same records in the same order. Found different numbers.")
    loss = SoftLogistic.of(t)
    penalty = penalty * label_noise_factor(t)
    own_model = fit_own(mine, t, loss, penalty)
    offset = out_of_fold_scores(mine, t, loss, penalty) if send_offset else _prior(t)
    curvature = loss.curvature(offset)
    sketch = len(theirs) > 1 and not disjoint
    fits, names = [], [Release(run, f"helper {k}", 0, "", "") for k in range(len(theirs))]
    for rows, chosen, name in zip(theirs, mechanisms, names, strict=True):
        plan = chosen.plan(*rows.shape, loss.curvature_bound, loss.gradient_bound, sketch=sketch)
        fits.append(fit_helper(rows, t, offset, loss, plan, noise, name, penalty))
    alpha = np.ones(len(theirs))
    if sketch:
        layout = _layout(run, t.size, fits)
        sketches = [
            sketch_helper(rows, fit, curvature, layout, noise, name)
            for rows, fit, name in zip(theirs, fits, names, strict=True)
        ]
        alpha = shares([fit.energy for fit in fits], sketches)
    return OnePass(own_model, tuple(fits), alpha, radii)


def label_noise_factor(targets: Floats) -> float:
    """How much noisier soft targets make a fit than 0/1 labels, and so how much more penalty it needs.

    A label has variance rate (1 - rate); an unbiased soft target t adds mean(t^2 - t), which is 0 for labels.
    """
    rate = float(np.clip(targets.mean(), 0.05, 0.95))
    excess = max(0.0, float(np.mean(targets * (targets - 1))))
    return 1 + excess / (rate * (1 - rate))


def digest(*arrays: Floats) -> bytes:
    """SHA-256 of arrays with their shapes."""
    state = hashlib.sha256()
    for array in arrays:
        state.update(repr((array.shape, array.dtype.str)).encode())
        state.update(np.ascontiguousarray(array).tobytes())
    return state.digest()


def _layout(run: str, records: int, fits: Sequence[HelperFit]) -> Layout:
    count = min(bucket_count(records, f.plan.sketch_mu, f.plan.sketch(1, 1.0).sensitivity) for f in fits)
    return Layout.of(run, records, count)


def _prior(targets: Floats) -> Floats:
    rate = float(np.clip(targets.mean(), 1e-3, 1 - 1e-3))
    return np.full(targets.size, np.log(rate / (1 - rate)))
