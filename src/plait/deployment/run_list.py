"""The runs that one party keeps: listed, shown, and forgotten."""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from plait._names import check_run_start
from plait.deployment.run_folder import COORDINATOR, RunFolder, Status
from plait.errors import StorageError

FORGOTTEN = "forgotten"
_KEPT = ("run.json", "audit.jsonl", ".lock")
"""What stays of a forgotten run: that it was, and the sealed log of what was sent."""


@dataclass(frozen=True)
class RunSummary:
    """One party's view of one run."""

    status: Status
    path: Path
    model: Mapping[str, Any]
    """What model.json says; empty at a feature party, and where the run did not end."""

    @property
    def rows(self) -> int | None:
        return self.model.get("rows")

    @property
    def rounds(self) -> int | None:
        """How many rounds the run took; None where it did not end."""
        if not (self.path / "history.json").exists():
            return None
        return len(RunFolder(self.path).history())

    @property
    def metrics(self) -> Mapping[str, float]:
        return self.model.get("metrics") or {}

    def differences(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of this run that are not those of the job as it is now, by dotted name."""
        now, then = _flat(_trained_by(settings)), _flat(_trained_by(self.status.settings))
        return {key: then.get(key) for key in sorted({*now, *then}) if now.get(key) != then.get(key)}

    def facts(self) -> dict[str, Any]:
        """All of it, as JSON knows it."""
        status = self.status
        return {
            "run": status.run,
            "state": status.status,
            "reason": status.reason,
            "started": status.started,
            "party": status.name,
            "plait": status.plait,
            "settings": dict(status.settings),
            "folder": str(self.path),
            **{key: value for key, value in self.model.items() if key not in ("format", "run")},
        }


def list_runs(runs: Path, name: str) -> list[RunSummary]:
    """Every run of which this party (or "coordinator") has a folder, newest first."""
    found = [_summary(RunFolder(path.parent)) for path in runs.glob(f"*/{name}/run.json")]
    return sorted(found, key=lambda summary: summary.status.started, reverse=True)


def find(runs: Path, name: str, run: str) -> RunSummary:
    """One run by its name, or by the beginning of it where that is enough."""
    found = [s for s in list_runs(runs, name) if s.status.run.startswith(check_run_start(run))]
    if len(found) != 1:
        known = ", ".join(s.status.run for s in (found or list_runs(runs, name))[:5]) or "none"
        raise StorageError(f"{run!r} must name one run of {name!r} in {runs}. Found {len(found)}. Known: {known}.")
    return found[0]


def folders_of(runs: Path, run: str, party: str, role: str) -> list[RunSummary]:
    """What this party keeps of a run: one folder, or the coordinator's and that of the label party's own columns."""
    paths = [runs / run / name for name in dict.fromkeys((role, party))]
    return [_summary(RunFolder(path)) for path in paths if (path / "run.json").exists()]


def others_of(runs: Path, run: str, party: str, role: str) -> list[str]:
    """Who else keeps a part of this run in the same folder, as after a simulated run."""
    found = (path.parent for path in (runs / run).glob("*/run.json"))
    left = (folder.name for folder in found if RunFolder(folder).status.status != FORGOTTEN)
    return sorted(name for name in left if name not in (role, party, COORDINATOR))


def forget(summary: RunSummary) -> list[str]:
    """Remove weights, model, preparation, rows and checkpoints of a run; returns what was removed.

    The log of what was sent and the entries of a privacy ledger stay: what has left cannot be called back.
    """
    folder = RunFolder(summary.path)
    folder.lock()
    try:
        removed = sorted(path.name for path in _removable(summary.path))
        folder.write(replace(summary.status, status=FORGOTTEN, reason="forgotten by its owner"))
        for path in _removable(summary.path):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        return removed
    finally:
        folder.release()


def _removable(folder: Path) -> Iterator[Path]:
    return (path for path in list(folder.iterdir()) if path.name not in _KEPT)


def _summary(folder: RunFolder) -> RunSummary:
    model = folder.model() if (folder.path / "model.json").exists() else {}
    return RunSummary(folder.status, folder.path, model)


def _trained_by(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a run depends on; how new rows are scored may change later."""
    return {key: value for key, value in settings.items() if key != "scoring"}


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat
