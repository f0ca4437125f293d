"""The story of a stage that has stored everything in every format: it always ends with the same bytes."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any
from unittest.mock import patch

import tidetable.large.forms
import tidetable.layout.period_layout
from aws.dynamodb.beats import LeanBeats
from aws.feed_records import read_records
from aws.feed_targets import FeedDeadLetters
from tests.fakes import unpacker
from tests.fakes.sqs import Sqs, overflow
from tests.fakes.stage import ROLLUPS, STAGE
from tests.fakes.transport import StrictTransport
from tests.worlds import formats_events as events
from tests.worlds.formats import Files, FormatStage, dump_stage, encode_document, encode_lines
from tests.worlds.formats_asked import LAST_DAY, WHOLE, ask_page
from tests.worlds.formats_records import KEYS, record_rare_entries
from tidetable.archive import archive_period
from tidetable.errors import TargetBusy
from tidetable.exact_json import encode_json
from tidetable.feed.feeds import Feeds
from tidetable.feed.targets import FeedMessage
from tidetable.ingest.beat import send_beat
from tidetable.ingest.drain import TRIES
from tidetable.ingest.saved import take_messages
from tidetable.ingest.saving import Received

TARGET = "arn:aws:sqs:us-east-1:123456789012:changes"

# The lifecycle has nothing to do after so many runs.
MOST_RUNS = 50


@contextmanager
def steady_chance() -> Iterator[None]:
    """Let the system's random bytes be the same in every run, and let large values be small."""
    numbers = iter(range(1_000_000))

    def draw(length: int) -> bytes:
        return sha256(b"chance %d" % next(numbers)).digest()[:length]

    # The form of a large value does not depend on these limits, which are DynamoDB's. With them, the fixtures would be
    # a megabyte.
    limits = patch.object(tidetable.layout.period_layout, "MAX_ITEM_BYTES", 4_000)
    chunks = patch.object(tidetable.large.forms, "CHUNK_BYTES", 3_000)
    with patch.object(os, "urandom", draw), limits, chunks:
        yield


def make_files() -> Files:
    """Return all fixtures, made by today's code."""
    with steady_chance():
        stage = FormatStage(events.DEPLOYED, events.CONFIG)
        stage.catalog.ensure_secret()
        stage.catalog.mark_deployed()
        stage.settle()
        run_for(stage, minutes=10)
        sleep_until(stage, events.SENT)
        run_for(stage, minutes=0)
        send_first_day(stage)
        texts = take_texts(stage)
        run_for(stage, minutes=60)
        send(stage, "times", [events.LATE])
        for day in (10, 11, 12):
            sleep_until(stage, events.SENT.replace(day=day, hour=0, minute=30))
            run_for(stage, minutes=30)
            if day == 10:
                send(stage, "times", events.TIMES_NEXT)
        sleep_until(stage, events.END - timedelta(hours=3))
        run_for(stage, minutes=4)
        for sent in (events.NAMES, *([version] for version in events.NAMES_VERSIONS)):
            send(stage, "names", sent)
            stage.clock.sleep(1)
        run_for(stage, minutes=20)
        sleep_until(stage, events.END - timedelta(minutes=10))
        run_for(stage, minutes=4)
        send(stage, "times", events.TIMES_OPEN)
        send(stage, "packs", events.PACKS_OPEN)
        letters = bury_changes(stage)
        wait_in_queues(stage)
        stop_archive(stage)
        record_rare_entries(stage)
        for record in KEYS:
            assert stage.keys.add(record)
        take_open_texts(stage, texts)
        files = dump_stage(stage)
    files["queues/feed_letters.ndjson"] = encode_lines(letters)
    files["texts.json"] = encode_document(texts)
    return files


def sleep_until(stage: FormatStage, instant: datetime) -> None:
    """Move the clock forward to an instant."""
    stage.clock.sleep((instant - stage.clock.now()).total_seconds())


