"""Events whose data is damaged: nobody can say what they add to a listing or a rollup, and the answer says so."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.worlds.listings import ask_listing, at
from tests.worlds.noted import begin_noting
from tests.worlds.rolled import BY_SERIES, MINUTES, SERIES, START, World, begin_rollups, reading, show_edges
from tidetable.events import Item
from tidetable.layout import Key
from tidetable.periods import Kind
from tidetable.times import to_text


def damage_event(world: World, minutes: int) -> Item:
    """Give the event of that minute compressed data that nobody can decompress; returns its item as it was."""
    table = world.store.tables[world.entry("s", START).table]
    (key,) = (key for key in table if key.sk.endswith(f"#{minutes}"))
    whole = table[key]
    table[key] = {**{name: value for name, value in whole.items() if name != "data"}, "z": b"damaged"}
    return whole


def test_a_listing_of_fields_names_an_event_whose_data_is_damaged() -> None:
    world = begin_rollups((MINUTES,))
    world.write(reading(78, 1, kind="x"), reading(79, 2, note="y"))
    damage_event(world, 79)
    page = ask_listing(world, "fields", **{"from": at(75), "to": at(80)})
    assert [row["field"] for row in page.rows] == ["kind", "mag"]
    assert page.describe_rest()["gaps"] == [
        {"from": at(79), "to": to_text(START + timedelta(minutes=79, microseconds=1)), "reason": "damaged data"}
    ]


def test_damaged_events_of_noted_series_are_gaps_whatever_step_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five series are read two at a time. The damaged events are of the first series and of the last."""
    monkeypatch.setattr("tidetable.query.indexed_series._RANGES", 4)
    world = begin_noting()
    for minutes in (10, 14):
        damage_event(world, minutes)
    gaps = world.ask(stat="max", field="mag").gaps
    assert [(to_text(gap.start), gap.reason) for gap in gaps] == [(at(10), "damaged data"), (at(14), "damaged data")]


def test_a_bucket_with_an_event_whose_data_is_damaged_is_not_sealed() -> None:
    """The sum of a sealed bucket would lack its number, and no answer would say so."""
    world = begin_rollups((MINUTES,))
    world.refresh()
    world.write(reading(78, 1), reading(79, 2))
    whole = damage_event(world, 79)
    world.sleep(1_800)
    report = world.refresh()
    assert report is not None
    assert report.blocked == ["s-m: s cannot be read from 2026-03-02T01:19:00.000000Z on: damaged data"]
    assert show_edges(world, "m") == ["00:10-01:10"]
    asked = {"from": at(60), "to": at(90), "stat": "sum", "field": "mag"}
    assert [gap.reason for gap in world.ask(**asked).gaps] == ["damaged data"]
    world.store.tables[world.entry("s", START).table][Key(whole["pk"], whole["sk"])] = whole
    report = world.refresh()
    assert report is not None
    assert report.blocked == []
    answer = world.ask(**asked)
    assert ([row["sum"] for row in answer.rows], list(answer.gaps)) == ([3], [])


@pytest.mark.parametrize("ask", ["aggregate", "fields"])
def test_a_table_of_noted_series_that_somebody_deleted_is_a_gap(ask: str) -> None:
    """The catalog has the table still. The other day of the range is answered."""
    world = World((replace(MINUTES, period=Kind.DAY),), SERIES)
    world.write(reading(10, 1, kind="x"))
    world.time = START + timedelta(days=1, minutes=30)
    world.write(reading(1_450, 2, note="y"))
    del world.store.tables[world.entry("s", START).table]
    span = {"from": to_text(START), "to": to_text(START + timedelta(days=2))}
    answer = world.ask(**span) if ask == "aggregate" else ask_listing(world, "fields", lambda: 100.0, BY_SERIES, **span)
    assert [(gap.start, gap.end, gap.reason) for gap in answer.gaps] == [
        (START, START + timedelta(days=1), "table missing")
    ]
    if ask == "aggregate":
        assert [row["count"] for row in answer.rows] == [1]
    else:
        assert [row["field"] for row in answer.rows] == ["mag", "note"]
