"""The session of an answer, and the reads that it counts: gaps, large values, and items that an index lacks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from tidetable.catalog import Entry, GapReason, State
from tidetable.conditions import Condition
from tidetable.events import Item
from tidetable.large.unpack import Unpacker, Wholes
from tidetable.layout import Index, Key, Layout
from tidetable.periods import Kind, find_containing
from tidetable.ports import ItemColumns, Page
from tidetable.query.hydrate import match_conditions, read_base_items
from tidetable.query.scans import Gap
from tidetable.query.session import ReadSession

START = datetime(2026, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)
NOON = START + DAY / 2
LAYOUT = Layout("time", 1, "id", 86_400)


def entry() -> Entry:
    return Entry("s", find_containing(START, Kind.DAY), "t0", LAYOUT, State.OPEN, START)


# Sessions


def test_each_lost_event_is_one_gap_and_each_missing_table_one_gap_of_a_range() -> None:
    """Two events of one instant are lost. One of them is met twice, as it is under two values of an index."""
    reader: Any = None
    session = ReadSession(reader, forgiving=True)
    for series in ("a", "b", "a"):
        session.note_lost(entry(), {"pk": "p", "sk": LAYOUT.make_sort_key(NOON, series, "1")})
    for end in (NOON, NOON, START + DAY):
        assert session.take_page(None, entry(), START, end) == Page(ItemColumns((), (), ()), more=False)
    lost = Gap(NOON, NOON + timedelta(microseconds=1), GapReason("damaged data"))
    missing = [Gap(START, end, GapReason("table missing")) for end in (NOON, START + DAY)]
    assert session.gaps == [lost, lost, *missing]
    assert (session.cost.requests, session.cost.units, session.cost.read) == (3, 0.0, 0)


# Conditions


def test_of_data_that_is_elsewhere_forty_chunks_are_a_request_and_cold_data_is_not_read() -> None:
    some = [{"pk": "p", "sk": str(n), "out": {"b": 9_000}} for n in range(41)]
    asked: list[tuple[str, bool]] = []

    class Elsewhere(Unpacker):
        def complete_items(self, items: Sequence[Item], table: str, *, cold: bool = True) -> Wholes:
            asked.append((table, cold))
            return Wholes([{**item, "data": {"n": item["sk"]}} for item in items], {}, [5_000] * len(items))

    conditions = (Condition("n", "eq", ("7",)),)
    scan: Any = SimpleNamespace(conditions=conditions, entry=entry(), add_data=lambda items: items)
    nothing: Any = None
    reader: Any = SimpleNamespace(unpacker=Elsewhere(nothing, nothing, nothing))
    session = ReadSession(reader)
    assert match_conditions(ItemColumns.of(some), scan, session).sks == ["7"]
    cost = session.cost
    assert (cost.requests, cost.units, asked) == (2, 82.0, [("t0", False)])


# Base items


def test_items_of_an_index_are_fetched_by_hundreds_and_shown_as_the_table_has_them() -> None:
    """One has gone, and one has another value by now."""
    index = Index("by_kind", "kind", 1, project=())
    some = [{"pk": "p", "sk": str(n), index.pk: "v#0", index.sk: str(n)} for n in range(101)]
    base = {Key("p", item["sk"]): {**item, "data": {"n": item["sk"]}} for item in some[1:]}
    base[Key("p", "5")] |= {index.pk: "w#0"}
    asked: list[Any] = []

    def get_many(table: str, keys: list[Key], *, consistent: bool) -> Any:
        asked.append((table, len(keys), consistent))
        return base

    scan: Any = SimpleNamespace(index=index, entry=entry())
    reader: Any = SimpleNamespace(store=SimpleNamespace(get_many=get_many))
    session = ReadSession(reader)
    cost = session.cost
    found = read_base_items(some, scan, session, consistent=True)
    assert [item["sk"] for item in found] == [str(n) for n in range(1, 101) if n != 5]
    assert read_base_items([], scan, session) == []
    assert (cost.requests, asked) == (2, [("t0", 101, True)])
    # AWS: a strongly consistent read takes twice the units of an eventually consistent one. A key without an item takes
    # as much as a small item.
    assert cost.units == 101
    read_base_items(some, scan, session)
    assert cost.units == 151.5
