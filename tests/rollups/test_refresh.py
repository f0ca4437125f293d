"""The refresher: what it seals, what it leaves alone, and what it says about it; rebuilding; and queries of what it made."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from tests.worlds.rolled import HOURS, LENGTH, MINUTES, QUERIES, START, World, reading
from tidetable.catalog import State
from tidetable.events import Event
from tidetable.packs import open_item
from tidetable.ports import Edge
from tidetable.problems import ProblemError
from tidetable.rollups.rebuild import Progress, rebuild
from tidetable.times import to_text


def started(definitions: tuple[object, ...] = (MINUTES, HOURS)) -> World:
    """A world whose rollups begin at 00:10 and 01:00; it is 01:20."""
    world = World(definitions)  # type: ignore[arg-type]
    world.refresh()
    world.sleep(4_800)
    return world


def edges(world: World, rollup: str) -> list[str]:
    found = [edge for edge in world.rollups.read_state("s").edges if edge.rollup == rollup]
    return [f"{edge.start:%H:%M}-{edge.sealed:%H:%M}" for edge in found]


def test_a_rollup_begins_when_every_process_has_its_definition() -> None:
    world = World()
    world.refresh()
    assert (edges(world, "m"), edges(world, "h")) == (["00:10-00:10"], ["01:00-01:00"])


def test_a_bucket_is_sealed_when_its_last_event_without_a_mark_is_written() -> None:
    world = World()
    world.refresh()
    world.sleep(20 * 60 + 210)
    world.refresh()
    assert edges(world, "m") == ["00:10-00:10"]
    world.sleep(0.001)
    report = world.refresh()
    assert edges(world, "m") == ["00:10-00:20"]
    assert report is not None
    assert (report.sealed, report.lag) == (1, timedelta(0))


def test_only_one_refresher_runs() -> None:
    world = started()
    world.catalog.acquire("rollups", "another", world.now(), LENGTH)
    assert world.refresh() is None
    world.sleep(LENGTH.total_seconds())
    assert world.refresh() is not None


def test_a_changed_definition_begins_at_a_bucket_of_its_own() -> None:
    world = started()
    world.write(reading(62, 1, kind="x"), reading(100, 1, kind="x"), reading(150, 2, kind="y"))
    world.definitions["s"] = [replace(MINUTES, by=("kind",)), HOURS]
    world.refresh()
    assert edges(world, "m") == ["00:10-01:10", "01:30-01:30"]
    world.sleep(9_000)
    world.refresh()
    assert edges(world, "m") == ["00:10-01:30", "01:30-03:40"]
    assert world.check(QUERIES) == len(QUERIES)
    # By series only the older definition answers.
    answer = world.ask(step="10m", by="series")
    assert [row["group"]["series"] for row in answer.rows] == ["a", "a", "a"]
    assert max(scan.end for scan in answer.sources if scan.entry.stream == "s-m") == START + timedelta(minutes=90)


def test_a_bucket_with_too_many_groups_is_read_from_the_events() -> None:
    world = started((replace(MINUTES, max_groups=2),))
    world.write(*[reading(62, n, str(n)) for n in range(3)], reading(45, 1))
    report = world.refresh()
    assert report is not None
    assert report.over == ["s-m 2026-03-02T01:00:00.000000Z: more than 2 groups"]
    assert edges(world, "m") == ["00:10-01:10"]
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


def test_a_mark_stays_while_its_bucket_cannot_be_read_whole() -> None:
    world = started()
    world.write(reading(62, 1, kind="x"))
    world.sleep(10_000)
    world.refresh()
    world.write(reading(62.5, 5, kind="x"))
    held = world.store.tables.pop(world.entry("s", START).table)
    world.sleep(200)
    report = world.refresh()
    assert report is not None
    assert len(report.blocked) >= 1
    assert (report.resealed, report.marks) == (0, 1)
    world.store.tables[world.entry("s", START).table] = held
    report = world.refresh()
    assert report is not None
    assert (report.resealed, report.marks, report.blocked) == (2, 0, [])
    assert world.check(QUERIES) == len(QUERIES)


@pytest.mark.parametrize("state", [State.ARCHIVING, State.ARCHIVED, State.DELETED])
def test_cells_are_not_written_to_a_table_that_is_archived(state: State) -> None:
    world = started((MINUTES,))
    world.write(reading(45, 1))
    world.refresh()
    world.write(reading(46, 5))
    world.sleep(200)
    world.set_state("s-m", START, state)
    before = dict(world.store.tables["tidetable-t.s-m.2026-03-02"])
    report = world.refresh()
    assert report is not None
    assert "backfill s-m" in report.blocked[0]
    assert len(world.rollups.marks) == 1
    assert world.store.tables["tidetable-t.s-m.2026-03-02"] == before


def test_a_table_that_closed_takes_cells_only_while_the_catalog_says_so() -> None:
    """The table is archived between the look at the catalog and the write."""
    world = started((MINUTES,))
    world.write(reading(45, 1))
    world.refresh()
    world.write(reading(46, 5))
    world.sleep(200)
    world.set_state("s-m", START, State.CLOSED)
    world.store.between = lambda: world.set_state("s-m", START, State.ARCHIVING)
    before = dict(world.store.tables["tidetable-t.s-m.2026-03-02"])
    report = world.refresh()
    assert report is not None
    assert report.resealed == 0
    assert len(world.rollups.marks) == 1
    assert world.store.tables["tidetable-t.s-m.2026-03-02"] == before


def test_later_cells_win_though_the_clock_went_back() -> None:
    """A group's cell is written by a clock that is ahead, and again by one that is behind."""
    world = started((MINUTES,))
    world.write(reading(45, 1))
    world.refresh(error=5)
    # The mark is old: the writer's clock does not matter here.
    world.put(world.entry("s", START), [reading(46, 5)], 1)
    world.rollups.marks = {("s", START + timedelta(minutes=40), MINUTES.every): 0}
    report = world.refresh(error=-5)
    assert report is not None
    assert report.resealed == 1
    assert not world.rollups.marks
    assert [row["sum"] for row in world.ask(step="10m", stat="sum", field="mag").rows] == [6]
    assert world.check(QUERIES) > 0


