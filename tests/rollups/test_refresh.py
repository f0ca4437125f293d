"""The refresher: what it seals, what it leaves alone, and what it says about it."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes.refresher import expect_failures
from tests.worlds.rolled import HOURS, LENGTH, MINUTES, QUERIES, START, World, begin_rollups, reading, show_edges
from tidetable.ports import Edge
from tidetable.times import to_text


def test_a_rollup_begins_when_every_process_has_its_definition() -> None:
    world = World()
    world.refresh()
    assert (show_edges(world, "m"), show_edges(world, "h")) == (["00:10-00:10"], ["01:00-01:00"])
    # Ten minutes: a bucket that begins a moment earlier is left out.
    world = World()
    world.sleep(1)
    world.refresh()
    assert show_edges(world, "m") == ["00:20-00:20"]


def test_a_definition_that_changes_twice_within_minutes_begins_behind_both() -> None:
    world = begin_rollups((MINUTES,))
    world.sleep(60)
    world.definitions["s"] = [replace(MINUTES, by=("kind",))]
    world.refresh()
    assert show_edges(world, "m") == ["00:10-01:10", "01:40-01:40"]
    world.definitions["s"] = [replace(MINUTES, by=())]
    world.refresh()
    assert show_edges(world, "m") == ["00:10-01:10", "01:40-01:40", "01:50-01:50"]


def test_a_bucket_is_sealed_when_its_last_event_without_a_mark_is_written() -> None:
    world = World()
    world.refresh()
    world.sleep(20 * 60 + 210)
    world.refresh()
    assert show_edges(world, "m") == ["00:10-00:10"]
    world.sleep(0.001)
    report = world.refresh()
    assert show_edges(world, "m") == ["00:10-00:20"]
    assert report is not None
    assert (report.sealed, report.lag) == (1, timedelta(0))


def test_only_one_refresher_runs() -> None:
    world = begin_rollups()
    world.catalog.acquire("rollups", "another", world.now(), LENGTH)
    assert world.refresh() is None
    world.sleep(LENGTH.total_seconds())
    assert world.refresh() is not None


def test_a_changed_definition_begins_at_a_bucket_of_its_own() -> None:
    world = begin_rollups()
    world.write(reading(62, 1, kind="x"), reading(100, 1, kind="x"), reading(150, 2, kind="y"))
    world.definitions["s"] = [replace(MINUTES, by=("kind",)), HOURS]
    world.refresh()
    assert show_edges(world, "m") == ["00:10-01:10", "01:30-01:30"]
    world.sleep(9_000)
    world.refresh()
    assert show_edges(world, "m") == ["00:10-01:30", "01:30-03:40"]
    assert world.check(QUERIES) == len(QUERIES)
    # By series only the older definition answers.
    answer = world.ask(step="10m", by="series")
    assert [row["group"]["series"] for row in answer.rows] == ["a", "a", "a"]
    assert max(scan.end for scan in answer.sources if scan.entry.stream == "s-m") == START + timedelta(minutes=90)


def test_a_bucket_with_too_many_groups_is_read_from_the_events() -> None:
    world = begin_rollups((replace(MINUTES, max_groups=2),))
    world.write(*[reading(62, n, str(n)) for n in range(3)], reading(45, 1))
    report = world.refresh()
    assert report is not None
    assert report.over == ["s-m 2026-03-02T01:00:00.000000Z: more than 2 groups"]
    assert show_edges(world, "m") == ["00:10-01:10"]
    assert world.check(QUERIES) > 0
    answer = world.ask(step="10m", by="series", **{"from": to_text(START + timedelta(hours=1))})
    assert [scan.entry.stream for scan in answer.sources if scan.start.hour == 1] == ["s"]
    # One of the three becomes another's; the bucket is sealed then.
    world.rollups.marks = {("s", START + timedelta(hours=1), MINUTES.every): 0}
    table = world.store.tables[world.entry("s", START).table]
    for key in [key for key in table if "#2#" in key.sk]:
        del table[key]
    report = world.refresh()
    assert report is not None
    assert (report.resealed, report.over, world.rollups.over) == (1, [], {})
    assert world.check(QUERIES) > 0


def test_a_late_event_that_makes_too_many_groups_reaches_the_longer_buckets() -> None:
    """The cells of the ten minutes stay as they were, so the hour must be computed from the events."""
    world = begin_rollups((replace(MINUTES, max_groups=2), HOURS))
    world.write(reading(62, 1, "a", kind="x"), reading(62, 2, "b", kind="x"))
    world.sleep(10_000)
    world.refresh()
    world.write(reading(63, 5, "c", kind="x"))
    world.sleep(400)
    report = world.refresh()
    assert report is not None
    assert (report.over, report.marks) == (["s-m 2026-03-02T01:00:00.000000Z: more than 2 groups"], 0)
    answer = world.ask(step="1h", by="kind", **{"from": "2026-03-02T01:00:00Z", "to": "2026-03-02T02:00:00Z"})
    assert [scan.entry.stream for scan in answer.sources] == ["s-h"]
    assert [(row["group"]["kind"], row["count"]) for row in answer.rows] == [("x", 3)]


def test_a_mark_stays_while_its_bucket_cannot_be_read_whole() -> None:
    world = begin_rollups()
    world.write(reading(62, 1, kind="x"))
    world.sleep(10_000)
    world.refresh()
    world.write(reading(62.5, 5, kind="x"))
    held = world.store.tables.pop(world.entry("s", START).table)
    world.sleep(400)
    report = world.refresh()
    assert report is not None
    assert len(report.blocked) >= 1
    assert (report.resealed, report.marks) == (0, 1)
    world.store.tables[world.entry("s", START).table] = held
    report = world.refresh()
    assert report is not None
    assert (report.resealed, report.marks, report.blocked) == (2, 0, [])
    assert world.check(QUERIES) == len(QUERIES)


@expect_failures("moved by another run")
def test_a_run_that_was_overtaken_stops_and_stops_no_other_stream() -> None:
    """Its lease ran out, and another run moved the edge while this one computed the bucket."""
    world = begin_rollups((MINUTES,))
    edge = world.rollups.read_state("s").edges[0]
    put_edge = world.rollups.put_edge

    def overtaken(stream: str, moved: Edge, expected: Edge | None) -> bool:
        if expected == edge:
            put_edge(stream, edge._replace(sealed=START + timedelta(minutes=50)), edge)
        return put_edge(stream, moved, expected)

    world.rollups.put_edge = overtaken  # type: ignore[method-assign, assignment]
    world.definitions["z"] = [replace(MINUTES, source="z", stream="z-m")]
    report = world.refresh()
    assert report is not None
    assert report.failed == ["s: the edge of s-m was moved by another run"]
    assert show_edges(world, "m") == ["00:10-00:50"]
    assert len(world.rollups.read_state("z").edges) == 1
    assert world.check(QUERIES) > 0


@expect_failures("is throttled")
def test_what_is_throttled_is_done_by_the_next_run() -> None:
    world = begin_rollups((MINUTES,))
    world.write(reading(45, 1))
    world.store.throttles = {"tidetable-t.s-m.2026-03-02"}
    report = world.refresh()
    assert report is not None
    assert "throttled" in report.failed[0]
    # The bucket from 00:40 on could have been sealed at 00:53:30, and it is 01:20.
    assert report.lag == timedelta(minutes=26, seconds=30)
    assert show_edges(world, "m") == ["00:10-00:40"]
    world.store.throttles = set()
    world.refresh()
    assert show_edges(world, "m") == ["00:10-01:10"]
    assert world.check(QUERIES) > 0


@expect_failures("ConnectionError: reset")
def test_a_stream_that_fails_in_any_way_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalog's errors are those of boto3, which the refresher does not know."""
    world = World((HOURS,))
    world.definitions = {"a": [replace(HOURS, source="a", stream="a-h")], **world.definitions}
    read = world.catalog.entries

    def fail(stream: str, *args: Any, **kwargs: Any) -> Any:
        if stream == "a-h":
            raise ConnectionError("reset")
        return read(stream, *args, **kwargs)

    monkeypatch.setattr(world.catalog, "entries", fail)
    world.refresh()
    world.sleep(3 * 3_600)
    report = world.refresh()
    assert report is not None
    assert report.sealed == 1
    assert report.failed == ["a: ConnectionError: reset"]
    assert show_edges(world, "h") == ["01:00-02:00"]


