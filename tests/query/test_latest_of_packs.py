"""The latest events of series whose packs have the suffix of the series: how far is read, and what damage shows."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.worlds.latest_hours import START, ask, list_stopped, make_reader
from tidetable.access import Access
from tidetable.events import Event
from tidetable.layout import Layout, Packing
from tidetable.problems import ProblemError
from tidetable.query.packs import packed_reading
from tidetable.query.readings import choose_reading

LAYOUT = Layout("time", 4, "series", 3_600, pack=Packing(60, 65_536))


def show(times: Iterator[tuple[datetime, datetime]]) -> list[str]:
    return [f"{start:%d %H:%M} {end:%d %H:%M}" for start, end in times]


@pytest.mark.parametrize(
    ("bucket", "slices"),
    [
        (86_400, ["01 11:34 01 12:34", "01 09:34 01 11:34", "01 05:34 01 09:34", "01 00:00 01 05:34"]),
        # A bucket ends a stretch.
        (21_600, ["01 12:00 01 12:34", "01 10:00 01 12:00", "01 06:00 01 10:00", "01 00:00 01 06:00"]),
    ],
)
def test_each_stretch_is_twice_as_long_as_the_one_after_it(bucket: int, slices: list[str]) -> None:
    layout, end = (
        Layout("time", 4, "series", bucket, pack=Packing(60, 65_536)),
        datetime(2026, 3, 1, 12, 34, tzinfo=UTC),
    )
    reading = choose_reading(layout)
    assert show(reading.slice_latest(layout, datetime(2026, 3, 1, tzinfo=UTC), end)) == slices
    by_content = Layout("time", 4, "id", bucket, pack=Packing(60, 65_536))
    assert show(reading.slice_latest(by_content, datetime(2026, 3, 1, tzinfo=UTC), end)) == []


def test_series_of_one_suffix_share_a_walk_and_no_other_suffix_is_read() -> None:
    """FIPS 180: SHA-256 of "abc" begins with ba7816bf, of "#" with 334359b9. So "abc" has suffix 3 of 4, "#" has 1."""
    events = [Event(name, START + timedelta(minutes=1), "e", {}) for name in ("abc", "#")]
    reader = make_reader(1, *events, layout=LAYOUT)
    groups = choose_reading(LAYOUT).group_latest(LAYOUT, ["abc", "#", "s"])
    # SHA-256 of "s" begins with 043a7187: suffix 3.
    assert [(list(names), ranges) for names, ranges in groups] == [(["abc", "#", "s"], 2)]
    found = ask(reader, 1, "abc", "#")
    assert (found.cost.requests, sorted(found.events)) == (2, ["#", "abc"])


def test_a_silent_series_is_searched_to_the_oldest_table_by_a_request_per_table() -> None:
    found = ask(make_reader(10, layout=LAYOUT), 10, "silent")
    assert found.cost.requests == 10
    assert found.document()["searched_back_to"] == "2026-03-01T00:00:00.000000Z"


def test_a_search_without_time_stops_at_the_last_stretch_and_goes_on_there() -> None:
    """The time is up in the walk of the second table."""
    events = [Event("b", START + timedelta(seconds=2 * number), f"e{number}", {}) for number in range(1_800)]
    events += [Event("abc", START, "old", {}), Event("s", START + timedelta(minutes=61), "new", {})]
    reader = make_reader(2, *events, layout=Layout("time", 1, "series", 3_600, pack=Packing(1, 65_536)))
    seconds = iter([100.0] * 3 + [2.0] * 10_000)
    found = ask(reader, 2, "abc", "s", remaining=lambda: next(seconds))
    document = found.document()
    assert document["searched_back_to"] == "2026-03-01T01:00:00.000000Z"
    assert list_stopped(document) == ["abc"]
    assert found.events["s"]["id"] == "new"
    assert ask(reader, 2, "abc", before=document["searched_back_to"]).events["abc"]["id"] == "old"


def test_a_first_stretch_that_takes_all_the_time_needs_fewer_series() -> None:
    events = [Event("b", START + timedelta(seconds=2 * number), f"e{number}", {}) for number in range(1_800)]
    reader = make_reader(1, *events, layout=Layout("time", 1, "series", 3_600, pack=Packing(1, 65_536)))
    seconds = iter([100.0] + [2.0] * 10_000)
    with pytest.raises(ProblemError, match=r"422 too_much: .*ask for fewer series"):
        ask(reader, 1, "abc", remaining=lambda: next(seconds))


@pytest.mark.parametrize(("prefix", "incomplete"), [("", True), ("a", False)])
def test_a_damaged_pack_of_many_series_shows_only_to_who_may_see_all(prefix: str, incomplete: bool) -> None:
    events = [Event("abc", START + timedelta(minutes=5 * number), str(number), {}) for number in (1, 2)]
    reader = make_reader(1, *events, layout=LAYOUT)
    items: Any = reader.store.tables["tidetable-t.s.2026-03-01T00"]  # type: ignore[attr-defined]
    newest = max(items)
    items[newest] = {**items[newest], "pack": b"no zstd"}
    reader.access = Access(series_prefix=prefix)
    found = ask(reader, 1, "abc")
    assert found.document()["latest"][0]["event"]["id"] == "1"
    assert found.document()["latest"][0].get("incomplete", False) is incomplete
    assert len(found.losses) == 1, "the operator learns of it"


def test_an_event_beyond_what_a_sender_may_be_ahead_is_not_the_latest_yet() -> None:
    """It is half past; senders may be five minutes ahead."""
    events = [Event("abc", START + timedelta(minutes=minute), f"e{minute}", {}) for minute in (1, 35, 36)]
    assert ask(make_reader(1, *events, layout=LAYOUT), 1, "abc").events["abc"]["id"] == "e35"


def test_a_search_may_stop_within_a_table_and_goes_on_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is half past, so the stretches begin at 00:25, 00:05 and 00:00. The time is up in the second."""
    monkeypatch.setattr(packed_reading, "_FIRST_STRETCH", timedelta(minutes=10))
    events = [
        Event("abc", START + timedelta(minutes=10), "old", {}),
        Event("s", START + timedelta(minutes=26), "new", {}),
    ]
    reader, seconds = make_reader(1, *events, layout=LAYOUT), iter([100.0, 2.0])
    found = ask(reader, 1, "abc", "s", remaining=lambda: next(seconds))
    document = found.document()
    assert document["searched_back_to"] == "2026-03-01T00:25:00.000001Z"
    assert (list_stopped(document), found.events["s"]["id"]) == (["abc"], "new")
    assert ask(reader, 1, "abc", before=document["searched_back_to"]).events["abc"]["id"] == "old"


