"""Two stages with the same events of one tenant. One of them also has events of other tenants, and damage among these."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import settings
import wiring
from aws.dynamodb.wire import decode_item
from tests.api.gateway import Context
from tests.fakes.noise import noise
from tests.fakes.stage import Stage
from tidetable.access import Access
from tidetable.packs import open_item
from tidetable.query import Seal
from tidetable.times import to_text

FIRST_DAY = datetime(2026, 3, 12, tzinfo=UTC)
DAYS = 4
NOON = FIRST_DAY + timedelta(days=DAYS - 1, hours=12)
SPAN = {"from": to_text(FIRST_DAY), "to": to_text(NOON + timedelta(hours=1))}
PREFIX = "a/"
_DAY = 'period = "day"\nlate = "2d"\nretention = 2\n'
_ROLLUP = """
[[streams.{stream}.rollup]]
name = "hours"
every = "1h"
by = {by}
fields = ["n"]
stats = ["count", "sum", "min", "max", "first", "last", "percentiles"]
retention = "30d"
max_groups = 12
"""
CONFIG = f"""
[doors]
influx = true
cloudevents = true
[lifecycle]
delete_expired = true
delete_grace = "0s"
[streams.plain]
{_DAY}
key = {{ partition_by = "time", bucket = "6h", shards = 2 }}
large = {{ compress_above = 1024, beyond = "s3" }}
[[streams.plain.index]]
name = "by_status"
partition_by = "status"
[[streams.plain.index]]
name = "near"
local = true
sort_by = ["site", "x"]
[streams.packed]
{_DAY}
key = {{ partition_by = "time", bucket = "6h" }}
pack = {{ span = "1h" }}
{_ROLLUP.format(stream="packed", by='["series", "status"]')}
[streams.kept]
{_DAY}
versions = "keep"
cold = ["raw"]
key = {{ partition_by = "time", bucket = "6h", shards = 2 }}
large = {{ compress_above = 1024, beyond = "chunks" }}
[streams.devices]
{_DAY}
key = {{ partition_by = "series" }}
{_ROLLUP.format(stream="devices", by='["series"]')}
[streams.meters]
{_DAY}
key = {{ partition_by = "series", shards = 2 }}
pack = {{ span = "1h" }}
[streams.ranked]
{_DAY}
key = {{ partition_by = "series" }}
[[streams.ranked.index]]
name = "best"
partition_by = "*"
sort_by = "n"
"""
STREAMS = ("plain", "packed", "kept", "devices", "meters", "ranked")
# Names of other tenants: near the prefix in the order of names, and with characters that keys escape.
OTHERS = ("b/patient-74", "a", "a-1", "a0", "A/1", "b/#1", "zz/é")
SECRET = "foreign-secret"


class Answer(NamedTuple):
    """An answer of a function, as the gateway gets it."""

    status: int
    headers: Mapping[str, str]
    body: str
    encoded: bool

    @property
    def document(self) -> Any:
        return json.loads(self.body)


class Timed(Context):
    """A context whose function has the given seconds left each time that it looks; the last number stays."""

    def __init__(self, *seconds: float) -> None:
        self._seconds = list(seconds)

    def get_remaining_time_in_millis(self) -> int:
        return int(1000 * (self._seconds.pop(0) if len(self._seconds) > 1 else self._seconds[0]))


class Tenants:
    """A stage after four days. If it is ``shared``, other tenants have sent events to the same streams."""

    def __init__(self, *, shared: bool) -> None:
        self.shared = shared
        self.stage = Stage(FIRST_DAY - timedelta(hours=1), CONFIG)
        # A stage draws its secret by chance. Cursors of both stages are compared.
        self.stage.seal = Seal(lambda: b"the secret of both stages")
        self.stage.operations.ringing = [{"name": "Throttled", "state": "ALARM" if shared else "OK"}]
        for day in range(DAYS):
            self._live_through(FIRST_DAY + timedelta(days=day))
        if shared:
            self._send_late_events()
            self._damage_packs()
            self._lose_large_values()
        self.now = NOON

    def _live_through(self, day: datetime) -> None:
        """Send the events of a day while it passes, refresh the rollups, and archive old days."""
        stage = self.stage
        for hour in range(24 if day + timedelta(days=1) < NOON else 12):
            stage.clock.time = day + timedelta(hours=hour)
            self._run_upkeep()
            if hour % 3 == 0:
                stage.clock.time = day + timedelta(hours=hour, minutes=20)
                for stream in STREAMS:
                    self._send_hour(stream, day + timedelta(hours=hour))

    def _run_upkeep(self) -> None:
        while self.stage.run_lifecycle().count("done"):
            self.stage.clock.sleep(30)
        self.stage.refresh()

    def _send_hour(self, stream: str, start: datetime) -> None:
        mine = [
            make_event(f"a/{n % 3}", start + timedelta(minutes=19, seconds=10 * n, microseconds=n), n) for n in range(4)
        ]
        if stream in ("plain", "kept"):
            mine[3]["data"]["text"] = noise(3000, start.hour)
        theirs = [
            make_event(name, start + timedelta(minutes=19, seconds=10 * (n % 4), microseconds=n % 2), n, SECRET)
            for n, name in enumerate(OTHERS)
        ]
        if start.hour == 9:
            # More groups than the rollup may have: its bucket is never sealed.
            theirs += [make_event(f"c/{n}", start + timedelta(minutes=19), n, SECRET) for n in range(12)]
        if stream in ("plain", "kept") and start.hour % 6 == 0:
            theirs[0]["data"]["text"] = noise(900_000, start.hour)
        # Other tenants also correct their events, so that these have versions.
        if self.shared:
            self.send(stream, theirs)
            self.send(stream, [event | {"data": event["data"] | {"n": 50}} for event in theirs[:3]])
        # A writer of all tenants sends some events of each. On the other stage it sends the same without the others.
        self.send(stream, [*mine[:2], *(theirs[4:] if self.shared else ())])
        self.send(stream, mine[2:])

    def send(self, stream: str, events: Sequence[Mapping[str, Any]]) -> None:
        outcome = self.stage.send(stream, json.dumps(events).encode())
        assert outcome.accepted == len(events), (stream, outcome)
        while outcome.queued and self.stage.queue.messages:
            self.stage.clock.sleep(1)
            self.stage.drain()

    def _send_late_events(self) -> None:
        """Events of other tenants in old buckets: marks, and one bucket with more groups than a rollup may have."""
        for stream in STREAMS:
            hours = [NOON - timedelta(hours=hour) for hour in (3, 6, 9, 24)]
            self.send(
                stream, [make_event("b/late", hour + timedelta(minutes=5), n, SECRET) for n, hour in enumerate(hours)]
            )

    def _damage_packs(self) -> None:
        """Damage the packs that hold events of other tenants alone."""
        count = 0
        for stream in ("packed", "meters"):
            for entry in self.stage.catalog.entries(stream):
                for item in self._scan(entry.table) if entry.live else ():
                    opened = open_item(decode_item(item), entry.layout, self.stage.pipeline.unpacker.compressor)
                    names = {entry.layout.parse_names(opened.address, place)[1] for place in opened.places}
                    if opened.hash and not any(name.startswith(PREFIX) for name in names):
                        self._engine("PutItem", TableName=entry.table, Item=item | {"pack": {"B": "AAAA"}})
                        count += 1
        assert count > 10

    def _lose_large_values(self) -> None:
        """Lose the objects and chunks of large values of other tenants."""
        blobs = self.stage.values.blobs
        lost = [key for key, blob in blobs.items() if "b/patient-74" in str(blob.owner)]
        for key in lost:
            del blobs[key]
        chunks = 0
        for entry in self.stage.catalog.entries("kept"):
            for item in self._scan(f"{entry.table}.parts") if entry.live else ():
                if "b/patient-74" in item["pk"]["S"]:
                    self._engine("DeleteItem", TableName=f"{entry.table}.parts", Key={"pk": item["pk"]})
                    chunks += 1
        assert lost
        assert chunks

    def _engine(self, operation: str, **payload: Any) -> Any:
        return self.stage.dynamo.account.engine.call(operation, payload)

    def _scan(self, table: str) -> list[Any]:
        items: list[Any] = self._engine("Scan", TableName=table, ConsistentRead=True)["Items"]
        return items

    @contextmanager
    def serve(self, folder: Path) -> Iterator[Tenants]:
        """Serve this stage's pipeline to the functions' handlers."""
        file = folder / "tidetable.toml"
        file.write_text(CONFIG)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TIDETABLE_STAGE", "lapse")
            patch.setenv("POWERTOOLS_METRICS_NAMESPACE", "test")
            patch.setattr(settings, "CONFIG_FILE", file)
            settings.read_settings.cache_clear()
            settings.read_config.cache_clear()
            with wiring.serve_pipeline(self.stage.pipeline):
                yield self
        settings.read_settings.cache_clear()
        settings.read_config.cache_clear()

    def ask(
        self,
        access: Access,
        resource: str,
        path: Mapping[str, str] | None = None,
        query: Mapping[str, str | Sequence[str]] | None = None,
        accept: str = "",
        seconds: Sequence[float] = (30.0,),
        method: str = "GET",
        body: str | None = None,
        content_type: str = "application/json",
    ) -> Answer:
        """Send a request with the rights of ``access``, three seconds after the request before."""
        from handlers import doors, ingest, operations
        from handlers import query as queries

        self.now += timedelta(seconds=3)
        self.stage.clock.time = self.now
        event = {
            "httpMethod": method,
            "resource": resource,
            "headers": {"content-type": content_type} | ({"accept": accept} if accept else {}),
            "body": body,
            "pathParameters": dict(path or {}) or None,
            "multiValueQueryStringParameters": {
                name: [value] if isinstance(value, str) else list(value) for name, value in (query or {}).items()
            }
            or None,
            "requestContext": {"requestId": "test", "authorizer": access.context()},
        }
        handler: Any = operations.handler if resource in operations.ROUTES else queries.handler
        if method == "POST":
            handler = ingest.handler if resource == "/v1/streams/{stream}/events" else doors.handler
        answer = handler(event, Timed(*seconds))
        return Answer(answer["statusCode"], answer["headers"], answer["body"], answer["isBase64Encoded"])


def make_event(series: str, time: datetime, number: int, text: str = "own") -> dict[str, Any]:
    """Make an event with the fields that indexes and rollups use."""
    status = ("positive", "negative", "open")[number % 3] if text == "own" else ("positive", "rare", text)[number % 3]
    data = {"n": number, "x": number % 2, "status": status, "site": f"site {number % 2}", "note": text, "raw": text * 3}
    return {"series": series, "time": to_text(time), "id": f"{text}-{number}", "data": data}
