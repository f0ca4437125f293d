"""Edge cases of the write path: periods that are not open yet, kept entries, queued events, repeated events, long reasons."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import structs
from msgspec.structs import replace

from tests.fakes import FakeValues
from tests.fakes.noise import noise
from tests.fakes.sqs import Sqs, overflow
from tests.ingest.streams import NOW
from tests.worlds.entries import change_entry
from tests.worlds.intake import LABEL, MINUTE, Process, World, event, numbered, versions, world
from tidetable.access import Access
from tidetable.catalog import Backfill, Entry, Opening, SeenTable, State
from tidetable.config import TableClass
from tidetable.config.stream import IndexPolicy, LargePolicy, PackPolicy
from tidetable.durations import Duration
from tidetable.errors import Undrainable
from tidetable.events import Event
from tidetable.ingest.drain import drain_message
from tidetable.ingest.overflow import decode_message, encode_message
from tidetable.ingest.pace import Pace
from tidetable.layout import ATTRIBUTES, Index
from tidetable.periods import Kind, find_containing
from tidetable.problems import ProblemError

PAST = datetime(2026, 2, 20, 12, tzinfo=UTC)
PAST_TABLE = "tidetable-t.quakes.2026-02-20"


def backfilled(state: State, opened: Opening | None) -> World:
    """A backfill of ten days ago was requested, and its period's table is there."""
    stage = World()
    until = Opening(NOW + timedelta(hours=1), None, None)
    stage.catalog.put_backfill(Backfill("quakes", PAST - timedelta(days=1), PAST + timedelta(days=1), until))
    layout = stage.config.streams["quakes"].layout
    period = find_containing(PAST, Kind.DAY)
    stage.catalog.add(Entry("quakes", period, PAST_TABLE, layout, state, NOW, opened=opened))
    stage.store.tables[PAST_TABLE] = {}
    return stage


@pytest.mark.parametrize("state", [State.CREATING, State.OPEN, State.CLOSED])
@pytest.mark.parametrize(
    "until", [None, NOW - timedelta(minutes=1), NOW], ids=["never", "until a while ago", "until now"]
)
def test_an_event_of_a_backfill_whose_table_is_not_open_for_it_waits_for_the_drain(
    state: State, until: datetime | None
) -> None:
    """The lifecycle may archive such a table at any moment: a write could come behind the scan. The drain has a fence."""
    stage = backfilled(state, None if until is None else Opening(until, None, None))
    past = event(1, days=0) | {"time": "2026-02-20T12:00:00Z"}
    outcome = stage.send(past, event(2))
    assert (outcome.accepted, outcome.queued, outcome.rejections) == (1, 1, [])
    assert (stage.store.tables[PAST_TABLE], [queued.id for queued in stage.overflow.queued]) == ({}, ["1"])


@pytest.mark.parametrize("state", [State.ARCHIVING, State.ARCHIVED, State.DELETED, State.RESTORING])
def test_an_event_of_a_backfill_whose_period_takes_nothing_is_refused_with_the_state(state: State) -> None:
    stage = backfilled(state, None)
    with pytest.raises(ProblemError) as refused:
        stage.send(event(1, days=0) | {"time": "2026-02-20T12:00:00Z"})
    (error,) = refused.value.problem.more["errors"]
    assert (error["code"], stage.store.tables[PAST_TABLE], stage.overflow.queued) == ("too_old", {}, [])
    detail = f"period 2026-02-20 of quakes, which has 2026-02-20T12:00:00.000000Z, is {state}: restore it first"
    assert error["detail"] == detail


def test_an_event_of_a_backfill_whose_table_is_open_for_it_is_written() -> None:
    stage = backfilled(State.OPEN, Opening(NOW + timedelta(hours=1), None, None))
    assert stage.send(event(1) | {"time": "2026-02-20T12:00:00Z"}).accepted == 1
    assert len(stage.store.tables[PAST_TABLE]) == 1


