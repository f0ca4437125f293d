"""A stream with a feed whose services fail as a test says, and whose records are old."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from aws.zstd import Zstd
from tests.fakes import FakeStore, FakeValues, unpacker
from tests.fakes.catalog import FakeCatalog
from tests.fakes.clock import FakeClock
from tidetable.catalog import Entry, State
from tidetable.config import parse
from tidetable.errors import ChangesRefused
from tidetable.events import Event, Item
from tidetable.feed import Delivered, StreamRecord
from tidetable.feed.feeds import Feeds
from tidetable.feed.targets import FeedMessage
from tidetable.layout import Key, Layout, Packing
from tidetable.periods import Kind, find_containing
from tidetable.ports import Blob

NOW = datetime(2026, 3, 1, 23, 30, tzinfo=UTC)
TABLE = "tidetable-t.orders.2026-03-01"
ONE, TWO = "arn:aws:lambda:eu-central-1:123456789012:function:one", "arn:aws:sqs:eu-central-1:123456789012:two"
PLAIN = Layout("time", 2, "id", 3_600)
PACKED = Layout("time", 2, "id", 3_600, pack=Packing(60, 65_536))
CONFIG = """
[streams.orders]
period = "day"
late = "1d"
retention = 5
key = { partition_by = "time", bucket = "1h", shards = 2 }
feed = { targets = [%s] }
"""
OLD = timedelta(hours=5)


def accept(_: list[int]) -> Sequence[int]:
    return ()


def read_number(body: Any) -> int:
    """The number of the record of a change."""
    return int((body["data"] or {}).get("n", body["id"]))


@dataclass
class FeedTarget:
    """A target that answers as ``answer`` says: numbers that it refuses, or an error that it raises."""

    arn: str
    answer: Callable[[list[int]], Sequence[int]] = accept
    most_messages: int = 4
    most_bytes: int = 10_000
    most_together: int = 1_000_000
    taken: list[int] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    requests: list[list[int]] = field(default_factory=list)

    def send(self, messages: Sequence[FeedMessage]) -> None:
        bodies = [json.loads(message.body) for message in messages]
        numbers = [read_number(body) for body in bodies]
        self.requests.append(numbers)
        refused = self.answer(numbers)
        for place, body in enumerate(bodies):
            if place not in refused:
                self.taken.append(read_number(body))
                self.bodies.append(body)
        if refused:
            raise ChangesRefused(f"{len(refused)} are refused", refused)


@dataclass
class FeedLetters:
    """The queue of dead letters. While it is ``shut``, it keeps nothing."""

    shut: bool = False
    kept: list[tuple[str, bytes]] = field(default_factory=list)

    def bury(self, stream: str, target: str, reason: str, bodies: Sequence[bytes]) -> None:
        assert stream == "orders"
        assert reason
        if self.shut:
            raise ConnectionError("no answer from SQS")
        self.kept += [(target, body) for body in bodies]

    def of(self, target: str) -> list[int]:
        return [read_number(json.loads(body)) for arn, body in self.kept if arn == target]


class FeedWorld:
    """A stream with a feed, whose services fail as a test says."""

    def __init__(self, *targets: FeedTarget, layout: Layout = PLAIN) -> None:
        self.targets = {target.arn: target for target in targets or [FeedTarget(ONE)]}
        self.catalog, self.values, self.letters, self.clock = FakeCatalog(), FakeValues(), FeedLetters(), FakeClock(NOW)
        self.layout = layout
        self.catalog.add(Entry("orders", find_containing(NOW, Kind.DAY), TABLE, layout, State.OPEN, NOW))
        self.store = FakeStore(self.catalog)
        self.store.tables[TABLE] = {}
        config = parse(CONFIG % ", ".join(f'"{arn}"' for arn in self.targets))
        whole = unpacker(self.store, self.values)
        self.feeds = Feeds(config, "t", self.catalog, whole, self.letters, self.clock, lambda arn, _: self.targets[arn])

    def deliver(self, *records: StreamRecord, seconds: float = 100.0) -> Delivered:
        return self.feeds.deliver(list(records), lambda: seconds)

    def redeliver(self) -> int:
        """Send all dead letters again, as ``replay --feed`` does."""
        kept, self.letters.kept = self.letters.kept, []
        return sum(self.feeds.redeliver("orders", target, [body], lambda: 100.0) for target, body in kept)

    def record(self, number: int, age: timedelta = OLD, *, id: str = "", **attributes: Any) -> StreamRecord:
        """A record of an event that is in the table; its number is its id or, if it has data, in ``n``."""
        item = {**self.layout.make_item(Event("a", NOW, id or str(number), {"n": number}), at=number), **attributes}
        return self.put(item, number, age)

    def put(self, item: Item, number: int, age: timedelta = OLD) -> StreamRecord:
        self.store.tables[TABLE][Key(item["pk"], item["sk"])] = item
        return StreamRecord(str(number), "insert", TABLE, item, self.clock.now() - age)

    def large(self, number: int, age: timedelta = OLD) -> StreamRecord:
        """A record of an event whose data is in the bucket."""
        body = b'{"n":%d}' % number
        self.values.put(Blob(f"large/{number}", Zstd().compress(body), Key("a", "b")))
        record = self.record(number, age, out={"o": f"large/{number}", "b": len(body)})
        assert record.item is not None
        del record.item["data"]
        return record

    def chunked(self, number: int) -> StreamRecord:
        """A record of an event whose data is in chunks."""
        record = self.record(number, out={"v": "0" * 32, "n": 1, "b": 8})
        assert record.item is not None
        del record.item["data"]
        return record


def fail(error: Exception, times: int = 1_000) -> Callable[..., Any]:
    """A function that raises an error so many times, and then stops the test."""
    left = [times]

    def raise_error(*_: Any, **__: Any) -> Any:
        left[0] -= 1
        assert left[0] >= 0
        raise error

    return raise_error


def refuse(*bad: int) -> Callable[[list[int]], Sequence[int]]:
    """A target that refuses certain changes, each by itself."""
    return lambda numbers: [place for place, number in enumerate(numbers) if number in bad]


def refuse_whole(*bad: int) -> Callable[[list[int]], Sequence[int]]:
    """A function that fails for each call with certain changes: nobody knows which of its changes is meant."""

    def answer(numbers: list[int]) -> Sequence[int]:
        if set(bad) & set(numbers):
            raise ChangesRefused("Unhandled", range(len(numbers)))
        return ()

    return answer
