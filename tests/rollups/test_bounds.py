"""The very instants of the bounds, the statistics that cells keep, and how a rebuild goes on."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from aws.sketches import DDSketches
from tests.worlds.rolled import HOURS, LENGTH, MINUTES, START, begin_rollups, reading
from tidetable.catalog import State
from tidetable.errors import StoreUnavailable, TableThrottled
from tidetable.events import Event
from tidetable.rollups import rebuild as rebuilding
from tidetable.rollups.bounds import (
    NOTE_KEPT,
    NOTES_LEFT,
    can_reseal,
    can_seal,
    lease_length,
    needs_mark,
    to_millis,
)
from tidetable.rollups.cells import Bucket, parse_cell
from tidetable.rollups.cover import readable_spans

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
    assert not can_reseal(to_millis(START), START + 120 * SECOND)
    assert can_reseal(to_millis(START), START + 120.001 * SECOND)


def test_a_lease_outlives_the_run_two_clocks_and_a_request() -> None:
    assert lease_length(60 * SECOND) == 95 * SECOND


def test_a_process_forgets_its_notes_a_day_before_they_are_removed() -> None:
    assert (NOTE_KEPT, NOTES_LEFT) == (24 * HOUR, 48 * HOUR)


def bucket_of(definition: Any) -> Bucket:
    bucket = Bucket(definition, SKETCHES)
    bucket.add("a", "1#a#1", {"kind": "x", "mag": 2})
    return bucket


def test_a_cell_keeps_the_statistics_of_its_definition_alone() -> None:
    definition = replace(MINUTES, stats=("min", "first"))
    cell = bucket_of(definition).events(START)[0]
    assert cell.data["fields"]["mag"] == {"count": 1, "min": 2, "first": [2, "1#a#1"]}


def test_a_rollup_without_percentiles_keeps_no_sketch_of_the_cells_that_it_is_made_of() -> None:
    event = bucket_of(MINUTES).events(START)[0]
    assert "sketch" in event.data["fields"]["mag"]
    cell = parse_cell(MINUTES, Event(event.series, event.time, event.id, event.data), SKETCHES, MINUTES.fields)
    assert cell is not None
    bucket = Bucket(replace(HOURS, fields=MINUTES.fields, stats=("sum",)), SKETCHES)
    bucket.merge(cell)
    assert bucket.events(START)[0].data["fields"]["mag"] == {"count": 1, "sum": "2"}


def test_an_archived_period_is_readable_though_its_table_is_gone() -> None:
    world = begin_rollups()
    gone = replace(world.entry("s", START), state=State.DELETED)
    assert readable_spans([gone]) == []
    world.move_to_archive("s", START)
    archived = replace(world.entry("s", START), state=State.DELETED)
    assert readable_spans([archived]) == [(gone.period.start, gone.period.end)]


@pytest.mark.parametrize("error", [StoreUnavailable("no answer", "later"), TableThrottled("t")])
def test_a_rebuild_that_is_refused_says_how_far_it_came(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    world = begin_rollups()

    def refuse(*_: Any) -> None:
        raise error

    monkeypatch.setattr(rebuilding, "compute_bucket", refuse)
    definition = world.definitions["s"][0]
    progress = rebuilding.rebuild(
        definition, START - HOUR, START, world.definitions["s"], world.services(), "me", LENGTH
    )
    assert progress is not None
    assert (progress.buckets, progress.problem) == (0, str(error))
    assert progress.left > 0


def test_a_rebuild_marks_every_sealed_bucket_of_a_long_range() -> None:
    """Marks are put a hundred at a time."""
    world = begin_rollups((MINUTES,))
    for hour in range(1, 21):
        world.write(reading(hour * 60 + 30, 1))
        world.sleep(3_600)
        world.refresh()
    definition = world.definitions["s"][0]
    progress = rebuilding.rebuild(
        definition, START + HOUR, START + 19 * HOUR, [definition], world.services(), "me", LENGTH
    )
    assert progress is not None
    assert progress.marked == 108
    assert len(world.rollups.read_state("s").marks) == 108
