"""The events whose stored forms are in the fixtures of tests/formats, and the configuration of their streams.

They are written out here, so that the tests compare what is read with these values.
"""

from datetime import UTC, datetime
from decimal import Decimal
from hashlib import sha256
from typing import Any

from tidetable.events import Event

CONFIG = """
[lifecycle]
delete_expired = true
delete_grace = "0s"
stagger = "0s"

[streams.times]
period = "day"
late = "1d"
retention = 2
key = { partition_by = "time", bucket = "6h", shards = 2 }
feed = { targets = ["arn:aws:sqs:us-east-1:123456789012:changes"] }
archive = { segments = 2, columns = { n = "decimal(10, 2)", kind = "string" } }
[[streams.times.index]]
name = "kinds"
partition_by = "kind"
shards = 2
[[streams.times.index]]
name = "largest"
partition_by = "*"
sort_by = "n"
project = ["kind"]
[[streams.times.index]]
name = "places"
partition_by = "*"
sort_by = ["country", "town"]
project = "keys"
[[streams.times.index]]
name = "people"
kind = "kind"
partition_by = { order = "customer", refund = "staff.name" }
[[streams.times.index]]
name = "again"
replica = true
[[streams.times.index]]
name = "near"
local = true
sort_by = "n"
[[streams.times.rollup]]
name = "hours"
every = "1h"
by = ["kind"]
fields = ["n"]
stats = ["count", "sum", "min", "max", "first", "last", "percentiles"]
retention = "60d"

[streams.names]
period = "day"
late = "1d"
retention = 2
versions = "keep"
key = { partition_by = "series", shards = 2, shard_by = "id" }
[[streams.names.rollup]]
name = "quarters"
every = "15m"
by = ["series"]
retention = "60d"

[streams.large]
period = "month"
late = "10d"
retention = 2
cold = ["raw"]
large = { compress_above = 1024, beyond = "chunks" }
key = { partition_by = "series" }

[streams.objects]
period = "month"
late = "10d"
retention = 2
large = { compress_above = 1024, beyond = "s3" }
key = { partition_by = "time", bucket = "6h", shards = 2, shard_by = "series" }

[streams.packs]
period = "day"
late = "1d"
retention = 2
archive = { segments = 2 }
pack = { span = "1h" }
key = { partition_by = "time", bucket = "6h" }

[streams.series_packs]
period = "week"
late = "3d"
retention = 2
pack = { span = "1h" }
key = { partition_by = "series" }

[streams.sensors]
period = "week"
late = "3d"
retention = 2
pack = { span = "1h" }
key = { partition_by = "time", bucket = "24h", shards = 4, shard_by = "series" }
"""

# The clock when the stage is deployed (a Monday), when its first events come, and when the fixtures are written.
DEPLOYED = datetime(2026, 3, 9, 9, tzinfo=UTC)
SENT = datetime(2026, 3, 9, 14, 5, tzinfo=UTC)
END = datetime(2026, 3, 12, 14, 5, tzinfo=UTC)
FIRST_DAY, NEXT_DAY, LAST_DAY = "2026-03-09", "2026-03-10", "2026-03-12"

Events = list[dict[str, Any]]


def make_event(series: str, time: str, id: str, **data: Any) -> dict[str, Any]:
    """Make an event in the form of a request and of an answer. ``time`` is on the first day, unless it has a date."""
    whole = time if "T" in time else f"{FIRST_DAY}T{time}"
    return {"series": series, "time": f"{whole}Z", "id": id, "data": data}


