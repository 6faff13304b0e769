"""What protection costs beside the plain product, in the same run.

    python -m benchmarks.protection [--rows 100000] [--columns 300]

Three tables: 66 columns of a9a (read from PLAIT_DATA; skipped where it is absent), a dense one, and a million rows of
few columns.  For each: making the hints once, then for every round encrypting at the coordinator, opening at the party,
and the plain D^T g; and the bytes of both messages beside 8 bytes a row.  Then the masks of a secure sum beside the
plain sum.  Every figure is the least of several; every decrypted vector is compared with the whole-number product.
Results go to benchmarks/results/protection.json with the configuration and the machine.
"""

import argparse
import json
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.environment import environment
from plait.data import datasets
from plait.errors import DatasetError
from plait.protection.fixed_point import encode_columns, encode_gradient
from plait.protection.inner_product import GradientDecryptor, GradientEncryptor
from plait.protection.leverage import leverages
from plait.protection.messages import EncryptedGradient, Hints, Offer
from plait.protection.secure_sums import MaskingParty, Run, from_fixed, total

RESULTS = Path(__file__).parent / "results" / "protection.json"
REPEATS = 7  # of every timed step; the least counts


def least(work: Callable[[], Any], repeats: int = REPEATS) -> tuple[float, Any]:
    """Milliseconds of the fastest of several runs, and what the last one gave."""
    found, best = None, np.inf
    for _ in range(repeats):
        began = time.perf_counter()
        found = work()
        best = min(best, time.perf_counter() - began)
    return 1000 * best, found


def tables(rows: int, columns: int) -> Iterator[tuple[str, Any]]:
    rng = np.random.default_rng(0)
    try:
        parts = datasets.load("a9a").parts
        yield "a9a, party A: 66 columns", parts["A"]
    except DatasetError as error:
        print(f"skipped: {error}")
    yield f"dense {rows} x {columns}", rng.standard_normal((rows, columns))
    yield "dense 1000000 x 20", rng.standard_normal((1_000_000, 20))


def measure(name: str, table: Any) -> dict[str, Any]:
    """One table: milliseconds and bytes of each step."""
    rng = np.random.default_rng(1)
    rows = table.shape[0]
    g = rng.random(rows) - (rng.random(rows) < 0.5)
    leverage_ms, _ = least(lambda: leverages(table), 1)
    encode_ms, columns = least(lambda: encode_columns(table), 1)
    offer = Offer(rows, secrets.token_bytes(32))
    party = GradientDecryptor(columns, offer, secrets.token_bytes(32))
    hints_ms, hints = least(lambda: party.hints, 1)
    wire = hints.encode()
    setup_ms, coordinator = least(lambda: GradientEncryptor(offer, Hints.decode(wire), secrets.token_bytes(32)), 1)
    whole, exponent = encode_gradient(g, columns.parameters)
    encrypt_ms, sent = least(lambda: coordinator.encrypt(*encode_gradient(g, columns.parameters), 0).encode())
    decrypt_ms, found = least(lambda: party.decrypt(EncryptedGradient.decode(sent)))
    plain_ms, plain = least(lambda: table.T @ g)
    check = columns.values[:, :2].T.astype(np.int64) @ whole
    assert np.array_equal(found[:2], check), f"{name}: the decrypted product is not exact"
    error = np.abs(columns.decode(found, exponent) - plain).max() / np.abs(plain).max()
    result = {
        "table": name,
        "parameters": columns.parameters.name,
        "keys": len(EncryptedGradient.decode(sent).parts),
        "leverage_ms": leverage_ms,
        "encode_ms": encode_ms,
        "hints_ms": hints_ms,
        "coordinator_setup_ms": setup_ms,
        "encrypt_ms": encrypt_ms,
        "decrypt_ms": decrypt_ms,
        "plain_ms": plain_ms,
        "round_over_plain": (encrypt_ms + decrypt_ms) / plain_ms,
        "hints_bytes": len(wire),
        "round_bytes": len(sent),
        "round_bytes_over_plain": len(sent) / (8 * rows),
        "rounding_error": float(error),
    }
    print({key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in result.items()})
    return result


def masks(rows: int, parties: int) -> dict[str, Any]:
    """A secure sum beside the plain one."""
    run, rng = Run("bench", "1"), np.random.default_rng(2)
    names = [f"p{i}" for i in range(parties)]
    members = [MaskingParty(run, name, secrets.token_bytes(32)) for name in names]
    announced = [member.announce(lambda data: b"") for member in members]
    for member in members:
        member.meet(announced, lambda name, data, signature: True)
    vectors = [rng.standard_normal(rows) for _ in names]
    share_ms, _ = least(lambda: members[0].share(vectors[0], 0, "image"))
    shares = [member.share(v, 1, "image") for member, v in zip(members, vectors, strict=True)]
    sum_ms, found = least(lambda: from_fixed(total(shares)))
    plain_ms, plain = least(lambda: np.sum(vectors, axis=0))
    assert np.abs(found - plain).max() < parties * 2.0**-40
    result = {"rows": rows, "parties": parties, "share_ms": share_ms, "sum_ms": sum_ms, "plain_sum_ms": plain_ms}
    print({key: round(value, 3) if isinstance(value, float) else value for key, value in result.items()})
    return result


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=300)
    options = parser.parse_args()
    products = [measure(name, table) for name, table in tables(options.rows, options.columns)]
    sums = [masks(rows, parties) for rows in (32_561, 1_000_000) for parties in (3, 10)]
    RESULTS.parent.mkdir(exist_ok=True)
    content = {"environment": environment(), "products": products, "sums": sums}
    RESULTS.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
