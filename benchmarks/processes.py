"""Which processes a process has started."""

from pathlib import Path


def started_by(process: int) -> list[int]:
    """A process and all that it has started: those of Ray, too."""
    found = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in found if _descends(pid, process)]


def _descends(pid: int, ancestor: int) -> bool:
    """Whether one process was started by another, or by one that it started."""
    while pid > 1:
        if pid == ancestor:
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return False
