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

from plait.errors import InputError
from plait.privacy.accounting import Cost
from plait.privacy.combine import CLIP, Layout, Sketch, bucket_count, shares
from plait.privacy.ledger import Ledger
from plait.privacy.newton import NoisyNewton
from plait.privacy.noise import Keystream, Noise, Release
from plait.privacy.own import (
    OwnModel,
    SoftLogistic,
    fit_own,
    label_noise_factor,
    out_of_fold_scores,
    prior_scores,
)
from plait.privacy.recommended import Plan, Recommended
from plait.privacy.releases import NoisyRelease
from plait.privacy.rows import ClippedRows

Floats = NDArray[np.float64]


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
        tag = _tag(inputs, query, loss, weights)
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
    tag = _tag(inputs, query)
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
    ledgers: Sequence[Ledger] | None = None,
) -> OnePass:
    """Fit own features in the clear and every helper's under its mechanism, in one pass.

    `targets` are 0/1 labels, or soft targets of randomised response. `disjoint` says that no two helpers
    hold the same signal, which saves the sketch. Without `send_offset` the helpers learn nothing about the
    own features. Each of the `ledgers` is charged for its helper's whole plan before anything is computed.
    """
    t = np.asarray(targets, dtype=np.float64)
    radii = tuple(radii) if radii is not None else (1.0,) * (len(helpers) + 1)
    mine = ClippedRows.of(own, radii[0]).matrix
    theirs = [ClippedRows.of(rows, radius) for rows, radius in zip(helpers, radii[1:], strict=True)]
    _check_records(t, mine, theirs)
    loss, penalty = SoftLogistic.of(t), penalty * label_noise_factor(t)
    offset = out_of_fold_scores(mine, t, loss, penalty) if send_offset else prior_scores(t)
    sketch = len(theirs) > 1 and not disjoint
    mechanisms = [mechanism] * len(theirs) if isinstance(mechanism, Recommended) else list(mechanism)
    plans = [
        chosen.plan(*rows.shape, loss.curvature_bound, loss.gradient_bound, sketch=sketch)
        for chosen, rows in zip(mechanisms, theirs, strict=True)
    ]
    parties = [ledger.party for ledger in ledgers] if ledgers else [f"helper {k}" for k in range(len(theirs))]
    # Whatever steers a later release belongs to the charge: another penalty makes other gradients.
    names = [
        Release(run, party, 0, "plan", _tag(digest(rows.matrix, t, offset), plans, loss, penalty))
        for party, rows in zip(parties, theirs, strict=True)
    ]
    for ledger, name, plan in zip(ledgers or (), names, plans, strict=bool(ledgers)):
        ledger.reserve(name, plan.cost, "Recommended", noise)
    fits = [
        fit_helper(rows, t, offset, loss, plan, noise, name, penalty)
        for rows, plan, name in zip(theirs, plans, names, strict=True)
    ]
    alpha = _shares(theirs, fits, loss.curvature(offset), noise, names) if sketch else np.ones(len(fits))
    return OnePass(fit_own(mine, t, loss, penalty), tuple(fits), alpha, radii)


def digest(*arrays: Floats) -> bytes:
    """SHA-256 of arrays with their shapes."""
    state = hashlib.sha256()
    for array in arrays:
        state.update(repr((array.shape, array.dtype.str)).encode())
        state.update(np.ascontiguousarray(array).tobytes())
    return state.digest()


def _shares(
    theirs: Sequence[ClippedRows],
    fits: Sequence[HelperFit],
    curvature: Floats,
    noise: Noise,
    names: Sequence[Release],
) -> Floats:
    records = curvature.size
    count = min(bucket_count(records, f.plan.sketch_mu, f.plan.sketch(1, 1.0).sensitivity) for f in fits)
    layout = Layout.of(names[0].run, records, count)
    sketches = [
        sketch_helper(rows, fit, curvature, layout, noise, name)
        for rows, fit, name in zip(theirs, fits, names, strict=True)
    ]
    return shares([fit.energy for fit in fits], sketches)


def _tag(inputs: bytes, *settings: object) -> str:
    return hashlib.sha256(inputs + repr(settings).encode()).hexdigest()


def _check_records(targets: Floats, mine: Floats, theirs: Sequence[ClippedRows]) -> None:
    found = [targets.size, mine.shape[0], *(rows.shape[0] for rows in theirs)]
    if len(set(found)) > 1:
        raise InputError(
            f"Every party must hold the same records in the same order. Found {found} (labels, own, helpers)."
            " Align the parties first."
        )
