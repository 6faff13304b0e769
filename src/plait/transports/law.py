"""The rules of a conversation: what a peer sends after its greeting is checked here first.

Each side makes its law, an object that holds the rules, from the agreed job (see `plait.deployment.law`).  It knows
which message may come next, its exchange, round, shape, number format, range and size, and how many may come in all.
Everything else is a ProtocolError, before it is computed with, stored, or logged at length.

    at a party         PartyLaw.read(frame)      ->  a request of the coordinator, or its end
    at a coordinator   AnswerLaw.read(frame)     ->  the answer to the request that is under way
                       QueryLaw.read(frame)      ->  the answer to one of the queries that are under way
"""

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from plait.errors import ProtocolError
from plait.messages import LARGEST, MOST_SCALARS, NO_BOUND, Broadcast, Form, Message, Parcel, Share
from plait.transports import handshake
from plait.transports.frames import Assembler, Frame, Kind, Numbered, unpack, unpack_parcel
from plait.transports.handshake import Alive, Finished, Load, Meet, Query, Refused
from plait.transports.mailbox import Answer, Ask

PARCELS = ("announce", "begin", "give", "take", "propose", "trace", "check")
"""All that a coordinator may ask in an alignment."""
ANSWERS = (*PARCELS, "agreed", "declined")

BY_ID = ("serve", "predict")
"""The purposes for which a coordinator may ask for scores by id."""

TYPES = {
    "float64": (np.dtype(np.float64),),
    "float32": (np.dtype(np.float32),),
    "int16": (np.dtype(np.int16), np.dtype(np.float32)),  # a run that goes on where steps gain no more
}
"""Every number format, and the type of a vector that is sent in it."""
WORDS = np.dtype(np.uint64)
"""The type of a vector that is encrypted or masked."""
SCORED, NOT_SCORED, LIMIT_REACHED, MEETING_OVER = 0.0, 1.0, -1.0, -2.0
"""The marks of an id in an answer to a query: its part is there; it is not, for any reason; the party's allowance is
used up; the keys of this query's masks are gone, and the parties must meet anew."""
MASKED_WORDS = 4  # 64-bit words of a masked part of a score: any double, without rounding
Asked: TypeAlias = Query | Load | Meet | Alive
"""What may be asked while scores are given."""


NOTHING = Form()
"""A message without a vector."""


@dataclass(frozen=True)
class Agreement:
    """What a party has agreed to answer in one conversation.

    purpose     "fit", "align", "predict" or "serve"
    form        what a broadcast may be
    precision   the number format of its vector
    rounds      the highest round
    """

    purpose: str
    form: Form = NOTHING
    precision: str = "float64"
    rounds: int = 0


@dataclass(frozen=True)
class Request:
    """A numbered question of the coordinator, and the number of the broadcast that it says came before."""

    seq: int
    item: Broadcast | Asked | Parcel
    before: int = 0


