"""What each side could try with what it sees; each test has a broken variant on which the same attack must succeed."""

from functools import cached_property

import numpy as np
import numpy.typing as npt
import scipy.stats

from plait.protection import ring
from plait.protection.fixed_point import Columns, encode_columns, encode_gradient
from plait.protection.inner_product import GradientDecryptor, GradientEncryptor, public_elements
from plait.protection.messages import Hints, Offer
from plait.protection.parameters import BINOMIAL_HALF, COUNTS, DROPPED_BITS, RING_DEGREE, chunks_of
from plait.protection.randomness import Stream, derive
from tests.unit.protection.big_integers import negacyclic, numbers

ROWS, OFFER = 6000, Offer(6000, bytes(32))


class WithoutMask(GradientDecryptor):
    """A broken party: its hints lack u_j p."""

    @cached_property
    def _masks(self) -> npt.NDArray[np.int8]:
        return np.zeros((self.columns.shape[1], self.parameters.dimension), dtype=np.int8)


class WithoutFlood(GradientEncryptor):
    """A broken coordinator: its keys carry no flood."""

    def _floods(self, key: bytes, count: int) -> list[int]:
        return [0] * count


def binary_columns(count: int, seed: int = 0) -> Columns:
    return encode_columns((np.random.default_rng(seed).random((ROWS, count)) < 0.2) * 1.0)