def test_an_event_of_a_backfill_whose_table_is_closed_waits_for_the_drain() -> None:
    """An archive that began before may scan the table, although it is open for the backfill."""
    stage = backfilled(State.CLOSED, Opening(NOW + timedelta(hours=1), None, None))
    outcome = stage.send(event(1) | {"time": "2026-02-20T12:00:00Z"}, event(2))
    assert (outcome.accepted, outcome.queued, outcome.rejections) == (1, 1, [])
    assert (stage.store.tables[PAST_TABLE], [queued.id for queued in stage.overflow.queued]) == ({}, ["1"])


def test_an_entry_that_was_seen_to_be_closed_is_no_longer_kept_as_open() -> None:
    process = Process()
    process.serve(MINUTE)
    process.move(LABEL, State.CLOSED)
    process.clock.time += timedelta(seconds=1)
    # An event of the day before makes it read both.
    process.serve(MINUTE, timedelta(days=1))
    process.reads()
    process.serve(MINUTE)
    assert len(process.reads()) == 1, "what is known to be closed is looked up"


def test_in_the_window_what_waited_replaces_what_was_accepted_before_it_and_nothing_else() -> None:
    stage = World()
    for at, expected in ((2000, "2000"), (1999, "2000"), (2001, "2001")):
        body = encode_message("quakes", [Event("a", NOW, "1", {"n": str(at)})], at)
        assert stage.drain(body, 10) == 1
        assert [item["data"]["n"] for item in stage.table(LABEL)] == [expected]


def test_a_repeat_of_one_of_the_last_thirty_two_versions_before_the_newest_adds_none() -> None:
    stage = world(versions="keep")
    for number in range(34):
        assert stage.send(numbered(number)).accepted == 1
    assert len(versions(stage)) == 34
    # 33 is the newest, 32 to 1 are remembered, and 0 is not.
    for number in (33, 32, 17, 1):
        stage.send(numbered(number))
        assert len(versions(stage)) == 34, number
    stage.send(numbered(0))
    assert len(versions(stage)) == 35


def test_only_the_newest_version_is_in_the_indexes() -> None:
    """Otherwise a query by index would find an event by its earlier content."""
    stage = world(versions="keep", index=(IndexPolicy(name="by_n", partition_by="n"),))
    for entry in list(stage.catalog.items.values()):
        stage.catalog.items[entry.stream, entry.period] = replace(entry, layout=stage.config.streams["quakes"].layout)
    for value in ("old", "new"):
        assert stage.send(numbered(value)).accepted == 1
    attributes = {
        item["sk"].partition("#")[0]: sorted(name for name in item if name.startswith(ATTRIBUTES))
        for item in stage.table(LABEL)
    }
    assert attributes["v1"] == []
    assert len(attributes["v0"]) == 2


def change_layout(stage: World, **changes: Any) -> None:
    """The present day's table was made under another configuration of the stream."""
    key = next(key for key in stage.catalog.items if key[1].label == LABEL)
    entry = stage.catalog.items[key]
    stage.catalog.items[key] = replace(entry, layout=replace(entry.layout, **changes))


def test_a_table_that_was_made_with_fewer_suffixes_has_its_events_under_these() -> None:
    """A reader looks under the suffixes of the table's own layout, and no other."""
    stage = World()
    change_layout(stage, shards=1)
    assert stage.send(*[event(number) for number in range(8)]).accepted == 8
    assert {item["pk"] for item in stage.table(LABEL)} == {"2026-03-01T00:00:00.000000Z#0"}


def test_what_an_index_of_an_older_table_holds_once_more_counts_towards_an_items_size() -> None:
    """AWS: 400 KB with all attributes. The stream has no such index now, and the event alone would fit."""
    stage = world()
    change_layout(stage, indexes=(Index("by_n", "n", project=("text",)),))
    outcome = stage.send(event(1), event(2) | {"data": {"n": "2", "text": "x" * 250_000}})
    assert [(rejection.index, rejection.code) for rejection in outcome.rejections] == [(1, "too_large")]
    assert (outcome.accepted, stage.count(LABEL)) == (1, 1)


