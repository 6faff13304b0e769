"""Every fault in every phase at either side ends in the same bits, or in an error whose remedy leads to them."""

import os
import shutil
from pathlib import Path

import pytest

from .faults import CELLS, suffered

SLICE = {("SIGKILL", "training", "party"), ("last 3 records lost", "aligning", "coordinator")}
CASES = [pytest.param(*cell, marks=[] if cell in SLICE else pytest.mark.slow) for cell in CELLS]


@pytest.mark.parametrize(("fault", "phase", "role"), CASES)
def test_a_fault_ends_in_the_same_bits_or_in_a_remedy_that_leads_to_them(
    tmp_path: Path, fault: str, phase: str, role: str
) -> None:
    if fault == "full disk" and os.geteuid() != 0:
        pytest.skip("a small disk can be mounted by root only")
    if fault == "clock jumps a day" and shutil.which("cc") is None:
        pytest.skip("moving one program's clock takes a C compiler")
    suffered(fault, phase, role, tmp_path)
