"""One party's side of the alignment: it answers parcels, and stores what it needs to go on after a kill.

announce   how many ids this party brings
begin      how many each party brings
give       the next elements of a set, blinded by this party and in its own secret order
take       elements of another party's set, to be blinded
propose    how many rows are common: does this party agree to use them?
trace      places in the set that this party gave, answered with their places in the set that it took;
           at the owner of the set: the places of the common ids
check      a keyed digest of the common ids

Every question may be repeated: after a kill the coordinator may not know what was answered before.
"""

import hashlib
import hmac
import secrets
import shutil
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from plait._files import read_json, write_json
from plait._names import is_hex
from plait.alignment import group
from plait.alignment.group import ELEMENT_BYTES
from plait.alignment.ids import AlignmentOptions, Ids
from plait.alignment.meter import Meter
from plait.alignment.mixing import SEED_BYTES, Secret
from plait.alignment.order import Order
from plait.alignment.parcels import BATCH, PLACE, PLACES, beyond, keep_once, need_distinct, read_sizes, whole
from plait.alignment.proposal import Consent, Proposal
from plait.alignment.spool import Spool
from plait.errors import ProtocolError, StorageError
from plait.messages import Parcel

_OTHER_PARCELS = 8  # parcels without elements or places, at most: so many for each set, and as many for the alignment
_REPEATED = 4  # times that each question may be asked: a coordinator that was killed asks some of them again


_STORED = {"seed": str, "checksum": int, "sizes": {...: int}, "agreed": int}


@dataclass(frozen=True)
class _State:
    """What must survive a kill; it is private, and removed when the alignment has ended."""

    seed: str
    checksum: int
    sizes: dict[str, int]
    agreed: int = 0


