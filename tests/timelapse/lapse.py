"""Simulated days of traffic, faults and changes of the configuration, all decided by a seed."""

import json
import math
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from strict import Fault, Kind
from strict.refusals import Refusal
from tests.fakes.stage import CATALOG, Killed, Stage
from tidetable.config import parse
from tidetable.errors import StoreUnavailable
from tidetable.problems import ProblemError
from tidetable.times import to_text

# What an event may have in the field that is indexed later.
KINDS: list[dict[str, Any]] = [{}, {"kind": "calm"}, {"kind": "storm"}, {"kind": ["calm"]}]

START = datetime(2026, 2, 20, tzinfo=UTC)
STEP = timedelta(minutes=5)

HOURLY = {"late": "90m", "retention": 5, "shards": 4, "index": ""}
DAILY = {"period": "day", "late": "1d", "retention": 3}


def configuration(hourly: dict[str, Any], daily: dict[str, Any]) -> str:
    """Two streams: one by series in hourly tables with a ladder, one by time in daily tables on demand."""
    return f"""
    [lifecycle]
    delete_expired = true
    delete_grace = "3h"
    stagger = "0s"
    [streams.hourly]
    period = "hour"
    late = "{hourly["late"]}"
    retention = {hourly["retention"]}
    [streams.hourly.key]
    partition_by = "series"
    shards = {hourly["shards"]}
    {hourly["index"]}
    [streams.hourly.capacity]
    mode = "provisioned"
    ladder = [
        {{ age = 0, write = 2, read = 5 }},
        {{ age = 1, write = 1, read = 5 }},
        {{ age = 2, write = 1, read = 3, class = "infrequent-access" }},
    ]
    [streams.daily]
    period = "{daily["period"]}"
    late = "{daily["late"]}"
    retention = {daily["retention"]}
    [streams.daily.key]
    partition_by = "time"
    bucket = "1h"
    shards = 2
    [streams.daily.capacity]
    mode = "on-demand"
    ladder = [{{ age = 0 }}, {{ age = 1, class = "infrequent-access" }}]
    """


INDEX = """
    [[streams.hourly.index]]
    name = "by_kind"
    partition_by = "kind"
    shards = 3
"""
# What changes when, by day: more shards, an index, longer and shorter periods, another window, another retention.
CHANGES: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {
    15: ({"shards": 16}, {}),
    20: ({"index": INDEX}, {}),
    30: ({}, {"period": "hour", "retention": 30}),
    40: ({"late": "3h"}, {}),
    50: ({"retention": 8}, {"period": "day", "retention": 3}),
}

# No fault of the service looks like these.
BUGS = ("AssertionError", "AttributeError", "KeyError", "NotImplementedError", "TypeError", "ValueError")

# What is found to differ between what should be and what is.
Complaint = str


@dataclass
class Acknowledged:
    """What the API promised to have, by stream and id: the event as it was sent, and its ref unless it was queued."""

    events: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    refs: dict[tuple[str, str], str] = field(default_factory=dict)
    maybe: set[tuple[str, str]] = field(default_factory=set)


