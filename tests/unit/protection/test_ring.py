"""Products in the ring and random streams, against Python's integers and the known distributions."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from plait.protection import ring
from plait.protection.parameters import BINOMIAL_HALF, COUNTS, REALS, RING_DEGREE, SETS, Parameters, named
from plait.protection.randomness import Stream, derive
from tests.unit.protection.big_integers import negacyclic, numbers


@pytest.mark.parametrize("parameters", SETS, ids=lambda p: p.name)
def test_a_product_with_a_ternary_element_is_exact(parameters: Parameters) -> None:
    stream = Stream(derive(b"", parameters.name))
    a = stream.bytes(RING_DEGREE * parameters.modulus_bytes).reshape(RING_DEGREE, -1)
    small = stream.ternary(RING_DEGREE)
    expected = negacyclic(numbers(a), small.astype(int), 1 << parameters.modulus_bits)
    for limb_bits in (ring.SECRET_LIMB_BITS, parameters.hint_limb_bits):
        spectra = ring.transform(ring.balanced_limbs(a, limb_bits))
        limbs = list(ring.inverse(spectra * ring.transform(small)))
        assert numbers(ring.join(limbs, limb_bits, parameters.modulus_bytes)) == expected


def test_dropping_low_bits_is_a_division() -> None:
    rng = np.random.default_rng(1)
    limbs = [rng.integers(-(2**57), 2**57, 500), rng.integers(-(2**57), 2**57, 500), rng.integers(-(2**52), 2**52, 500)]
    for parameters in SETS:
        values = [sum(int(x) << (40 * i) for i, x in enumerate(column)) for column in zip(*limbs, strict=True)]
        expected = [(value >> 40) % (1 << (8 * parameters.sent_bytes)) for value in values]
        assert numbers(ring.join_high(limbs, parameters.sent_bytes)) == expected


def test_the_reversed_element_makes_inner_products() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.integers(-9, 9, (2, RING_DEGREE))
    product = ring.inverse(ring.transform(ring.reversed_element(a)) * ring.transform(b))
    assert product[0] == a @ b


def test_streams_have_the_distributions_that_the_argument_needs() -> None:
    stream = Stream(derive(b"distributions"))
    ternary = stream.ternary(300_000)
    assert scipy.stats.chisquare(np.bincount(ternary + 1)).pvalue > 1e-6
    errors = stream.binomial(300_000)
    law = scipy.stats.binom(2 * BINOMIAL_HALF, 0.5)  # difference of two sums of 21 bits, moved by 21
    inner = np.arange(BINOMIAL_HALF - 10, BINOMIAL_HALF + 11)
    observed = np.array([np.count_nonzero(errors + BINOMIAL_HALF == k) for k in inner])
    expected = law.pmf(inner) * errors.size
    assert (
        scipy.stats.chisquare(
            [*observed, errors.size - observed.sum()], [*expected, errors.size - expected.sum()]
        ).pvalue
        > 1e-6
    )
    assert scipy.stats.chisquare(np.bincount(stream.bytes(1 << 18), minlength=256)).pvalue > 1e-6


def test_no_two_contexts_give_one_key() -> None:
    contexts = [("ab", "c"), ("a", "bc"), ("abc",), (b"abc", ""), (1, 2), (12,), ("1", "2"), (1, -2)]
    assert len({derive(b"key", *context) for context in contexts}) == len(contexts)
    assert derive(b"key", 1) != derive(b"other", 1)


def test_sets_are_found_by_name_and_consistent(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [named(p.name) for p in SETS] == [COUNTS, REALS]
    for parameters in SETS:
        assert 2.0**parameters.flood_bits >= 2.0**40 * parameters.noise_bound()
    with pytest.raises(ValueError, match="mlwe-128-counts, mlwe-128-reals"):
        named("rlwe-64")
    with pytest.raises(ValueError, match="flood"):
        replace(REALS, flood_bits=60)
    with pytest.raises(ValueError, match="flood"):
        replace(REALS, hint_dropped_bits=24)
    monkeypatch.setattr("plait.protection.parameters.DROPPED_BITS", 48)
    with pytest.raises(ValueError, match="Send more bits"):
        replace(COUNTS)
