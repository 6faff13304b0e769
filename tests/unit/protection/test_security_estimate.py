"""The estimate of the lattice attacks: against the published table, and what it says of plait's parameters."""

import pytest

from benchmarks.lattice_estimate import STANDARD, STANDARD_ERROR, Problem, given_away, of_plait, security
from plait.protection.parameters import SETS, Parameters


@pytest.mark.parametrize("n", STANDARD)
def test_the_estimate_agrees_with_the_homomorphic_encryption_standard(n: int) -> None:
    primal, dual = security(Problem(n, STANDARD[n], STANDARD_ERROR))
    assert 126 <= primal.sieving <= 133
    assert 126 <= dual.sieving <= 133


@pytest.mark.parametrize("parameters", SETS, ids=lambda p: p.name)
def test_every_set_is_as_strong_as_its_name_says(parameters: Parameters) -> None:
    assert min(cost.core_svp for cost in security(of_plait(parameters))) >= parameters.security_bits
    known = parameters.columns_per_key * given_away(parameters)
    assert min(cost.sieving for cost in security(of_plait(parameters, known))) >= parameters.security_bits


def test_a_larger_modulus_would_be_weaker() -> None:
    assert security(Problem(8192, 300, 3.24))[0].sieving < 128
