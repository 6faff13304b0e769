"""What a running program tells whoever watches it."""

from typing import Any, Protocol

from plait.training.history import Round


class Progress(Protocol):
    """A listener: sentences for people, events for logs, and a record per round."""

    def say(self, text: str) -> None: ...

    def event(self, what: str, facts: dict[str, Any]) -> None: ...

    def round(self, record: Round) -> None: ...


class Silent:
    """Listens to nothing."""

    def say(self, text: str) -> None:
        return

    def event(self, what: str, facts: dict[str, Any]) -> None:
        return

    def round(self, record: Round) -> None:
        return
