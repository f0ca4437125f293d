"""One side of ``bench.drain``: the drain of one source tree empties the overflow queue of a stage, in a process of its own.

The arguments are the tree, the case, the consumers, the MB of a function's memory, the messages that Lambda passes at once,
the connections of a function, and a number by which the events are divided. The script prints JSON: events, the virtual
seconds until they were written, and requests.

The consumers run in virtual time, as threads of which only one runs at a time: the one whose time is the earliest. A
consumer's time is its CPU at its function's share of a processor, the pauses of the code, 5 ms for as many requests as it
has connections, and 20 ms for each call of the function. The CPU of the strict service is not counted; that of the HTTP
client is measured against a server in another process, and added per request. SQS's fair queues are not simulated.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

TREE = Path(sys.argv[1])
sys.path[:0] = [str(TREE), str(TREE / "lambdas")]

from older_trees import import_first  # type: ignore[import-not-found]

from bench.stub import run_stub
from strict.faults import Fault, Kind
from tests.fakes.stage import Stage
from tidetable.events import Event
from tidetable.ingest.overflow import encode_messages

_CLIENT = import_first("aws.http.client", "aws.lean.client")
LeanClient, ServiceRequest = _CLIENT.LeanClient, getattr(_CLIENT, "ServiceRequest", None) or _CLIENT.Request
Credentials = import_first("aws.http.credentials", "aws.lean.credentials").Credentials
START = datetime(2026, 3, 2, 12, tzinfo=UTC)
CALL_SECONDS, INVOKE_SECONDS, RUN_SECONDS = 0.005, 0.02, 55.0
PROCESSOR_MB, BATCH_BYTES = 1_769, 6_000_000
STREAM = """
[streams.{name}]
period = "day"
late = "1d"
retention = 9
key = {{ partition_by = "time", bucket = "1h", shards = 200 }}
capacity = {{ warm = {{ write = 40000, read = 12000 }} }}
{more}
"""


class Timeline:
    """The clock of all consumers. Each thread has its own time; a thread that sleeps lets the earliest go on."""

    def __init__(self, now: datetime) -> None:
        self.time, self.factor = now, 1.0
        self._waiting: list[tuple[datetime, int, threading.Event]] = []
        self._count, self._begun = 0, 0.0
        self.idle = threading.Event()
        self.threaded = False

    def now(self) -> datetime:
        """Return the time of the running thread, without its CPU since it last slept."""
        return self.time

    def sleep(self, seconds: float) -> None:
        """Let the running thread's CPU and these seconds pass."""
        if not self.threaded:
            self.time += timedelta(seconds=seconds)
            return
        turn = self.enter(seconds + (time.thread_time() - self._begun) * self.factor)
        self.leave()
        turn.wait()
        self._begun = time.thread_time()

    def enter(self, seconds: float) -> threading.Event:
        """Let a thread go on after these seconds: the event that it waits for."""
        turn, self._count = threading.Event(), self._count + 1
        heappush(self._waiting, (self.time + timedelta(seconds=seconds), self._count, turn))
        return turn

    def leave(self) -> None:
        """Let the earliest thread go on."""
        if not self._waiting:
            self.idle.set()
            return
        self.time, _, turn = heappop(self._waiting)
        turn.set()

    def forget_cpu(self) -> None:
        """Do not count the running thread's CPU since it last slept."""
        self._begun = time.thread_time()


