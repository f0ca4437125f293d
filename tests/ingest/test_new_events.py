"""A new late event is written together with a mark that names it; any other late event, and one of many, is marked first."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.worlds.intake import event as late
from tests.worlds.marked import AT, MINUTES, PACKED, Rolled
from tidetable.catalog import Entry
from tidetable.config.stream import KeyPolicy, LargePolicy
from tidetable.durations import Duration
from tidetable.errors import Outage, StoreUnavailable, TableThrottled
from tidetable.ingest.marks import MOST_ADDED
from tidetable.ports import Guarded, Mark, Transacted, Written

# Now is 00:05:00 of 1 March; half an hour ago is 23:35 of 28 February.
HALF_HOUR_AGO = datetime(2026, 2, 28, 23, 35, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def begin(**policy: Any) -> Rolled:
    """A stage whose transactions reach the state of rollups."""
    stage = Rolled(MINUTES, **policy)
    stage.store.tables["rollups"] = stage.rollups.new
    return stage


def list_marks(stage: Rolled) -> list[Mark]:
    return list(stage.rollups.read_state("quakes").marks)


def find_stored(stage: Rolled) -> list[Any]:
    return [item for table, items in stage.store.tables.items() if table != "rollups" for item in items.values()]


KEYS = [KeyPolicy(partition_by=by, bucket=Duration(hours=1)) for by in ("time", "series")]


@pytest.mark.parametrize("key", KEYS, ids=["by time", "by series"])
def test_a_new_late_event_is_written_with_its_mark_and_the_other_events_after_it(key: KeyPolicy) -> None:
    stage = begin(key=key)
    outcome = stage.send(late(1, minutes=30), late(2))
    assert (outcome.status, outcome.accepted, outcome.queued, stage.rollups.calls) == (200, 2, 0, [])
    assert outcome.write_units == 5, "four of the late event and its mark, one of the other event"
    assert stage.log[-1] == "write"
    (item,) = [item for item in find_stored(stage) if "2026-02-28T23:35" in item["sk"]]
    event = ("tidetable-t.quakes.2026-02-28", item["pk"], item["sk"])
    assert list_marks(stage) == [Mark(HALF_HOUR_AGO, AT, MINUTE, since=AT, event=event)]
    assert (item["at"], len(find_stored(stage))) == (AT, 2)


def test_an_event_that_the_table_has_is_marked_before_it_is_overwritten() -> None:
    stage = begin()
    stage.send(late(1, minutes=30))
    stage.clock.sleep(1)
    assert stage.send(late(1, minutes=30)).write_units == 1
    assert stage.log == ["mark", "write"]
    assert [bool(mark.event) for mark in list_marks(stage)] == [True, False]
    (item,) = find_stored(stage)
    assert item["at"] == AT + 1_000


def test_an_event_in_a_pack_is_marked() -> None:
    stage = begin(pack=PACKED)
    stage.send(late(1, minutes=30))
    assert stage.log == ["mark", "write"]
    assert [mark.event for mark in list_marks(stage)] == [()]


@pytest.mark.parametrize("more", [0, 1])
def test_of_many_late_events_the_buckets_are_marked(more: int) -> None:
    stage = begin()
    stage.send(*[late(number, minutes=30) for number in range(MOST_ADDED + more)])
    assert [bool(mark.event) for mark in list_marks(stage)] == ([False] if more else [True] * MOST_ADDED)
    assert len(find_stored(stage)) == MOST_ADDED + more


@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize(
    "error", [StoreUnavailable(Outage.NO_ANSWER, "time-out"), TableThrottled("rollups")], ids=["no answer", "throttled"]
)
def test_after_a_transaction_without_an_answer_the_event_is_marked_and_written(
    error: Exception, is_written: bool
) -> None:
    """Nobody knows whether it was written: then its own mark stays beside the mark of its bucket."""
    stage = begin()
    transact = stage.store.transact

    def fail(puts: Sequence[Guarded], entry: Entry | None = None, total: Written | None = None) -> Transacted:
        if is_written:
            transact(puts, entry)
        raise error

    stage.store.transact = fail  # type: ignore[method-assign]
    outcome = stage.send(late(1, minutes=30), late(2, minutes=30))
    assert (outcome.status, outcome.accepted) == (200, 2)
    assert stage.log == ["mark", "write"]
    assert [bool(mark.event) for mark in list_marks(stage)] == ([False, True] if is_written else [False])
    assert len(find_stored(stage)) == 2


def test_a_late_event_whose_series_cannot_be_noted_is_queued() -> None:
    stage = begin(key=KEYS[1])

    def fail(*_: object) -> None:
        raise TableThrottled("rollups")

    stage.rollups.put_notes = fail  # type: ignore[assignment, method-assign]
    outcome = stage.send(late(1, minutes=30))
    assert (outcome.status, outcome.queued) == (202, 1)
    assert (list_marks(stage), find_stored(stage)) == ([], [])


def test_an_event_whose_data_is_kept_outside_is_marked() -> None:
    stage = begin(large=LargePolicy(beyond="s3"))
    stage.config = replace(stage.config, api=replace(stage.config.api, max_body=10**7))
    stage.send(late(1, minutes=30) | {"data": {"text": random.Random(1).randbytes(450_000).hex()}})
    assert [mark.event for mark in list_marks(stage)] == [()]
