"""A request from its body to its answer: whatever fails, every acknowledged event is durable."""

import gzip
import json
from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.fakes import FakeClock
from tests.fakes.noise import noise
from tests.ingest.streams import CONFIG, NOW
from tests.worlds.intake import World, event, numbered, world
from tidetable.catalog import State
from tidetable.config.stream import IndexPolicy, LargePolicy
from tidetable.ingest.batches import SentBatch
from tidetable.ingest.bodies import Sent
from tidetable.ingest.circuit import Circuit
from tidetable.ingest.request import ingest_batch
from tidetable.periods import Kind, find_containing
from tidetable.problems import ProblemError


def test_a_batch_across_midnight_lands_in_the_tables_of_its_times() -> None:
    world = World()
    outcome = world.send(event(1), event(2, minutes=10), event(3, days=1))
    assert (outcome.status, outcome.accepted, outcome.queued) == (200, 3, 0)
    assert world.count("2026-03-01") == 1
    assert world.count("2026-02-28") == 2
    assert world.count("2026-02-27") == 0
    assert len(set(outcome.refs)) == 3


def test_the_first_instant_of_a_day_is_that_days() -> None:
    """Also after an event of the day before, whose period ends there."""
    world = World()
    last = {"series": "a", "id": "last", "time": "2026-02-28T23:59:59.999999Z"}
    first = {"series": "a", "id": "first", "time": "2026-03-01T00:00:00Z"}
    world.send(last, first)
    assert [item["sk"][-4:] for item in world.table("2026-02-28")] == ["last"]
    assert [item["sk"][-5:] for item in world.table("2026-03-01")] == ["first"]


def test_of_events_with_one_key_the_last_is_stored() -> None:
    """As if each had come in a request of its own."""
    world = World()
    sent = [event(1) | {"data": {"n": n}} for n in ("first", "second", "last")]
    outcome = world.send(*sent)
    assert (outcome.accepted, outcome.queued) == (3, 0)
    assert [item["data"] for item in world.table("2026-03-01")] == [{"n": "last"}]


def test_of_a_request_that_is_refused_whole_a_hundred_errors_are_listed_and_all_are_counted() -> None:
    world = World(replace(CONFIG, api=replace(CONFIG.api, max_events=1000, max_body=10**6)))
    for strict, status, others in ((False, 422, 0), (True, 400, 1)):
        with pytest.raises(ProblemError) as caught:
            world.send(*[event(number, days=3) for number in range(150)], *[event(200)] * others, strict=strict)
        problem = caught.value.problem
        assert problem.status == status
        assert problem.more["rejected"] == 150
        assert [error["index"] for error in problem.more["errors"]] == list(range(100))
        assert "errors lists the first 100 of 150" in problem.detail
        # It is 00:05 of 1 March; the stream takes events of the last two days, and those of the next five minutes.
        assert problem.more["window"] == {
            "oldest": "2026-02-27T00:05:00.000000Z",
            "newest": "2026-03-01T00:10:00.000000Z",
            "backfills": [],
        }


def test_a_hundred_errors_are_all_that_there_are() -> None:
    world = World(replace(CONFIG, api=replace(CONFIG.api, max_events=1000, max_body=10**6)))
    with pytest.raises(ProblemError) as caught:
        world.send(*[event(number, days=3) for number in range(100)])
    assert caught.value.problem.detail == "every event was refused; nothing was written"
    assert len(caught.value.problem.more["errors"]) == 100


def test_of_a_request_that_is_stored_in_part_every_error_is_listed() -> None:
    world = World(replace(CONFIG, api=replace(CONFIG.api, max_events=1000, max_body=10**6)))
    document = world.send(event(0), *[event(number, days=3) for number in range(1, 151)]).document()
    assert document["rejected"] == len(document["errors"]) == 150


def test_an_error_gives_back_neither_a_long_id_nor_a_long_path() -> None:
    world = World(replace(CONFIG, api=replace(CONFIG.api, max_body=10**6)))
    with pytest.raises(ProblemError) as caught:
        world.send(
            {"series": "a", "id": "x" * 300_000}, {"series": "a", "id": "y", "data": {"n" * 300_000: 10**40 + 1}}
        )
    long, path = caught.value.problem.more["errors"]
    assert (long["id"], path["id"]) == (None, "y")
    assert len(path["detail"]) == 300
    assert len(json.dumps(caught.value.problem.document())) < 1500


def test_sending_again_changes_nothing() -> None:
    world = World()
    for _ in range(3):
        world.send(event(1), event(2), event(1))
    assert world.stored() == 2


def test_throttled_events_are_tried_again_within_the_time_of_the_request() -> None:
    world = World()
    world.store.throttled = 3
    outcome = world.send(event(1), event(2))
    assert (outcome.status, outcome.accepted, outcome.throttled) == (200, 2, 3)
    assert world.overflow.queued == []


