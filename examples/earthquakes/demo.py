"""`make demo`: the whole pipeline on this machine.

Every printed claim was checked; the first claim that fails ends the demo.
"""

from __future__ import annotations

import argparse
import gzip
import json
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from examples.earthquakes.data import earthquakes
from local import ENGINES, Deployed, Emulator, deploy
from local.emulator import REGION, ROOT, clean_environment, clock_can_move
from local.http import Api, invoke_lifecycle, invoke_refresher
from local.keep import remember, stop
from local.stack import aws_client
from local.up import describe_stage, read_config

Event = dict[str, Any]
_BATCH = 500
# The least factor by which packs must save write units, for these events and batches.
_PACKS_SAVE = 10
STREAMS = ("quakes", "stations")
# The same earthquakes again, many in one item. The stream is added unless the configuration has a stream of this name.
PACKED = "packed"
PACKED_STREAM = """
[streams.packed]
period = "day"
late = "7d"
retention = 14
key = { partition_by = "time", bucket = "24h" }
pack = { span = "1d" }
"""
# Where the changes of that stream go. DynamoDB Local under the stage has no way to the emulator's functions.
CHANGES = "changes"
FEED = f'feed = {{ targets = ["arn:aws:sqs:{REGION}:000000000000:{CHANGES}"] }}\n'
_FEED_SECONDS = 120
# Aggregates of the earthquakes, by hour and network, unless the configuration has rollups of its own.
ROLLUP = "quakes-hours"
ROLLUP_OF_QUAKES = """
[[streams.quakes.rollup]]
name = "hours"
every = "1h"
by = ["series"]
fields = ["mag"]
retention = "730d"
"""
# Past hours are computed when the rollup's first hour has begun, and no late event of before can be on its way.
_BEGUN_FOR = timedelta(minutes=4)
_SUMMED_DAYS = 6
_BEGUN = time.monotonic()


def say(text: str) -> None:
    """Print a line with the elapsed time."""
    print(f"[{time.monotonic() - _BEGUN:5.1f} s] {text}", flush=True)


def check(holds: bool, what: str) -> None:
    """End the demo unless a claim holds."""
    if not holds:
        sys.exit(f"FAILED: {what}")
    say(f"ok: {what}")


def main() -> None:
    """Run the demo; status 1 and a line that begins with FAILED if a check failed."""
    parser = argparse.ArgumentParser(description="Deploy the stack into a local AWS emulator and try all of it.")
    parser.add_argument("--keep", action="store_true", help="leave it up, whatever happens, and print commands to try")
    parser.add_argument("--config", type=Path, default=Path("tidetable.toml"), help="a configuration with its streams")
    parser.add_argument("--engine", choices=ENGINES, default="emulator", help="what keeps the tables")
    options = parser.parse_args()
    config = read_config(options.config)
    if missing := [name for name in STREAMS if name not in config.streams]:
        sys.exit(
            f"FAILED: the demo sends earthquakes to {' and '.join(STREAMS)}, and {options.config} has no {missing[0]!r}. "
            f"For a configuration of your own: make local CONFIG={options.config}"
        )
    folder = Path(tempfile.mkdtemp(prefix="tidetable-demo-"))
    feeds = options.engine == "emulator" and PACKED not in config.streams
    rolls = not config.streams["quakes"].rollup
    options.config = add_streams(
        options.config, folder, feed=FEED if feeds else "", rollup=ROLLUP_OF_QUAKES if rolls else ""
    )
    config = read_config(options.config)
    stop()
    emulator = Emulator(engine=options.engine, clock=clock_can_move())
    deployed: Deployed | None = None
    failure = ""
    try:
        say("starting the emulator")
        emulator.start()
        if feeds:
            make_queue(emulator.endpoint)
        deployed = deploy(emulator, say, config=options.config)
        say("deployed")
        run(emulator, deployed, Api(deployed), feeds=feeds, rolls=rolls)
    except (RuntimeError, SystemExit) as error:
        failure = str(error).removeprefix("FAILED: ")
    except Exception as error:
        traceback.print_exc()
        failure = f"{type(error).__name__}: {error}"
    finally:
        kept = options.keep and bool(emulator.pids)
        if kept:
            remember(emulator)
        else:
            emulator.stop()
            shutil.rmtree(folder)
    if failure:
        print(f"FAILED: {failure}", file=sys.stderr, flush=True)
    if kept and deployed is not None:
        print(describe_stage(emulator, deployed, options.config, config))
        print_commands(deployed)
    elif kept:
        print(f"The emulator is still up at {emulator.endpoint}; its log: {emulator.log}. `make stop` ends it.")
    if failure:
        sys.exit(1)
    say("done")


