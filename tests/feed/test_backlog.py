"""A feed that is far behind: its records are old because the function did not run. No failure of a service that the
feed reads from throws them away.
"""

from datetime import timedelta
from ssl import SSLCertVerificationError
from typing import Any

import pytest
from botocore.exceptions import ClientError

from aws.zstd import Zstd
from tests.worlds.feeds import NOW, ONE, PACKED, TABLE, FeedWorld, fail
from tests.worlds.packing import make_packs
from tidetable.errors import Outage, StoreUnavailable, TableMissing, TableThrottled
from tidetable.events import Event

ERRORS = [
    StoreUnavailable(Outage.NO_ANSWER, "no answer"),
    StoreUnavailable(Outage.THROTTLED, "too fast"),
    TableThrottled("tidetable-t-catalog"),
    ClientError({"Error": {"Code": "KMS.DisabledException", "Message": "the key is disabled"}}, "GetObject"),
    ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "Query"),
    TimeoutError("read timed out"),
    ConnectionResetError("reset"),
    SSLCertVerificationError("the clock is wrong"),
]


@pytest.mark.parametrize("hours", [0.5, 1.02, 5, 22.9])
@pytest.mark.parametrize("error", ERRORS, ids=[type(error).__name__ + str(n) for n, error in enumerate(ERRORS)])
def test_a_catalog_that_does_not_answer_once_delays_an_old_batch_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, hours: float, error: Exception
) -> None:
    world = FeedWorld()
    records = [world.record(n, timedelta(hours=hours)) for n in range(10)]
    with monkeypatch.context() as patch:
        patch.setattr(world.catalog, "entries", fail(error))
        delivered = world.deliver(*records)
    assert (delivered.first_failure, delivered.buried, world.letters.kept) == ("0", 0, [])
    assert world.deliver(*records).first_failure is None
    assert world.targets[ONE].taken == list(range(10))


