"""The seal of cursors: what it signs, and how long a query may be."""

import msgspec
import pytest

from tidetable.errors import InvalidCursor
from tidetable.problems import ProblemError
from tidetable.query import cursor
from tidetable.query.cursor import Seal, refuse_long


class Walk(msgspec.Struct, frozen=True, array_like=True):
    """A query of one name, as MessagePack: one byte for the array, and three before a text of 256 bytes or more."""

    stream: str


SEALED = Seal(lambda: b"secret")


def test_a_cursor_is_read_back() -> None:
    text = SEALED.seal(Walk("quakes"))
    assert SEALED.open(text, Walk) == Walk("quakes")


def test_a_cursor_of_another_version_is_no_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its fields may mean something else."""
    text = SEALED.seal(Walk("quakes"))
    monkeypatch.setattr(cursor, "_VERSION", 5)
    with pytest.raises(InvalidCursor):
        SEALED.open(text, Walk)


def test_a_cursor_of_another_secret_is_no_cursor() -> None:
    with pytest.raises(InvalidCursor):
        Seal(lambda: b"another").open(SEALED.seal(Walk("quakes")), Walk)


@pytest.mark.parametrize("change", [0, 5, 15, 16, 20])
def test_a_cursor_with_another_byte_anywhere_is_no_cursor(change: int) -> None:
    text = SEALED.seal(Walk("quakes"))
    place = change * 4 // 3
    other = text[:place] + ("A" if text[place] != "A" else "B") + text[place + 1 :]
    with pytest.raises(InvalidCursor):
        SEALED.open(other, Walk)


def test_a_query_of_5000_bytes_is_taken_and_a_longer_query_says_by_how_much() -> None:
    refuse_long(Walk("x" * 4_996))
    with pytest.raises(ProblemError) as refused:
        refuse_long(Walk("x" * 5_000))
    assert refused.value.problem.status == 400
    assert refused.value.problem.detail == (
        "names, conditions and fields are 4 bytes too long for one query: query less at once"
    )
