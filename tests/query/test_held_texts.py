"""Queries of texts over many ranges: each range holds an even part of the memory, and no event is lost or moved."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes import SEAL
from tests.query.stored_events import DAYS, NOW, START, StoredEvents, stream
from tidetable.events import Event, Item
from tidetable.layout import Index
from tidetable.ports import ItemColumns, KeyRange, Page, RangeRead
from tidetable.problems import ProblemError
from tidetable.query import parse_query, run_query
from tidetable.query import waves as waves_module
from tidetable.query.waves import cut_reads
from tidetable.times import to_text

# The first day is an archive.
LIVE = START + timedelta(days=1)
POLICY = stream('key = { partition_by = "series", shards = 2 }', "")
NAMES = [f"s{n:03}" for n in range(100)]
# 200 ranges, of which each holds 3,000 bytes.
BYTES = 600_000
EMPTY = ItemColumns((), (), ())


class Waves:
    """The limits of the ranges that are read together."""

    def __init__(self, base: StoredEvents) -> None:
        self.waves = list[list[int]]()
        self._query_many = base.store.query_many
        base.store.query_many = self.query_many  # type: ignore[method-assign]

    def query_many(self, reads: Any, **options: Any) -> Any:
        self.waves.append([limit for _, limit in reads])
        return self._query_many(reads, **options)


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of items of each page that is kept, with a bound of 600,000 bytes instead of 215 MB."""
    counts, shorten = list[int](), waves_module._shorten_page

    def note(page: Page, keys: KeyRange, part: int) -> tuple[Page, int]:
        shortened = shorten(page, keys, part)
        counts.append(len(shortened[0].columns.contents))
        return shortened

    monkeypatch.setattr(waves_module, "MOST_BYTES", BYTES)
    monkeypatch.setattr(waves_module, "_shorten_page", note)
    return counts


def make_base(characters: int, text: str = "x", count: int = 6) -> StoredEvents:
    """Events of a hundred series; those of a series are near each other in time, or far apart."""
    events = [
        Event(
            name, LIVE + timedelta(minutes=n * 7 + k * (n % 3), seconds=k), f"e{k}", {"text": text * characters, "n": k}
        )
        for n, name in enumerate(NAMES)
        for k in range(count)
    ]
    return StoredEvents(POLICY, events, [POLICY.layout] * DAYS)


def walk(base: StoredEvents, **parameters: str) -> list[tuple[str, str]]:
    asked: dict[str, list[str]] = {
        "from": [to_text(LIVE)],
        "to": [to_text(LIVE + timedelta(days=1))],
        "series": NAMES,
        **{name: [value] for name, value in parameters.items()},
    }
    found, cursor = list[tuple[str, str]](), None
    while True:
        given = asked if cursor is None else {"cursor": [cursor], "limit": asked["limit"]}
        answer = run_query(parse_query(POLICY, given, NOW, SEAL), POLICY, base.reader, NOW, lambda: 100.0)
        found += [(event["time"], event["series"]) for event in answer.document()["events"]]
        cursor = answer.next
        if cursor is None:
            return found


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("limit", ["50", "10000"])
def test_shortened_pages_have_every_event_once_and_in_order(order: str, limit: str, pages: list[int]) -> None:
    found = walk(make_base(1_400), order=order, limit=limit)
    assert (
        found
        == sorted(
            (to_text(LIVE + timedelta(minutes=n * 7 + k * (n % 3), seconds=k)), name)
            for n, name in enumerate(NAMES)
            for k in range(6)
        )[:: 1 if order == "asc" else -1]
    )
    # Two texts of 1,400 characters fit into 3,000 bytes, three do not.
    assert max(pages) == 2


def test_ranges_are_asked_for_as_many_items_as_their_part_holds() -> None:
    base = make_base(1_400)
    noted = Waves(base)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidetable.query.waves.MOST_BYTES", BYTES)
        walk(base, order="asc", limit="10000")
    first, second, third = noted.waves[:3]
    assert [len(wave) for wave in (first, second, third)] == [96, 96, 8]
    # The first wave shows that two items are a part.
    assert min(first) > 4
    assert max(second + third) == 2


@pytest.mark.parametrize(
    ("text", "kept"),
    [("x" * 700, "abcd"), ("é" * 700, "abc"), ("x" * 699 + "😀", "a"), ("x" * 9_000, "a"), ("", "abcde")],
    ids=["one byte each", "Latin", "four bytes each", "larger than its part", "short"],
)
def test_texts_are_measured_by_their_memory(text: str, kept: str, pages: list[int]) -> None:
    """A text takes four bytes for each of its characters if one of them needs four. A part is 3,000 bytes."""
    reads, found = [RangeRead(KeyRange("t", str(number), "a", "z"), 5) for number in range(193)], list[Page]()
    waves = cut_reads(reads, found, decoded=False, consistent=False, ranges=200)
    # The other pages are empty.
    for number, some in enumerate(waves):
        filled = Page(ItemColumns(["p"] * 5, list("abcde"), [text] * 5), more=False, last={"sk": "e"}, read=5)
        found += [filled if not (number or at) else replace(filled, columns=EMPTY) for at in range(len(some))]
    first = found[0]
    assert "".join(first.columns.sks) == kept
    cut = True, {"pk": "p", "sk": kept[-1]}
    assert (first.more, first.last) == ((False, {"sk": "e"}) if kept == "abcde" else cut)
    assert pages == [len(kept)] + [0] * 192


def test_a_shortened_page_of_an_index_ends_at_a_key_of_the_index(pages: list[int]) -> None:
    """The range goes on there: DynamoDB needs the key in the table and the key in the index."""
    index = Index("by_kind", "kind")
    items: list[Item] = [
        {"pk": "p", "sk": sk, "pk_by_kind": "k#0", "sk_by_kind": sk, "data": {"x": "y" * 2_000}} for sk in "abc"
    ]
    reads, found = [RangeRead(KeyRange("t", "k#0", "a", "z", index=index), 5)] * 193, list[Page]()
    for some in cut_reads(reads, found, decoded=False, consistent=False, ranges=200):
        whole = Page(ItemColumns.of(items), more=False, read=3)
        found += [replace(whole, columns=EMPTY) if found or at else whole for at in range(len(some))]
    key = {"pk": "p", "sk": "a", "pk_by_kind": "k#0", "sk_by_kind": "a"}
    assert (list(found[0].columns.sks), found[0].more, found[0].last) == (["a"], True, key)
    assert pages[0] == 1


def test_ranges_of_which_one_item_each_does_not_fit_are_refused(pages: list[int]) -> None:
    """200 texts of 4,000 characters are 800,000."""
    with pytest.raises(
        ProblemError, match="422 too_much: the 200 key ranges of these series and shards hold larger events than"
    ):
        walk(make_base(4_000), order="asc", limit="10000")
    assert len(pages) <= 192


def test_small_texts_are_not_read_again(pages: list[int]) -> None:
    base = make_base(10)
    noted = Waves(base)
    walk(base, order="asc", limit="10000")
    assert [len(wave) for wave in noted.waves] == [96, 96, 8]
    assert len(pages) == 200
