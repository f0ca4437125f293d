"""Rollups of a stream that is partitioned by series: when they begin, what is read by noted series, and what that costs."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.fakes.refresher import expect_failures
from tests.worlds.entries import change_entry
from tests.worlds.noted import BY_DAY, CountedStore, begin_noting, list_pages, make_noting_world
from tests.worlds.rebuilt import rebuild
from tests.worlds.rolled import BY_SERIES, MINUTES, PLAIN, START, World, reading
from tidetable.catalog import SeenTable, State
from tidetable.config import TableClass
from tidetable.errors import Outage, StoreUnavailable
from tidetable.ports import Edge, Noting, RangeRead
from tidetable.problems import ProblemError
from tidetable.rollup_model.bounds import NOTE_KEPT, to_millis
from tidetable.rollups.series_index_upkeep import sweep_notes
from tidetable.times import to_text

DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
ALL = {"step": "10m", "stat": "count,sum,first,last,p50", "field": "mag", "by": "series"}
DAY_LABEL = "2026-03-02"


@pytest.mark.parametrize(
    ("now", "since", "start"),
    [
        (START, START + 15 * MINUTE, START + DAY),
        (START - 15 * MINUTE, START, START),
        (START - 15 * MINUTE + timedelta(seconds=1), START + timedelta(seconds=1), START + DAY),
    ],
    ids=["within a period", "just in time", "a second late"],
)
def test_a_rollup_begins_with_the_first_period_whose_series_are_all_noted(
    now: datetime, since: datetime, start: datetime
) -> None:
    """Ten minutes after the deploy, and the five by which an event of the period may be ahead of the clock."""
    world = make_noting_world()
    world.rollups.noting.clear()
    world.time = now
    world.refresh()
    state = world.rollups.read_state("s")
    assert state.noting == Noting(since, now)
    assert [(edge.start, edge.sealed) for edge in state.edges] == [(start, start)]
    world.sleep(60)
    world.refresh()
    assert world.rollups.read_state("s") == state


def test_a_definition_that_changes_later_need_not_wait_for_a_period() -> None:
    world = begin_noting()
    world.definitions["s"] = [replace(BY_DAY, by=("series",))]
    world.refresh()
    assert max(edge.start for edge in world.rollups.read_state("s").edges) == START + 110 * MINUTE


def test_every_stream_with_rollups_says_since_when_it_notes_as_it_may_be_partitioned_by_series_later() -> None:
    world = World((MINUTES,), PLAIN)
    world.refresh()
    assert world.rollups.read_state("s").noted_since == START + 10 * MINUTE


def test_after_the_last_rollup_left_nothing_begins_within_an_hour() -> None:
    """A refresher of the former deployment may still run, and must not say that series are noted."""
    world = make_noting_world()
    world.rollups.stop_noting("s", START)
    world.time = START + HOUR - timedelta(seconds=1)
    world.refresh()
    assert (world.rollups.read_state("s").edges, world.rollups.read_state("s").noted_since) == ([], None)
    world.sleep(1)
    world.refresh()
    state = world.rollups.read_state("s")
    assert (state.noted_since, state.edges[0].start) == (START + 75 * MINUTE, START + DAY)


def test_several_buckets_are_read_in_one_pass_over_the_series() -> None:
    """Nine buckets are due: a request per series and suffix, strongly consistent, and none again for each bucket."""
    world = begin_noting()
    world.sleep(210 + 1)
    counted = CountedStore(world, world.entry("s", START).table)
    report = world.refresh()
    assert report is not None
    assert (report.sealed, report.blocked) == (9, [])
    assert (counted.count, counted.strong) == (5 * 2, True)
    assert world.check([ALL, {"by": "kind"}]) == 2


def test_so_many_buckets_are_read_together_as_memory_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidetable.rollups.collect.MOST_SKETCHES", 10)
    world = begin_noting()
    world.sleep(210 + 1)
    counted = CountedStore(world, world.entry("s", START).table)
    world.refresh()
    # Two buckets of five groups at a time: 2, 2, 2, 2 and 1.
    assert counted.count == 5 * 5 * 2
    assert world.check([ALL]) == 1


def test_a_bucket_with_too_many_groups_is_noted_and_those_beside_it_are_sealed() -> None:
    world = make_noting_world(replace(BY_DAY, max_groups=2))
    world.refresh()
    world.write(*(reading(21 + n, n, f"s{n}") for n in range(3)), reading(31, 1, "s0"), reading(12, 1, "s1"))
    world.sleep(3_000)
    report = world.refresh()
    assert report is not None
    assert report.over == ["s-m 2026-03-02T00:20:00.000000Z: more than 2 groups"]
    assert world.rollups.read_state("s").over == [("m", START + 20 * MINUTE)]
    assert world.check([ALL]) == 1


def test_the_refresher_leaves_half_of_a_tables_read_units_to_queries() -> None:
    world = begin_noting()
    entry = world.entry("s", START)
    world.catalog.items["s", entry.period] = change_entry(entry, seen=SeenTable(5, 4, TableClass.STANDARD))
    world.sleep(210 + 1)
    before = world.time
    world.refresh()
    # Ten requests of the fake take half a unit each, and two of four units per second are the refresher's.
    assert (world.time - before).total_seconds() == 2.5


def test_periods_from_before_series_were_noted_are_refused_and_what_can_be_read_is_said() -> None:
    world = begin_noting()
    world.rollups.noting["s"] = Noting(START + DAY, START)
    for parameters in (ALL, {**ALL, "rollups": "false"}):
        with pytest.raises(ProblemError) as error:
            world.ask(**parameters)
        problem = error.value.problem
        assert (problem.status, problem.code) == (400, "needs_series")
        assert problem.detail == (
            "s is partitioned by series: add series=. Without it, the events that are in no sealed bucket of a rollup are"
            " found by the list of their period's series. The period that holds 2026-03-02T00:00:00.000000Z has no such list;"
            " the first with a list is the one that begins at 2026-03-03T00:00:00.000000Z or later. Set from after the"
            " periods without a list. An archived period needs none"
        )
    # A series is read as before, and so is an archive.
    assert [row["count"] for row in world.ask(**{**ALL, "series": "a"}).rows] == [1] * 5
    world.sleep(5 * 86_400)
    world.move_to_archive("s", START)
    assert world.ask(**ALL).rows == (world.twin or world).ask(**ALL, rollups="false").rows


def test_a_bucket_whose_period_was_not_noted_is_left_out_and_the_rollup_begins_anew() -> None:
    """Such as of a stream that was partitioned by time when its rollup began."""
    world = begin_noting()
    world.rollups.noting["s"] = Noting(START + DAY, START)
    world.sleep(2_000)
    report = world.refresh()
    assert report is not None
    assert report.blocked == []
    assert [edge.start for edge in world.rollups.read_state("s").edges] == [START + 10 * MINUTE, START + DAY]
    # A marked bucket of it cannot be computed either, and says why.
    world.rollups.put_edge("s", Edge("m", START, START + HOUR, BY_DAY.text), None)
    world.rollups.put_marks("s", [START], 0, timedelta(minutes=10))
    report = world.refresh()
    assert report is not None
    assert report.blocked == [
        (
            "s-m 2026-03-02T00:00:00.000000Z: s cannot be read from 2026-03-02T00:00:00.000000Z on: period 2026-03-02 of s is"
            " partitioned by series, and its series were not noted; its archive can be read"
        )
    ]


def test_a_rebuild_reads_past_buckets_by_noted_series() -> None:
    world = begin_noting()
    world.write(reading(3, 7, "z"), reading(9, 8, "a"))
    world.sleep(3_000)
    world.refresh()
    world.sleep(300)
    rebuild(world, BY_DAY, START, START + HOUR)
    assert world.check([ALL]) == 1


def test_a_state_that_cannot_be_read_is_no_reason_to_leave_events_out() -> None:
    """Of a stream by time the events are read instead; here nobody knows whether all series are noted."""
    world = begin_noting()
    world.rollups.refuses = True
    with pytest.raises(Exception, match="rollups"):
        world.ask(**ALL)


def test_a_plan_says_what_reading_by_noted_series_costs() -> None:
    world = begin_noting()
    world.sleep(1_000)
    world.refresh()
    plan = world.explain(**ALL)
    assert plan["rollups"] == [{"rollup": "s-m", "used": True, "reason": None}]
    assert [(part["from"][11:16], part["series"], part["requests"], part["least_units"]) for part in plan["noted"]] == [
        ("00:00", 5, 10, 5.0),
        ("01:50", 5, 10, 5.0),
    ]
    assert {part["period"] for part in plan["noted"]} == {DAY_LABEL}


def test_an_answer_counts_the_units_of_notes_and_ends_where_the_time_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    world = begin_noting()
    # Five of the notes, and ten requests.
    assert world.ask(**ALL).cost.units == 10
    monkeypatch.setattr("tidetable.query.indexed_series._RANGES", 4)
    assert world.ask(**ALL).cost.units == 10
    assert world.ask(lambda: 3.0, **ALL).cost.units == 10
    with pytest.raises(ProblemError) as error:
        world.ask(lambda: 2.99, **ALL)
    assert error.value.problem.code == "too_much"


def test_a_table_that_is_missing_is_a_gap_where_its_series_are_noted() -> None:
    world = begin_noting()
    del world.store.tables[world.entry("s", START).table]
    answer = world.ask(**ALL)
    assert answer.rows == []
    assert [(to_text(gap.start), to_text(gap.end), gap.reason) for gap in answer.gaps] == [
        ("2026-03-02T00:00:00.000000Z", "2026-03-02T08:00:00.000000Z", "table missing")
    ]


@pytest.mark.parametrize("ranges", [4, 6, 256])
def test_a_period_that_is_read_by_noted_series_is_one_source(ranges: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its five series have two suffixes each: they are read in three steps, in two, or at once."""
    monkeypatch.setattr("tidetable.query.indexed_series._RANGES", ranges)
    assert [scan.entry.period.label for scan in begin_noting().ask(**ALL).sources] == [DAY_LABEL]


