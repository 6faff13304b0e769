"""What a report is made of, whether it becomes HTML or Markdown."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Heading:
    text: str
    level: int = 2


@dataclass(frozen=True)
class Words:
    text: str


@dataclass(frozen=True)
class Grid:
    """A table; `name` says what it shows."""

    name: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Picture:
    path: Path
    title: str
    caption: str


Block = Heading | Words | Grid | Picture
