"""Coverage-guided fuzzing with atheris (libFuzzer), where it is installed: inputs that reach new code breed others.

    python -m tests.fuzz.guided 200000          all targets, in processes of their own
    python -m tests.fuzz.guided 20000 "job files"

A finding is what `fuzzer` calls one: anything but a PlaitError, too much memory, or too much time.
"""

import importlib.util
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_MOST_MEMORY = 1024  # MiB of the whole process, libraries included
_LONGEST = 10  # seconds for one input: instrumented code is several times slower
_LONGEST_INPUT = 4096  # bytes


def fuzz_one(name: str, runs: int) -> None:
    """Fuzz one target in this process, which libFuzzer ends."""
    import atheris

    with atheris.instrument_imports(include=["plait"]):
        from plait.errors import PlaitError
        from tests.fuzz.targets import targets

        (target,) = [each for each in targets() if each.name == name]

    def read(data: bytes) -> None:
        try:
            target.read(data)
        except PlaitError:
            return

    with tempfile.TemporaryDirectory() as folder:
        for number, sample in enumerate(target.samples):
            (Path(folder) / str(number)).write_bytes(sample)
        limits = [
            f"-runs={runs}",
            f"-rss_limit_mb={_MOST_MEMORY}",
            f"-timeout={_LONGEST}",
            f"-max_len={_LONGEST_INPUT}",
        ]
        atheris.Setup(
            [sys.argv[0], *limits, "-verbosity=0", "-close_fd_mask=0", f"-artifact_prefix={folder}/", folder], read
        )
        atheris.Fuzz()


def main(total: int) -> int:
    """Fuzz everything; how many targets gave a finding, each printed."""
    if importlib.util.find_spec("atheris") is None:
        sys.stdout.write("coverage-guided: atheris is not installed (pip install 'plait[fuzz]'). Skipped.\n")
        return 0
    from tests.fuzz.targets import targets

    failed = 0
    for target in targets():
        runs, began = max(1, target.share * total // 1_000_000), time.perf_counter()
        command = [sys.executable, "-m", "tests.fuzz.guided", str(runs), target.name]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
        failed += bool(done.returncode)
        took = time.perf_counter() - began
        sys.stdout.write(f"{target.name:32s} {runs:8d} inputs {took:7.1f} s {int(bool(done.returncode))} findings\n")
        sys.stdout.write(done.stderr[-3000:] if done.returncode else "")
        sys.stdout.flush()
    return failed


if __name__ == "__main__":
    if len(sys.argv) > 2:
        fuzz_one(sys.argv[2], int(sys.argv[1]))
    else:
        sys.exit(1 if main(int(sys.argv[1])) else 0)