def test_a_table_that_stays_throttled_is_left_alone_for_a_while_and_then_tried_once_more() -> None:
    world = World()
    world.store.throttled = 10**6
    world.send(event(1))
    world.clock.sleep(1)
    tried = world.store.throttled
    assert world.send(event(2)).queued == 1
    assert world.store.throttled == tried, "not one put was tried"
    world.store.throttled = 0
    outcome = world.send(event(3), event(4, days=1))
    assert (outcome.queued, outcome.accepted) == (1, 1), "another table is not left alone"
    world.clock.sleep(1)
    assert world.send(event(5)).status == world.send(event(6)).status == 200
    assert sorted(message.id for message in world.overflow.queued) == ["1", "2", "3"]


def test_the_pause_doubles_while_trials_fail_and_no_longer_than_half_a_minute() -> None:
    clock = FakeClock(NOW)
    circuit = Circuit(clock)
    lengths = []
    for _ in range(7):
        circuit.trip(["t"])
        begun = clock.now()
        while not circuit.admits("t"):
            clock.sleep(1)
        lengths.append((clock.now() - begun).total_seconds())
    assert lengths == [2, 4, 8, 16, 30, 30, 30]
    circuit.close(["t"])
    circuit.trip(["t"])
    clock.sleep(2)
    assert circuit.admits("t")
    assert circuit.admits("another")


def test_a_bucket_that_refuses_an_object_says_nothing_of_the_table() -> None:
    policy = replace(CONFIG.streams["quakes"], large=LargePolicy(beyond="s3"))
    world = World(replace(CONFIG, streams={"quakes": policy}, api=replace(CONFIG.api, max_body=10**6)))
    world.values.refuses = True
    assert world.send(event(1) | {"data": {"text": noise(950_000)}}).queued == 1
    assert world.circuit.admits("tidetable-t.quakes.2026-03-01")
    assert world.send(event(2)).status == 200


def test_a_table_that_was_missing_is_tried_by_the_next_request() -> None:
    world = World()
    table = "tidetable-t.quakes.2026-03-01"
    held = world.store.tables.pop(table)
    assert world.send(event(1)).queued == 1
    world.store.tables[table] = held
    assert world.send(event(2)).status == 200
    assert world.count("2026-03-01") == 1


def test_pauses_double_up_to_a_second_and_are_jittered() -> None:
    """So that throttled functions do not repeat their requests at the same moment."""
    slept = []
    for share in (1.0, 0.25):
        world = World(jitter=lambda pause, share=share: pause * share)  # type: ignore[misc]
        world.store.throttled = 7
        assert world.send(event(1), seconds=100).status == 200
        slept.append(world.clock.slept)
    assert slept[0] == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert slept[1] == pytest.approx([0.0125, 0.025, 0.05, 0.1, 0.2, 0.25, 0.25])


def test_a_request_waits_no_longer_than_its_budget() -> None:
    world = World()
    world.store.throttled = 10**6
    begun = world.clock.now()
    assert world.send(event(1), seconds=1000).status == 202
    # A pause has a second at the most.
    assert timedelta(seconds=14) <= world.clock.now() - begun <= timedelta(seconds=15)


def test_what_stays_throttled_is_queued_and_its_duplicates_with_it() -> None:
    world = World()
    world.store.throttled = 1000
    outcome = world.send(event(1), event(2), event(1))
    assert (outcome.status, outcome.accepted, outcome.queued) == (202, 0, 3)
    assert sorted(message.id for message in world.overflow.queued) == ["1", "2"]
    assert None not in outcome.refs, "a queued event has its ref already"


def test_events_of_a_missing_table_are_queued_without_waiting_and_the_others_stored() -> None:
    world = World()
    del world.store.tables["tidetable-t.quakes.2026-02-28"]
    outcome = world.send(event(1), event(2, minutes=10))
    assert (outcome.status, outcome.accepted, outcome.queued) == (202, 1, 1)
    assert world.clock.now() == NOW


def test_events_of_a_period_that_is_not_recorded_are_queued_without_a_ref() -> None:
    world = World()
    del world.catalog.items["quakes", find_containing(NOW, Kind.DAY)]
    outcome = world.send(event(1), event(2, minutes=10))
    assert (outcome.accepted, outcome.queued, outcome.refs[0]) == (1, 1, None)


@pytest.mark.parametrize("recorded", [False, True], ids=["not recorded", "closed"])
def test_of_events_with_one_key_that_wait_for_their_table_the_last_alone_is_queued(recorded: bool) -> None:
    """The queue keeps no order, and both were accepted at one instant: the earlier could replace the last."""
    world = World()
    if recorded:
        world.move("2026-03-01", State.CLOSED)
    else:
        del world.catalog.items["quakes", find_containing(NOW, Kind.DAY)]
    outcome = world.send(event(1) | {"data": {"n": "first"}}, event(2), event(1) | {"data": {"n": "last"}})
    assert (outcome.accepted, outcome.queued) == (0, 3)
    assert {event.id: event.data for event in world.overflow.queued} == {"1": {"n": "last"}, "2": {"n": 2}}
    assert len(world.overflow.queued) == 2


