"""Routing: the item that each event gets in its table, and what an answer says of an event that gets none."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes.noise import noise
from tests.ingest.streams import NOW
from tests.worlds.intake import LABEL, World, event, numbered, versions, world
from tidetable.catalog import State
from tidetable.config.stream import IndexPolicy, LargePolicy, PackPolicy
from tidetable.durations import Duration
from tidetable.events import Event
from tidetable.ingest.batches import SentBatch
from tidetable.ingest.overflow import encode_message
from tidetable.ingest.request import ingest_batch
from tidetable.ports import Put, Written
from tidetable.problems import ProblemError

PACKS = PackPolicy(span=Duration(minutes=1), max_bytes=4_096)
# 00:05 of 1 March 2026, when the requests of these tests are accepted, in epoch milliseconds.
AT = 1_772_323_500_000


def change_layout(stage: World, **changes: Any) -> None:
    """The present day's table was made under another configuration of the stream."""
    key = next(key for key in stage.catalog.items if key[1].label == LABEL)
    entry = stage.catalog.items[key]
    stage.catalog.items[key] = replace(entry, layout=replace(entry.layout, **changes))


@pytest.mark.parametrize("pack", [None, PACKS], ids=["plain", "packs"])
def test_every_item_says_when_its_event_was_accepted(pack: PackPolicy | None) -> None:
    """Also an item for a table of an earlier configuration, and an event that is too large for a pack."""
    stage = world(pack=pack)
    change_layout(stage, shards=3)
    assert stage.send(event(1), event(2) | {"data": {"text": noise(9_000)}}).accepted == 2
    assert [item["at"] for item in stage.table(LABEL)] == [AT, AT]


def test_an_earlier_table_without_packs_keeps_its_suffixes() -> None:
    """Its four suffixes share the writes."""
    stage = world(pack=PACKS)
    change_layout(stage, pack=None)
    assert stage.send(*[event(number) for number in range(40)]).accepted == 40
    assert sorted({item["pk"].rpartition("#")[2] for item in stage.table(LABEL)}) == ["0", "1", "2", "3"]


@pytest.mark.parametrize("pack", [None, PACKS], ids=["plain", "packs"])
@pytest.mark.parametrize("large", [LargePolicy(), LargePolicy(beyond="chunks")], ids=["refused", "chunks"])
def test_an_event_that_fits_in_no_form_has_no_ref_and_keeps_no_other_waiting(
    pack: PackPolicy | None, large: LargePolicy
) -> None:
    """A period's table without a table of parts beside it takes no chunks, whatever the stream does now."""
    stage = world(pack=pack, large=large)
    change_layout(stage, parts=False)
    outcome = stage.send(event(1), event(2) | {"data": {"text": noise(950_000)}}, event(3))
    assert [(refused.index, refused.code) for refused in outcome.rejections] == [(1, "too_large")]
    assert [ref is None for ref in outcome.refs] == [False, True, False]
    assert (outcome.accepted, outcome.queued) == (2, 0)


@pytest.mark.parametrize("length", [20, 9_000], ids=["in a pack", "too large for a pack"])
def test_an_event_that_is_sent_three_times_in_a_request_is_stored_once_and_has_a_ref_each_time(length: int) -> None:
    stage = world(pack=PACKS)
    outcome = stage.send(*[event(1) | {"data": {"text": noise(length, seed)}} for seed in range(3)], event(2))
    assert (outcome.accepted, outcome.queued, None in outcome.refs) == (4, 0, False)
    assert [outcome.refs.index(ref) for ref in outcome.refs] == [0, 0, 0, 3]
    assert sum(item.get("n", 1) for item in stage.table(LABEL)) == 2


def test_a_dialect_of_which_everything_is_refused_is_answered_event_by_event() -> None:
    stage = World()
    for strict in (True, False):
        outcome = ingest_batch(
            "quakes", SentBatch.of_values([event(1, days=9), {}]), stage.serving(), lambda: 5.0, strict=strict
        )
        assert [refused.code for refused in outcome.rejections] == ["too_old", "invalid"]
        assert (outcome.status, outcome.accepted, outcome.refs) == (200, 0, [None, None])
        assert outcome.document()["window"]["backfills"] == []


def test_a_dialect_of_which_nothing_is_refused_is_stored_whole() -> None:
    for strict in (True, False):
        outcome = ingest_batch(
            "quakes", SentBatch.of_values([event(1), event(2)]), World().serving(), lambda: 5.0, strict=strict
        )
        assert (outcome.accepted, outcome.rejections, None in outcome.refs) == (2, [], False)


@pytest.mark.parametrize("pack", [None, PACKS], ids=["plain", "packs"])
def test_a_stream_that_is_not_configured_is_refused_with_those_that_are(pack: PackPolicy | None) -> None:
    with pytest.raises(ProblemError, match="404 unknown_stream: there is no stream 'none'; there are: quakes"):
        world(pack=pack).post(b"[]", stream="none")


def test_a_version_that_is_remembered_is_not_added_again_behind_the_window() -> None:
    stage = world(versions="keep")
    for n in ("first", "second"):
        stage.send(numbered(n))
    stage.move(LABEL, State.CLOSED)
    assert stage.drain(encode_message("quakes", [Event("a", NOW, "1", {"n": "first"})], AT)) == 1
    assert versions(stage) == {"v0": "second", "v1": "first"}


def test_an_index_of_the_present_configuration_is_no_index_of_an_earlier_table() -> None:
    stage = world(index=(IndexPolicy(name="by_n", partition_by="n"),))
    change_layout(stage, indexes=())
    assert stage.send(event(1)).accepted == 1
    assert [sorted(item) for item in stage.table(LABEL)] == [["at", "data", "pk", "sk"]]


def test_the_reasons_of_throttling_are_in_the_outcome() -> None:
    stage = World()
    stage.store.throttled = 2
    write = stage.store.write

    def written_with_reasons(puts: Sequence[Put]) -> Written:
        written = write(puts)
        written.reasons["TableWriteProvisionedThroughputExceeded"] += written.throttled
        return written

    stage.store.write = written_with_reasons  # type: ignore[method-assign]
    outcome = stage.send(event(1), event(2))
    assert dict(outcome.reasons) == {"TableWriteProvisionedThroughputExceeded": 2}


def test_a_table_that_took_its_events_is_left_alone_for_two_seconds_after_its_next_failure() -> None:
    """Not for four: what it took ended the row of failures."""
    stage, table = World(), f"tidetable-t.quakes.{LABEL}"
    stage.circuit.trip([table])
    stage.clock.sleep(2)
    assert stage.send(event(1)).accepted == 1
    stage.circuit.trip([table])
    stage.clock.sleep(2)
    assert stage.circuit.admits(table)


def test_the_first_and_the_last_instant_of_the_window_are_taken() -> None:
    ends = [event(1) | {"time": "2026-02-27T00:05:00Z"}, event(2) | {"time": "2026-03-01T00:10:00Z"}]
    assert World().send(*ends).accepted == 2