def left_after_a_guess(hints: Hints, guess: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """h_1 - sum_i rev(guess_i) a_i over q, in [-1/2, 1/2): all that the coordinator can compare a guess with."""
    padded = np.zeros(chunks_of(ROWS) * RING_DEGREE)
    padded[:ROWS] = guess
    turned = ring.reversed_element(padded.reshape(-1, RING_DEGREE)).astype(int)
    party = GradientDecryptor(encode_columns(guess[:, None], COUNTS), OFFER, bytes(32), hints.nonce)
    (public,) = public_elements(COUNTS, ROWS, party._seed)
    q = 1 << COUNTS.modulus_bits
    rest = numbers(hints.elements[0])
    for a, x in zip(public, turned, strict=False):
        product = [y for element in a for y in negacyclic(numbers(element), x, q)]
        rest = [(h - y) % q for h, y in zip(rest, product, strict=True)]
    return np.array([(x if x < q // 2 else x - q) / q for x in rest])


def test_a_guessed_column_cannot_be_confirmed_from_its_hint() -> None:
    columns = binary_columns(1)
    truth, other = columns.column(0), binary_columns(1, seed=1).column(0)
    honest = GradientDecryptor(columns, OFFER, b"k" * 32, bytes(32)).hints
    for guess in (truth, other):
        rest = left_after_a_guess(honest, guess)
        assert scipy.stats.kstest(rest, scipy.stats.uniform(-0.5, 1).cdf).pvalue > 1e-4
    broken = WithoutMask(columns, OFFER, b"k" * 32, bytes(32)).hints
    assert np.abs(left_after_a_guess(broken, truth)).max() <= BINOMIAL_HALF / 2**COUNTS.modulus_bits
    assert np.abs(left_after_a_guess(broken, other)).max() > 0.4


def test_hints_of_two_tables_look_the_same() -> None:
    tables = [np.zeros((ROWS, 4)), np.ones((ROWS, 4))]
    for i, table in enumerate(tables):
        hints = GradientDecryptor(encode_columns(table), OFFER, bytes([i]) * 32).hints
        counts = np.bincount(hints.elements.ravel(), minlength=256)
        assert scipy.stats.chisquare(counts).pvalue > 1e-6
    broken = WithoutMask(encode_columns(tables[0]), OFFER, bytes(32)).hints
    assert scipy.stats.chisquare(np.bincount(broken.elements.ravel(), minlength=256)).pvalue < 1e-6


def test_masks_are_never_used_for_another_table() -> None:
    one, two = binary_columns(2), binary_columns(2, seed=3)
    make = [GradientDecryptor(table, OFFER, bytes(32), bytes(32)) for table in (one, two, one)]
    first, second, again = (party._masks for party in make)
    assert np.array_equal(first, again)
    assert np.mean(first == second) < 0.4  # 1/3 of independent ternary numbers agree
    assert np.mean(first[0] == first[1]) < 0.4


def test_the_flood_hides_the_noise_of_a_round() -> None:
    """What rounding leaves over would tell the noise, dropped bits included; with the flood it is uniform."""
    columns = binary_columns(40)
    party = GradientDecryptor(columns, OFFER, bytes(32), bytes(32))
    g = np.random.default_rng(2).random(ROWS) - 0.5
    whole, exponent = encode_gradient(g, COUNTS)
    shift = COUNTS.scale_bits - DROPPED_BITS

    def left_over(coordinator: GradientEncryptor) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """What the party is left with, and what it would be without flood, in units of 2^40."""
        part = coordinator.encrypt(whole, exponent, 0).parts[0]
        products = party.decrypt(coordinator.encrypt(whole, exponent, 0))
        rest = [x - (int(v) << shift) for x, v in zip(party._sums(part, 0, 40), products, strict=True)]
        key = derive(coordinator._round_key(whole, exponent, 0), 0)
        s = Stream(derive(key, "secret")).ternary(COUNTS.dimension).astype(int).reshape(COUNTS.rank, -1)
        (public,) = public_elements(COUNTS, ROWS, coordinator._seed)
        errors = Stream(derive(key, "errors")).binomial(len(public) * RING_DEGREE).reshape(len(public), -1)
        low = []  # the bits of b and p_t that were not sent, over 2^40
        for a, e in zip(public, errors, strict=True):
            products = [negacyclic(numbers(x), y, 1 << 96) for x, y in zip(a, s, strict=True)]
            full = [int(y) - sum(xs) for y, xs in zip(e, zip(*products, strict=True), strict=True)]
            low += [((x + (1 << 39)) % (1 << 40) - (1 << 39)) / 2**40 for x in full]
        turned = ring.reversed_element(party._masks.reshape(40, COUNTS.rank, -1)).reshape(40, -1)
        noise = columns.values.T @ np.array(low[:ROWS]) + turned @ np.array(low[-COUNTS.dimension :])
        return np.array(rest, dtype=float), -noise

    rest, noise = left_over(WithoutFlood(OFFER, party.hints, bytes(32)))
    np.testing.assert_allclose(rest, noise, atol=1)  # the broken coordinator shows what it should hide
    rest, noise = left_over(GradientEncryptor(OFFER, party.hints, bytes(32)))
    scale = 2.0 ** (COUNTS.flood_bits - DROPPED_BITS)
    assert scipy.stats.kstest(rest / scale, scipy.stats.uniform(-1, 2).cdf).pvalue > 1e-3
    assert np.abs(noise).max() / scale < 2.0**-5


def test_messages_of_two_gradients_look_the_same() -> None:
    party = GradientDecryptor(binary_columns(3), OFFER, bytes(32), bytes(32))
    coordinator = GradientEncryptor(OFFER, party.hints, bytes(32))
    for g in (np.zeros(ROWS, dtype=np.int64), np.full(ROWS, 3_000_000)):
        part = coordinator.encrypt(g, 0, 0).parts[0]
        for array in (part.gradient, part.image):
            assert scipy.stats.chisquare(np.bincount(array.ravel(), minlength=256)).pvalue > 1e-6


def test_malformed_hints_read_parts_of_the_round_secret() -> None:
    """The scheme is semi-honest: this is what a party that breaks the protocol can do, and why keys are limited."""
    party = GradientDecryptor(binary_columns(2), OFFER, bytes(32), bytes(32))
    digits = (COUNTS.modulus_bits - COUNTS.flood_bits - 2) // 2  # numbers of {0..3} above the flood
    elements = np.zeros((2, COUNTS.dimension, COUNTS.hint_bytes), dtype=np.uint8)
    for j in range(2):
        for i in range(digits):
            power = -(1 << (COUNTS.flood_bits + 2 + 2 * i)) % (1 << COUNTS.modulus_bits)
            elements[j, RING_DEGREE - 1 - digits * j - i] = np.frombuffer(power.to_bytes(12, "little"), np.uint8)
    hints = Hints(COUNTS, ROWS, bytes(32), elements)
    coordinator = GradientEncryptor(OFFER, hints, bytes(32))
    whole = np.zeros(ROWS, dtype=np.int64)
    keys = numbers(coordinator.encrypt(whole, 0, 0).parts[0].keys)
    key = derive(coordinator._round_key(whole, 0, 0), 0)
    secret = Stream(derive(key, "secret")).ternary(COUNTS.dimension)
    for j, k in enumerate(keys):
        shift = COUNTS.flood_bits + 2 - DROPPED_BITS
        value = (k + (1 << (shift - 1)) >> shift) + sum(4**i for i in range(digits))
        read = [(value >> (2 * i)) % 4 - 1 for i in range(digits)]
        assert read == secret[1 + digits * j : 1 + digits * (j + 1)].tolist()
    assert digits * COUNTS.columns_per_key < COUNTS.dimension / 2
    assert party.hints.digest() != hints.digest()


def test_swapped_labels_with_the_same_moments_are_not_noticed() -> None:
    """g = mu - y: two label vectors with E^T y equal give the party the same numbers; the squared hinge does not."""
    rng = np.random.default_rng(4)
    half = (rng.random((ROWS // 2, 6)) < 0.4) * 1.0
    data = np.vstack([half, half])  # each row twice: labels of twins can be swapped
    z = rng.standard_normal(ROWS)
    y = (rng.random(ROWS) < 0.5) * 1.0
    swapped = np.concatenate([y[ROWS // 2 :], y[: ROWS // 2]])
    assert np.count_nonzero(y != swapped) > 1000
    party = GradientDecryptor(encode_columns(data), OFFER, bytes(32), bytes(32))
    coordinator = GradientEncryptor(OFFER, party.hints, bytes(32))

    def seen(g: npt.NDArray[np.float64]) -> list[float]:
        whole, exponent = encode_gradient(g, COUNTS)
        return list(party.columns.decode(party.decrypt(coordinator.encrypt(whole, exponent, 0)), exponent))

    logistic = [seen(1 / (1 + np.exp(-z)) - labels) for labels in (y, swapped)]
    np.testing.assert_allclose(logistic[0], logistic[1], rtol=0, atol=1e-12)
    signs = [2 * labels - 1 for labels in (y, swapped)]
    hinge = [seen(-2 * s * np.maximum(1 - s * z, 0)) for s in signs]
    assert np.abs(np.subtract(*hinge)).max() > 1
