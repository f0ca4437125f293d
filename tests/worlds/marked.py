"""The write path of a stream with rollups on fakes. A log records the order of marks, notes, writes and queueing."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from tests.fakes.rollups import FakeRollups
from tests.ingest.streams import CONFIG
from tests.worlds.intake import World
from tidetable.config import RollupPolicy
from tidetable.config.derive import add_rollups
from tidetable.config.stream import PackPolicy
from tidetable.durations import Duration
from tidetable.errors import Outage, StoreUnavailable, TableMissing, TableThrottled
from tidetable.events import Event
from tidetable.ingest.marks import Marks
from tidetable.ingest.overflow import encode_message
from tidetable.ports import Guard, Put, Written
from wiring_upkeep import Upkeep

HOURS = RollupPolicy(name="hours", every=Duration(hours=1), retention=Duration(days=30))
MINUTES = RollupPolicy(name="minutes", every=Duration(minutes=1), retention=Duration(days=30))
AT = 1_772_323_500_000
PACKED = PackPolicy(span=Duration(hours=1))
FAILURES = [StoreUnavailable(Outage.NO_ANSWER, "time-out"), TableMissing("rollups"), TableThrottled("rollups")]


class Stopped(Exception):
    """An error that stops the process."""


class Recorder(FakeRollups):
    """The state of rollups. It logs marks beside the writes of the store. A mark may fail, or stop the process."""

    def __init__(self, log: list[str]) -> None:
        super().__init__()
        self.log = log
        self.fails: Exception | None = None
        self.calls: list[tuple[str, list[datetime], int, timedelta]] = []

    def put_marks(self, stream: str, buckets: Sequence[datetime], at: int, length: timedelta) -> None:
        self.calls.append((stream, list(buckets), at, length))
        self.log.append("mark")
        if self.fails is not None:
            raise self.fails
        super().put_marks(stream, buckets, at, length)


class Rolled(World):
    """A stream with rollups, and one process that serves the stream."""

    def __init__(self, *rollups: RollupPolicy, **policy: Any) -> None:
        quakes = replace(CONFIG.streams["quakes"], rollup=rollups, **policy)
        streams = {"quakes": quakes}
        super().__init__(replace(CONFIG, streams=add_rollups(streams)))
        self.log: list[str] = []
        self.rollups = Recorder(self.log)
        self.marks = Marks(self.rollups) if rollups else None
        write, write_each = self.store.write, self.store.write_each
        self.store.write = lambda puts: self._written(write(puts))  # type: ignore[method-assign]
        self.store.write_each = self._each(write_each)  # type: ignore[method-assign]
        send = self.overflow.send
        self.overflow.send = self._queued(send)  # type: ignore[method-assign]

    def _written(self, written: Written) -> Written:
        self.log.append("write")
        return written

    def _each(self, write_each: Any) -> Any:
        def write(puts: Sequence[Put], guard: Guard) -> Written:
            return self._written(write_each(puts, guard))

        return write

    def _queued(self, send: Any) -> Any:
        def queue(stream: str, events: Sequence[Event], at: int) -> Any:
            self.log.append("queue")
            return send(stream, events, at)

        return queue

    def pipeline(self, **ports: Any) -> Upkeep:
        return super().pipeline(rollups=self.rollups, marks=self.marks, **ports)


def message(*events: dict[str, Any]) -> str:
    listed = [Event("a", datetime.fromisoformat(event["time"]), event["id"], event["data"]) for event in events]
    (encoded,) = (encode_message("quakes", listed, AT),)
    return encoded