class Aligner:
    """The ids of one party, and its secret for one alignment."""

    def __init__(
        self,
        name: str,
        ids: Ids,
        folder: Path,
        options: AlignmentOptions,
        key: bytes,
        consent: Consent,
        meter: Meter,
        members: frozenset[str] | None = None,
        optional: frozenset[str] = frozenset(),
    ) -> None:
        """`members` are all who may bring a set, and those in `optional` may be absent; None where nobody checks."""
        self._members = members
        self._optional = optional
        self._distinct: set[str] = set()
        self.name = name
        self.folder = folder
        self._ids = ids
        self._options = options
        self._key = key
        self._consent = consent
        self._meter = meter
        self._work = folder / "work"
        self._spools: dict[str, Spool] = {}
        self._given = 0
        self._order = lru_cache(maxsize=2)(self._make_order)
        self._state = self._restore()
        self._set_meter()
        self._secret = Secret(bytes.fromhex(self._state.seed))

    def receive(self, parcel: Parcel) -> Parcel:
        """The answer to a parcel; ProtocolError unless the parcel fits what was agreed before."""
        answer = {
            "announce": self._announce,
            "begin": self._begin,
            "give": self._give,
            "take": self._take,
            "propose": self._propose,
            "trace": self._trace,
            "check": self._check,
        }.get(parcel.what)
        if answer is None:
            raise ProtocolError(f"an alignment knows no {parcel.what!r}. Is the coordinator another version of plait?")
        if not self._state.sizes and parcel.what not in ("announce", "begin"):
            raise ProtocolError(f"an alignment must begin with the sizes of all sets. Found {parcel.what!r}.")
        return answer(parcel)

    @property
    def most_parcels(self) -> int:
        """How many questions an alignment of these sets takes at most, with a few restarts of the coordinator."""
        sets = [
            2 * (-(-size // BATCH)) + 2 * (-(-size // PLACES)) + _OTHER_PARCELS for size in self._state.sizes.values()
        ]
        return _REPEATED * (sum(sets) + _OTHER_PARCELS)

    def finish(self, ok: bool, resumable: bool) -> None:
        """Keep the order; forget the secret, unless the alignment may go on later."""
        if ok and not Order.exists(self.folder):
            self._common_order().save(self.folder, self._ids)
        if not resumable:
            shutil.rmtree(self._work, ignore_errors=True)

    def _announce(self, parcel: Parcel) -> Parcel:
        return Parcel("announce", self.name, self._ids.width, len(self._ids.texts))

    def _begin(self, parcel: Parcel) -> Parcel:
        sizes = read_sizes(parcel.data)
        own, most = len(self._ids.texts), self._options.max_rows
        if self._members is not None and not self._members - self._optional <= set(sizes) <= self._members:
            raise ProtocolError(
                f"an alignment must be among {', '.join(sorted(self._members))}. Found {len(sizes)} sets, of others."
            )
        if len(sizes) < 2 or sizes.get(self.name) != own or not all(1 <= n <= most for n in sizes.values()):
            raise ProtocolError(
                f"an alignment must have two sets or more, the {own} ids of {self.name!r} among them, none larger than "
                f"alignment.max_rows = {most}. Found {str(sizes)[:200]}."
            )
        if self._members is not None and min(sizes.values()) < min(own, self._options.min_rows):
            raise ProtocolError(
                f"every set must have at least {self._options.min_rows} ids (alignment.min_rows), or "
                f"it would test single ids. Found one of {min(sizes.values())}."
            )
        if self._state.sizes not in ({}, sizes):
            raise ProtocolError(
                f"the sets must stay the same. Found sizes {sizes}, before {self._state.sizes}. Start over: --refresh."
            )
        self._remember(replace(self._state, sizes=sizes))
        self._set_meter()
        return Parcel("begin", self.name, data=self._secret.tag)

    def _give(self, parcel: Parcel) -> Parcel:
        owner, size = parcel.owner, self._size(parcel.owner)
        if parcel.count > BATCH or parcel.start + parcel.count > size:
            raise ProtocolError(f"at most {BATCH} of the {size} ids of {owner!r} can be asked for. Found more.")
        taken = None if owner == self.name else self._complete(owner)  # checked before its order takes memory
        places = self._order(owner)[parcel.start : parcel.start + parcel.count]
        if taken is None:
            elements = group.hash_and_blind(self._ids.messages(places), self._secret.exponent)
            self._meter.skip(max(0, parcel.start - self._given))
            self._meter.add(len(places))
            self._given = parcel.start + len(places)
        else:
            elements = taken.records()[places].tobytes()
        return replace(parcel, data=elements)

    def _take(self, parcel: Parcel) -> Parcel:
        """Blind the elements of a parcel and store them; the answer is how many are stored.  A parcel may be empty."""
        owner, size = parcel.owner, self._size(parcel.owner)
        taken, end = self._taken(owner), parcel.start + whole(parcel, ELEMENT_BYTES)
        if owner == self.name or end > size:
            raise ProtocolError(f"party {owner!r} announced {size} ids. Found {end}, or its own set came back.")
        if parcel.data and end > taken.count:
            new = beyond(taken, parcel, ELEMENT_BYTES)
            taken.append(group.blind(new, self._secret.exponent))
            self._meter.add(len(new) // ELEMENT_BYTES)
        return Parcel("take", owner, 0, taken.count)

    def _propose(self, parcel: Parcel) -> Parcel:
        common, sizes = parcel.count, self._state.sizes
        if not self._options.min_rows <= common <= min(sizes.values()):
            raise ProtocolError(
                f"at least {self._options.min_rows} and at most {min(sizes.values())} rows can be common. Found "
                f"{common}."
            )
        if self._state.agreed not in (0, common):
            raise ProtocolError(f"{self._state.agreed} common rows were agreed on. Found {common}.")
        if not self._state.agreed:
            if not self._consent(Proposal(self.name, sizes, common)):
                return Parcel("declined", self.name)
            self._remember(replace(self._state, agreed=common))
        return Parcel("agreed", self.name)

    def _trace(self, parcel: Parcel) -> Parcel:
        owner, size = parcel.owner, self._size(parcel.owner)
        end = parcel.start + whole(parcel, PLACE.itemsize)
        places = np.frombuffer(parcel.data, PLACE)
        if end > self._state.agreed:
            raise ProtocolError(f"{self._state.agreed} common rows were agreed on. Found {end}: nothing is shown.")
        if len(places) and (places[-1] >= size or not np.all(places[1:] > places[:-1])):
            raise ProtocolError("places must ascend within their set. Found others.")
        known = self._spool("common" if owner == self.name else f"traced-{owner}", PLACE.itemsize)
        keep_once(known, parcel)
        if owner == self.name:
            return Parcel("trace", owner, 0, known.count)
        self._complete(owner)
        return replace(parcel, data=self._order(owner)[places].astype(PLACE).tobytes())

    def _check(self, parcel: Parcel) -> Parcel:
        seal = hmac.new(self._key, digestmod=hashlib.sha256)
        order = self._common_order()
        for part in order.ids.chunks():
            seal.update(part.framed())
        return Parcel("check", self.name, 0, len(order.ids), seal.digest())

    def _common_order(self) -> Order:
        common = self._spool("common", PLACE.itemsize)
        if not self._state.agreed or common.count != self._state.agreed:
            raise ProtocolError(f"{self._state.agreed} common rows were agreed on. Found {common.count}.")
        given = common.records().view(PLACE)[:, 0]
        return Order.of(self._ids, self._order(self.name)[given], self._state.sizes)

    def _make_order(self, owner: str) -> Any:
        return self._secret.order(owner, self._size(owner))

    def _size(self, owner: str) -> int:
        if owner not in self._state.sizes:
            raise ProtocolError(f"the sets are those of {', '.join(self._state.sizes)}. Found {owner!r}.")
        return self._state.sizes[owner]

    def _complete(self, owner: str) -> Spool:
        taken = self._taken(owner)
        if taken.count != self._size(owner):
            raise ProtocolError(f"the whole set of {owner!r} must be here before it leaves. Found {taken.count} of it.")
        if owner not in self._distinct:
            need_distinct(taken, owner)
            self._distinct.add(owner)
        return taken

    def _taken(self, owner: str) -> Spool:
        return self._spool(f"taken-{owner}", ELEMENT_BYTES)

    def _spool(self, name: str, size: int) -> Spool:
        if name not in self._spools:
            self._spools[name] = Spool(self._work / name, size)
        return self._spools[name]

    def _restore(self) -> _State:
        path = self._work / "state.json"
        if not path.exists():
            shutil.rmtree(self._work, ignore_errors=True)
            return _State(secrets.token_hex(SEED_BYTES), self._ids.checksum, {})
        content = read_json(path, "the state of an alignment", _STORED)
        state = _State(content["seed"], content["checksum"], content["sizes"], content["agreed"])
        if state.checksum != self._ids.checksum or not is_hex(state.seed, SEED_BYTES):
            raise StorageError(
                f"{self._work} must belong to these ids. Found others: the file, or its id rules, have changed. "
                "Restore them, or start over with --refresh."
            )
        return state

    def _remember(self, state: _State) -> None:
        """Write the state to disk, before anything that follows from it is sent."""
        if state != self._state:
            write_json(self._work / "state.json", {"format": 1, **asdict(state)})
            self._state = state

    def _set_meter(self) -> None:
        sizes = self._state.sizes
        before = sum(self._taken(name).count for name in sizes if name != self.name)
        self._meter.start(sum(sizes.values()), before)
