"""The steps of the demo: each does something with the deployed stage, and checks what it prints."""

from __future__ import annotations

import gzip
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

from local import Deployed, Emulator
from local.http import Api, invoke_lifecycle, invoke_refresher

Event = dict[str, Any]
_BATCH = 500
# The same earthquakes again, many in one item. The stream is added unless the configuration has a stream of this name.
PACKED = "packed"
# Where the changes of that stream go. DynamoDB Local under the stage has no way to the emulator's functions.
CHANGES = "changes"
_FEED_SECONDS = 120
_ROLLUP_SECONDS = 120
# While a run of the schedule is under way.
_PAUSE = 0.2
# The requests that a comparison has under way at the same time.
_READERS = 3
# Aggregates of the earthquakes, by hour and network, unless the configuration has rollups of its own.
ROLLUP = "quakes-hours"
# Marked hours are computed when no other late event can be on its way. In the last hour of a day the clock passes midnight,
# when a table closes: for 15 minutes it would not be archived.
AFTER_HOUR = timedelta(minutes=20)
_SUMMED_DAYS = 6
_STARTED = time.monotonic()


def print_line(text: str) -> None:
    """Print a line with the elapsed time."""
    print(f"[{time.monotonic() - _STARTED:5.1f} s] {text}", flush=True)


def check_claim(holds: bool, claim: str) -> None:
    """End the demo unless a claim holds."""
    if not holds:
        sys.exit(f"FAILED: {claim}")
    print_line(f"ok: {claim}")


def store_events(api: Api, stream: str, events: Sequence[Event]) -> float:
    """Send in batches, the first as gzip'd NDJSON, and check that every event was stored. Return the consumed write units."""
    stored, units = 0, 0.0
    for start in range(0, len(events), _BATCH):
        batch = events[start : start + _BATCH]
        if start == 0:
            lines = "\n".join(map(json.dumps, batch)).encode()
            answer = api.send(stream, gzip.compress(lines), "application/x-ndjson")
        else:
            answer = api.send(stream, json.dumps({"events": batch}).encode())
        if answer.status != 200:
            raise RuntimeError(f"a batch was answered {answer.status}: {answer.body}")
        stored += answer.body["accepted"]
        units += float(answer.headers["tidetable-write-units"])
    check_claim(
        stored == len(events),
        f"{len(events)} earthquakes of the last 7 days stored in {stream}: {units:g} write units",
    )
    return units


def compare_streams(api: Api, events: Sequence[Event], now: datetime) -> None:
    """Read both streams back and compare them with the sent events."""
    start = (now - timedelta(days=8)).isoformat().replace("+00:00", "Z")
    networks = sorted({event["series"] for event in events})
    with ThreadPoolExecutor(_READERS) as pool:

        def begin_read(stream: str, **parameters: str) -> Future[list[Event]]:
            return pool.submit(lambda: list(api.walk_events(stream, start=start, limit=400, **parameters)))

        whole, packed = begin_read("quakes"), begin_read(PACKED)
        answers = {network: begin_read("stations", series=network) for network in networks}
        check_claim(
            are_same(whole.result(), events),
            f"{len(whole.result())} events read back from quakes, newest first, equal to what was sent",
        )
        check_claim(
            are_same(packed.result(), events),
            f"{len(packed.result())} events read back from {PACKED}, equal to what quakes answers",
        )
        for network, answer in answers.items():
            expected = [event for event in events if event["series"] == network]
            if not are_same(answer.result(), expected):
                raise RuntimeError(f"series {network} of stations differs from what was sent")
    count = sum(len(answer.result()) for answer in answers.values())
    check_claim(
        count == len(events), f"{count} events read back from stations, one series of {len(networks)} at a time"
    )


def are_same(answer: Sequence[Event], events: Sequence[Event]) -> bool:
    """Whether an answer has exactly the sent events, newest first."""
    plain = [{name: event[name] for name in ("series", "time", "id", "data")} for event in answer]
    expected = sorted(events, key=lambda event: (event["time"], event["series"], event["id"]), reverse=True)
    for actual, event in zip(plain, expected, strict=False):
        if actual != event:
            print(f"  answered {actual}\n  sent     {event}")
            return False
    return len(plain) == len(expected)