class Lapse:
    """One run from a seed."""

    def __init__(self, seed: int, days: int) -> None:
        self.days = days
        self._hourly, self._daily = dict(HOURLY), dict(DAILY)
        self.stage = Stage(START, configuration(self._hourly, self._daily), seed)
        self.sent = Acknowledged()
        self.outcomes: Counter[str] = Counter()
        self.complaints: list[Complaint] = []
        self._numbers = iter(range(10**9))
        self._asleep_until = START
        self._watch_deletions()

    def run(self) -> None:
        """Live through all days, then let what is queued be written."""
        stage = self.stage
        while stage.run_lifecycle().count("done") or not self._complete():
            stage.clock.sleep(5)
        end = START + timedelta(days=self.days)
        due = stage.clock.now()
        while stage.clock.now() < end:
            self._change_configuration()
            self._decide_faults()
            self._traffic()
            if stage.clock.now() >= self._asleep_until:
                self._lifecycle()
            stage.drain()
            due = max(due + STEP, stage.clock.now())
            stage.clock.time = due
        self._calm()

    def _complete(self) -> bool:
        return not self.stage.run_lifecycle().done

    def _calm(self) -> None:
        stage = self.stage
        stage.dynamo.faults.clear()
        stage.queue.refuses, stage.bucket_fails = False, 0.0
        for _ in range(2 * 288):
            self._lifecycle()
            stage.drain()
            stage.clock.sleep(STEP.total_seconds())
            if not stage.queue.messages:
                return

    def _change_configuration(self) -> None:
        day = (self.stage.clock.now() - START).days
        if day in CHANGES and f"change {day}" not in self.outcomes:
            self.outcomes[f"change {day}"] = 1
            hourly, daily = CHANGES[day]
            self._hourly |= hourly
            self._daily |= daily
            self.stage.config = parse(configuration(self._hourly, self._daily))

    def _decide_faults(self) -> None:
        """Most of the time a little goes wrong; now and then something is down for a while."""
        stage, chance = self.stage, self.stage.chance
        if stage.clock.now().minute >= STEP.seconds // 60:
            return
        stage.dynamo.faults.clear()
        stage.bucket_fails = chance.choice([0.0, 0.0, 0.05])
        stage.queue.refuses = chance.random() < 0.02
        for kind in (*Kind,):
            if chance.random() < 0.2 and kind is not Kind.GONE:
                stage.dynamo.faults.add(Fault(kind, probability=0.02, seconds=chance.uniform(0, 3)))
        if chance.random() < 0.02:
            # For some requests, not for some time: the clock stands still while a request is served.
            stage.dynamo.faults.add(Fault(Kind.GONE, times=chance.randint(5, 60)))
        if chance.random() < 0.02:
            # Within the time that tables are made ahead.
            self._asleep_until = stage.clock.now() + timedelta(minutes=chance.randint(10, 75))

    def _lifecycle(self) -> None:
        stage = self.stage
        killed = stage.chance.random() < 0.01
        stage.client.calls, stage.client.allowance = 0, stage.chance.randint(1, 40) if killed else None
        try:
            report = stage.run_lifecycle()
        except Killed:
            self.outcomes["lifecycle killed"] += 1
            return
        except (ClientError, BotoCoreError):
            self.outcomes["lifecycle failed"] += 1
            return
        finally:
            stage.client.allowance = None
        for one in report.done:
            self.outcomes[f"{one.action.name} {one.outcome}"] += 1
            if one.outcome == "failed" and one.detail.startswith(BUGS):
                self.complaints.append(one.detail)
        if report.healthy and not report.count("deferred") and not stage.dynamo.faults.active:
            self.outcomes["ladder checked"] += 1
            self._check_ladder()

    def _check_ladder(self) -> None:
        """What each table should have by its age, worked out anew from the vocabulary, not by the code under test."""
        stage = self.stage
        stage.clock.sleep(61)
        now = stage.clock.now()
        stream = stage.config.streams["hourly"]
        for entry in stage.catalog.entries("hourly", now - timedelta(days=1), consistent=True):
            table = stage.dynamo.account.tables.get(entry.table)
            if table is None or entry.state in ("archiving", "archived", "deleted"):
                continue
            closed = entry.period.end + stream.late
            if now > entry.period.shift(stream.retention).end:
                continue
            length = entry.period.end - entry.period.start
            age = 0 if now <= closed else 1 + int((now - closed) / length)
            stands_by = now < entry.period.start - stream.ahead - timedelta(minutes=15)
            expected = (1, 1, False) if stands_by else {0: (2, 5, False), 1: (1, 5, False)}.get(age, (1, 3, True))
            # A minute has passed since the run, so a table may just have come of age.
            edges = [closed + n * length for n in range(3)] + [
                entry.period.start - stream.ahead - timedelta(minutes=15)
            ]
            if any(timedelta(0) <= now - edge <= timedelta(minutes=2) for edge in edges):
                continue
            # Once in the cheap class a table stays there, whatever a longer window makes of its age.
            if table.class_changes:
                expected = (*expected[:2], True)
            if (table.write, table.read, table.infrequent) != expected:
                found = (table.write, table.read, table.infrequent)
                self.complaints.append(f"{to_text(now)}: {entry.table} of age {age} has {found}, not {expected}")

    def _traffic(self) -> None:
        """A tide over the day, a burst now and then, some events late, some requests sent twice."""
        chance, now = self.stage.chance, self.stage.clock.now()
        tide = 0.5 + 0.5 * math.sin(2 * math.pi * now.hour / 24)
        for stream, mean, late in (("hourly", 0.3, 80), ("daily", 0.2, 23 * 60)):
            count = int(chance.expovariate(1 / (2 * mean * tide + 0.01)))
            if chance.random() < 0.0003:
                count += chance.randint(500, 1000)
            if not count:
                continue
            events = [self._event(stream, now, late) for _ in range(count)]
            self._send(stream, events)
            if chance.random() < 0.05:
                self._send(stream, events)

    def _event(self, stream: str, now: datetime, late: int) -> dict[str, Any]:
        chance = self.stage.chance
        back = timedelta(minutes=chance.uniform(0, late) if chance.random() < 0.1 else chance.uniform(0, 3))
        number = next(self._numbers)
        return {
            "series": f"station/{chance.randint(1, 6)}#",
            "time": to_text(now - back),
            "id": f"{stream}-{number}",
            "data": {"n": number, "text": "~" * chance.choice([1, 50, 900]), **chance.choice(KINDS)},
        }

    def _send(self, stream: str, events: list[dict[str, Any]]) -> None:
        """As a client would: until it is acknowledged, a few times."""
        body = json.dumps(events).encode()
        keys = [(stream, str(event["id"])) for event in events]
        for _ in range(4):
            try:
                outcome = self.stage.send(stream, body)
            except ProblemError as refused:
                self.outcomes[f"refused {refused.problem.status}"] += 1
                if refused.problem.status == 422:
                    return
            except StoreUnavailable:
                self.outcomes["ingest failed"] += 1
            else:
                self._acknowledge(keys, events, outcome)
                return
            self.sent.maybe |= set(keys)
        self.outcomes["given up"] += 1

    def _acknowledge(self, keys: list[tuple[str, str]], events: list[dict[str, Any]], outcome: Any) -> None:
        rejected = {one.index for one in outcome.rejections}
        self.outcomes["acknowledged"] += outcome.accepted + outcome.queued
        self.outcomes["queued"] += outcome.queued
        self.outcomes["throttled"] += outcome.throttled
        self.outcomes["rejected"] += len(rejected)
        for index, (key, event) in enumerate(zip(keys, events, strict=True)):
            if index in rejected:
                continue
            self.sent.events[key] = event
            ref = outcome.refs[index]
            if ref is not None:
                self.sent.refs[key] = ref
            else:
                self.complaints.append(f"{to_text(self.stage.clock.now())}: no table was recorded for {event['time']}")

    def _watch_deletions(self) -> None:
        """Every deletion is checked at the moment at which it is asked for."""
        service, stage = self.stage.dynamo, self.stage
        call = service.call

        def watched(operation: str, payload: Any) -> Any:
            if operation == "DeleteTable":
                self._check_deletion(payload["TableName"])
            try:
                return call(operation, payload)
            except Refusal as refusal:
                self.outcomes[f"{operation} {refusal.code}"] += 1
                if "decreases" in refusal.message or "Table class" in refusal.message:
                    self.complaints.append(f"{to_text(stage.clock.now())}: {refusal}")
                missing = refusal.code == "ResourceNotFoundException" and operation == "BatchWriteItem"
                if missing:
                    self.complaints.append(
                        f"{to_text(stage.clock.now())}: written to {set(payload['RequestItems'])}, not there"
                    )
                raise

        service.call = watched  # type: ignore[method-assign]

    def _check_deletion(self, name: str) -> None:
        account, bucket = self.stage.dynamo.account, self.stage.bucket
        table = account.tables.get(name)
        if table is None or table.status == "DELETING":
            return
        entries = account.engine.call("Scan", {"TableName": CATALOG, "ConsistentRead": True})["Items"]
        entry = next(one for one in entries if one.get("table", {}).get("S") == name)
        if entry["state"]["S"] != "archived":
            self.complaints.append(f"{name} is to be deleted while its entry is {entry['state']['S']}")
            return
        manifest = json.loads(bucket.objects[entry["archive"]["M"]["manifest"]["S"]])
        held = account.engine.call("Scan", {"TableName": name, "ConsistentRead": True})["Items"]
        if manifest["events"] != len(held):
            self.complaints.append(f"{name} holds {len(held)} items, its archive {manifest['events']}")
        self.outcomes["deletions checked"] += 1
