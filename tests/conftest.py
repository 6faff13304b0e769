"""What every test shares: the folder of this file goes on the import path, so that tests can import `oracle`."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("plait", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("plait")


@pytest.fixture(autouse=True, scope="session")
def _own_state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Witnesses of ledgers go into a folder of this test run, not into the user's own."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("state")
        patch.setenv("PLAIT_STATE", str(folder))
        yield folder