def receive_changes(deployed: Deployed, count: int) -> dict[str, Event]:
    """Receive the changes of the packed stream from its queue, by the ids of their events, until there are ``count``."""
    queues = deployed.make_client("sqs")
    url = queues.get_queue_url(QueueName=CHANGES)["QueueUrl"]
    changes: dict[str, Event] = {}
    deadline = time.monotonic() + _FEED_SECONDS
    while len(changes) < count and time.monotonic() < deadline:
        messages = queues.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1).get("Messages", [])
        for message in messages:
            change = json.loads(message["Body"])
            changes[change["id"]] = {name: change[name] for name in ("series", "time", "id", "data")}
        if messages:
            entries = [{"Id": str(n), "ReceiptHandle": each["ReceiptHandle"]} for n, each in enumerate(messages)]
            queues.delete_message_batch(QueueUrl=url, Entries=entries)
    return changes


def check_changes(changes: dict[str, Event], events: Sequence[Event]) -> None:
    """Compare the received changes with the sent events."""
    expected = {event["id"]: event for event in events}
    check_claim(
        changes == expected, f"the feed delivered {len(changes)} changes of {PACKED} to a queue, equal to what was sent"
    )


def show_periods(api: Api) -> None:
    """Print a row per period table."""
    print(f"  {'period':<12}{'state':<11}{'write':>6}{'read':>6}  {'class':<19}{'archived events':>15}")
    for entry in api.call("/v1/streams/quakes/periods").body["periods"]:
        capacity = entry["capacity"] or {"write": "-", "read": "-", "class": "-"}
        archived = entry["archive"]["events"] if entry["archive"] else "-"
        units = f"{capacity['write']:>6}{capacity['read']:>6}"
        print(f"  {entry['period']:<12}{entry['state']:<11}{units}  {capacity['class']:<19}{archived:>15}")


def show_newest(api: Api, events: Sequence[Event]) -> None:
    """Query the last hours, and get one event by its ref."""
    answer = api.query("quakes", start="-6h", limit=5)
    check_claim(answer.status == 200 and len(answer.body["events"]) == 5, "the newest five of the last six hours:")
    for event in answer.body["events"]:
        print(f"  {event['time'][:19]}  M {event['data']['mag']:<5} {event['data']['place']}")
    first = answer.body["events"][0]
    answer = api.get("quakes", first["ref"])
    check_claim(
        answer.status == 200 and answer.body["id"] == events[-1]["id"] == first["id"],
        f"its ref finds {first['id']} alone",
    )


def pass_hour(emulator: Emulator, ahead: timedelta) -> datetime:
    """Set the stage's clock, which is ``ahead``, to a time after the end of its hour; return the end of that hour."""
    here = datetime.now(UTC)
    end = (here + ahead).replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    emulator.move_clock(end + AFTER_HOUR - here)
    return end


def show_rollup(deployed: Deployed, api: Api, events: Sequence[Event], moved_to: datetime) -> None:
    """Have the hours of the last days computed, and compare an aggregate of them with that of the events."""
    print_line(f"the stage's clock is set to {moved_to + AFTER_HOUR:%H:%M} UTC: the rollup {ROLLUP} can be computed")
    compute_hours(deployed)
    end = moved_to - timedelta(hours=1)
    start = (end - timedelta(days=_SUMMED_DAYS)).replace(hour=0)
    parameters = {
        "start": render_instant(start),
        "to": render_instant(end),
        "step": "1d",
        "by": "series",
        "stat": "count,avg,max",
    }
    by_rollup, by_events = (
        api.query("quakes", "aggregate", field="mag", rollups=rollups, **parameters) for rollups in ("true", "false")
    )
    count = sum(row["count"] for row in by_rollup.body["aggregates"])
    expected = [event for event in events if render_instant(start) <= event["time"] < render_instant(end)]
    check_claim(count == len(expected), f"{count} earthquakes by day and network, as many as were sent")
    check_claim(
        by_rollup.body["aggregates"] == by_events.body["aggregates"],
        "the rollup's counts, means and maxima are those of the events",
    )
    check_claim(
        {source.get("rollup") for source in by_rollup.body["sources"]} == {ROLLUP}, "no event was read for them"
    )
    units = [float(answer.headers["tidetable-read-units"]) for answer in (by_rollup, by_events)]
    check_claim(units[0] < units[1], f"the rollup took {units[0]:g} read units, the events {units[1]:g}")