def test_a_group_that_has_no_events_any_more_is_gone() -> None:
    """An event is overwritten with data of another group."""
    world = started()
    world.write(reading(62, 1, kind="x", id="p"))
    world.sleep(10_000)
    world.refresh()
    world.write(reading(62, 1, kind="y", id="p"))
    world.sleep(200)
    world.refresh()
    assert not world.rollups.marks
    for step in ("10m", "1h"):
        rows = world.ask(step=step, by="kind", **{"from": to_text(START + timedelta(hours=1))}).rows
        assert [(row["group"]["kind"], row["count"]) for row in rows] == [("y", 1)]


def test_an_unchanged_bucket_is_not_written_again() -> None:
    world = started((MINUTES,))
    world.write(reading(45, 1, place={"lon": 1}))
    world.refresh()
    table = world.store.tables["tidetable-t.s-m.2026-03-02"]
    before = dict(table)
    world.rollups.marks = {("s", START + timedelta(minutes=40), MINUTES.every): 0}
    report = world.refresh()
    assert report is not None
    assert report.resealed == 1
    assert table == before


def test_what_is_throttled_is_done_by_the_next_run() -> None:
    world = started((MINUTES,))
    world.write(reading(45, 1))
    world.store.throttles = {"tidetable-t.s-m.2026-03-02"}
    report = world.refresh()
    assert report is not None
    assert "throttled" in report.failed[0]
    # The bucket from 00:40 on could have been sealed at 00:53:30, and it is 01:20.
    assert report.lag == timedelta(minutes=26, seconds=30)
    assert edges(world, "m") == ["00:10-00:40"]
    world.store.throttles = set()
    world.refresh()
    assert edges(world, "m") == ["00:10-01:10"]
    assert world.check(QUERIES) > 0


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
    assert edges(world, "h") == ["01:00-02:00"]


