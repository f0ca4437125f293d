"""Archiving: verified, complete, once, and safe to interrupt anywhere."""

import json
import re
from datetime import timedelta
from pathlib import Path

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aws.archive.parquet import Parquet
from aws.archive.render import render_canonical
from tests.fakes.items import read_event
from tests.query.positions import find_position
from tests.worlds.archives import LAYOUT, NOW, START, World, some
from tests.worlds.codec import to_wire
from tests.worlds.parts import list_items
from tidetable.archive.reading import read_archive
from tidetable.catalog import State
from tidetable.errors import ArchiveBusy
from tidetable.events import Event
from tidetable.ports import ArchiveRange

MINUTE = timedelta(minutes=1)


def plain(events: list[Event]) -> list[Event]:
    return sorted(events, key=lambda event: (event.time, event.series, event.id))


def test_what_is_archived_is_what_the_table_held_value_by_value() -> None:
    world = World(some(100))
    facts = world.archive().archive
    assert facts is not None
    manifest = world.manifest(facts.manifest)
    held = [item for part in manifest.parts for item in list_items(world.bucket[part.key], LAYOUT)]
    assert plain([read_event(LAYOUT, item) for item in held]) == plain(some(100))
    assert sorted(map(render_canonical, map(to_wire, held))) == sorted(map(render_canonical, world.items["t"]))
    assert (facts.events, facts.at, world.state) == (100, world.clock.now(), State.ARCHIVED)
    assert len(manifest.parts) > 1
    assert world.bucket.keys() == {facts.manifest, *(part.key for part in manifest.parts)}, "no progress is left"
    assert manifest.layout == LAYOUT


def test_an_empty_table_has_an_archive_without_parts() -> None:
    world = World([])
    facts = world.archive().archive
    assert facts is not None
    assert world.bucket.keys() == {facts.manifest}


def test_archiving_again_does_nothing() -> None:
    world = World(some(10))
    world.archive()
    before = dict(world.bucket)
    world.calls = 0
    world.archive()
    assert world.bucket == before


@pytest.mark.parametrize("state", [State.RESTORING, State.DELETED])
def test_the_archive_of_a_period_that_is_restored_or_deleted_is_kept_as_it_is(state: State) -> None:
    """Queries read the archive during a restore."""
    world = World(some(10))
    before = world.archive()
    held = dict(world.bucket)
    world.catalog.move(before, state, expected=[State.ARCHIVED])
    again = world.run()
    assert (again.done, again.events, world.state) == (True, 10, state)
    assert world.bucket == held


def test_an_archive_that_another_run_finished_since_the_first_look_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(some(10))
    describe = world.describe

    def finish_elsewhere(name: str) -> object:
        """The other run takes the lease and ends it, before this run takes the lease."""
        monkeypatch.setattr(world, "describe", describe)
        world.archive("other")
        return describe(name)

    monkeypatch.setattr(world, "describe", finish_elsewhere)
    late = world.run("late")
    assert (late.done, late.events, world.state) == (True, 10, State.ARCHIVED)
    facts = late.entry.archive
    assert facts is not None
    assert sum(part.events for part in world.manifest(facts.manifest).parts) == 10
    assert len(world.parts) == len(world.manifest(facts.manifest).parts)


def test_killed_after_any_call_it_is_finished_by_the_next_with_one_copy() -> None:
    whole = World(some(100))
    whole.archive()
    calls = 10**9 - whole.calls
    assert calls > 20
    for allowed in range(calls):
        world = World(some(100))
        world.calls = allowed
        with pytest.raises(KeyboardInterrupt):
            world.archive()
        world.calls = 10**9
        world.clock.sleep(10**9)  # The lease of the stopped run ends.
        facts = world.archive().archive
        assert facts is not None
        manifest = world.manifest(facts.manifest)
        assert (manifest.events, manifest.digest) == (
            100,
            Parquet().page_facts(json.dumps(world.items["t"]).encode()).hex,
        )
        assert world.parts == [part.key for part in manifest.parts]


def test_a_restored_period_is_archived_anew_not_from_what_was_left_of_the_first_time() -> None:
    world = World(some(10))
    world.archive()
    entry = world.catalog.entries("s")[0]
    stale = "stream=s/period=2026-03-01/_progress-segment-000.json"
    world.bucket[stale] = b'{"done": true}'
    world.catalog.move(entry, State.CLOSED, expected=[State.ARCHIVED])
    world.items["t"] += [to_wire(LAYOUT.make_item(Event("late", START, "came late", {})))]
    facts = world.archive().archive
    assert facts is not None
    assert facts.events == 11


def test_two_runs_at_once_are_one() -> None:
    world = World(some(3))
    world.catalog.acquire("archive#s#2026-03-01", "another", NOW, MINUTE)
    with pytest.raises(ArchiveBusy, match=r"^period 2026-03-01 of s is being archived by another run$"):
        world.archive()
    assert world.state is State.CLOSED


def test_the_documented_duckdb_line_reads_the_parquet_alone(tmp_path: Path) -> None:
    line = re.search(r'duckdb -c "([^"]*)"', (Path(__file__).parents[2] / "docs" / "use" / "archive.md").read_text())
    assert line is not None
    world = World([Event(one.series, one.time, one.id, {"mag": n}) for n, one in enumerate(some(100))])
    world.archive()
    for key, body in world.bucket.items():
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_bytes(body)
    query = line[1].replace("s3://BUCKET", str(tmp_path)).replace("stream=quakes", "stream=s")
    with duckdb.connect() as connection:
        rows = connection.execute(query).fetchall()
    assert {series: (count, most) for series, count, most in rows} == {
        "s#0": (34, 99),
        "s#1": (33, 97),
        "s#2": (33, 98),
    }


@pytest.fixture(scope="module")
def archived() -> World:
    world = World(some(200))
    world.archive()
    return world


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 110),
    st.integers(0, 110),
    st.none() | st.integers(0, 199),
    st.sampled_from([None, "s#0", "s#1"]),
    st.booleans(),
    st.integers(1, 250),
)
def test_reading_a_range_is_filtering_and_sorting(
    archived: World, first: int, minutes: int, after: int | None, series: str | None, ascending: bool, limit: int
) -> None:
    low = find_position(Event("", START + timedelta(minutes=first), "", {}))[:27]
    high = find_position(Event("", START + timedelta(minutes=first + minutes), "", {}))[:27]
    edge = None if after is None else find_position(some(200)[after])
    wanted = [
        event
        for event in sorted(some(200), key=find_position, reverse=not ascending)
        if low <= find_position(event) <= high
        and series in (None, event.series)
        and (edge is None or (find_position(event) > edge if ascending else find_position(event) < edge))
    ]
    keys = ArchiveRange("stream=s/period=2026-03-01/_manifest.json", low, high, series, edge)
    page = read_archive(keys, archived, limit=limit, ascending=ascending)
    assert [event.id for event in page.events] == [event.id for event in wanted[:limit]]
    assert page.more == (len(wanted) > limit)
