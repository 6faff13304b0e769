"""The coordinator's side of the alignment: it passes every set through every member, and finds the common rows.

In step s member j blinds the set of member j - s, its own set first.  A set leaves every member in another secret
order, so nobody can follow an id.  When all members have blinded all sets, equal ids are equal elements.  Only the
elements that every set holds are traced back, member by member, to their owners.
"""

import hmac
import json
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from plait._files import read_json, write_json
from plait.alignment import group
from plait.alignment.group import ELEMENT_BYTES
from plait.alignment.ids import AlignmentOptions
from plait.alignment.matching import common_places
from plait.alignment.parcels import BATCH, PLACE, PLACES
from plait.alignment.plan import plan
from plait.alignment.spool import Spool
from plait.errors import InputError, PrivacyError, ProtocolError
from plait.messages import Parcel

T = TypeVar("T")


class Member(Protocol):
    """A party whose ids are aligned, in this process or in another."""

    @property
    def name(self) -> str: ...

    @property
    def near(self) -> bool:
        """Whether it runs in this process: then its elements are not validated, and it is asked for consent in turn."""
        ...

    def ask(self, parcel: Parcel) -> Parcel: ...


class Meeting:
    """One alignment among members; `folder` holds every set while it passes from member to member."""

    def __init__(self, members: Sequence[Member], options: AlignmentOptions, folder: Path) -> None:
        self._members = members
        self._options = options
        self._folder = folder
        self._sizes: dict[str, int] = {}
        self._failed = threading.Event()
        self._turns = {member.name: threading.Lock() for member in members}

    def run(self, say: Callable[[str], None]) -> int:
        """Align the rows and return how many are common; every member then knows which of its rows these are."""
        self._sizes = self._agree_on_sizes()
        say("ids: " + ", ".join(f"{name} {size:,}" for name, size in self._sizes.items()))
        if planned := plan(self._sizes, self._folder):
            say(planned)
        finals = self._blind_all()
        places = common_places([spool.records() for spool in finals])
        common = len(places[0])
        say(f"{common:,} common rows")
        if common < self._options.min_rows:
            raise InputError(
                f"all parties together must share at least {self._options.min_rows} rows. Found {common}. Do the "
                "id columns (data.id) hold the same ids everywhere, with the same zeros in front? Rules can make them "
                "alike: alignment.trim, case and unicode in the job. If few rows are common indeed, lower "
                "alignment.min_rows in the job."
            )
        self._ask_for_consent(common)
        self._everyone(lambda member: self._trace(member, places[self._members.index(member)]))
        self._compare(common)
        return common

    def _agree_on_sizes(self) -> dict[str, int]:
        said = self._everyone(lambda member: self._ask(member, Parcel("announce")))
        widths = {member.name: answer.start for member, answer in zip(self._members, said, strict=True)}
        if len(set(widths.values())) > 1:
            raise InputError(f"all parties must compose ids of as many columns. Found {widths}. Correct data.id.")
        sizes = {member.name: answer.count for member, answer in zip(self._members, said, strict=True)}
        for name, size in sizes.items():
            if not 1 <= size <= self._options.max_rows:
                raise ProtocolError(f"party {name!r} may bring 1 to {self._options.max_rows} ids. Found {size}.")
        data = json.dumps(sizes).encode()
        begun = self._everyone(lambda member: self._ask(member, Parcel("begin", data=data)))
        self._need_same_secrets({m.name: answer.data.hex() for m, answer in zip(self._members, begun, strict=True)})
        return sizes

    def _need_same_secrets(self, tags: dict[str, str]) -> None:
        """Refuse a member whose secret has changed: sets in `folder` were blinded with the one before."""
        path = self._folder / "secrets.json"
        before = read_json(path, "the members of an alignment", {"tags": {...: str}})["tags"] if path.exists() else tags
        for name in tags:
            if before.get(name) != tags[name]:
                raise ProtocolError(
                    f"party {name!r} must go on with the secret that it began with. Found another: its run folder was "
                    "removed or replaced. The next start begins a new run."
                )
        write_json(path, {"format": 1, "tags": tags})

    def _blind_all(self) -> list[Spool]:
        count = len(self._members)
        for step in range(count):
            self._everyone(lambda member, step=step: self._pass_on(member, step))  # type: ignore[misc]
            for owner in self._members:
                (self._folder / f"{step - 1}-{owner.name}").unlink(missing_ok=True)
        return [Spool(self._folder / f"{count - 1}-{member.name}", ELEMENT_BYTES) for member in self._members]

    def _pass_on(self, member: Member, step: int) -> None:
        """Let a member blind the set whose turn it is, and fetch the outcome."""
        owner = self._members[(self._members.index(member) - step) % len(self._members)].name
        outcome = Spool(self._folder / f"{step}-{owner}", ELEMENT_BYTES)
        if outcome.count < self._sizes[owner]:
            if step > 0:
                self._push(member, owner, step - 1)
            last = step == len(self._members) - 1
            self._pull(member, owner, outcome, validate=last and not member.near)

    def _push(self, member: Member, owner: str, step: int) -> None:
        elements = Spool(self._folder / f"{step}-{owner}", ELEMENT_BYTES).records()
        held = self._ask(member, Parcel("take", owner)).count
        while held < len(elements):
            parcel = Parcel("take", owner, held, 0, elements[held : held + BATCH].tobytes())
            held = self._advanced(member, held, self._ask(member, parcel).count)

    def _pull(self, member: Member, owner: str, outcome: Spool, validate: bool) -> None:
        while (left := self._sizes[owner] - outcome.count) > 0:
            wanted = min(left, BATCH)
            data = self._ask(member, Parcel("give", owner, outcome.count, wanted)).data
            if len(data) != wanted * ELEMENT_BYTES:
                raise ProtocolError(
                    f"party {member.name!r} must give {wanted} elements of 32 bytes. Found {len(data)} bytes."
                )
            if validate:
                group.check(data)
            outcome.append(data)

    def _ask_for_consent(self, common: int) -> None:
        """Members elsewhere are asked all at once; those in this process share a terminal and are asked one by one."""

        def ask(member: Member) -> Parcel:
            return self._ask(member, Parcel("propose", count=common))

        near = [member for member in self._members if member.near]
        far = [member for member in self._members if not member.near]
        said = self._together(ask, far, lambda: [ask(member) for member in near])
        declined = [answer.owner for answer in said if answer.what != "agreed"]
        if declined:
            raise PrivacyError(
                f"every party must agree to use the {common} common rows. Found that {', '.join(declined)} declined"
                ". Nobody has learned which they are."
            )

    def _trace(self, owner: Member, places: Any) -> None:
        """Trace places in the fully blinded set of `owner` back to it, and send it the result."""
        at = self._members.index(owner)
        count = len(self._members)
        for step in range(count - 1, 0, -1):
            member = self._members[(at + step) % count]
            places = np.sort(np.concatenate([self._traced(member, owner.name, part) for part in _parts(places)]))
        held = self._ask(owner, Parcel("trace", owner.name)).count
        while held < len(places):
            data = places[held : held + PLACES].astype(PLACE).tobytes()
            held = self._advanced(owner, held, self._ask(owner, Parcel("trace", owner.name, held, 0, data)).count)

    def _traced(self, member: Member, owner: str, part: tuple[int, Any]) -> Any:
        start, places = part
        data = self._ask(member, Parcel("trace", owner, start, 0, places.astype(PLACE).tobytes())).data
        answer = np.frombuffer(data[: len(data) // PLACE.itemsize * PLACE.itemsize], PLACE)
        if len(answer) != len(places) or (answer >= self._sizes[owner]).any():
            raise ProtocolError(f"party {member.name!r} must lead back {len(places)} places. Found others.")
        return answer

    def _compare(self, common: int) -> None:
        said = self._everyone(lambda member: self._ask(member, Parcel("check")))
        for member, answer in zip(self._members, said, strict=True):
            if answer.count != common or not hmac.compare_digest(answer.data, said[0].data):
                raise ProtocolError(
                    f"all parties must end with the same {common} ids. Found others at {member.name!r}. A party is "
                    "faulty, or not honest: nothing is trained."
                )

    def _advanced(self, member: Member, before: int, after: int) -> int:
        if after <= before:
            raise ProtocolError(f"party {member.name!r} must take what it is given. Found {after} after {before}.")
        return after

    def _everyone(self, work: Callable[[Member], T]) -> list[T]:
        return self._together(work, self._members, list)

    def _together(
        self, work: Callable[[Member], T], members: Sequence[Member], meanwhile: Callable[[], list[T]]
    ) -> list[T]:
        """Do the same work with several members at once; after an error the others stop at their next question."""
        pool = ThreadPoolExecutor(max(1, len(members)), "plait-meeting")
        try:
            futures = [pool.submit(work, member) for member in members]
            here = meanwhile()
            for done in as_completed(futures):
                done.result()
            return here + [future.result() for future in futures]
        except BaseException:
            self._failed.set()
            raise
        finally:
            pool.shutdown(wait=False)

    def _ask(self, member: Member, parcel: Parcel) -> Parcel:
        with self._turns[member.name]:  # a member answers one question at a time
            if self._failed.is_set():
                raise ProtocolError("the alignment has ended.")
            return member.ask(parcel)


def _parts(places: Any) -> Iterable[tuple[int, Any]]:
    return ((start, places[start : start + PLACES]) for start in range(0, len(places), PLACES))