def test_a_rollup_begins_anew_behind_events_that_were_deleted_before_they_were_sealed() -> None:
    world = World((HOURS,))
    world.refresh()
    world.sleep(30 * 3_600)
    world.forget("s", START)
    world.write(reading(24 * 60 + 70, 3, kind="x"))
    world.refresh()
    world.sleep(121)
    world.refresh()
    assert edges(world, "h") == ["01:00-01:00", "00:00-05:00"]
    answer = world.ask(
        step="1h", **{"from": to_text(START + timedelta(days=1)), "to": to_text(START + timedelta(hours=29))}
    )
    assert [scan.entry.stream for scan in answer.sources] == ["s-h"]
    report = world.refresh()
    assert report is not None
    assert report.blocked == []


def test_rollups_answer_alone_when_the_events_are_gone() -> None:
    world = started()
    world.write(reading(62, 1, kind="x"), reading(170, 2, "b", kind="y"))
    world.sleep(26 * 3_600)
    world.refresh()
    span = {"from": to_text(START + timedelta(hours=1)), "to": to_text(START + timedelta(hours=8))}
    asked = {**QUERIES[0], **span}
    before = world.ask(**asked)
    world.forget("s", START)
    after = world.ask(**asked)
    assert after.rows == before.rows
    assert after.gaps == []
    assert [(gap.reason) for gap in world.ask(**asked, rollups="false").gaps] == ["deleted"]
    # Where no rollup is sealed there is a gap, as without rollups.
    assert [(to_text(gap.start)[11:16], to_text(gap.end)[11:16]) for gap in world.ask(**QUERIES[0]).gaps] == [
        ("00:00", "00:10")
    ]


def test_where_a_rollups_own_tables_are_gone_a_finer_one_or_the_events_answer() -> None:
    world = started()
    world.write(reading(62, 1, kind="x"), reading(170, 2, "b", kind="y"))
    world.sleep(10_000)
    world.refresh()
    hours = {"step": "1h", "from": to_text(START + timedelta(hours=1)), "to": to_text(START + timedelta(hours=3))}
    assert {scan.entry.stream for scan in world.ask(**hours).sources} == {"s-h"}
    world.forget("s-h", START)
    assert {scan.entry.stream for scan in world.ask(**hours).sources} == {"s-m"}
    world.forget("s-m", START)
    assert {scan.entry.stream for scan in world.ask(**hours).sources} == {"s"}
    assert world.check(QUERIES) == 0


REASONS = [
    ("step is no multiple", {"step": "15m"}, "s-m", "step is not a multiple of its every"),
    ("a group that it lacks", {"by": "place.state,series"}, "s-m", "its by lacks place.state"),
    ("a condition on what it lacks", {"where.place": "x"}, "s-m", "its by lacks place"),
    ("a series", {"series": "a"}, "s-h", "its by lacks series"),
    ("a series' beginning", {"series:prefix": "a"}, "s-h", "its by lacks series"),
    ("an id", {"id": "a"}, "s-m", "it does not know ids"),
    ("ids' beginning", {"id:prefix": "a"}, "s-m", "it does not know ids"),
    ("a field", {"stat": "sum", "field": "depth"}, "s-m", "its fields lack depth"),
    ("the events", {"rollups": "false"}, "s-m", "rollups=false reads the events"),
]


@pytest.mark.parametrize(("name", "query", "rollup", "reason"), REASONS, ids=[case[0] for case in REASONS])
def test_a_plan_says_why_a_rollup_is_not_used(name: str, query: dict[str, str], rollup: str, reason: str) -> None:
    world = started()
    world.refresh()
    found = {one["rollup"]: one for one in world.explain(**query)["rollups"]}
    assert found[rollup] == {"rollup": rollup, "used": False, "reason": reason}
    assert rollup not in {scan.entry.stream for scan in world.ask(**query).sources}


