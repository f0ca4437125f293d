"""What both forms answer: the unit and the span of settling, the puts of events, and the portions of archived items."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from tests.packs.table import NOON, ZSTD
from tidetable.events import Event
from tidetable.forms import packed
from tidetable.forms.choose import choose_form
from tidetable.forms.form import Unit
from tidetable.layout import Layout, Packing
from tidetable.ports import ItemColumns, Page

PLAIN = Layout("time", 1, "id", 3600)
PACKED = Layout("time", 1, "id", 3600, pack=Packing(60, 100))
BY_SUFFIX = Layout("time", 1, "series", 3600, pack=Packing(60, 100))


@pytest.mark.parametrize(
    ("layout", "unit", "span"),
    [(PLAIN, Unit.ITEM, 0), (PACKED, Unit.PARTITION, 60), (BY_SUFFIX, Unit.SUFFIX, 60)],
)
def test_the_unit_and_the_span_of_settling(layout: Layout, unit: Unit, span: int) -> None:
    form = choose_form(layout)
    assert (form.unit, form.span) == (unit, span)


@pytest.mark.parametrize(
    ("layout", "shared", "alone"),
    # Two events are within the span of 60 seconds, one is an hour later, and one is too large for a pack of 100 bytes.
    [(PLAIN, [], [0, 1, 2, 3]), (PACKED, [("table", 2, [0, 1]), ("table", 1, [3])], [2])],
)
def test_events_share_a_put_or_have_their_own(layout: Layout, shared: list[Any], alone: list[int]) -> None:
    noise = "".join(chr(200 + number * 7919 % 5000) for number in range(200))
    events = [(0, "a"), (1, "b"), (1800, noise), (3600, "c")]
    items = [
        layout.make_item(Event("s", NOON + timedelta(seconds=seconds), f"e{number}", {"x": text}))
        for number, (seconds, text) in enumerate(events)
    ]
    puts = choose_form(layout).make_puts(items, "table", ZSTD)
    assert [(each.put.table, each.put.item["n"], list(each.members)) for each in puts.shared] == shared
    assert list(puts.alone) == alone


@pytest.mark.parametrize(("layout", "count"), [(PLAIN, 9), (PACKED, 4)])
def test_the_events_of_a_page_are_counted(layout: Layout, count: int) -> None:
    """DynamoDB counts what it has read, which are packs: a pack of three events, and an event alone."""
    items: list[dict[str, Any]] = [{"pk": "a#0", "sk": "1", "n": 3, "pack": b""}, {"pk": "a#0", "sk": "2", "data": {}}]
    assert choose_form(layout).count_events(Page(ItemColumns.of(items), more=False, read=9)) == count


def some_items(count: int, size: int) -> Iterator[dict[str, Any]]:
    return ({"pk": "a#0", "sk": str(number), "data": {"x": "y" * size}} for number in range(count))


@pytest.mark.parametrize(
    ("layout", "count", "size", "lengths"),
    [
        (PLAIN, 800, 1, [400, 400]),
        (PLAIN, 801, 1, [400, 400, 1]),
        (PACKED, 20_001, 1, [20_000, 1]),
        # Two are 14 MB, and a third makes more than 16 MB.
        (PACKED, 4, 7_000_000, [3, 1]),
    ],
)
def test_archived_items_are_written_in_portions(layout: Layout, count: int, size: int, lengths: list[int]) -> None:
    assert [len(some) for some in choose_form(layout).split_items(some_items(count, size))] == lengths


def test_a_portion_of_packs_ends_with_the_item_that_is_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each item has 8 bytes: names and values of its keys. The note of its former form does not count."""
    monkeypatch.setattr(packed, "_PACKED_BYTES", 16)
    items: list[dict[str, Any]] = [{"pk": "a#0", "sk": str(number), "packed": b"x" * 90} for number in range(7)]
    assert [len(portion) for portion in choose_form(PACKED).split_items(iter(items))] == [3, 3, 1]