def test_of_events_that_are_read_by_noted_series_only_the_needed_fields_are_read() -> None:
    world = begin_noting()
    query_fields, read = world.store.query_fields, list[tuple[str, ...]]()

    def note(reads: Sequence[RangeRead], fields: Sequence[str], **options: Any) -> Any:
        read.append(tuple(fields))
        return query_fields(reads, fields, **options)

    world.store.query_fields = note  # type: ignore[method-assign]
    assert world.ask(stat="max", field="mag", by="kind").rows
    assert read
    assert set(read) == {("mag", "kind")}


def note_requests(world: World) -> list[int]:
    """Note how many ranges each call reads as columns."""
    query_fields, sizes = world.store.query_fields, list[int]()

    def note(reads: Sequence[RangeRead], *others: Any, **options: Any) -> Any:
        sizes.append(len(reads))
        return query_fields(reads, *others, **options)

    world.store.query_fields = note  # type: ignore[method-assign]
    return sizes


def test_of_steps_that_the_page_cannot_hold_no_groups_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Series by series, no step is complete before all are read; the pages together have every row once."""
    world = begin_noting()
    rows = world.ask(**ALL).rows
    assert len(rows) == 23
    monkeypatch.setattr("tidetable.query.indexed_series._RANGES", 2)
    monkeypatch.setattr("tidetable.query.aggregates.aggregate_run._SLACK", 0)
    paged, parameters = [], {**ALL, "limit": "5"}
    while True:
        page = world.ask(**parameters)
        assert 0 < len(page.rows) <= 5
        paged += page.rows
        if page.next is None:
            break
        parameters = {"cursor": page.next, "limit": "5"}
    assert paged == rows


def test_steps_that_one_page_must_hold_are_refused_before_all_series_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    world = begin_noting()
    monkeypatch.setattr("tidetable.query.indexed_series._RANGES", 2)
    monkeypatch.setattr("tidetable.query.aggregates.aggregate_run._SLACK", 0)
    sizes = note_requests(world)
    with pytest.raises(ProblemError, match="one page must hold all steps") as error:
        world.ask(**ALL, fill="zero", limit="5")
    assert (error.value.problem.status, error.value.problem.code) == (422, "too_much")
    assert sum(sizes) < 10


def swept(world: World, deleted_at: datetime) -> list[str]:
    """Notes of the period are put at its end, the period is deleted, and the refresher runs two days and a bit later."""
    entry = world.entry("s", START)
    world.rollups.put_notes("s", DAY_LABEL, list_pages("a", "b"), to_millis(START + HOUR))
    world.catalog.items["s", entry.period] = replace(entry, state=State.DELETED, deleted_at=deleted_at)
    return list(world.rollups.read_notes("s", DAY_LABEL, consistent=True).series)


def test_notes_are_removed_two_days_after_their_table() -> None:
    world = make_noting_world()
    world.refresh()
    deleted = START + 2 * DAY
    assert swept(world, deleted) == ["a", "b"]
    # A restore that failed noted a series later than a day after the deletion; that note stays.
    world.rollups.put_notes("s", DAY_LABEL, list_pages("c"), to_millis(deleted + NOTE_KEPT))
    world.time = deleted + 2 * DAY - timedelta(seconds=1)
    world.refresh()
    assert len(world.rollups.notes["s", DAY_LABEL]) == 3
    world.sleep(2)
    world.refresh()
    # The catalog is looked at every hour.
    world.sleep(3_600)
    world.refresh()
    assert list(world.rollups.notes["s", DAY_LABEL]) == ["c"]
    noting = world.rollups.noting["s"]
    assert noting == Noting(START, world.time - 2 * DAY)
    world.sleep(3_599)
    world.refresh()
    assert world.rollups.noting["s"] == noting


def test_a_restored_period_keeps_its_notes_and_loses_them_two_days_after_it_is_deleted_again() -> None:
    world = make_noting_world()
    world.refresh()
    deleted = START + 2 * DAY
    swept(world, deleted)
    world.set_state("s", START, State.CLOSED)
    world.time = deleted + 3 * DAY
    world.refresh()
    assert list(world.rollups.notes["s", DAY_LABEL]) == ["a", "b"]
    swept(world, deleted + 4 * DAY)
    world.time = deleted + 6 * DAY + 2 * HOUR
    world.refresh()
    assert world.rollups.notes["s", DAY_LABEL] == {}


def test_a_sweep_whose_time_is_up_goes_on_at_the_same_period() -> None:
    world = make_noting_world()
    world.refresh()
    deleted = START + 2 * DAY
    swept(world, deleted)
    world.time = deleted + 2 * DAY + 2 * HOUR
    services = replace(world.services(), remaining=lambda: 0.0)
    sweep_notes("s", world.rollups.read_state("s"), services)
    assert list(world.rollups.notes["s", DAY_LABEL]) == ["a", "b"]
    sweep_notes("s", world.rollups.read_state("s"), world.services())
    assert world.rollups.notes["s", DAY_LABEL] == {}


@expect_failures("no answer: time-out")
def test_a_note_that_cannot_be_read_fails_the_run_and_no_bucket_is_sealed() -> None:
    world = begin_noting()
    world.sleep(1_000)

    def fail(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable(Outage.NO_ANSWER, "time-out")

    world.rollups.read_notes = fail  # type: ignore[method-assign]
    report = world.refresh()
    assert report is not None
    assert (report.sealed, len(report.failed)) == (0, 1)


def test_a_stream_by_series_without_rollups_is_refused_as_before() -> None:
    world = begin_noting()
    world.stream = replace_rollups()
    with pytest.raises(ProblemError) as error:
        world.ask(**ALL)
    assert error.value.problem.code == "needs_series"
    assert "would scan whole tables" in (error.value.problem.detail or "")


def replace_rollups() -> Any:
    return msgspec.structs.replace(BY_SERIES, rollup=())