def test_a_statistic_that_a_rollup_lacks_is_named() -> None:
    world = started((replace(MINUTES, stats=("count", "min")),))
    world.refresh()
    (found,) = world.explain(stat="p95,avg,min", field="mag")["rollups"]
    assert found["reason"] == "its stats lack percentiles, sum"
    (found,) = world.explain(stat="min", field="mag")["rollups"]
    assert found == {"rollup": "s-m", "used": True, "reason": None}


def test_sources_name_rollups() -> None:
    world = started()
    world.refresh()
    assert world.ask().document()["sources"] == [
        {"period": "2026-03-02", "from": "table"},
        {"period": "2026-03-02", "from": "table", "rollup": "s-m"},
    ]


def test_a_state_that_cannot_be_read_costs_read_units_only() -> None:
    world = started()
    world.write(reading(45, 1))
    world.refresh()
    world.rollups.refuses = True
    assert [row["count"] for row in world.ask().rows] == [1]
    assert "cannot be read" in world.explain()["rollups"][0]["reason"]


@pytest.mark.parametrize("value", ["no", "", "False"])
def test_rollups_is_true_or_false(value: str) -> None:
    with pytest.raises(ProblemError, match="bad_parameter"):
        started().ask(rollups=value)


def test_pages_of_an_aggregate_go_on_across_rollups_and_events() -> None:
    world = started()
    world.write(*[reading(5 * n, n, kind="xy"[n % 2]) for n in range(30)])
    world.sleep(5_000)
    world.refresh()
    whole = world.ask(**QUERIES[0]).rows
    found: list[Any] = []
    parameters = {**QUERIES[0], "limit": "3"}
    for _ in range(100):
        page = world.ask(**parameters)
        found += page.rows
        if page.next is None:
            break
        parameters = {"cursor": page.next, "limit": "3"}
    assert found == whole
    assert len(found) == 30


def test_a_page_ends_where_the_time_is_up_and_the_next_goes_on() -> None:
    world = started()
    world.write(*[reading(5 * n, n, kind="xy"[n % 2]) for n in range(30)])
    world.sleep(5_000)
    world.refresh()
    whole = world.ask(**QUERIES[0]).rows
    found: list[Any] = []
    parameters, pages = dict(QUERIES[0]), 0
    while True:
        page = world.ask(_running_out(), **parameters)
        found, pages = found + page.rows, pages + 1
        if page.next is None:
            break
        parameters = {"cursor": page.next}
    assert found == whole
    assert pages > 1


def _running_out() -> Callable[[], float]:
    """The time is up at the seventh look."""
    looks: Iterator[int] = count()
    return lambda: 100.0 if next(looks) < 7 else 0.0


def test_the_periods_of_a_rollup_are_looked_up_once_however_many_marks_there_are() -> None:
    world = started((MINUTES,))
    world.refresh()
    for minutes in (20, 40):
        world.rollups.marks["s", START + timedelta(minutes=minutes), MINUTES.every] = 0
    world.catalog.reads.clear()
    answer = world.ask(step="10m")
    assert len({scan.start for scan in answer.sources if scan.entry.stream == "s-m"}) >= 3
    assert len(world.catalog.reads) == 2


# Rebuilding


def rebuilt(world: World, hours: float, to: float = 100) -> Progress:
    begin, end = START + timedelta(hours=hours), START + timedelta(hours=to)
    some = world.definitions["s"]
    found = rebuild(some[0], begin, end, some, world.services(), "rebuild", LENGTH)
    assert found is not None
    return found


