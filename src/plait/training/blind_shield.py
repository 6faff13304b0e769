"""A run whose coordinator is a blind machine: it works for two owners, and sees neither a label nor a score.

    ask     machine -> party, round 0   answered with the party's masking key, signed
    offer   machine -> party, round 0   an offer and the keys of both; answered with hints, and by the label party also
                                        with its disguised labels

From their keys the owners derive a secret that the machine does not know: an order of the rows, and signs.  Hints are
those of the disguised columns, so that the machine encrypts a disguised gradient and the party reads D_m^T g.  Images
are disguised, then masked.  A constant column would show the signs.  So the intercept is the weight of a column of
the label party.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from plait._types import Array
from plait.errors import ProtocolError, SettingError
from plait.messages import Broadcast, Form, Share, Transport
from plait.problem.features import Features
from plait.problem.losses import Loss
from plait.problem.penalties import L1, L2, ElasticNet, NoPenalty, Penalty
from plait.protection.blind import Disguise
from plait.protection.fixed_point import Columns
from plait.protection.inner_product import GradientDecryptor, GradientEncryptor
from plait.protection.leverage import check_width
from plait.protection.messages import Hints, Offer, offer_size
from plait.protection.modes import Protection
from plait.protection.randomness import derive
from plait.protection.secure_sums import ANNOUNCEMENT_BYTES, Announcement, MaskingParty
from plait.training.coordinator_shield import CoordinatorShield, hint_sizes, read_hints
from plait.training.party_shield import Agreed, PartyKeys, PartyShield
from plait.training.protected import Masker, Sealer, SumReader, from_words, to_words, words_of

OWNERS = 2  # organisations that need a blind machine: three and more can hide their scores in a sum
_CONSTANT = 2.0**10  # in the label party's column for the intercept: the penalty of its weight is 2^-20 of L2's
_ASK = to_words(b"")


def check_blind(
    names: tuple[str, ...], loss: Loss, penalties: Mapping[str, Penalty], weighted: bool, intercept: bool
) -> None:
    """Refuse what a blind machine cannot train; SettingError."""
    if len(names) != OWNERS:
        raise SettingError(
            f"a blind machine works for {OWNERS} parties. Found {len(names)}. Three and more use protection "
            '"sums", without a machine.'
        )
    if not loss.symmetric:
        raise SettingError(
            "a blind machine needs a loss that is the same for -y and -z: logistic, hinge, squared hinge, squared, "
            f'Huber or Cauchy. Found {type(loss).__name__}. Use one of these, or protection "labels".'
        )
    if weighted:
        raise SettingError("a blind machine counts all rows alike. Found row weights. Leave them out.")
    odd = [type(p).__name__ for p in penalties.values() if not isinstance(p, NoPenalty | L2 | L1 | ElasticNet)]
    if intercept and odd:
        raise SettingError(
            f"with a blind machine an intercept goes with the penalties l2, l1 and elastic-net. Found {odd[0]}. Use "
            "one of these, or no intercept."
        )


class BlindPartyShield(PartyShield):
    """An owner's end: it knows the disguise, and nothing leaves it undisguised."""

    def __init__(
        self,
        protection: Protection,
        name: str,
        parties: tuple[str, ...],
        matrix: Any,
        keys: Callable[[], PartyKeys],
        labels: Array | None,
        fit_intercept: bool,
    ) -> None:
        """labels (N,) where this party holds them, in the loss's own form."""
        self._labels = labels
        self.constant = fit_intercept and labels is not None
        super().__init__(protection, name, parties, matrix, keys)

    def _table(self, matrix: Any) -> Any:
        if not self.constant:
            return matrix
        ones = np.full((matrix.shape[0], 1), _CONSTANT)
        return sp.csr_matrix(sp.hstack([matrix, ones])) if sp.issparse(matrix) else np.hstack([matrix, ones])

    def features(self, table: Features) -> Features:
        if not self._columns.exact.all():
            return Features(self._columns.decoded())
        return Features(self._table(table.matrix))

    def split(self, weights: Array) -> tuple[Array, float]:
        """The weights of the party's own columns, and the intercept."""
        return (weights[:-1], float(weights[-1]) * _CONSTANT) if self.constant else (weights, 0.0)

    @property
    def form(self) -> Form:
        first = words_of(offer_size()) + OWNERS * words_of(ANNOUNCEMENT_BYTES)
        return Form(words=frozenset({_ASK.size, first, *self._gradient_words}))

    @property
    def exchanges_before(self) -> int:
        return 2

    def ready(self, agreed: Agreed) -> bool:
        return agreed.keys is not None

    def agree(self, agreed: Agreed, broadcast: Broadcast) -> tuple[Agreed, Share]:
        words = broadcast.vector
        if words is None or broadcast.round or broadcast.closing or broadcast.scalars.size:
            raise ProtocolError("a protected run must begin with an offer and keys. Found another message. End it.")
        if agreed.offer is None:
            if not np.array_equal(words, _ASK):
                raise ProtocolError("a blind machine must ask for a key first. Found another message. End the run.")
            return replace(agreed, offer=words), Share(0, to_words(self._party().announce(self._keys.sign).encode()))
        parts = [self._decryptor(words).hints.encode()]
        if self._labels is not None:
            hidden = np.ascontiguousarray(self._disguise(words).hide(self._labels), dtype="<f8")
            parts.append(hidden.tobytes())
        return replace(agreed, keys=words), Share(0, to_words(*parts))

    def _opened_with(self, agreed: Agreed) -> Array | None:
        return agreed.keys

    def mask(self, agreed: Agreed, share: Share, exchange: int) -> Share:
        assert agreed.keys is not None
        if share.vector is not None:
            share = replace(share, vector=self._disguise(agreed.keys).hide(share.vector))
        return Masker(self._owners(agreed.keys), OWNERS).mask(share, exchange)

    def _decryptor(self, words: Array) -> GradientDecryptor:
        if self._opener is None or self._opener[0] is not words:
            offer = from_words(words, 1 + OWNERS)[0]
            nonce = derive(self._keys.secret, "nonce", offer)
            columns = disguised(self._columns, self._disguise(words))
            made = GradientDecryptor(columns, Offer.decode(offer), self._keys.secret, nonce)
            self._opener = words, made
        return self._opener[1]

    def _disguise(self, words: Array) -> Disguise:
        if self._hidden is None or self._hidden[0] is not words:
            (other,) = (name for name in self._group if name != self._name)
            secret = self._owners(words).pair_secret(other, "disguise")
            self._hidden = words, Disguise(secret, self._keys.run.run, self._columns.shape[0])
        return self._hidden[1]

    def _owners(self, words: Array) -> MaskingParty:
        if self._meeting is None or self._meeting[0] is not words:
            found = [Announcement.decode(part) for part in from_words(words, 1 + OWNERS)[1:]]
            if sorted(each.name for each in found) != sorted(self._group):
                raise ProtocolError(f"the keys must be those of {', '.join(self._group)}. Found others. End the run.")
            if len({each.run for each in found}) > 1:
                raise ProtocolError(
                    "both parties must hold the same rows in the same order, in one run. Found other ids, another "
                    "order or another run at the other party. Sort the files by id, and keep only common rows."
                )
            party = self._party()
            party.meet(found, self._keys.verify)
            self._meeting = words, party
        return self._meeting[1]

    _hidden: tuple[Array, Disguise] | None = None
    _meeting: tuple[Array, MaskingParty] | None = None