def run_for(stage: FormatStage, *, minutes: int) -> None:
    """Run the lifecycle until it has nothing to do, and the refresher, for some minutes."""
    end = stage.clock.now() + timedelta(minutes=minutes)
    while True:
        for _ in range(MOST_RUNS):
            if not stage.run_lifecycle().done:
                break
            stage.clock.sleep(1)
        else:
            raise AssertionError("the lifecycle always finds something to do")
        stage.refresh()
        if stage.clock.now() >= end:
            return
        stage.clock.sleep(120)


def send(stage: FormatStage, stream: str, sent: events.Events) -> None:
    """Send events; each must be stored, not queued."""
    outcome = stage.send(stream, encode_json(sent))
    assert (outcome.accepted, outcome.queued) == (len(sent), 0), outcome


def send_first_day(stage: FormatStage) -> None:
    """Send the events of the first day, in the order of the forms that they take."""
    for stream, sent in [
        ("times", events.TIMES),
        ("times", [events.REPLACED]),
        ("large", events.LARGE),
        ("objects", events.OBJECTS),
        ("packs", events.PACKS),
        ("series_packs", events.SERIES_PACKS),
        ("sensors", events.SENSORS),
        ("sensors", [events.SENSORS_AGAIN]),
    ]:
        send(stage, stream, sent)
        stage.clock.sleep(1)


@dataclass
class _BusyTarget:
    """A target of a feed that never accepts anything."""

    arn: str
    most_bytes: int = 900_000
    most_messages: int = 10
    most_together: int = 900_000

    def send(self, messages: Any) -> None:
        raise TargetBusy("the queue does not answer", range(len(messages)))


@dataclass
class FeedTarget(_BusyTarget):
    """A target of a feed that accepts everything."""

    taken: list[Any] = field(default_factory=list)

    def send(self, messages: list[FeedMessage]) -> None:
        self.taken += [json.loads(message.body) for message in messages]


class _Letters:
    """The queue of the feed's dead letters."""

    def __init__(self) -> None:
        self.kept: list[dict[str, Any]] = []

    def send_message(self, *, QueueUrl: str, MessageBody: str, MessageAttributes: Any) -> None:  # noqa: N803
        attributes = {name: attribute["StringValue"] for name, attribute in MessageAttributes.items()}
        self.kept.append({"body": MessageBody, "attributes": attributes})


def make_feeds(stage: FormatStage, target: Any, letters: Any = None, catalog: Any = None) -> Feeds:
    """Make the feeds of a stage, all with one target."""
    whole = unpacker(stage.store, stage.values)
    dead = FeedDeadLetters(lambda: letters, "queue")
    return Feeds(stage.config, STAGE, catalog or stage.catalog, whole, dead, stage.clock, lambda *_: target)


class _SilentCatalog:
    """A catalog that does not answer."""

    def __getattr__(self, name: str) -> Any:
        raise ConnectionError("no answer from the catalog")


def bury_changes(stage: FormatStage) -> list[dict[str, Any]]:
    """Return the dead letters of a feed: of a change that its target did not accept, and of a record that was not read."""
    table = f"tidetable-{STAGE}.times.{events.LAST_DAY}"
    items = stage.dynamo.account.engine.call("Scan", {"TableName": table, "ConsistentRead": True})["Items"]
    by_id = {item["sk"]["S"].rpartition("#")[2]: item for item in items}
    letters = _Letters()
    for id, catalog in (("11", None), ("9", _SilentCatalog())):
        arn = f"arn:aws:dynamodb:us-east-1:123456789012:table/{table}/stream/2026-03-11T00:01:00.000"
        # A record of more than 23 hours becomes a dead letter at once.
        created = (stage.clock.now() - timedelta(hours=23, minutes=30)).timestamp()
        change = {"SequenceNumber": f"1000000000000000000{id:0>2}", "ApproximateCreationDateTime": created}
        record = {"eventName": "INSERT", "eventSourceARN": arn, "dynamodb": {**change, "NewImage": by_id[id]}}
        feeds = make_feeds(stage, _BusyTarget(TARGET), letters, catalog)
        assert feeds.deliver(read_records({"Records": [record]}), lambda: 100.0).buried == 1
    return letters.kept