def test_a_rebuild_extends_a_rollup_to_the_events_of_before() -> None:
    world = World((HOURS,))
    world.sleep(5 * 3_600)
    world.write(*[reading(30 * n, n, kind="x") for n in range(10)])
    world.refresh()
    assert (
        rebuilt(world, 1).problem
        == "the rollup begins at 2026-03-02T06:00:00.000000Z: rebuild it when its first bucket is sealed"
    )
    world.sleep(3 * 3_600)
    world.refresh()
    progress = rebuilt(world, 1)
    assert (progress.reached, progress.buckets, progress.left, progress.problem) == (
        START + timedelta(hours=1),
        5,
        0,
        None,
    )
    assert edges(world, "h") == ["01:00-07:00"]
    assert world.check(QUERIES) > 0
    sources = world.ask(
        step="1h", **{"from": to_text(START + timedelta(hours=1)), "to": to_text(START + timedelta(hours=6))}
    ).sources
    assert {scan.entry.stream for scan in sources} == {"s-h"}


def test_a_rebuild_over_an_older_definition_never_mixes_their_cells() -> None:
    world = started()
    world.write(*[reading(5 * n, n, kind="xy"[n % 2]) for n in range(16)])
    world.refresh()
    world.definitions["s"] = [replace(MINUTES, by=("kind",)), HOURS]
    world.refresh()
    world.sleep(5_000)
    world.refresh()
    assert rebuilt(world, 0.5).done
    assert edges(world, "m") == ["00:10-01:30", "00:30-02:30"]
    assert world.check(QUERIES) == len(QUERIES)


def test_a_rebuild_that_cannot_go_on_says_why() -> None:
    world = started()
    world.refresh()
    world.forget("s-m", START)
    progress = rebuilt(world, 0)
    assert progress.left == 1
    assert "backfill s-m" in str(progress.problem)


def test_a_rebuild_of_sealed_buckets_has_them_computed_anew() -> None:
    world = started((MINUTES,))
    world.write(reading(45, 1))
    world.refresh()
    world.rollups.marks.clear()
    # Somebody damaged the cells.
    world.store.tables["tidetable-t.s-m.2026-03-02"].clear()
    assert world.ask(step="10m").rows == []
    progress = rebuilt(world, 0.5)
    assert progress.marked == 4
    assert world.check(QUERIES) > 0
    world.sleep(121)
    world.refresh()
    assert not world.rollups.marks
    assert [row["count"] for row in world.ask(step="10m").rows] == [1]


def test_nothing_is_rebuilt_while_the_refresher_runs() -> None:
    world = started()
    world.catalog.acquire("rollups", "another", world.now(), LENGTH)
    some = world.definitions["s"]
    assert rebuild(some[0], START, START, some, world.services(), "rebuild", LENGTH) is None


def test_cells_are_packed_and_the_same_whoever_makes_them() -> None:
    worlds = [started((MINUTES,)) for _ in range(2)]
    for world in worlds:
        world.write(*[reading(45, n, f"s{n}", kind="x") for n in range(50)])
        world.refresh()
    tables = [world.store.tables["tidetable-t.s-m.2026-03-02"] for world in worlds]
    assert tables[0] == tables[1]
    (item,) = tables[0].values()
    assert item["n"] == 51
    assert open_item(item, worlds[0].entry("s-m", START).layout, worlds[0].reader.unpacker.compressor).problem is None


def test_an_edge_is_moved_only_from_where_it_was_seen() -> None:
    rollups = World().rollups
    one = Edge("m", START, START, "{}")
    assert rollups.put_edge("s", one, None)
    assert not rollups.put_edge("s", one, None)
    assert not rollups.put_edge("s", one._replace(sealed=START + timedelta(1)), one._replace(definition="x"))
    assert rollups.put_edge("s", one._replace(start=START - timedelta(1)), one)
    assert [edge.start for edge in rollups.read_state("s").edges] == [START - timedelta(1)]


def test_a_series_may_be_called_as_the_cells_of_all_series_are() -> None:
    world = started((MINUTES,))
    world.write(
        reading(45, 1, "*", kind="x"), Event("a#b%", START + timedelta(minutes=45), "c#%", {"kind": "y#", "mag": 2})
    )
    world.refresh()
    assert world.check(QUERIES) > 0
    assert [row["group"] for row in world.ask(by="series,kind").rows] == [
        {"series": "*", "kind": "x"},
        {"series": "a#b%", "kind": "y#"},
    ]