def disguised(columns: Columns, disguise: Disguise) -> Columns:
    """The whole numbers s_i E_pi(i) of disguised rows."""
    if sp.issparse(columns.values):
        rows = sp.csr_array(columns.values)[disguise.order]
        return replace(columns, values=sp.csc_array(rows.multiply(disguise.signs[:, None])))
    return replace(columns, values=(columns.values.T[:, disguise.order] * disguise.signs).T)


def agree_blind(
    protection: Protection, parties: tuple[str, ...], rows: int, loss: Loss, transport: Transport, secret: bytes
) -> tuple[CoordinatorShield, Array]:
    """What the machine exchanges before round 1: its ends, and the disguised labels (N,)."""
    label_party = protection.label_party or parties[0]
    form = Form(scalars=frozenset({0}), vector=True, words=frozenset({words_of(ANNOUNCEMENT_BYTES)}))
    asked = transport.exchange({name: Broadcast(0, _ASK, expects=form) for name in parties})
    keys = [_parts(name, share, 1)[0] for name, share in asked.items()]
    offers = {name: Offer(rows, derive(secret, "offer", name)) for name in parties}
    hints, sizes, labels = {}, {}, np.empty(0)
    told = {}
    for name, offer in offers.items():
        more = words_of(8 * rows) if name == label_party else 0
        form = Form(scalars=frozenset({0}), vector=True, words=frozenset(n + more for n in hint_sizes(rows)))
        told[name] = Broadcast(0, to_words(offer.encode(), *keys), expects=form)
    for name, share in transport.exchange(told).items():
        first, *rest = _parts(name, share, 2 if name == label_party else 1)
        hints[name], sizes[name] = read_hints(name, first), len(first)
        check_width(rows, hints[name].columns)
        if rest:
            labels = _labels(rest[0], rows, loss)
    sealers = {n: Sealer(GradientEncryptor(offers[n], hints[n], derive(secret, "gradients", n))) for n in parties}
    return CoordinatorShield(sealers, SumReader(rows, (parties,)), _widths(hints), sizes), labels


def _widths(hints: Mapping[str, Hints]) -> dict[str, int]:
    return {name: found.columns for name, found in hints.items()}


def _parts(name: str, share: Share, count: int) -> list[bytes]:
    if share.vector is None:
        raise ProtocolError(f"{name} must answer with its key or its encrypted columns. Found nothing. End the run.")
    return from_words(share.vector, count)


def _labels(data: bytes, rows: int, loss: Loss) -> Array:
    labels = np.frombuffer(data, dtype="<f8") if len(data) == 8 * rows else np.empty(0)
    sound = labels.size == rows and bool(np.isfinite(labels).all())
    if not sound or (loss.classifies and not (np.abs(labels) == 1).all()):
        raise ProtocolError(f"disguised labels must be {rows} numbers that the loss knows. Found others. End the run.")
    return cast(Array, labels)
