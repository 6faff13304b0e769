"""Two machines, imitated by two network namespaces joined by a cable: the same numbers as a simulation."""

import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from .conftest import JobMaker

_NAMES = [f"plait-{os.getpid()}-{i}" for i in (1, 2)]


def ip(command: str) -> bool:
    return subprocess.run(["ip", *command.split()], capture_output=True, check=False).returncode == 0


@pytest.fixture
def machines() -> Iterator[list[str]]:
    """Two namespaces at 10.78.0.1 and 10.78.0.2."""
    first, second = _NAMES
    steps = (
        f"netns add {first}",
        f"netns add {second}",
        f"link add pl1 netns {first} type veth peer name pl2 netns {second}",
        f"-n {first} addr add 10.78.0.1/24 dev pl1",
        f"-n {second} addr add 10.78.0.2/24 dev pl2",
        f"-n {first} link set pl1 up",
        f"-n {second} link set pl2 up",
    )
    if shutil.which("ip") is None:
        pytest.skip("network namespaces need iproute2")
    made = all(ip(step) for step in steps)
    if not made:
        for name in _NAMES:
            ip(f"netns del {name}")
        pytest.skip("network namespaces cannot be made here")
    yield _NAMES
    for name in _NAMES:
        ip(f"netns del {name}")


def test_two_machines_give_the_numbers_of_a_simulation(jobs: JobMaker, machines: list[str]) -> None:
    options: dict[str, object] = {"rounds": 30}
    job = jobs(**options)
    job.start("bank", "--listen", "10.78.0.1:7443", inside=machines[0])
    job.start("shop", "--address", "10.78.0.1:7443", inside=machines[1])
    for name in job.parties:
        assert job.wait(name) == 0, job.log(name)
    assert job.result() == jobs.undisturbed(**options)