def test_the_keys_of_an_older_tables_index_count_towards_an_items_size() -> None:
    """AWS: 400 KB, which are 409,600 bytes. The event has some 408,400; its keys in the index are 1,960 more."""
    stage = world()
    change_layout(stage, indexes=(Index("by_n", "n"),))
    outcome = stage.send(event(1), event(2) | {"data": {"n": "v" * 1_900, "text": "x" * 406_300}})
    assert [(rejection.index, rejection.code) for rejection in outcome.rejections] == [(1, "too_large")]
    assert (outcome.accepted, stage.count(LABEL)) == (1, 1)


def test_what_waited_for_a_stream_that_left_the_configuration_keeps_the_version_before_it() -> None:
    stage = world(versions="keep")
    stage.send(numbered("before"))
    stage.store.throttled = 10**6
    stage.send(numbered("after"))
    stage.store.throttled = 0
    stage.config = structs.replace(stage.config, streams={})
    assert stage.drain(encode_message("quakes", stage.overflow.queued, 10**15)) == 1
    assert versions(stage) == {"v0": "after", "v1": "before"}


def test_a_large_event_that_waited_for_a_stream_that_left_the_configuration_is_stored() -> None:
    stage = world(large=LargePolicy(beyond="s3"))
    stage.store.throttled = 10**6
    stage.send(event(1) | {"data": {"text": noise(1_000_000)}})
    stage.store.throttled = 0
    stage.config = structs.replace(stage.config, streams={})
    assert stage.drain(encode_message("quakes", stage.overflow.queued, 1), 60) == 1
    (item,) = stage.table(LABEL)
    assert (item["out"]["o"] in stage.values.blobs, "data" in item) == (True, False)


def test_what_is_credited_to_a_table_does_not_pile_up_while_nothing_is_drained() -> None:
    """Of 200 units a quarter is for five consumers together: 10 per second for each, and a quarter more after a round."""
    stage = World()
    entry = change_entry(
        next(entry for entry in stage.catalog.entries("quakes") if entry.period.label == LABEL),
        seen=SeenTable(200, 80, TableClass.STANDARD),
    )
    pace = Pace(stage.clock, 0.05)
    for seconds in (2, 1.6):
        begun = stage.clock.now()
        assert pace.wait(entry, lambda: 60.0)
        pace.record_units(entry, 20)
        assert pace.wait(entry, lambda: 60.0)
        assert stage.clock.now() - begun == timedelta(seconds=seconds)
        stage.clock.sleep(3600)


def test_a_write_that_its_condition_refused_has_cost_its_unit() -> None:
    """AWS charges a conditional write that fails, too: ten of them take as long as ten written items. The rounds of ten take
    1, 0.8 and 0.64 seconds.
    """
    stage = World()
    entry = next(entry for entry in stage.catalog.entries("quakes") if entry.period.label == LABEL)
    stage.catalog.note(entry, SeenTable(200, 80, TableClass.STANDARD))
    sent, ports = [Event("a", NOW, str(number), {}) for number in range(20)], stage.drainer()
    for at, seconds in ((5, 1), (4, 1.44)):
        begun = stage.clock.now()
        assert drain_message(encode_message("quakes", sent, at), ports, lambda: 60.0).events == 20
        assert stage.clock.now() - begun == timedelta(seconds=seconds)


def test_a_version_that_was_accepted_before_the_newest_is_no_repeat_of_it() -> None:
    """The message came before, and its events may have been written or not: this one was not."""
    stage = world(versions="keep")
    stage.drain(encode_message("quakes", [Event("a", NOW, "1", {"n": "new"})], 9), 10)
    waited = encode_message("quakes", [Event("a", NOW, "1", {"n": "old"})], 1)
    for _ in range(2):
        assert drain_message(waited, stage.drainer(), lambda: 10.0, received=2).events == 1
        assert versions(stage) == {"v0": "new", "v1": "old"}