class PartyLaw:
    """What a coordinator may say to a party, one frame after another."""

    def __init__(self, agreement: Agreement) -> None:
        self._agreed = agreement
        self._assembler = Assembler(Kind.BROADCAST, *agreement.form.lengths, *agreement.form.words)
        self._round = 0

    def read(self, data: bytes) -> Request | Finished | Refused | None:
        """What the coordinator says; None while a message is not complete."""
        frame = unpack(data)
        if frame.kind is Kind.CONTROL:
            return self._control(frame)
        if frame.kind is Kind.PARCEL and self._agreed.purpose == "align":
            return self._parcel(frame)
        if frame.kind in (Kind.BROADCAST, Kind.CHUNK) and self._agreed.purpose == "fit":
            done = self._assembler.add(frame)
            return None if done is None else self._broadcast(done)
        raise ProtocolError(f"this party is here to {self._agreed.purpose}. Found a {frame.kind.name.lower()}.")

    def _control(self, frame: Frame) -> Request | Finished | Refused:
        said = handshake.decode(frame)
        if isinstance(said, Finished | Refused):
            return said
        if isinstance(said, Query | Load | Meet | Alive) and self._agreed.purpose in BY_ID:
            return Request(frame.seq, said)
        raise ProtocolError(
            f"the coordinator must ask or end here, and this party is here to {self._agreed.purpose}. Found "
            f"{type(said).__name__}."
        )

    def _parcel(self, frame: Frame) -> Request:
        parcel = unpack_parcel(frame)
        if parcel.what not in PARCELS:
            raise ProtocolError(f"an alignment knows {', '.join(PARCELS)}. Found another word of {len(parcel.what)}.")
        return Request(frame.seq, parcel)

    def _broadcast(self, done: Numbered) -> Request:
        message, agreed = done.message, self._agreed
        assert isinstance(message, Broadcast)
        need_form(message, agreed.form, agreed.precision, "a broadcast")
        first = self._round - message.closing  # a run that ends within a round closes with the round before it
        if not first <= message.round <= agreed.rounds:
            raise ProtocolError(
                f"the job has rounds {self._round} to {agreed.rounds} from here on. Found a broadcast of round "
                f"{message.round}. Nothing was answered."
            )
        if not done.before < done.seq:
            raise ProtocolError(f"a broadcast must follow the one before it. Found {done.seq} after {done.before}.")
        self._round = max(self._round, message.round)
        return Request(done.seq, message, done.before)


class AnswerLaw:
    """What one party may answer, one frame after another."""

    def __init__(self, party: str, form: Form, precision: str) -> None:
        self._party = party
        self._form = form
        self._precision = precision
        self._ask: Ask | None = None
        self._assembler: Assembler | None = None

    def expect(self, ask: Ask) -> None:
        """The request that is under way now: nothing but its answer may come."""
        self._ask = ask
        form = self._of(ask)
        self._assembler = None if isinstance(ask.item, Parcel) else Assembler(Kind.SHARE, *form.lengths, *form.words)

    def read(self, data: bytes) -> Answer | Finished | None:
        """The answer, or how the party ended; None while the answer is not complete."""
        frame, ask = unpack(data), self._ask
        if ask is None:
            raise ProtocolError(f"party {self._party!r} must wait for a request. Found a frame before it.")
        if frame.kind is Kind.CONTROL:
            said = handshake.decode(frame)
            if isinstance(said, Finished) and not said.ok:
                return said
            raise ProtocolError(f"party {self._party!r} must answer exchange {ask.seq}. Found {type(said).__name__}.")
        if frame.seq != ask.seq:
            raise ProtocolError(
                f"party {self._party!r} must answer exchange {ask.seq}. Found an answer to {frame.seq}."
            )
        if self._assembler is None:
            return self._parcel(frame)
        answer = self._assembler.share(frame)
        return None if answer is None else self._share(answer, ask)

    def _parcel(self, frame: Frame) -> Parcel:
        parcel = unpack_parcel(frame)
        if parcel.what not in ANSWERS:
            raise ProtocolError(f"party {self._party!r} must answer a parcel with one of {', '.join(ANSWERS)}.")
        return parcel

    def _share(self, share: Share, ask: Ask) -> Share:
        form, who = self._of(ask), f"the share of party {self._party!r}"
        need_form(share, form, self._precision, who)
        wanted = ask.item.round if isinstance(ask.item, Broadcast) else 0
        if share.round != wanted:
            raise ProtocolError(f"{who} must be of round {wanted}. Found round {share.round}.")
        return share

    def _of(self, ask: Ask) -> Form:
        expected = ask.item.expects if isinstance(ask.item, Broadcast) else None
        return self._form if expected is None else expected


