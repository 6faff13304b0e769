"""The coordinator's end of a protected run: offers, hints and keys first, then encrypted gradients and sums."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from plait._types import Array
from plait.errors import PlaitError, ProtocolError
from plait.messages import Broadcast, Form, Share, Transport
from plait.protection.inner_product import GradientEncryptor
from plait.protection.leverage import MAX_COLUMNS_SHARE, check_width
from plait.protection.messages import MAX_COLUMNS, NONCE_BYTES, Hints, Offer, hints_size
from plait.protection.modes import Protection
from plait.protection.parameters import SETS
from plait.protection.randomness import KEY_BYTES, derive
from plait.protection.secure_sums import ANNOUNCEMENT_BYTES
from plait.training.protected import Sealer, SumReader, from_words, masked_form, summed_groups, to_words, words_of

assert NONCE_BYTES == KEY_BYTES  # a derived key serves as a nonce


@dataclass(frozen=True)
class CoordinatorShield:
    """Stands between the coordinator's half of a method and the transport.

    sealers   encrypt, one for each party
    reader    adds up masked shares; None in "labels"
    columns   how many columns each party has encrypted
    bytes     how many bytes its hints took, once
    """

    sealers: Mapping[str, Sealer]
    reader: SumReader | None
    columns: Mapping[str, int]
    bytes: Mapping[str, int]

    def seal(self, requests: Mapping[str, Broadcast], inward: bool) -> tuple[dict[str, Broadcast], Array | None]:
        """The requests as they travel, and the gradient (N,) that they hold, rounded, `inward` for kinked losses."""
        said, held = {}, None
        for name, request in requests.items():
            said[name], found = self.sealers[name].seal(request, inward)
            held = held if found is None else found
            if self.reader is not None and request.expects is not None:
                said[name] = replace(said[name], expects=masked_form(request.expects))
        return said, held

    def read(self, shares: Mapping[str, Share], vector: bool) -> Mapping[str, Share]:
        """The shares, or what may be known of their sums; `vector` says whether they have one beside the scalars."""
        return shares if self.reader is None else self.reader.read(shares, vector)


def agree(
    protection: Protection, parties: tuple[str, ...], rows: int, transport: Transport, secret: bytes
) -> CoordinatorShield:
    """Exchange what a protected run needs before round 1.

    All of it follows from the secret (32 bytes, of this run only): a coordinator that resumes asks the same again.
    """
    sums = protection.mode == "sums"
    offers = {name: Offer(rows, derive(secret, "offer", name)) for name in parties}
    form = _answers(rows, sums)
    asked = {name: Broadcast(0, to_words(offer.encode()), expects=form) for name, offer in offers.items()}
    answers = transport.exchange(asked)
    sealers, columns, keys, sizes = {}, {}, {}, {}
    for name, share in answers.items():
        if share.vector is None:
            raise ProtocolError(f"{name} must answer an offer with its encrypted columns. Found nothing. End the run.")
        with _sent_by(name):
            first, *keys[name] = from_words(share.vector, 1 + sums)
            hints = Hints.decode(first)
            check_width(rows, hints.columns)
            sealers[name] = Sealer(GradientEncryptor(offers[name], hints, derive(secret, "gradients", name)))
        columns[name], sizes[name] = hints.columns, len(first)
    groups = summed_groups(protection, parties)
    if sums:
        nothing = Form.of(None, 0)
        told = {name: to_words(*(keys[other][0] for other in group)) for group in groups for name in group}
        transport.exchange({name: Broadcast(0, told[name], expects=nothing) for name in parties})
    return CoordinatorShield(sealers, SumReader(rows, groups) if sums else None, columns, sizes)


def read_hints(name: str, data: bytes) -> Hints:
    """A party's hints; ProtocolError names it where they are malformed."""
    with _sent_by(name):
        return Hints.decode(data)


@contextmanager
def _sent_by(name: str) -> Iterator[None]:
    """Errors about what a party has sent name the party."""
    try:
        yield
    except PlaitError as error:
        raise ProtocolError(f"party {name!r}: {error}") from error


def _answers(rows: int, sums: bool) -> Form:
    """What an offer may be answered with: hints for every number of columns that is allowed."""
    key = words_of(ANNOUNCEMENT_BYTES) if sums else 0
    return Form(scalars=frozenset({0}), vector=True, words=frozenset(size + key for size in hint_sizes(rows)))


def hint_sizes(rows: int) -> set[int]:
    """How many words hints may have."""
    most = max(1, min(MAX_COLUMNS, int(MAX_COLUMNS_SHARE * rows)))
    found: set[int] = set()
    for each in SETS:
        one, two = (words_of(hints_size(columns, each)) for columns in (1, 2))  # every column takes as many whole words
        found.update(range(one, one + most * (two - one), two - one))
    return found