def test_of_a_table_that_is_archived_nothing_is_read_nor_written_beside_it() -> None:
    """Whether its events are there or not: its message is for a person to look at."""
    stage = world(large=LargePolicy(beyond="s3"))
    body = encode_message("quakes", [Event("a", NOW, "1", {"text": noise(900_000)})], 1)
    stage.move(LABEL, State.CLOSED)
    assert stage.drain(body, 10) == 1
    blobs = len(stage.values.blobs)
    assert blobs == 1
    stage.move(LABEL, State.ARCHIVING)
    for received in (1, 2):
        with pytest.raises(Undrainable, match="period 2026-03-01 of quakes is archiving: restore it, then replay"):
            drain_message(body, stage.drainer(), lambda: 10.0, received=received)
    assert len(stage.values.blobs) == blobs


def test_a_batch_of_messages_is_no_longer_than_sqs_takes() -> None:
    sqs, sent = Sqs(), [Event("a", NOW, str(n), {"text": "x" * 190_000}) for n in range(12)]
    assert overflow(sqs, FakeValues()).send("quakes", sent, 7) == []
    assert [event.id for body in sqs.bodies for event in decode_message(body).events] == [event.id for event in sent]


def test_a_reason_of_any_length_is_buried() -> None:
    """AWS counts attributes towards a message's 1 MiB; a reason may hold what a client sent."""
    from aws.overflow import SqsDeadLetters

    sent: list[Any] = []

    class Queue:
        def send_message(self, **request: Any) -> None:
            sent.append(request)

    client: Any = Queue()
    assert SqsDeadLetters(lambda: client, "queue").bury("body", "x" * 10_000)
    (request,) = sent
    assert (request["QueueUrl"], request["MessageBody"]) == ("queue", "body")
    assert request["MessageAttributes"] == {"reason": {"DataType": "String", "StringValue": "x" * 500}}


def test_a_reason_with_characters_that_sqs_refuses_is_buried() -> None:
    """SQS refuses control characters in an attribute. The message would come again and again with the same reason."""
    from aws.overflow import SqsDeadLetters

    sent: list[Any] = []

    class Queue:
        def send_message(self, **request: Any) -> None:
            sent.append(request["MessageAttributes"]["reason"]["StringValue"])

    client: Any = Queue()
    assert SqsDeadLetters(lambda: client, "queue").bury("body", "the stream a\x01b\ufffe\nis Größe €")
    assert sent == ["the stream a b  is Größe €"]


@pytest.mark.parametrize("pack", [None, PackPolicy(span=Duration(minutes=1))], ids=["plain", "packs"])
def test_a_key_for_some_series_writes_no_other(pack: PackPolicy | None) -> None:
    stage = world(pack=pack)
    mine, other = event(1) | {"series": "mine/1"}, event(2) | {"series": "other"}
    outcome = stage.send(mine, other, access=Access(series_prefix="mine/"))
    assert [(rejection.index, rejection.code) for rejection in outcome.rejections] == [(1, "forbidden_series")]
    assert (outcome.accepted, stage.count(LABEL)) == (1, 1)
    with pytest.raises(ProblemError, match="all_refused"):
        stage.send(other, access=Access(series_prefix="mine/"))
    assert stage.count(LABEL) == 1


@pytest.mark.parametrize("pack", [None, PackPolicy(span=Duration(minutes=1))], ids=["plain", "packs"])
def test_the_newest_event_of_a_request_is_told_wherever_it_stands(pack: PackPolicy | None) -> None:
    assert world(pack=pack).send(event(1, hours=1), event(2), event(3, days=1)).newest == NOW