def make_noise(name: str, length: int) -> str:
    """Make a text that cannot be compressed to less than half, and is always the same."""
    digests = [sha256(f"{name} {number}".encode()).hexdigest() for number in range(length // 64 + 1)]
    return "".join(digests)[:length]


# Every type of value, numbers with 38 digits, and names that are escaped in keys.
_AWKWARD: dict[str, Any] = {
    "text": 'é#%"\\\n\u2028😀',
    "list": [None, True, "", [], {}, [{"x": Decimal("2.5")}]],
    "big": 12345678901234567890123456789012345678,
    "small": Decimal("1E-130"),
    "kind": 5,
}

TIMES: Events = [
    make_event("a", "10:30:00.000000", "1", n=7, kind="order", customer="c1", country="DE", town="Ulm"),
    make_event("b", "10:30:00.000000", "2", n=Decimal("-2.5"), kind="refund", staff={"name": "s#1"}),
    make_event("a", "11:59:59.999999", "3", n=7, kind="order", customer="c2", country="DE"),
    make_event("series#%1", "12:00:00.000000", "id#%1", **_AWKWARD),
    make_event("c", "13:40:00.250000", "5", n=100, country="FR", town="Sète"),
]
# This event is sent again with other data: the second state counts.
REPLACED = make_event("b", "10:30:00.000000", "2", n=Decimal("-2.75"), kind="refund", staff={"name": "s#1"})
# This event comes after its hour was sealed in the rollup.
LATE = make_event("a", "10:45:00.000000", "6", n=8, kind="order", customer="c1")
# The archive of these events' day is half written at the end: the second of its two parts is missing.
TIMES_NEXT: Events = [
    make_event("a", "2026-03-10T00:40:00.000000", "7", n=11, kind="order", customer="c1"),
    make_event("a", "2026-03-10T00:50:00.000000", "8", n=12, kind="order", customer="c1"),
]
# These events are in tables that are open at the end.
TIMES_OPEN: Events = [
    make_event("a", "2026-03-12T13:00:00.000000", "11", n=1, kind="order", customer="c1", country="DE", town="Ulm"),
    make_event("a", "2026-03-12T13:30:00.000000", "9", n=3, kind="order", customer="c1", country="AT", town="Wien"),
    make_event("b", "2026-03-12T14:00:00.000000", "10", n=2, kind="refund", staff={"name": "s#2"}),
]
NAMES: Events = [
    make_event("kept", "2026-03-12T10:00:00.000000", "1", v=1),
    make_event("kept", "2026-03-12T10:20:00.000000", "2", v=1),
    make_event("other#%", "2026-03-12T10:21:00.000000", "3", v=2),
]
# The later versions of the event 1 of the series "kept".
NAMES_VERSIONS = [
    make_event("kept", "2026-03-12T10:00:00.000000", "1", v=2),
    make_event("kept", "2026-03-12T10:00:00.000000", "1", v=3),
]
LARGE: Events = [
    make_event("l", "10:00:00.000000", "cold", n=1, raw="seldom read"),
    make_event("l", "10:01:00.000000", "compressed", n=2, text="again and " * 400),
    make_event("l", "10:02:00.000000", "chunks", n=3, text=make_noise("chunks", 9000)),
]
OBJECTS: Events = [
    make_event("o", "13:00:00.000000", "small", n=1),
    make_event("o", "13:01:00.000000", "s3", n=2, text=make_noise("s3", 9000)),
]
PACKS: Events = [
    make_event("p", "10:00:00.000000", "1", n=1, text="a"),
    make_event("q", "10:10:00.000000", "2", n=Decimal("2.50"), text="b"),
    make_event("p", "10:59:00.000001", "3", n=None, other=[1, {"x": "#%"}]),
    make_event("p", "12:00:00.000000", "4", n=4),
]
PACKS_OPEN: Events = [
    make_event("p", "2026-03-12T12:00:00.000000", "5", n=5),
    make_event("p", "2026-03-12T12:01:00.000000", "6", n=6),
]
# FIPS 180: SHA-256 of "abc" begins with ba7816bf, of "#" with 334359b9, so their shards are 3 and 1 of 4.
SENSORS: Events = [
    make_event("abc", "14:01:00.000000", "1", v=Decimal("20.5")),
    make_event("#", "14:01:00.000000", "2", v=21),
    make_event("abc", "14:02:00.000000", "3", v=22),
]
SENSORS_AGAIN = make_event("abc", "14:02:00.000000", "3", v=23)
SERIES_PACKS: Events = [
    make_event("p", "10:00:00.000000", "00000000-0000-4000-8000-000000000001", n=1, flag=True),
    make_event("p", "10:00:30.000000", "00000000-0000-4000-8000-000000000002", n=2, flag=False),
    make_event("q#%", "10:00:30.000000", "00000000-0000-4000-8000-000000000003", n=3),
]
# These events wait at the end: in the overflow, in an object that the overflow names, and in a saved message.
QUEUED = make_event("a", "2026-03-12T09:00:00.000000", "queued", n=Decimal("0.1"), text="é\ufffe")
KEPT = make_event("l", "2026-03-12T09:01:00.000000", "kept", text="x" * 1_100_000)
SAVED = make_event("a", "2026-03-12T09:02:00.000000", "saved", n=3)
# The drain gave up this event, because its table was not made yet.
DEAD = make_event("a", "2026-03-15T09:03:00.000000", "dead", n=4)


def as_event(event: dict[str, Any]) -> Event:
    """Convert an event to the core's type."""
    return Event(event["series"], datetime.fromisoformat(event["time"]), event["id"], event["data"])
