"""Members of an alignment in this process, with a record of everything that they say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plait.alignment.aligner import Aligner
from plait.alignment.ids import AlignmentOptions, Ids, clean_ids
from plait.alignment.meeting import Meeting
from plait.alignment.meter import Meter
from plait.alignment.order import Order
from plait.alignment.proposal import Consent, agree
from plait.messages import Parcel

KEY = bytes(32)
OPTIONS = AlignmentOptions(min_rows=1)


@dataclass
class Listened:
    """An aligner whose words are written down."""

    aligner: Aligner
    near: bool = True
    asked: list[Parcel] = field(default_factory=list)
    said: list[Parcel] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.aligner.name

    def ask(self, parcel: Parcel) -> Parcel:
        self.asked.append(parcel)
        answer = self.aligner.receive(parcel)
        self.said.append(answer)
        return answer


def ids_of(name: str, columns: Sequence[Sequence[Any]], options: AlignmentOptions = OPTIONS) -> Ids:
    names = [f"c{i}" for i in range(len(columns))]
    return clean_ids(name, names, columns, options, repeated="first", missing="drop")


def invite(
    folder: Path, sets: Mapping[str, Sequence[Any]], options: AlignmentOptions = OPTIONS, consent: Consent = agree
) -> list[Listened]:
    """Members with one id column each."""
    return [
        Listened(
            Aligner(name, ids_of(name, [ids], options), folder / name, options, KEY, consent, Meter(lambda pace: None))
        )
        for name, ids in sets.items()
    ]


def align(folder: Path, members: Sequence[Listened], options: AlignmentOptions = OPTIONS) -> None:
    Meeting(members, options, folder / "relay").run(lambda text: None)


def orders(folder: Path, members: Sequence[Listened], ids: Mapping[str, Ids]) -> dict[str, Order]:
    """What every member keeps in the end."""
    for member in members:
        member.aligner.finish(ok=True, resumable=False)
    return {member.name: Order.load(folder / member.name, ids[member.name]) for member in members}