def test_of_a_stream_that_keeps_versions_every_version_is_queued_that_waits_for_its_table() -> None:
    stage = world(versions="keep")
    del stage.catalog.items["quakes", find_containing(NOW, Kind.DAY)]
    assert stage.send(numbered(1), numbered(2)).queued == 2
    assert [event.data for event in stage.overflow.queued] == [{"n": 1}, {"n": 2}]


def test_events_of_an_archived_period_are_refused() -> None:
    world = World()
    world.move("2026-02-28", State.ARCHIVED)
    outcome = world.send(event(1), event(2, minutes=10))
    assert [(rejection.index, rejection.code) for rejection in outcome.rejections] == [(1, "too_old")]
    with pytest.raises(ProblemError, match="all_refused"):
        world.send(event(2, minutes=10))


def test_if_the_queue_fails_too_nothing_is_acknowledged() -> None:
    world = World()
    world.store.throttled = 1000
    world.overflow.refuses = True
    with pytest.raises(ProblemError) as caught:
        world.send(event(1))
    assert (caught.value.problem.status, caught.value.problem.headers["Retry-After"]) == (503, "5")


def test_strict_handling_writes_all_or_nothing() -> None:
    world = World()
    with pytest.raises(ProblemError, match="strict"):
        world.send(event(1), event(2, days=3), strict=True)
    assert world.stored() == 0
    assert world.send(event(1), strict=True).accepted == 1


def test_a_dialect_writes_nothing_if_an_archived_period_refuses_an_event() -> None:
    """The refusal is known only when the table of each event is."""
    world = World()
    world.move("2026-02-28", State.ARCHIVED)
    sent = [
        Sent(value["series"], value["time"], value["id"], value["data"]) for value in (event(1), event(2, minutes=10))
    ]
    outcome = ingest_batch("quakes", SentBatch.of_values(sent), world.serving(), lambda: 5.0, strict=True)
    assert [(rejection.index, rejection.code) for rejection in outcome.rejections] == [(1, "too_old")]
    assert (outcome.accepted, outcome.queued, outcome.refs, world.stored()) == (0, 0, [None, None], 0)
    assert ingest_batch("quakes", SentBatch.of_values(sent), world.serving(), lambda: 5.0).accepted == 1
    assert world.stored() == 1


def test_an_event_of_a_small_request_is_compressed_if_it_is_large_enough() -> None:
    stream = replace(CONFIG.streams["quakes"], large=LargePolicy(compress_above=2_000))
    world = World(replace(CONFIG, streams={"quakes": stream}))
    text = {"text": "x" * 3_000}
    assert world.send(event(1) | {"data": text}, event(2)).accepted == 2
    items = {item["sk"][-1]: item for item in world.table("2026-03-01")}
    assert ("z" in items["1"], "data" in items["1"]) == (True, False)
    assert items["2"]["data"] == {"n": 2}


GENEROUS = replace(CONFIG, api=replace(CONFIG.api, max_body=10**6))


def test_a_gzipped_event_beyond_an_items_size_is_refused_however_small_it_came() -> None:
    world = World(GENEROUS)
    body = gzip.compress(json.dumps([event(1), event(2) | {"data": {"text": "x" * 450_000}}]).encode())
    assert len(body) < 2_000
    outcome = world.post(body)
    assert [(rejection.index, rejection.code) for rejection in outcome.rejections] == [(1, "too_large")]
    assert world.stored() == 1


def test_what_an_index_holds_once_more_counts_towards_an_items_size() -> None:
    """250 KB in ``data`` and again in the index: more than DynamoDB's 400 KB, in a body that is smaller than that."""
    index = IndexPolicy(name="by_kind", partition_by="kind", project=("text",))
    policy = replace(CONFIG.streams["quakes"], index=(index,))
    world = World(replace(GENEROUS, streams={"quakes": policy}))
    sent = event(1) | {"data": {"kind": "k", "text": "x" * 250_000}}
    outcome = world.send(sent, event(2))
    assert [(rejection.index, rejection.code) for rejection in outcome.rejections] == [(0, "too_large")]
    assert world.stored() == 1


def test_a_refused_event_says_nothing_of_its_table() -> None:
    """A table is left alone for ever longer until it takes an event; a table that is archived takes none."""
    world, table = World(), "tidetable-t.quakes.2026-02-28"
    world.move("2026-02-28", State.ARCHIVING)
    world.circuit.trip([table])
    world.clock.sleep(2)
    outcome = world.send(event(1), event(2, days=1))
    assert (outcome.accepted, [rejection.code for rejection in outcome.rejections]) == (1, ["too_old"])
    world.circuit.trip([table])
    world.clock.sleep(3)
    assert not world.circuit.admits(table), "4 seconds after the second failure"
    world.clock.sleep(1)
    assert world.circuit.admits(table)
