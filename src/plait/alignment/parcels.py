"""What the parcels of an alignment hold: elements, places and sizes, each checked before it is used."""

import json

import numpy as np

from plait.alignment.spool import Spool
from plait.errors import ProtocolError
from plait.messages import Parcel

BATCH = 1 << 14
"""Elements in one parcel: half a megabyte, about a second of work for one core."""
PLACES = 1 << 16  # places in one parcel: half a megabyte, as much as a parcel of elements
PLACE = np.dtype("<u8")  # a place in a set: 8 bytes, little-endian, the same on every machine
_MOST_SETS = 1000  # sets in one alignment, at most: one for each party of the job


def whole(parcel: Parcel, size: int) -> int:
    """How many records of `size` bytes a parcel holds; ProtocolError where one is cut short."""
    count, odd = divmod(len(parcel.data), size)
    if odd:
        raise ProtocolError(f"a parcel must hold whole records of {size} bytes each. Found {len(parcel.data)} bytes.")
    return count


def beyond(spool: Spool, parcel: Parcel, size: int) -> bytes:
    """The records of a parcel that the spool does not hold yet: after a kill a parcel may come again."""
    if parcel.start > spool.count:
        raise ProtocolError(f"a set must come in order. Found place {parcel.start} after {spool.count}.")
    return parcel.data[(spool.count - parcel.start) * size :]


def keep_once(known: Spool, parcel: Parcel) -> None:
    """Store the places of a parcel; places that came before must be the same, and new ones follow them in order.

    So no more places are ever traced back than were agreed on, however often the coordinator asks.
    """
    places = np.frombuffer(parcel.data, PLACE)
    if parcel.start > known.count:
        raise ProtocolError(f"places must come in order. Found place {parcel.start} after {known.count}.")
    held = known.records().view(PLACE)[:, 0]
    again, new = np.split(places, [min(len(places), known.count - parcel.start)])
    if not np.array_equal(held[parcel.start : parcel.start + len(again)], again):
        raise ProtocolError("places that were led back must stay the same. Found others. Nothing is shown.")
    if len(new):
        if known.count and new[0] <= held[-1]:
            raise ProtocolError("places must ascend within their set. Found others.")
        known.append(new.tobytes())


def need_distinct(taken: Spool, owner: str) -> None:
    """Raise ProtocolError where an element occurs twice: its number of copies would mark it, whatever its order."""
    elements = taken.records()
    first = np.ascontiguousarray(elements[:, :8]).view("<u8")[:, 0]
    values, counts = np.unique(first, return_counts=True)
    alike = elements[np.isin(first, values[counts > 1])]
    if len({row.tobytes() for row in alike}) < len(alike):
        raise ProtocolError(f"the elements of a set must be different. Found one twice in the set of {owner!r}.")


def read_sizes(data: bytes) -> dict[str, int]:
    """Sizes by party, from JSON; ProtocolError when it is something else."""
    try:
        sizes = json.loads(data)
    except (ValueError, RecursionError):
        sizes = None
    if not isinstance(sizes, dict) or len(sizes) > _MOST_SETS or not all(type(n) is int for n in sizes.values()):
        raise ProtocolError("the sizes of all sets must be whole numbers by party. Found something else.")
    return sizes