def test_a_rollup_begins_anew_behind_events_that_were_deleted_before_they_were_sealed() -> None:
    world = World((HOURS,))
    world.refresh()
    world.sleep(30 * 3_600)
    world.forget("s", START)
    world.write(reading(24 * 60 + 70, 3, kind="x"))
    world.refresh()
    world.sleep(121)
    world.refresh()
    assert show_edges(world, "h") == ["01:00-01:00", "00:00-05:00"]
    answer = world.ask(
        step="1h", **{"from": to_text(START + timedelta(days=1)), "to": to_text(START + timedelta(hours=29))}
    )
    assert [scan.entry.stream for scan in answer.sources] == ["s-h"]
    report = world.refresh()
    assert report is not None
    assert report.blocked == []


def test_an_edge_is_moved_only_from_where_it_was_seen() -> None:
    rollups = World().rollups
    edge = Edge("m", START, START, "{}")
    assert rollups.put_edge("s", edge, None)
    assert not rollups.put_edge("s", edge, None)
    assert not rollups.put_edge("s", edge._replace(sealed=START + timedelta(1)), edge._replace(definition="x"))
    assert rollups.put_edge("s", edge._replace(start=START - timedelta(1)), edge)
    assert [stored.start for stored in rollups.read_state("s").edges] == [START - timedelta(1)]


def test_each_stream_is_the_first_of_some_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream with more work than a run has time for does not keep the others from theirs for ever."""
    world = World((HOURS,))
    world.definitions = {"a": [replace(HOURS, source="a", stream="a-h")], **world.definitions}
    claim, sources = world.work.claim, list[str]()

    def note(kind: str, name: str, *given: Any, **more: Any) -> Any:
        sources.append(name)
        return claim(kind, name, *given, **more)

    monkeypatch.setattr(world.work, "claim", note)
    first_sources = set()
    for number in range(20):
        sources.clear()
        world.sleep(3_600)
        world.refresh(owner=f"request {number}")
        assert sorted(sources) in ([], ["a", "s"]), "none before the first hour is over"
        first_sources.update(sources[:1])
    assert first_sources == {"a", "s"}
