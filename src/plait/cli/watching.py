"""Live progress on the terminal, as sentences or as one JSON object per line."""

import json
import math
import time
from datetime import UTC, datetime
from typing import Any

import typer

from plait.training.history import Round


class Terminal:
    """Sentences for people; rounds at most five times a second."""

    def __init__(self) -> None:
        self._shown = 0.0
        self._waiting = ""

    def say(self, text: str) -> None:
        typer.echo(text)

    def event(self, what: str, facts: dict[str, Any]) -> None:
        if what == "disconnected":
            if facts["reason"] != self._waiting:
                self._waiting = facts["reason"]
                typer.echo(f"waiting for the coordinator: {self._waiting}")
        else:
            typer.echo(f"{what}: " + ", ".join(f"{k} {v}" for k, v in facts.items() if k != "address"))

    def round(self, record: Round) -> None:
        now = time.monotonic()
        if record.round <= 3 or now - self._shown >= 0.2:
            self._shown = now
            known = math.isfinite(record.objective)  # nobody releases it in a private run
            state = (
                f"objective {record.objective:.6g}  residuals {record.primal:.1e} {record.dual:.1e}  " if known else ""
            )
            typer.echo(f"round {record.round:4d}  {state}{record.seconds:.2f} s")


class JsonLines:
    """One JSON object per line, for log collectors."""

    def say(self, text: str) -> None:
        self.event("says", {"text": text})

    def event(self, what: str, facts: dict[str, Any]) -> None:
        typer.echo(json.dumps({"time": datetime.now(UTC).isoformat(), "event": what, **facts}))

    def round(self, record: Round) -> None:
        objective = record.objective if math.isfinite(record.objective) else None
        self.event("round", {"round": record.round, "objective": objective, "seconds": record.seconds})


def watcher(log: str) -> Terminal | JsonLines:
    """The listener for --log text or --log json."""
    return JsonLines() if log == "json" else Terminal()
