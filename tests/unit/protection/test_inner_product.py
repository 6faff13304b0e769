"""The encrypted gradient: exact for whoever should learn it, against Python's integers and Microsoft SEAL's BFV."""

import numpy as np
import pytest
import scipy.sparse as sp
import seal

from plait.errors import ProtocolError
from plait.protection.fixed_point import encode_columns, encode_gradient
from plait.protection.inner_product import GradientDecryptor, GradientEncryptor, public_elements
from plait.protection.messages import EncryptedGradient, Hints, KeyPart, Offer
from plait.protection.parameters import COUNTS, DROPPED_BITS, REALS, RING_DEGREE, Parameters
from plait.protection.randomness import Stream, derive
from tests.unit.protection.big_integers import inner_products, negacyclic, numbers

SECRET, OTHER, NONCE = bytes(range(32)), bytes(range(1, 33)), bytes(32)


def table(kind: str, rows: int, columns: int, seed: int = 0) -> tuple[object, np.ndarray]:
    """A table of 0/1 columns or of real numbers, dense or CSR, and residuals of coin-flip labels."""
    rng = np.random.default_rng(seed)
    dense = (rng.random((rows, columns)) < 0.3) * 1.0 if "binary" in kind else rng.standard_normal((rows, columns)) * 7
    g = rng.random(rows) - (rng.random(rows) < 0.5)
    return (sp.csr_array(dense) if "csr" in kind else dense), g


def pair(data: object) -> tuple[GradientDecryptor, GradientEncryptor]:
    """Both sides, after their messages have been bytes."""
    columns = encode_columns(data)
    offer = Offer.decode(Offer(columns.shape[0], NONCE).encode())
    party = GradientDecryptor(columns, offer, SECRET, NONCE)
    return party, GradientEncryptor(offer, Hints.decode(party.hints.encode()), OTHER)


def dense_of(values: object) -> np.ndarray:
    return values.toarray() if sp.issparse(values) else np.asarray(values)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("kind", "rows", "columns"),
    [
        ("binary csr", 20_000, 5),
        ("binary", 8192, 3),
        ("real", 8193, 4),
        ("real csr", 700, 2),
        ("binary csr", 9000, 150),
    ],
)
def test_what_is_decrypted_is_the_integer_product(kind: str, rows: int, columns: int) -> None:
    data, g = table(kind, rows, columns)
    party, coordinator = pair(data)
    assert party.parameters is (COUNTS if "binary" in kind else REALS)
    whole, exponent = encode_gradient(g, party.parameters)
    message = EncryptedGradient.decode(coordinator.encrypt(whole, exponent, 3).encode())
    assert len(message.parts) == (2 if columns == 150 else 1)
    found = party.decrypt(message)
    assert found.tolist() == inner_products(dense_of(party.columns.values), whole)
    exact = dense_of(data).T @ g
    norms = np.linalg.norm(dense_of(data), axis=0) * np.linalg.norm(g)
    assert np.all(np.abs(party.columns.decode(found, exponent) - exact) <= 2.0**-21 * norms)


def test_extreme_columns_and_gradients_are_exact_too() -> None:
    rows = 40_000
    data = np.column_stack([np.ones(rows), -np.ones(rows), np.zeros(rows), np.tile([1.0, -1.0], rows // 2)])
    party, coordinator = pair(data)
    for g in (np.ones(rows), -np.ones(rows), np.zeros(rows), np.full(rows, 1e-300), np.eye(1, rows, 5)[0] * 1e9):
        whole, exponent = encode_gradient(g, COUNTS)
        assert party.decrypt(coordinator.encrypt(whole, exponent, 0)).tolist() == inner_products(data, whole)


def test_seal_decrypts_the_same_numbers() -> None:
    """<E_j, G> as the constant coefficient of BFV's ciphertext of G times the plain polynomial rev(E_j)."""
    rows = 5000
    data, g = table("binary csr", rows, 3)
    party, coordinator = pair(data)
    whole, exponent = encode_gradient(g, COUNTS)
    settings = seal.EncryptionParameters(seal.scheme_type.bfv)
    degree = 8192  # of SEAL's ring, which holds all rows
    settings.set_poly_modulus_degree(degree)
    settings.set_coeff_modulus(seal.CoeffModulus.BFVDefault(degree))
    modulus = 1 << 42
    settings.set_plain_modulus(modulus)
    context = seal.SEALContext(settings)
    keys = seal.KeyGenerator(context)
    encryptor, decryptor = seal.Encryptor(context, keys.create_public_key()), seal.Decryptor(context, keys.secret_key())

    def plain(coefficients: dict[int, int]) -> object:
        terms = [
            f"{value % modulus:X}x^{k}" if k else f"{value % modulus:X}"
            for k, value in sorted(coefficients.items(), reverse=True)
        ]
        return seal.Plaintext(" + ".join(terms))

    sealed = encryptor.encrypt(plain({i: int(x) for i, x in enumerate(whole) if x}))
    expected = []
    for column in dense_of(party.columns.values).T:
        turned = {(degree - i) % degree: int(-x if i else x) for i, x in enumerate(column) if x}
        product = seal.Evaluator(context).multiply_plain(sealed, plain(turned))
        assert decryptor.invariant_noise_budget(product) > 0
        constant = int(decryptor.decrypt(product).to_string().split(" + ")[-1], 16)
        expected.append(constant - modulus if constant >= modulus // 2 else constant)
    assert party.decrypt(coordinator.encrypt(whole, exponent, 0)).tolist() == expected


def split(element: np.ndarray, rank: int) -> list[np.ndarray]:
    """The ring elements of a secret or a hint."""
    return list(element.reshape(rank, RING_DEGREE, *element.shape[1:]))


def module_product(row: np.ndarray, secret: np.ndarray, parameters: Parameters) -> list[int]:
    """sum_k row_k secret_k (2048,) in Python's integers, of public or hint bytes and small numbers."""
    q = 1 << parameters.modulus_bits
    pairs = zip(row, split(secret, parameters.rank), strict=True)
    products = [negacyclic(numbers(a), s, q) for a, s in pairs]
    return [sum(column) % q for column in zip(*products, strict=True)]


@pytest.mark.parametrize("kind", ["binary csr", "real"])
def test_hints_are_module_lwe_as_written_down(kind: str) -> None:
    """h_j against the formula in Python's integers, rounded to the bits that are sent."""
    data, _ = table(kind, 3000, 2)
    party, _ = pair(data)
    parameters, rank = party.parameters, party.parameters.rank
    (public,) = public_elements(parameters, 3000, party._seed)
    q, dropped = 1 << parameters.modulus_bits, parameters.hint_dropped_bits
    for j in range(2):
        column = np.zeros(2 * RING_DEGREE, dtype=int)
        column[:3000] = party.columns.column(j)
        turned = [np.concatenate([x[:1], -x[:0:-1]]) for x in column.reshape(2, -1)]
        small = [*turned, *split(party._masks[j].astype(int), rank)]
        error = Stream(derive(party._secret, "hint error", j)).binomial(parameters.dimension)
        found = split(party.hints.elements[j], rank)
        for at, e in enumerate(split(error, rank)):
            products = [negacyclic(numbers(a[at]), x, q) for a, x in zip(public, small, strict=True)]
            full = [int(y) + sum(xs) for y, xs in zip(e, zip(*products, strict=True), strict=True)]
            half = (1 << dropped) >> 1
            assert numbers(found[at]) == [((x + half) % q) >> dropped for x in full]


def test_the_message_is_module_lwe_as_written_down() -> None:
    """b, p_t and k against the formulas in Python's integers, from the same secret and errors."""
    data, g = table("real", 3000, 2)
    party, coordinator = pair(data)
    parameters = party.parameters
    whole, exponent = encode_gradient(g, parameters)
    part = coordinator.encrypt(whole, exponent, 8).parts[0]
    key = derive(coordinator._round_key(whole, exponent, 8), 0)
    s = Stream(derive(key, "secret")).ternary(parameters.dimension).astype(int)
    rank = parameters.rank
    errors = Stream(derive(key, "errors")).binomial((2 + rank) * RING_DEGREE).reshape(2 + rank, -1)
    q, sent = 1 << parameters.modulus_bits, 1 << (8 * parameters.sent_bytes)
    plain = np.zeros(2 * RING_DEGREE, dtype=int)
    plain[:3000] = whole
    (public,) = public_elements(parameters, 3000, coordinator._seed)
    plains = [*plain.reshape(2, -1), *np.zeros((rank, RING_DEGREE), dtype=int)]
    for a, e, g_i, found in zip(public, errors, plains, [*part.gradient, *part.image], strict=True):
        full = [
            (-x + int(y) + (int(z) << parameters.scale_bits)) % q
            for x, y, z in zip(module_product(a, s, parameters), e, g_i, strict=True)
        ]
        assert numbers(found) == [((x + (1 << (DROPPED_BITS - 1))) >> DROPPED_BITS) % sent for x in full]
    for hint, k in zip(party.hints.elements, numbers(part.keys), strict=True):
        constant = module_product(np.array(split(hint, rank)), s, parameters)[0] << parameters.hint_dropped_bits
        flood = (k << DROPPED_BITS) - constant
        flood = (flood + q // 2) % q - q // 2
        assert abs(flood) <= (1 << parameters.flood_bits) + (1 << DROPPED_BITS)


def test_the_same_round_gives_the_same_bytes_and_anything_else_gives_others() -> None:
    data, g = table("binary csr", 3000, 2)
    party, coordinator = pair(data)
    whole, exponent = encode_gradient(g, COUNTS)
    first = coordinator.encrypt(whole, exponent, 1).encode()
    again = GradientEncryptor(Offer(3000, NONCE), party.hints, OTHER)
    assert again.encrypt(whole, exponent, 1).encode() == first
    changed = whole.copy()
    changed[7] += 1
    other_table, _ = table("binary csr", 3000, 2, seed=9)
    others = [
        coordinator.encrypt(whole, exponent, 2),
        coordinator.encrypt(changed, exponent, 1),
        coordinator.encrypt(whole, exponent + 1, 1),
        pair(other_table)[1].encrypt(whole, exponent, 1),
        GradientEncryptor(Offer(3000, NONCE), party.hints, SECRET).encrypt(whole, exponent, 1),
    ]
    body = len(first) // 2
    agreeing = [
        np.mean(np.frombuffer(first[body:], np.uint8) == np.frombuffer(x.encode()[body:], np.uint8)) for x in others
    ]
    assert max(agreeing) < 0.01  # as of independent bytes: 1 / 256


def test_keys_of_another_round_open_nothing() -> None:
    data, g = table("binary csr", 3000, 12)
    party, coordinator = pair(data)
    whole, exponent = encode_gradient(g, COUNTS)
    one, two = (coordinator.encrypt(whole, exponent, r) for r in (1, 2))
    mixed = KeyPart(one.parts[0].gradient, one.parts[0].image, two.parts[0].keys)
    with pytest.raises(ProtocolError, match="must open"):
        party.decrypt(EncryptedGradient(COUNTS, 3000, 12, 1, exponent, one.hints_digest, (mixed,)))


def test_a_message_for_other_hints_is_refused() -> None:
    data, g = table("binary csr", 3000, 3)
    other, _ = table("binary csr", 3000, 3, seed=5)
    whole, exponent = encode_gradient(g, COUNTS)
    with pytest.raises(ProtocolError, match="this party's hints"):
        pair(other)[0].decrypt(pair(data)[1].encrypt(whole, exponent, 0))


def test_a_gradient_that_is_too_large_is_refused() -> None:
    data, _ = table("binary csr", 3000, 3)
    _, coordinator = pair(data)
    with pytest.raises(ProtocolError, match="norm below"):
        coordinator.encrypt(np.full(3000, 2**28), 0, 0)
    with pytest.raises(ProtocolError, match="3000 numbers"):
        coordinator.encrypt(np.ones(2999, dtype=np.int64), 0, 0)


def test_a_million_rows_decrypt_exactly() -> None:
    rng = np.random.default_rng(0)
    rows = 1_000_000
    data = np.column_stack([rng.standard_normal(rows), rng.lognormal(size=rows), np.ones(rows)])
    party, coordinator = pair(data)
    whole, exponent = encode_gradient(rng.random(rows) - 0.5, REALS)
    assert party.decrypt(coordinator.encrypt(whole, exponent, 0)).tolist() == inner_products(
        party.columns.values, whole
    )
