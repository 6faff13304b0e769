"""What every test shares: settings of Hypothesis, and the paper's data set where it is at hand."""

import os

import pytest
from hypothesis import settings

import plait
from plait.data.datasets import Dataset
from plait.errors import DatasetError

settings.register_profile("plait", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("plait")


@pytest.fixture(scope="session")
def a9a_data() -> Dataset:
    """a9a from the folder that PLAIT_DATA names; the test is skipped where it is absent."""
    if "PLAIT_DATA" not in os.environ:
        pytest.skip("needs a9a: set PLAIT_DATA to the folder that holds a9a/a9a.xz and a9a/a9a.t.xz")
    try:
        return plait.datasets.load("a9a")
    except DatasetError as error:
        pytest.skip(str(error))
