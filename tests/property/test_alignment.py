"""Exactly the plaintext intersection, whatever the ids."""

import tempfile
import unicodedata
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plait.alignment.aligner import Aligner
from plait.alignment.ids import AlignmentOptions, clean_ids
from plait.alignment.meeting import Meeting
from plait.alignment.meter import Meter
from plait.alignment.order import Order
from plait.alignment.proposal import agree
from plait.errors import InputError
from plait.messages import Parcel

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4) | st.sampled_from(
    ["\u00e9", "e\u0301", "A", "a", " a", "\u212b", "\u00c5", "\u00df", "SS", "\u0130", "1", "01", "\uff11"]
)
FORMS = st.sampled_from(["NFC", "NFKC", "none"])


class Near:
    """A member in this process."""

    near = True

    def __init__(self, aligner: Aligner) -> None:
        self.name = aligner.name
        self.ask = aligner.receive


def plain(row: tuple[str, ...], trim: bool, fold: bool, form: str) -> tuple[str, ...]:
    """The declared rules, written down a second time."""

    def normal(text: str) -> str:
        text = text if form == "none" else unicodedata.normalize(form, text)
        text = text.strip() if trim else text
        if fold:
            text = text.casefold()
            text = text if form == "none" else unicodedata.normalize(form, text)
        return text

    return tuple("" if not part.strip() else normal(part) for part in row)


@st.composite
def tables(draw: st.DrawFn) -> list[list[tuple[str, ...]]]:
    """Rows of id columns for 2 to 6 parties, drawn from one pool so that they overlap; with repeated rows."""
    width = draw(st.integers(1, 3))
    pool = draw(st.lists(st.tuples(*[TEXT] * width), min_size=1, max_size=12))
    parties = draw(st.integers(2, 6))
    return [draw(st.lists(st.sampled_from(pool), min_size=1, max_size=20)) for _ in range(parties)]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tables(), st.booleans(), st.booleans(), FORMS)
def test_alignment_is_the_plaintext_intersection(
    rows: list[list[tuple[str, ...]]], trim: bool, fold: bool, form: str
) -> None:
    options = AlignmentOptions(trim=trim, case="fold" if fold else "keep", unicode=form, min_rows=1)  # type: ignore[arg-type]
    names = [f"p{i}" for i in range(len(rows))]
    width = [f"c{i}" for i in range(len(rows[0][0]))]
    keys = [[plain(row, trim, fold, form) for row in table] for table in rows]
    expected = set.intersection(*({key for key in table if all(key)} for table in keys))
    try:
        ids = [
            clean_ids(name, width, list(zip(*table, strict=True)), options, "first", "drop")
            for name, table in zip(names, rows, strict=True)
        ]
    except InputError:
        return  # a column without any id, or of numbers with a point: nothing to align
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        aligners = [
            Aligner(name, one, folder / name, options, bytes(32), agree, Meter(lambda pace: None))
            for name, one in zip(names, ids, strict=True)
        ]
        meeting = Meeting([Near(aligner) for aligner in aligners], options, folder / "relay")
        if not expected:
            with pytest.raises(InputError, match="Found 0"):
                meeting.run(lambda text: None)
            return
        assert meeting.run(lambda text: None) == len(expected)
        found = []
        for aligner, one, table in zip(aligners, ids, keys, strict=True):
            aligner.finish(ok=True, resumable=False)
            order = Order.load(folder / aligner.name, one)
            found.append([table[row] for row in order.rows])
            assert all(table.index(key) == row for key, row in zip(found[-1], order.rows, strict=True)), "the first row"
    assert set(found[0]) == expected
    assert all(one == found[0] for one in found), "one common order"


def test_parcels_are_what_they_say() -> None:
    assert Parcel("a", "b").digest != Parcel("ab", "").digest