def make_queue(endpoint: str) -> None:
    """Make the queue that a feed delivers to, which must be there before the feed."""
    aws_client(endpoint, "sqs").create_queue(QueueName=CHANGES)


def add_streams(config: Path, folder: Path, *, feed: str = "", rollup: str = "") -> Path:
    """A configuration with a stream in packs, and perhaps its feed and a rollup: this file, or an extended copy in the folder."""
    more = ("" if PACKED in read_config(config).streams else PACKED_STREAM + feed) + rollup
    if not more:
        return config
    copy = folder / "tidetable.toml"
    copy.write_text(config.read_text(encoding="utf-8") + more, encoding="utf-8")
    return copy


def run(emulator: Emulator, deployed: Deployed, api: Api, *, feeds: bool, rolls: bool) -> None:
    """Show everything, in order."""
    now = datetime.now(UTC)
    sent = earthquakes(now)
    if rolls:
        # The run of the schedule would come within a minute: this run decides when the rollup begins.
        invoke_refresher(deployed)
    units = {}
    for stream in (*STREAMS, PACKED):
        stored, units[stream] = send(api, stream, sent)
        check(stored, f"{len(sent)} earthquakes of the last 7 days stored in {stream}: {units[stream]:g} write units")
    each = units["quakes"] / units[PACKED]
    check(
        each > _PACKS_SAVE, f"packs took a {each:.0f}th of the write units: {units[PACKED] / len(sent):.3f} per event"
    )
    if feeds:
        show_feed(deployed, sent)
    compare(api, sent, now)
    report = invoke_lifecycle(deployed)
    check(report["healthy"] and not report["actions"], "the lifecycle has nothing to do right after the deploy")
    show_periods(api)
    show_newest(api, sent)
    if rolls and clock_can_move():
        show_rollup(emulator, deployed, api, sent)
    elif rolls:
        say(
            f"no aggregates from {ROLLUP}: it begins with the next hour, and this machine cannot move the stage's clock"
        )
    expire(deployed, api, sent, now)


def send(api: Api, stream: str, events: Sequence[Event]) -> tuple[bool, float]:
    """Send in batches, the first as gzip'd NDJSON. Returns whether every event was stored, and the consumed write units."""
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
    return stored == len(events), units


def compare(api: Api, sent: Sequence[Event], now: datetime) -> None:
    """Read both streams back and compare them with the sent events."""
    start = (now - timedelta(days=8)).isoformat().replace("+00:00", "Z")
    whole = list(api.walk("quakes", start=start, limit=400))
    check(same(whole, sent), f"{len(whole)} events read back from quakes, newest first, equal to what was sent")
    packed = list(api.walk(PACKED, start=start, limit=400))
    check(same(packed, sent), f"{len(packed)} events read back from {PACKED}, equal to what quakes answers")
    networks = sorted({event["series"] for event in sent})
    count = 0
    for network in networks:
        mine = [event for event in sent if event["series"] == network]
        answer = list(api.walk("stations", start=start, series=network, limit=400))
        if not same(answer, mine):
            raise RuntimeError(f"series {network} of stations differs from what was sent")
        count += len(answer)
    check(count == len(sent), f"{count} events read back from stations, one series of {len(networks)} at a time")


