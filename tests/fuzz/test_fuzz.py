"""A slice of `make fuzz`, and hypothesis on the readers of peers' bytes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plait.errors import PlaitError

from .fuzzer import fuzz
from .targets import Target, targets

TARGETS = {target.name: target for target in targets()}


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_mutated_bytes_are_read_or_refused(target: Target) -> None:
    assert fuzz(target, max(20, target.share // 500), seed=7) == []


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(TARGETS)[:9]), st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(name: str, data: bytes) -> None:
    try:
        TARGETS[name].read(data)
    except PlaitError:
        return