def slow_down(stage: Stage, timeline: Timeline, connections: int, request_cpu: float) -> Any:
    """Let each request of the stage's functions take its time; return the counter of requests."""
    transport: Any = stage.store._client  # noqa: SLF001 - the fakes' transport
    call_all, count = transport.call_all, [0]

    def timed(requests: Sequence[Any], **options: Any) -> Any:
        if not requests:
            return []
        timeline.sleep(len(requests) * request_cpu * timeline.factor)
        count[0] += len(requests)
        replies = call_all(requests, **options)
        timeline.forget_cpu()
        timeline.sleep(-(-len(requests) // connections) * CALL_SECONDS)
        return replies

    transport.call_all = timed
    transport.call = lambda operation, body: timed([ServiceRequest(operation, body)])[0]
    return count


def measure_request() -> float:
    """Measure the HTTP client's CPU for a request with one event, in seconds."""
    body = b'{"TableName":"t","Item":{"pk":{"S":"x"}},"ConditionExpression":"attribute_not_exists(pk)"%s}' % (
        b" " * 400
    )
    with run_stub() as endpoint:
        client = LeanClient(endpoint, "us-east-1", _Source())
        requests = [ServiceRequest("PutItem", body)] * 2_000
        client.call_all(requests)
        begun = time.process_time()
        client.call_all(requests)
        return (time.process_time() - begun) / len(requests)


def queue_events(streams: Sequence[str], events: int, per_request: int, *, derived: bool) -> list[tuple[str, str]]:
    """Make the messages of requests, of all streams in turn: each with its stream."""
    messages: list[tuple[str, str]] = []
    for first in range(0, events, per_request):
        for stream in streams:
            own = [
                Event(
                    f"device-{number % 400:04}",
                    START - timedelta(milliseconds=10 * number),
                    f"{number:032x}" if derived else f"event-{number}",
                    {"mag": number % 100, "place": "10 km NE of Somewhere", "ok": True},
                )
                for number in range(first, first + per_request)
            ]
            messages += [(stream, message.body) for message in encode_messages(stream, own, 1)]
    return messages


def drain_queue(stage: Stage, timeline: Timeline, messages: list[tuple[str, str]], consumers: int, most: int) -> float:
    """Empty the queue; return the seconds until the last message that was written."""
    waiting, written = list(messages), [timeline.time]
    errors: list[BaseException] = []

    def consume(turn: threading.Event) -> None:
        turn.wait()
        timeline.forget_cpu()
        ports = stage.pipeline.drain
        try:
            while waiting:
                batch: list[tuple[str, str]] = []
                size = 0
                while waiting and len(batch) < most and (not batch or size + len(waiting[0][1]) <= BATCH_BYTES):
                    size += len(waiting[0][1])
                    batch.append(waiting.pop(0))
                timeline.sleep(INVOKE_SECONDS)
                end = timeline.time + timedelta(seconds=RUN_SECONDS)
                if any(take_batch(batch, ports, lambda end=end: (end - timeline.time).total_seconds())):
                    timeline.sleep(0)
                    written.append(timeline.time)
        except BaseException as error:
            errors.append(error)
        timeline.leave()

    begun = timeline.time
    timeline.threaded = True
    threads = [threading.Thread(target=consume, args=(timeline.enter(0.0),), daemon=True) for _ in range(consumers)]
    for thread in threads:
        thread.start()
    timeline.leave()
    timeline.idle.wait()
    timeline.threaded = False
    if errors:
        raise errors[0]
    return (max(written) - begun).total_seconds()


def take_batch(batch: Sequence[tuple[str, str]], ports: Any, remaining: Any) -> list[bool]:
    """Call the drain with some messages; for each, say if it was written."""
    try:
        from tidetable.ingest.saved import take_messages
        from tidetable.ingest.saving import Received
    except ImportError:
        return [_drain_one(body, ports, remaining) for _, body in batch]
    received = [Received(body, ports.clock.now(), "m") for _, body in batch]
    return [bool(getattr(outcome, "events", 0)) for outcome in take_messages(received, ports, remaining)]


def _drain_one(body: str, ports: Any, remaining: Any) -> bool:
    from tidetable.errors import NotDrained
    from tidetable.ingest.drain import drain_message

    try:
        drain_message(body, ports, remaining)
    except NotDrained:
        return False
    return True


class _Source:
    """A source of credentials, for each of the trees."""

    def get(self) -> Any:
        return Credentials("bench", "bench")

    __call__ = get


def main() -> None:
    """Measure one case."""
    case = sys.argv[2]
    consumers, memory, most, connections, divisor = map(int, sys.argv[3:8])
    streams = ["s"] if case in ("derived", "clients", "packed") else [f"s{number}" for number in range(11)]
    more = 'pack = { span = "10m" }' if case == "packed" else ""
    timeline = Timeline(START)
    config = "".join(STREAM.format(name=name, more=more) for name in streams)
    stage = Stage(START, config, clock=timeline, stale_seconds=0.0)  # type: ignore[arg-type]
    stage.run_lifecycle()
    timeline.sleep(120)
    stage.run_lifecycle()
    events, per_request = {"derived": (200_000, 5_000), "clients": (200_000, 5_000), "packed": (1_000_000, 10_000)}.get(
        case, (15_000, 500)
    )
    events //= divisor
    if case == "stuck":
        (table,) = [entry.table for entry in stage.catalog.entries("s0", START, START)]
        stage.dynamo.faults.add(Fault(Kind.THROTTLED, "PutItem", table))
    sent = streams if case != "others" else streams[1:]
    messages = queue_events(sent, events, per_request, derived=case == "derived")
    timeline.factor = PROCESSOR_MB / memory
    count = slow_down(stage, timeline, connections, measure_request())
    seconds = drain_queue(stage, timeline, messages, consumers, most)
    written = events * len([name for name in sent if case != "stuck" or name != "s0"])
    print(json.dumps({"events": written, "seconds": seconds, "requests": count[0], "messages": len(messages)}))


if __name__ == "__main__":
    main()
