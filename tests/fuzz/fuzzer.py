"""A mutational fuzzer.  A finding is an input that raises anything but a PlaitError, takes too much memory, or hangs.

    python -m tests.fuzz.fuzzer 1000000

Inputs are samples with bytes changed, removed, added, or taken from another sample.  An input that a reader accepts
joins the samples, so that later ones start from there.
"""

import contextlib
import random
import sys
import time
import tracemalloc
import warnings
from dataclasses import dataclass

from plait.errors import PlaitError
from tests.fuzz.targets import Target, targets

MULTIPLE, FLOOR = 64, 4 << 20
"""An input may take so many times its size, and so many bytes whatever its size: libraries load, tables are built."""
LONGEST = 2.0  # seconds that one input may take
_EVERY = 50  # inputs between two that are measured for memory: tracing makes everything slower
_WORDS = [
    b"\xff" * 4,
    b"\0" * 8,
    b"\xff\xff\xff\x7f",
    b"1e999",
    b"NaN",
    b"[" * 40,
    b'"' * 3,
    b"-1",
    b"\xf0\x9f\x98\x80",
]


@dataclass(frozen=True)
class Finding:
    """An input and what it did."""

    target: str
    data: bytes
    why: str


def mutate(data: bytes, other: bytes, rng: random.Random) -> bytes:
    """The data with one to four changes."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(changed) + 1)
        what = rng.randrange(6)
        if what == 0 and at < len(changed):
            changed[at] = rng.randrange(256)
        elif what == 1:
            del changed[at : at + rng.randint(1, 16)]
        elif what == 2:
            changed[at:at] = rng.randbytes(rng.randint(1, 16))
        elif what == 3 and at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        elif what == 4:
            changed[at : at + 4] = rng.choice(_WORDS)
        else:
            start = rng.randrange(len(other) + 1)
            changed[at : at + 8] = other[start : start + rng.randint(1, 64)]
    return bytes(changed)


def fuzz(target: Target, count: int, seed: int = 0) -> list[Finding]:
    """Try so many inputs on one reader."""
    rng, samples, found = random.Random(seed), list(target.samples), []
    for number in range(count):
        data = mutate(rng.choice(samples), rng.choice(samples), rng)
        measured = number % _EVERY == 0
        if measured:
            tracemalloc.start()
        began = time.perf_counter()
        try:
            target.read(data)
            if len(samples) < 500 and len(data) < 5000:
                samples.append(data)
        except PlaitError:
            pass
        except Exception as error:
            found.append(Finding(target.name, data, f"{type(error).__name__}: {error}"))
        took = time.perf_counter() - began
        if measured:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            if peak > max(FLOOR, MULTIPLE * len(data)):
                found.append(Finding(target.name, data, f"{peak} bytes for {len(data)}"))
        if took > LONGEST and _seconds(target, data) > LONGEST:  # once more: others use the machine
            found.append(Finding(target.name, data, f"{took:.1f} s"))
    return found


def _seconds(target: Target, data: bytes) -> float:
    began = time.perf_counter()
    with contextlib.suppress(Exception):
        target.read(data)
    return time.perf_counter() - began


def main(total: int) -> int:
    """Fuzz everything; the number of findings, each printed."""
    warnings.simplefilter("error", ResourceWarning)
    found = []
    for target in targets():
        count, began = max(1, target.share * total // 1_000_000), time.perf_counter()
        new = fuzz(target, count)
        found += new
        sys.stdout.write(
            f"{target.name:32s} {count:8d} inputs {time.perf_counter() - began:7.1f} s {len(new)} findings\n"
        )
        sys.stdout.flush()
    for finding in found[:20]:
        sys.stdout.write(f"{finding.target}: {finding.why}\n  {finding.data[:200]!r}\n")
    return len(found)


if __name__ == "__main__":
    sys.exit(1 if main(int(sys.argv[1])) else 0)
