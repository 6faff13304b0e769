"""How hard the two module-LWE problems of plait's protection are, by the usual attacks on lattices.

    python -m benchmarks.lattice_estimate

A small estimator, written for this purpose; the lattice-estimator of Albrecht and others needs Sage.  It treats
samples over a ring as LWE samples in dimension n.  For each attack it looks for the smallest block size beta and prices
it as

    core-SVP        2^(0.292 beta)                          one call of a sieve, the cautious figure
    sieving         2^(0.292 beta + 16.4 + log2(8 dim))     as the homomorphic encryption standard (2018) priced it

    primal (uSVP)   Bai and Galbraith's embedding: dim = n + m + 1, volume q^m (sigma_e / sigma_s)^n;  it succeeds where
                    sqrt(beta) sigma_e <= delta^(2 beta - dim) volume^(1 / dim)       (Alkim and others 2016)
    dual            a short vector (x, y) with y = A^T x modulo q, of length delta^dim (q sigma_s / sigma_e)^(n / dim)
                    in units of sigma_e; advantage exp(-2 (pi sigma_e length / q)^2); repeated 1 / advantage^2 times, of
                    which one sieve gives 2^(0.2075 beta)

delta(beta) = ((pi beta)^(1 / beta) beta / (2 pi e))^(1 / (2 (beta - 1))).  The figures are checked against the
published table of the homomorphic encryption standard: ternary secrets, sigma_e = 3.19, 128 bits classical.
"""

import math
from dataclasses import dataclass

from plait.protection.parameters import BINOMIAL_HALF, FLOOD_RATIO_BITS, SETS, Parameters

TERNARY = math.sqrt(2 / 3)  # standard deviation of a uniform secret in {-1, 0, 1}
STANDARD = {1024: 27, 2048: 54, 4096: 109, 8192: 218, 16384: 438}
"""The largest log2 q for 128 bits (classical, ternary secret) of the homomorphic encryption standard, by n."""
STANDARD_ERROR = 8 / math.sqrt(2 * math.pi)  # its standard deviation of errors: 3.19


@dataclass(frozen=True)
class Problem:
    """LWE in dimension n, modulus 2^log_q, errors and secrets of these standard deviations."""

    n: int
    log_q: float
    error: float
    secret: float = TERNARY


@dataclass(frozen=True)
class Cost:
    """The cheapest form of an attack: block size, dimension and log2 of its cost in both models."""

    beta: int
    dimension: int
    core_svp: float
    sieving: float


def log_delta(beta: int) -> float:
    """log2 of the root Hermite factor that block size beta reaches."""
    return math.log2((math.pi * beta) ** (1 / beta) * beta / (2 * math.pi * math.e)) / (2 * (beta - 1))


def primal(problem: Problem) -> Cost:
    """The smallest block size with which the embedded short vector is found, over the number of samples."""
    low, high = 60, 40_000
    while low < high:  # success is monotone in beta
        middle = (low + high) // 2
        if _primal_margin(problem, middle)[0] >= 0:
            high = middle
        else:
            low = middle + 1
    return _cost(low, _primal_margin(problem, low)[1], repeats=0.0)


def _primal_margin(problem: Problem, beta: int) -> tuple[float, int]:
    """log2 of the right side minus log2 of the left side, at the best dimension, and that dimension."""
    slope = log_delta(beta)
    # d/d(dim) of -dim slope + (m log q + n log(error / secret)) / dim vanishes at this dimension
    mass = problem.n * (problem.log_q - math.log2(problem.error / problem.secret))
    dimension = max(int(math.sqrt(mass / slope)), problem.n + 2)
    dimension = max(min(dimension, 3 * problem.n), beta + 1)
    samples = dimension - problem.n - 1
    volume = samples * problem.log_q + problem.n * math.log2(problem.error / problem.secret)
    right = (2 * beta - dimension) * slope + volume / dimension
    return right - math.log2(math.sqrt(beta) * problem.error), dimension


def dual(problem: Problem) -> Cost:
    """The cheapest distinguisher by short vectors of the dual lattice."""
    best: Cost | None = None
    for beta in range(60, 4000, 2):
        slope = log_delta(beta)
        mass = problem.n * (problem.log_q + math.log2(problem.secret / problem.error))
        dimension = min(max(int(math.sqrt(mass / slope)), problem.n + 2), 3 * problem.n)
        length = dimension * slope + mass / dimension
        rate = length + math.log2(math.pi * problem.error) - problem.log_q
        if rate > 20:  # no advantage that a double could hold
            continue
        repeats = max(2 * 2 * 2 ** (2 * rate) / math.log(2) - 0.2075 * beta, 0.0)
        cost = _cost(beta, dimension, repeats)
        if best is None or cost.core_svp < best.core_svp:
            best = cost
    assert best is not None
    return best


def _cost(beta: int, dimension: int, repeats: float) -> Cost:
    core = 0.292 * beta + repeats
    return Cost(beta, dimension, core, core + 16.4 + math.log2(8 * dimension))


def security(problem: Problem) -> tuple[Cost, Cost]:
    return primal(problem), dual(problem)


def of_plait(parameters: Parameters, known: int = 0) -> Problem:
    """The problem behind a round's message, or behind a hint; `known` coefficients of the secret are given away."""
    return Problem(parameters.dimension - known, parameters.modulus_bits, math.sqrt(BINOMIAL_HALF / 2))


def given_away(parameters: Parameters) -> int:
    """Coefficients of the round secret that one malformed hint can at most read: the bits above the flood, in trits."""
    return math.ceil((parameters.modulus_bits - parameters.flood_bits - 1) / math.log2(3))


def main() -> None:
    print(f"{'':34} {'beta':>5} {'dim':>6} {'core-SVP':>9} {'sieving':>8}   dual: core-SVP  sieving")
    for n, log_q in STANDARD.items():
        _show(f"standard n={n}, log q={log_q}", Problem(n, log_q, STANDARD_ERROR))
    for parameters in SETS:
        _show(parameters.name, of_plait(parameters))
        known = parameters.columns_per_key * given_away(parameters)
        _show(f"  {parameters.columns_per_key} malformed hints, {known} known", of_plait(parameters, known))
    print(f"flood / noise bound: 2^{FLOOD_RATIO_BITS}")


def _show(name: str, problem: Problem) -> None:
    first, second = security(problem)
    print(
        f"{name:34} {first.beta:5} {first.dimension:6} {first.core_svp:9.1f} {first.sieving:8.1f}"
        f"   {second.core_svp:14.1f} {second.sieving:8.1f}"
    )


if __name__ == "__main__":
    main()