def compute_hours(deployed: Deployed) -> None:
    """Have all hours of the rollup computed. The earthquakes came late, so the hours that were sealed before are marked.

    A run by hand works on all that is due, beside the workers that the schedule wakes.
    """
    deadline = time.monotonic() + _ROLLUP_SECONDS
    while True:
        report = invoke_refresher(deployed)
        if (
            "skipped" not in report
            and report["finished"]
            and not (report["left_to_others"] or report["marks"] or report["lag_seconds"])
        ):
            break
        if time.monotonic() > deadline:
            raise RuntimeError(f"the hours were not computed: {report}")
        time.sleep(_PAUSE)
    print_line(f"{ROLLUP}: all hours since the oldest earthquake are computed")


def render_instant(instant: datetime) -> str:
    """An instant as the API takes it."""
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")


def show_expiry(deployed: Deployed, api: Api, events: Sequence[Event], now: datetime, code: Path) -> None:
    """Let the oldest period expire, and find its events again. ``code`` has pyarrow."""
    oldest = events[0]["time"][:10]
    expected = [event for event in events if event["time"][:10] == oldest]
    # The table is kept for 14 days after its end; a minute later the lifecycle finds it expired.
    later = datetime.fromisoformat(f"{oldest}T00:00:00+00:00") + timedelta(days=15, minutes=1)
    at = later.isoformat()
    print_line(f"as if it were {at[:16]}: period {oldest}, with {len(expected)} events, has been kept long enough")
    plan = invoke_lifecycle(deployed, at=at, dry_run=True)["actions"]
    planned = [
        action["period"]
        for action in plan
        if action["action"] in ("archive", "delete") and action["stream"] == "quakes"
    ]
    check_claim(has_expired(planned, oldest), "a dry run plans to archive it, and no period with newer events")
    changes = 0
    # Archived by the first run; deleted by the second, as its day of grace has passed by then.
    for _ in range(2):
        report = invoke_lifecycle(deployed, at=at)
        changes += len(report["actions"])
        if not report["healthy"]:
            raise RuntimeError(f"the lifecycle reported: {json.dumps(report, indent=2)}")
    start, end = f"{oldest}T00:00:00Z", (later - timedelta(days=14, minutes=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    with ThreadPoolExecutor(2) as pool:
        archived = pool.submit(lambda: list(api.walk_events("quakes", start=start, to=end, limit=50)))
        rows = pool.submit(count_parquet_rows, deployed, oldest, code)
        check_claim(
            not invoke_lifecycle(deployed, at=at)["actions"], f"{changes} changes made in two runs; a third: none"
        )
        show_periods(api)
        table = f"tidetable-local.quakes.{oldest}"
        tables = deployed.make_client("dynamodb").list_tables()["TableNames"]
        check_claim(table not in tables, f"table {table} is deleted")
        objects, count = rows.result()
        print("\n".join(objects))
        check_claim(count == len(expected), f"{count} rows of Parquet are in the archive")
        found = archived.result()
    check_claim(are_same(found, expected), "the deleted period's events still answer, equal to what was sent")
    answer = api.get("quakes", found[0]["ref"])
    check_claim(answer.status == 200 and answer.body["id"] == found[0]["id"], "and so do their refs")
    compare_streams(api, events, now)


def has_expired(periods: Sequence[str], oldest: str) -> bool:
    """Whether these are the period of the oldest event and none after it.

    The table of the day before is there for events that are seven days late; for a part of each day there is none of
    that day.
    """
    return oldest in periods and max(periods) == oldest


def count_parquet_rows(deployed: Deployed, period: str, code: Path) -> tuple[list[str], int]:
    """The objects of the period's archive, and how many rows their Parquet files have.

    ``code`` has pyarrow, which the demo does not install a second time.
    """
    sys.path.append(str(code))
    import pyarrow.parquet as pq

    s3, bucket = deployed.make_client("s3"), deployed.outputs["ArchiveBucket"]
    listed = s3.list_objects_v2(Bucket=bucket, Prefix=f"stream=quakes/period={period}/")["Contents"]
    bodies = [
        s3.get_object(Bucket=bucket, Key=stored["Key"])["Body"].read()
        for stored in listed
        if stored["Key"].endswith(".parquet")
    ]
    rows = sum(pq.ParquetFile(BytesIO(body)).metadata.num_rows for body in bodies)
    return [f"  s3://{bucket}/{stored['Key']}  {stored['Size']} bytes" for stored in listed], rows