def stop_archive(stage: FormatStage) -> None:
    """Begin the archive of a day, and stop it after the first of its two segments."""

    def measure_remaining() -> float:
        return 0.0 if any("_progress-" in key for key in stage.bucket.objects) else 800.0

    exporter = stage.exporter()
    table = stage.tables.describe(f"tidetable-{STAGE}.times.{events.NEXT_DAY}")
    assert table is not None
    exporter.segment_bytes = -(-table.size_bytes // 2)
    done = archive_period("times", events.NEXT_DAY, exporter, "archive-half", measure_remaining)
    assert (done.done, done.events) == (False, 1), done


def find_beats(stage: FormatStage) -> LeanBeats:
    """The record of the drain's last beat in the stage's table."""
    transport: Any = StrictTransport(stage.dynamo)
    return LeanBeats(transport, ROLLUPS)


def wait_in_queues(stage: FormatStage) -> None:
    """Leave events in the overflow, in the bucket, and in the dead letters."""
    sqs, at = Sqs(), 1773309600000
    for stream, event in (("times", events.QUEUED), ("large", events.KEPT)):
        assert not overflow(sqs, stage.values).send(stream, [events.as_event(event)], at)
    for body in sqs.bodies:
        stage.queue.push(body)
    kept = Sqs()
    assert not overflow(kept, stage.values).send("times", [events.as_event(events.SAVED)], at)
    sent = stage.clock.now() - timedelta(days=10)
    take_messages([Received(kept.bodies[0], sent, "message-1")], stage.pipeline.drain, lambda: 50.0)
    find_beats(stage).write(sent)
    assert send_beat(stage.queue, stage.clock.now())
    dead = Sqs()
    assert not overflow(dead, stage.values).send("times", [events.as_event(events.DEAD)], at)
    drain, now = stage.pipeline.drain, stage.clock.now()
    # The table of this event is not made yet. After the last try, the message is a dead letter.
    take_messages([Received(dead.bodies[0], now, "message-2", TRIES)], drain, lambda: 50.0)
    assert len(stage.queue.dead) == 1


def take_texts(stage: FormatStage) -> dict[str, Any]:
    """Take cursors and refs of the first day, whose tables will be archived."""
    first = ask_page(stage, "events", "times", **WHOLE, limit="2")
    packed = ask_page(stage, "events", "packs", **WHOLE)
    return {
        "cursors": {"events": first["next"]},
        "refs": {"archived": first["events"][0]["ref"], "packed": packed["events"][1]["ref"]},
    }


def take_open_texts(stage: FormatStage, texts: dict[str, Any]) -> None:
    """Take cursors and refs of tables that are open at the end."""
    top = ask_page(stage, "top", "times", **WHOLE, index="largest", limit="2")
    pages = {
        "top": top,
        "aggregate": ask_page(stage, "aggregate", "times", **WHOLE, step="1h", by="kind", limit="2"),
        "series": ask_page(stage, "series", "names", **LAST_DAY, limit="1"),
    }
    kept = ask_page(stage, "events", "names", **WHOLE, series="kept")
    texts["cursors"] |= {name: page["next"] for name, page in pages.items()}
    texts["refs"]["versions"] = kept["events"][1]["ref"]
    texts["refs"]["open"] = ask_page(stage, "events", "times", **WHOLE, order="desc", limit="1")["events"][0]["ref"]
    texts["refs"]["pack"] = ask_page(stage, "events", "packs", **WHOLE, order="desc", limit="1")["events"][0]["ref"]
    assert all(texts["cursors"].values()), texts