def test_the_requests_for_a_series_that_paused_grow_with_the_logarithm_of_the_packs_since_then() -> None:
    """100 newer packs of another series are in the same suffix: pages of 2, 4, 8, 16, 32 and 64 packs."""
    events = [Event("b", START + timedelta(seconds=2 * number), f"e{number}", {}) for number in range(1, 101)]
    layout = Layout("time", 1, "series", 3_600, pack=Packing(1, 65_536))
    found = ask(make_reader(1, Event("abc", START, "old", {}), *events, layout=layout), 1, "abc")
    assert (found.events["abc"]["id"], found.cost.requests) == ("old", 6)


def test_at_most_48_suffixes_are_searched_together() -> None:
    """Their first pages are in memory together."""
    layout = Layout("time", 256, "series", 3_600, pack=Packing(60, 65_536))
    names = [f"s{number}" for number in range(100)]
    groups = list(choose_reading(layout).group_latest(layout, names))
    assert [ranges for _, ranges in groups][:1] == [48]
    assert all(ranges <= 48 for _, ranges in groups)
    assert sorted(name for group, _ in groups for name in group) == sorted(names)
    events = [Event(name, START, f"e-{name}", {}) for name in names]
    found = ask(make_reader(1, *events, layout=layout), 1, *names)
    assert {name: event["id"] for name, event in found.events.items()} == {name: f"e-{name}" for name in names}
