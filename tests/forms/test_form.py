"""What both forms answer: the span of settling, the puts of events, and the portions of archived items."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.packs.table import NOON, ZSTD
from tidetable.batch import Batch
from tidetable.events import Event, Item
from tidetable.forms.choose import choose_form
from tidetable.layout import Layout, Packing
from tidetable.packs import open_item
from tidetable.ports import ItemColumns, Page, Put
from tidetable.times import to_text

PLAIN = Layout("time", 1, "id", 3600)
PACKED = Layout("time", 1, "id", 3600, pack=Packing(60, 100))
BY_SUFFIX = Layout("time", 1, "series", 3600, pack=Packing(60, 100))


@pytest.mark.parametrize(
    ("layout", "span", "source"), [(PLAIN, 0, "items"), (PACKED, 60, "settled"), (BY_SUFFIX, 60, "settled")]
)
def test_copies_of_events_in_packs_must_be_settled(layout: Layout, span: int, source: str) -> None:
    form = choose_form(layout)
    assert form.span == span
    assert form.settle_source("items", {layout: "settled"}.__getitem__) == source


@pytest.mark.parametrize(
    ("layout", "hash", "sequence"),
    [
        (PLAIN, "", f"{'7':0>15}{'12':0>40}"),
        (PACKED, "", f"{'5':0>15}{'0' * 20}{'12':0>40}"),
        (PACKED, "A0z-_bcdefgh", f"{'5':0>15}33169013636667686970{'12':0>40}"),
    ],
    ids=["plain", "alone beside packs", "in a pack"],
)
def test_the_states_of_an_event_are_in_the_order_in_which_they_count(layout: Layout, hash: str, sequence: str) -> None:
    """Plain items by the change stream, which began at 7; packs by acceptance, at 5, then by the hash."""
    assert choose_form(layout).make_sequence(5, 7, "12", hash) == sequence


NOISE = "".join(chr(200 + number * 7919 % 5000) for number in range(200))
# Two events are within the span of 60 seconds, one is an hour later, and one is too large for a pack of 100 bytes. The
# first and the last are two copies of one event.
SENT = [(0, "a", "old"), (1, "b", "x"), (1800, "c", NOISE), (3600, "d", "y"), (0, "a", "new")]
EVENTS = [Event("s", NOON + timedelta(seconds=seconds), id, {"x": text}) for seconds, id, text in SENT]


def keep_whole(item: Item) -> Put:
    return Put("table", item)


@pytest.mark.parametrize(
    ("layout", "members", "packs"),
    [(PLAIN, [[0, 4], [1], [2], [3]], 0), (PACKED, [[0, 4, 1], [3], [2]], 2)],
)
def test_events_share_a_put_or_have_their_own(layout: Layout, members: list[list[int]], packs: int) -> None:
    puts = choose_form(layout).make_puts(Batch.of(EVENTS, 7), range(5), "table", ZSTD, keep_whole)
    assert (list(map(list, puts.members)), len(puts.packs), list(puts.too_large)) == (members, packs, [])
    assert {put.table for put in puts.puts} == {"table"}
    numbers = [number for own in members for number in own]
    assert puts.sks == [f"{to_text(EVENTS[number].time)}#s#{EVENTS[number].id}" for number in numbers]
    # The last copy of an event is written.
    stored = {place: value for put in puts.puts for place, value in read_values(put.item, layout)}
    assert [stored[sk] for sk in puts.sks[:2]] == ['{"x":"new"}'] * 2


def read_values(item: Item, layout: Layout) -> Iterator[tuple[str, Any]]:
    opened = open_item(item, layout, ZSTD)
    return zip(opened.places, opened.values, strict=True)


@pytest.mark.parametrize("layout", [PLAIN, PACKED])
def test_of_a_batch_only_the_events_with_the_numbers_get_a_put(layout: Layout) -> None:
    puts = choose_form(layout).make_puts(Batch.of(EVENTS, 7), [1, 3], "table", ZSTD, keep_whole)
    assert (list(map(list, puts.members)), [sk[-1] for sk in puts.sks]) == ([[1], [3]], ["b", "d"])


@pytest.mark.parametrize("layout", [PLAIN, PACKED])
def test_an_event_that_no_put_can_hold_is_too_large_in_every_copy_that_would_be_written(layout: Layout) -> None:
    def refuse(item: Item) -> Put | None:
        return None if item["data"] == {"x": NOISE} else Put("table", item)

    copies = [*EVENTS[:3], replace(EVENTS[2], data={"x": NOISE})]
    puts = choose_form(layout).make_puts(Batch.of(copies, 7), range(4), "table", ZSTD, refuse)
    assert list(puts.too_large) == [2, 3]
    assert sorted(number for own in puts.members for number in own) == [0, 1]


@pytest.mark.parametrize(("layout", "count"), [(PLAIN, 9), (PACKED, 4)])
def test_the_events_of_a_page_are_counted(layout: Layout, count: int) -> None:
    """DynamoDB counts what it has read, which are packs: a pack of three events, and an event alone."""
    items: list[dict[str, Any]] = [{"pk": "a#0", "sk": "1", "n": 3, "pack": b""}, {"pk": "a#0", "sk": "2", "data": {}}]
    assert choose_form(layout).count_events(Page(ItemColumns.of(items), more=False, read=9)) == count
