"""The very instants of the bounds, the statistics that cells keep, and how a rebuild goes on."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from aws.sketches import DDSketches
from tests.worlds.cells import add_event
from tests.worlds.rolled import HOURS, MINUTES, START, begin_rollups, reading
from tidetable.catalog import State
from tidetable.config import parse
from tidetable.events import Event
from tidetable.periods import Kind
from tidetable.ports import Mark
from tidetable.rollup_model.bounds import (
    NOTE_KEPT,
    NOTES_LEFT,
    can_reseal,
    can_rest,
    can_seal,
    choose_lease_length,
    needs_mark,
    to_millis,
)
from tidetable.rollup_model.cells import Bucket, is_removed, parse_cell
from tidetable.rollup_model.cover import find_readable_spans
from tidetable.rollup_model.definition import make_definition
from tidetable.rollups.status import plan_rebuild
from tidetable.rollups.writing import read_present

HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)
MOMENT = timedelta(microseconds=1)
SKETCHES = DDSketches()


def test_an_event_older_than_two_minutes_needs_a_mark() -> None:
    assert not needs_mark(START - 120 * SECOND, START)
    assert needs_mark(START - 120 * SECOND - MOMENT, START)


def test_a_writer_lives_for_90_seconds_and_a_reader_for_30_more() -> None:
    """60 of the function, 5 of a mark that is kept, 10 between two clocks, 15 of a request under way."""
    assert not can_seal(START, START + 210 * SECOND)
    assert can_seal(START, START + 210 * SECOND + MOMENT)
    mark = Mark(START, to_millis(START), HOUR, to_millis(START))
    for may in (can_reseal, can_rest):
        assert not may(mark, START + 120 * SECOND)
        assert may(mark, START + 120.001 * SECOND)


def test_a_lease_outlives_the_run_two_clocks_and_a_request() -> None:
    assert choose_lease_length(60 * SECOND) == 95 * SECOND


def test_a_process_forgets_its_notes_a_day_before_they_are_removed() -> None:
    assert (NOTE_KEPT, NOTES_LEFT) == (24 * HOUR, 48 * HOUR)


def bucket_of(definition: Any) -> Bucket:
    bucket = Bucket(definition, SKETCHES)
    add_event(bucket, "a", "1#a#1", {"kind": "x", "mag": 2})
    return bucket


def test_a_cell_keeps_the_statistics_of_its_definition_alone() -> None:
    definition = replace(MINUTES, stats=("min", "first"))
    cell = bucket_of(definition).make_events(START)[0]
    assert cell.data["fields"]["mag"] == {"count": 1, "min": 2, "first": [2, "1#a#1"]}


def test_a_rollup_without_percentiles_keeps_no_sketch_of_the_cells_that_it_is_made_of() -> None:
    event = bucket_of(MINUTES).make_events(START)[0]
    assert "sketch" in event.data["fields"]["mag"]
    cell = parse_cell(MINUTES, Event(event.series, event.time, event.id, event.data), SKETCHES, MINUTES.fields)
    assert cell is not None
    bucket = Bucket(replace(HOURS, fields=MINUTES.fields, stats=("sum",)), SKETCHES)
    bucket.merge(cell)
    assert bucket.make_events(START)[0].data["fields"]["mag"] == {"count": 1, "sum": "2"}


def test_an_archived_period_is_readable_though_its_table_is_gone() -> None:
    world = begin_rollups()
    gone = replace(world.entry("s", START), state=State.DELETED)
    assert find_readable_spans([gone]) == []
    world.move_to_archive("s", START)
    archived = replace(world.entry("s", START), state=State.DELETED)
    assert find_readable_spans([archived]) == [(gone.period.start, gone.period.end)]


def test_an_older_definition_has_the_buckets_and_statistics_of_its_edge() -> None:
    then = replace(MINUTES, every=HOUR, stats=("sum",), by=(), fields=()).parse_former(MINUTES.text)
    assert (then.every, then.by, then.fields) == (timedelta(minutes=10), ("series", "kind"), ("mag",))
    assert then.text == MINUTES.text


def test_counts_are_kept_though_no_definition_names_them() -> None:
    assert replace(MINUTES, stats=("sum",)).can_feed(replace(HOURS, stats=("count", "sum")))
    bucket = bucket_of(replace(MINUTES, stats=("min",)))
    event = bucket.make_events(START)[0]
    cell = parse_cell(MINUTES, Event(event.series, event.time, event.id, event.data), SKETCHES, ())
    assert cell is None, "it is of another definition"
    cell = parse_cell(replace(MINUTES, stats=("min",)), event, SKETCHES, ("mag",))
    assert cell is not None
    mag = cell.state.fields["mag"]
    assert cell.state.count == 1
    assert mag.min == 2
    assert mag.sum == 0


def test_a_truth_value_is_no_number_among_the_kinds_of_fields() -> None:
    bucket = Bucket(MINUTES, SKETCHES)
    add_event(bucket, "a", "1#a#1", {"flag": True, "n": 1, "none": None})
    assert bucket.make_events(START)[-1].data == {"names": {"flag": ["boolean"], "n": ["number"], "none": ["null"]}}


@pytest.mark.parametrize(("key", "period"), [('"time", bucket = "6h"', None), ('"series"', Kind.DAY)])
def test_a_definition_has_its_sources_period_only_by_series_and_always_its_lead(key: str, period: Kind | None) -> None:
    text = f'[streams.s]\nperiod = "day"\nlate = "1d"\nahead = "7m"\nretention = 5\nkey = {{ partition_by = {key} }}\n'
    stream = parse(text + '[[streams.s.rollup]]\nname = "m"\nevery = "10m"\nretention = "30d"').streams["s"]
    definition = make_definition(stream, stream.rollup[0])
    assert (definition.period, definition.ahead, definition.stream) == (period, timedelta(minutes=7), "s-m")


def test_a_rebuild_of_a_definition_that_has_not_begun_has_no_plan() -> None:
    world = begin_rollups((MINUTES,))
    state, changed = world.rollups.read_state("s"), replace(MINUTES, by=())
    plan = plan_rebuild(changed, state, START, START + HOUR, world.services().clock.now())
    assert plan == {"buckets": 0, "marked": 0, "problem": "the rollup has not begun: wait for the refresher's next run"}


def test_the_fields_of_a_bucket_go_with_its_last_event() -> None:
    world = begin_rollups((MINUTES,))
    world.write(reading(45, 1, kind="x"))
    world.refresh()
    world.store.tables[world.entry("s", START).table].clear()
    bucket = START + timedelta(minutes=40)
    # The writer put a mark, which is done when the writer is dead.
    world.sleep(400)
    world.refresh()
    present = read_present(world.entry("s-m", START), bucket, world.services())
    assert [is_removed(event) for event, _ in present.events.values()] == [True, True]