@pytest.mark.parametrize("error", ERRORS, ids=[type(error).__name__ + str(n) for n, error in enumerate(ERRORS)])
def test_a_bucket_that_does_not_answer_once_stops_before_the_record_that_needs_it(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    world = FeedWorld()
    records = [world.record(0), world.large(1), world.record(2)]
    with monkeypatch.context() as patch:
        patch.setattr(world.values, "get", fail(error))
        assert world.deliver(*records).first_failure == "1"
    assert world.targets[ONE].taken == [0], "what does not need the bucket goes on"
    assert world.deliver(*records[1:]).first_failure is None
    assert world.targets[ONE].taken == [0, 1, 2]
    assert world.letters.kept == []


def test_a_table_of_chunks_that_does_not_answer_once_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = FeedWorld()
    record = world.chunked(0)
    monkeypatch.setattr(world.store, "get_chunks", fail(StoreUnavailable(Outage.THROTTLED, "too fast"), 1))
    assert world.deliver(record).first_failure == "0"
    assert world.letters.kept == []


def test_data_that_is_gone_from_the_bucket_or_with_its_table_is_no_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can read it any more, so the change goes without it, and delays nothing."""
    world = FeedWorld()
    records = [world.large(0), world.chunked(1)]
    world.values.delete(["large/0"])
    monkeypatch.setattr(world.store, "get_chunks", fail(TableMissing(f"{TABLE}-chunks")))
    assert world.deliver(*records).first_failure is None
    assert [(body["id"], body["data"]) for body in world.targets[ONE].bodies] == [("0", None), ("1", None)]
    assert all(body["ref"] for body in world.targets[ONE].bodies)


def test_a_catalog_that_does_not_answer_is_asked_once_for_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the last hour of its records, each becomes a letter; each look-up takes seconds, and the hour must suffice."""
    world = FeedWorld()
    records = [world.record(n, timedelta(hours=23, minutes=1)) for n in range(10)]
    asked: list[str] = []

    def entries(stream: str, *_: Any) -> Any:
        asked.append(stream)
        raise StoreUnavailable(Outage.NO_ANSWER, "no answer")

    monkeypatch.setattr(world.catalog, "entries", entries)
    delivered = world.deliver(*records)
    assert (delivered.first_failure, delivered.buried, asked) == (None, 10, ["orders"])


@pytest.mark.parametrize(("minutes", "buried"), [(59, 0), (61, 1)])
def test_a_damaged_pack_is_a_letter_when_it_is_older_than_max_age(minutes: int, buried: int) -> None:
    world = FeedWorld(layout=PACKED)
    pack = make_packs([PACKED.make_item(Event("a", NOW, "0", {"n": 0}), at=1)], PACKED, Zstd()).packs[0]
    damaged = world.put({**pack.item, "pack": b"x"}, 0, timedelta(minutes=minutes))
    delivered = world.deliver(damaged, world.record(1))
    assert (delivered.first_failure, delivered.buried) == ((None, 1) if buried else ("0", 0))
    assert world.targets[ONE].taken == ([1] if buried else [])


@pytest.mark.parametrize("key", ["strange", "2026-03-01T12:00:00.000000Z", "x#y#z#0"])
def test_a_key_of_another_layout_is_wrong_by_itself(key: str) -> None:
    world = FeedWorld()
    record = world.record(0)
    strange = record._replace(item={"pk": key, "sk": key, "data": {}})
    assert world.deliver(strange, world.record(1)).first_failure is None
    assert world.targets[ONE].taken == [1]
    assert len(world.letters.kept) == 1


def test_a_call_whose_time_goes_while_it_reads_sends_what_it_has_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value from the bucket takes 20 seconds. Half of the call's time is for sending."""
    world = FeedWorld()
    end = world.clock.now() + timedelta(seconds=100)
    fetch = world.values.get

    def get(key: str) -> bytes | None:
        world.clock.sleep(20)
        return fetch(key)

    monkeypatch.setattr(world.values, "get", get)
    records = [world.large(n) for n in range(6)]
    delivered = world.feeds.deliver(records, lambda: (end - world.clock.now()).total_seconds())
    assert delivered.first_failure == "3"
    assert delivered.reason == "the time of this call is up; the other changes come with the next call"
    assert world.targets[ONE].taken == [0, 1, 2]


def test_a_call_without_time_reads_one_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise records that take long would never be delivered."""
    world = FeedWorld()
    left = iter([4.0, 1.0, 1.0, 1.0])
    delivered = world.feeds.deliver([world.record(n) for n in range(3)], lambda: next(left))
    assert (delivered.first_failure, world.targets[ONE].taken) == ("1", [0])


def test_the_handler_answers_the_first_record_of_an_old_batch_when_the_catalog_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At the level of Lambda: the partial answer makes Lambda send the batch again."""
    monkeypatch.setenv("TIDETABLE_STAGE", "t")
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "test")
    import wiring
    from aws.feed_records import read_records
    from handlers import feed
    from tests.api.gateway import Context
    from tests.worlds.codec import to_wire
    from wiring_upkeep import Upkeep

    world = FeedWorld()
    monkeypatch.setattr(world.catalog, "entries", fail(StoreUnavailable(Outage.NO_ANSWER, "no answer")))
    created = (NOW - timedelta(minutes=61)).timestamp()
    arn = f"arn:aws:dynamodb:eu-central-1:123456789012:table/{TABLE}/stream/2026-03-01T00:00:00.000"
    records = [
        {
            "eventName": "INSERT",
            "eventSourceARN": arn,
            "dynamodb": {
                "NewImage": to_wire(world.record(n).item or {}),
                "SequenceNumber": str(n),
                "ApproximateCreationDateTime": created,
            },
        }
        for n in range(10)
    ]
    pipeline = Upkeep(feeds=world.feeds, read_records=read_records, clock=world.clock)
    with wiring.serve_pipeline(pipeline):
        answer = feed.handler({"Records": records}, Context())  # type: ignore[arg-type]
    assert answer == {"batchItemFailures": [{"itemIdentifier": "0"}]}
    assert world.letters.kept == []