def same(answered: Sequence[Event], sent: Sequence[Event]) -> bool:
    """Whether an answer has exactly the sent events, newest first."""
    plain = [{name: event[name] for name in ("series", "time", "id", "data")} for event in answered]
    expected = sorted(sent, key=lambda event: (event["time"], event["series"], event["id"]), reverse=True)
    for actual, event in zip(plain, expected, strict=False):
        if actual != event:
            print(f"  answered {actual}\n  sent     {event}")
            return False
    return len(plain) == len(expected)


def show_feed(deployed: Deployed, sent: Sequence[Event]) -> None:
    """Receive the changes of the packed stream from its queue, and compare them with the sent events."""
    queues = deployed.client("sqs")
    url = queues.get_queue_url(QueueName=CHANGES)["QueueUrl"]
    changes: dict[str, Event] = {}
    deadline = time.monotonic() + _FEED_SECONDS
    while len(changes) < len(sent) and time.monotonic() < deadline:
        for message in queues.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1).get(
            "Messages", []
        ):
            change = json.loads(message["Body"])
            changes[change["id"]] = {name: change[name] for name in ("series", "time", "id", "data")}
            queues.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    expected = {event["id"]: event for event in sent}
    check(
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


def show_newest(api: Api, sent: Sequence[Event]) -> None:
    """Query the last hours, and get one event by its ref."""
    answer = api.query("quakes", start="-6h", limit=5)
    check(answer.status == 200 and len(answer.body["events"]) == 5, "the newest five of the last six hours:")
    for event in answer.body["events"]:
        print(f"  {event['time'][:19]}  M {event['data']['mag']:<5} {event['data']['place']}")
    first = answer.body["events"][0]
    answer = api.get("quakes", first["ref"])
    check(
        answer.status == 200 and answer.body["id"] == sent[-1]["id"] == first["id"],
        f"its ref finds {first['id']} alone",
    )


def show_rollup(emulator: Emulator, deployed: Deployed, api: Api, sent: Sequence[Event]) -> None:
    """Have the hours of the last days computed, and compare an aggregate of them with that of the events."""
    begins = datetime.fromisoformat(invoke_refresher(deployed, status="quakes")["rollups"][0]["start"])
    later = begins + _BEGUN_FOR
    emulator.move_clock(later - datetime.now(UTC))
    say(f"the stage's clock is set to {later:%H:%M} UTC: the rollup {ROLLUP} has begun")
    # The earthquakes came late, so their hours are marked. A run removes marks that no writer can need any more.
    while invoke_refresher(deployed).get("skipped"):
        time.sleep(1)
    end = begins - timedelta(hours=1)
    start = (end - timedelta(days=_SUMMED_DAYS)).replace(hour=0)
    words = ["rollup", "quakes", "--rebuild", "--from", to_text(start), "--to", to_text(end)]
    print(f"  bin/tidetable {' '.join(words)}")
    environment = clean_environment() | deployed.environment | emulator.time_environment
    command = [str(ROOT / "bin" / "tidetable"), *words]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise RuntimeError(f"the rebuild failed: {done.stdout}{done.stderr}")
    say(done.stdout.strip().splitlines()[-1])
    asked = {"start": to_text(start), "to": to_text(end), "step": "1d", "by": "series", "stat": "count,avg,max"}
    rolled, read = (
        api.query("quakes", "aggregate", field="mag", rollups=rollups, **asked) for rollups in ("true", "false")
    )
    counted = sum(row["count"] for row in rolled.body["aggregates"])
    mine = [event for event in sent if to_text(start) <= event["time"] < to_text(end)]
    check(counted == len(mine), f"{counted} earthquakes by day and network, as many as were sent")
    check(
        rolled.body["aggregates"] == read.body["aggregates"],
        "the rollup's counts, means and maxima are those of the events",
    )
    check({source.get("rollup") for source in rolled.body["sources"]} == {ROLLUP}, "no event was read for them")
    units = [float(answer.headers["tidetable-read-units"]) for answer in (rolled, read)]
    check(units[0] < units[1], f"the rollup took {units[0]:g} read units, the events {units[1]:g}")


def to_text(instant: datetime) -> str:
    """An instant as the API takes it."""
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")


def expire(deployed: Deployed, api: Api, sent: Sequence[Event], now: datetime) -> None:
    """Let the oldest period expire, and find its events again."""
    oldest = sent[0]["time"][:10]
    mine = [event for event in sent if event["time"][:10] == oldest]
    # The table is kept for 14 days after its end; a minute later the lifecycle finds it expired.
    later = datetime.fromisoformat(f"{oldest}T00:00:00+00:00") + timedelta(days=15, minutes=1)
    at = later.isoformat()
    say(f"as if it were {at[:16]}: period {oldest}, with {len(mine)} events, has been kept long enough")
    plan = invoke_lifecycle(deployed, at=at, dry_run=True)["actions"]
    wanted = [
        action["period"]
        for action in plan
        if action["action"] in ("archive", "delete") and action["stream"] == "quakes"
    ]
    check(has_expired(wanted, oldest), "a dry run plans to archive it, and no period with newer events")
    changes = 0
    # Archived by the first run; deleted by the second, as its day of grace has passed by then.
    for _ in range(2):
        report = invoke_lifecycle(deployed, at=at)
        changes += len(report["actions"])
        if not report["healthy"]:
            raise RuntimeError(f"the lifecycle reported: {json.dumps(report, indent=2)}")
    check(not invoke_lifecycle(deployed, at=at)["actions"], f"{changes} changes made in two runs; a third: none")
    show_periods(api)
    table = f"tidetable-local.quakes.{oldest}"
    tables = deployed.client("dynamodb").list_tables()["TableNames"]
    check(table not in tables, f"table {table} is deleted")
    check(parquet_rows(deployed, oldest) == len(mine), f"{len(mine)} rows of Parquet are in the archive")
    start, end = f"{oldest}T00:00:00Z", (later - timedelta(days=14, minutes=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    archived = list(api.walk("quakes", start=start, to=end, limit=50))
    check(same(archived, mine), "the deleted period's events still answer, equal to what was sent")
    answer = api.get("quakes", archived[0]["ref"])
    check(answer.status == 200 and answer.body["id"] == archived[0]["id"], "and so do their refs")
    compare(api, sent, now)


def has_expired(periods: Sequence[str], oldest: str) -> bool:
    """Whether these are the period of the oldest event and none after it.

    The table of the day before is there for events that are seven days late; for a part of each day there is none of
    that day.
    """
    return oldest in periods and max(periods) == oldest


def parquet_rows(deployed: Deployed, period: str) -> int:
    """How many rows the period's Parquet files have."""
    s3, bucket = deployed.client("s3"), deployed.outputs["ArchiveBucket"]
    listed = s3.list_objects_v2(Bucket=bucket, Prefix=f"stream=quakes/period={period}/")["Contents"]
    rows = 0
    for stored in listed:
        print(f"  s3://{bucket}/{stored['Key']}  {stored['Size']} bytes")
        if stored["Key"].endswith(".parquet"):
            body = s3.get_object(Bucket=bucket, Key=stored["Key"])["Body"].read()
            rows += pq.ParquetFile(BytesIO(body)).metadata.num_rows
    return rows


def print_commands(deployed: Deployed) -> None:
    """Lines to paste into a shell."""
    curl = f"curl -s -H 'x-api-key: {deployed.key}'"
    base = f"{deployed.api}/v1/streams"
    print("\nThe lifecycle was run as if it were eight days later: older days are closed, one is archived. Try:")
    print(f"  {curl} '{deployed.api}/v1/health'")
    print(f"  {curl} '{base}/quakes/events?from=-6h&limit=3'")
    print(f"  {curl} '{base}/stations/events?series=ci&from=-7d&order=asc&limit=3'")
    print(f"  {curl} '{base}/quakes/aggregate?from=-6d&step=1d&by=series&stat=count,max&field=mag'")
    print(f"  {curl} '{base}/quakes/periods'")


if __name__ == "__main__":
    main()