class QueryLaw:
    """What one party may answer while several queries are under way, one frame after another."""

    def __init__(self, party: str) -> None:
        self._party = party
        self._asked: dict[int, Asked] = {}
        self._assembler: Assembler | None = None

    def expect(self, seq: int, item: Asked) -> None:
        """One more question is under way."""
        self._asked[seq] = item

    def read(self, data: bytes) -> tuple[int, Share | Load | Meet | Alive] | Finished | None:
        """An answer and the number of its question, or how the party ended; None while an answer is not complete."""
        frame = unpack(data)
        if frame.kind is Kind.CONTROL:
            said = handshake.decode(frame)
            if isinstance(said, Finished):
                return said
            self._need_answer(frame, said)
            assert isinstance(said, Load | Meet | Alive)
            del self._asked[frame.seq]
            return frame.seq, said
        asked = self._asked.get(frame.seq)
        if not isinstance(asked, Query):
            raise ProtocolError(f"party {self._party!r} must answer a query. Found an answer to {frame.seq}.")
        form = _parts_of(asked)
        self._assembler = self._assembler or Assembler(Kind.SHARE, *form.lengths, *form.words)
        share = self._assembler.share(frame)
        if share is None:
            return None
        self._assembler = None
        who = f"the share of party {self._party!r}"
        need_form(share, form, "float64", who)
        _need_marks(share, asked, who)
        del self._asked[frame.seq]
        return frame.seq, share

    def _need_answer(self, frame: Frame, said: handshake.Control) -> None:
        asked = self._asked.get(frame.seq)
        fits = type(said) is type(asked) and isinstance(said, Load | Meet | Alive)
        if not fits or (isinstance(said, Load) and replace(said, problem="") != asked):
            raise ProtocolError(f"party {self._party!r} must answer what is asked. Found {type(said).__name__}.")


def _parts_of(query: Query) -> Form:
    """What a query is answered with: a part and a mark for each id; masked where the parties have met."""
    count = frozenset({len(query.ids)})
    if query.meeting:
        return Form(scalars=count, vector=True, words=frozenset({MASKED_WORDS * len(query.ids)}))
    return Form(count, count, vector=True)


def _need_marks(share: Share, query: Query, who: str) -> None:
    known = (SCORED, NOT_SCORED, LIMIT_REACHED, *([MEETING_OVER] if query.meeting else []))
    if not np.isin(share.scalars, known).all():
        raise ProtocolError(f"{who} must mark every id with one of {', '.join(f'{m:g}' for m in known)}. Found others.")


def need_form(message: Message, form: Form, precision: str, who: str) -> None:
    """Raise ProtocolError unless a message has this form, this number format, and numbers that can be computed with."""
    vector, scalars = message.vector, message.scalars
    if vector is None and form.vector:
        raise ProtocolError(f"{who} must have a vector. Found none.")
    words = vector is not None and vector.dtype == WORDS
    if vector is not None and vector.size not in (form.words if words else form.lengths):
        what = f"{_listed(form.words)} words" if words else f"{_listed(form.lengths)} numbers"
        raise ProtocolError(f"{who} must have a vector of {what}. Found {vector.size}.")
    if scalars.size > MOST_SCALARS or (form.scalars is not None and scalars.size not in form.scalars):
        allowed = f"at most {MOST_SCALARS}" if form.scalars is None else _listed(form.scalars)
        raise ProtocolError(f"{who} must have {allowed} scalars. Found {scalars.size}.")
    if vector is not None and not words and vector.dtype not in TYPES[precision]:
        raise ProtocolError(f"{who} must come in {precision}, as the job says. Found {vector.dtype}.")
    if vector is not None and vector.size and not words:
        size = max(float(vector.max()), -float(vector.min())) * (1.0 if message.step is None else message.step)
        if not size <= LARGEST:
            raise ProtocolError(f"{who} must hold numbers up to {LARGEST:g}. Found {size:g}.")
    if scalars.size and not _computable(np.abs(scalars)):
        raise ProtocolError(f"{who} must hold scalars up to {LARGEST:g}. Found {float(np.abs(scalars).max()):g}.")


def _computable(sizes: np.ndarray) -> bool:
    return bool(((sizes <= LARGEST) | ((sizes >= NO_BOUND / 2) & (sizes <= 2 * NO_BOUND))).all())


def _listed(counts: frozenset[int]) -> str:
    found = sorted(counts) or [0]
    return str(found[0]) if len(found) == 1 else f"{found[0]} to {found[-1]}"
