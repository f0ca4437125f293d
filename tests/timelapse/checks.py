"""The checks while a stage lives: capacity and class by age, every deletion, and that every expired table is deleted in
time.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from aws.zstd import Zstd
from strict.refusals import Refusal
from strict.tables import Table
from tests.fakes.stage import CATALOG, ROLLUPS, STAGE, Stage
from tests.timelapse.sent import Sent
from tests.timelapse.vocabulary import GRACE, LATE_SETTLE, SETTLE, STAGGER, Policy, Span, Step, derive_rollups, span_of
from tidetable.config import Stream
from tidetable.errors import StoreUnavailable
from tidetable.layout.text import escape
from tidetable.packs import decode_body
from tidetable.query import Reader, parse_query, run_query
from tidetable.times import to_text

PREFIX = f"tidetable-{STAGE}."
PARTS = ".parts"
# After a run some changes still take up to a minute.
MOMENT = timedelta(minutes=2)
# AWS: the records of a change stream can be read for 24 hours, also after its table was deleted.
RECORDS = timedelta(hours=24)
# An expired table is archived and deleted within this time, if nothing fails.
PROMPTLY = timedelta(hours=1)
PAGE = "1000"


def walk(stage: Stage, policy: Stream, reader: Reader, **parameters: str) -> Iterator[dict[str, Any]]:
    """Yield every event of a query, page by page. If a table has too few read units, the query is repeated a minute later."""
    asked = {name.rstrip("_"): [value] for name, value in parameters.items()}
    while True:
        query = parse_query(policy, asked, stage.clock.now(), reader.seal)
        try:
            answer = run_query(query, policy, reader, stage.clock.now(), lambda: 1000.0)
        except StoreUnavailable as error:
            if error.code != "ProvisionedThroughputExceededException":
                raise
            stage.clock.sleep(60)
            continue
        document: Any = answer.document()
        yield from document["events"]
        if document["next"] is None:
            return
        asked = {"cursor": [document["next"]], "limit": [PAGE]}


class Checks:
    """Compares the stage with its expected state; each difference is a complaint.

    ``kept`` has the end of each restored period by stream and label. ``opened`` has the end of each backfill by stream and
    range. ``deletes`` says whether deletions are switched on.
    """

    def __init__(self, stage: Stage, settings: dict[str, Policy], outcomes: Counter[str]) -> None:
        self.stage = stage
        self.settings = settings
        self.outcomes = outcomes
        self.complaints: list[str] = []
        self.kept: dict[tuple[str, str], datetime] = {}
        self.opened: dict[tuple[str, tuple[datetime, datetime]], datetime] = {}
        self.deletes = True
        # The last policy of every stream; the tables that a run may have moved to the cheap class, or may have found expired.
        self._last = self._policies()
        self._aged: set[str] = set()
        self._expired: set[str] = set()
        self._cheap: set[str] = set()
        # How often in succession a feed's table or mapping was wrong after a run without failures, and since when.
        self._wrong: dict[str, tuple[int, datetime]] = {}
        self.call = stage.dynamo.call
        stage.dynamo.call = self._watched  # type: ignore[method-assign]

    def _policies(self) -> dict[str, Policy]:
        """The policies of the configured streams, and of those that their rollups are."""
        return self.settings | derive_rollups(self.settings)

    def complain(self, what: str) -> None:
        """Note a difference with the time."""
        self.complaints.append(f"{to_text(self.stage.clock.now())}: {what}")

    def tables(self) -> Iterator[tuple[str, str, Table]]:
        """The stream, the label and the table of every existing period table."""
        self.stage.dynamo.account.settle()
        for name, table in sorted(self.stage.dynamo.account.tables.items()):
            if name not in (CATALOG, ROLLUPS) and not name.endswith(PARTS):
                stream, label = name.removeprefix(PREFIX).split(".")
                yield stream, label, table

    def note_ages(self) -> None:
        """Before a run, note which tables it may move to the cheap class or archive. A later policy cannot undo that."""
        policies = self._policies()
        self._last |= policies
        now = self.stage.clock.now() + MOMENT
        for stream, label, table in self.tables():
            policy, span, name = policies.get(stream), span_of(label), table.name
            if policy is None or now <= span.end:
                continue
            if name not in self._aged and span.age(policy.late, now) >= policy.cheap_from():
                self._aged.add(name)
            if now > policy.expires(span):
                self._expired.add(name)

    def check_ladder(self) -> None:
        """Compare each table with the ladder's step for its age, after a run without failures."""
        self.outcomes["ladder checked"] += 1
        self.stage.clock.sleep(61)
        now, policies = self.stage.clock.now(), self._policies()
        for stream, label, table in self.tables():
            policy, span = policies.get(stream), span_of(label)
            if policy is None or table.name in self._expired or self._is_open(stream, span, now):
                continue
            if now <= policy.expires(span) and not self._is_near_an_edge(policy, span, now):
                self._check_level(policy, span, table, now)

    def check_feeds(self) -> None:
        """Compare the mappings with the tables, after a run without failures.

        A change that is under way is left to the next run, and a mapping that was deleted by hand to the next look, after
        an hour: three runs in succession, over more than an hour, may not find the same difference.
        """
        mapped = {mapping.source: mapping for mapping in self.stage.mappings.list() if mapping.state != "Deleting"}
        wrong, streams = set(mapped), set[str]()
        now = self.stage.clock.now()
        for stream, label, table in self.tables():
            policy, span = self.settings.get(stream), span_of(label)
            if policy is None or not policy.feed:
                continue
            source = str(table.describe(now, frozenset()).get("LatestStreamArn", ""))
            wrong.discard(source)
            if now <= span.end + policy.late and (source not in mapped or mapped[source].state == "Disabled"):
                wrong.add(table.name)
            elif source in mapped:
                streams.add(stream)
        wrong -= {source for source in wrong & set(mapped) if self._may_have_records(source, now)}
        former = {what: self._wrong.get(what, (0, now)) for what in wrong}
        self._wrong = {what: (times + 1, since) for what, (times, since) in former.items()}
        for what, (times, since) in self._wrong.items():
            if times >= 3 and now > since + timedelta(minutes=65):
                self.complain(f"{what} is a table without its mapping, or a mapping without its table")
        for stream in streams:
            self.outcomes[f"feed of {stream} checked"] += 1

    def _may_have_records(self, source: str, now: datetime) -> bool:
        """True if the change stream of a deleted table may have records: they came while the table took events."""
        stream, label = source.partition(PREFIX)[2].partition("/")[0].split(".")
        policy, span = self.settings.get(stream), span_of(label)
        if policy is None or not policy.feed:
            return False
        windows = [
            until
            for (name, (start, end)), until in self.opened.items()
            if name == stream and start < span.end and span.start < end
        ]
        return now <= max([span.end + policy.late, *windows]) + SETTLE + RECORDS

    def _is_open(self, stream: str, span: Span, now: datetime) -> bool:
        return any(
            name == stream and start < span.end and span.start < end and now < until + timedelta(hours=1)
            for (name, (start, end)), until in self.opened.items()
        )

    def _is_near_an_edge(self, policy: Policy, span: Span, now: datetime) -> bool:
        """Whether a table may have reached its step since the run, or the run may still change tables of its age."""
        age = span.age(policy.late, now)
        edges = [span.later(max(age - 1, 0)) + policy.late, span.later(age) + policy.late, span.end + LATE_SETTLE]
        if any(timedelta(0) <= now - edge <= STAGGER + MOMENT for edge in edges):
            return True
        return -STAGGER - MOMENT <= now - policy.rises(span) <= MOMENT

    def _check_level(self, policy: Policy, span: Span, table: Table, now: datetime) -> None:
        age = span.age(policy.late, now)
        step = policy.step(span, now)
        self.outcomes["lowered tables checked"] += step.late and age == 0
        if step.write is not None and now < policy.rises(span):
            step = Step(0, 1, 1)
        # A table in the cheap class stays there, even if a longer window makes it younger.
        if step.cheap:
            self._cheap.add(table.name)
        classes = {step.cheap or table.name in self._cheap}
        if table.name in self._aged - self._cheap:
            # It was old enough in an incomplete run, and a longer window has made it younger since.
            classes = {False, True}
        held = None if table.on_demand else table.write, None if table.on_demand else table.read
        units = {(step.write, step.read)}
        if policy.scaled is not None and age == 0 and step.write != 1 and not step.late:
            units = {(write, step.read) for write in range(policy.scaled[0], policy.scaled[1] + 1)}
        if held not in units or table.infrequent not in classes:
            self.complain(f"{table.name} of age {age} has {held}, {table.infrequent}, not {units}, {classes}")
        for index in table.indexes.values():
            if not table.on_demand and (index.write, index.read) != (step.write, step.read) and len(units) == 1:
                self.complain(f"{index.name} of age {age} has {index.write}, {index.read}, not {units}")
        self.outcomes["tables checked"] += 1

    def expires(self, stream: str, label: str) -> datetime:
        """The instant at which a table expires, by its stream's last policy, its restore and its backfill."""
        span = span_of(label)
        ends = [self._last[stream].expires(span)]
        ends += [self.kept[stream, label]] if (stream, label) in self.kept else []
        for (name, (start, end)), until in self.opened.items():
            if name == stream and start < span.end and span.start < end:
                ends.append(until + SETTLE)
        return max(ends)

    def check_expired(self) -> None:
        """Complain about each expired table that still exists, whatever its layout and the length of its period."""
        now = self.stage.clock.now()
        for stream, label, table in self.tables():
            if now > self.expires(stream, label) + GRACE + PROMPTLY:
                self.complain(f"{table.name} expired at {to_text(self.expires(stream, label))} and is still there")
        there = set(self.stage.dynamo.account.tables)
        for name in there:
            if name.endswith(PARTS) and name.removesuffix(PARTS) not in there:
                self.complain(f"{name} is left without its table")

    def check_span(self, sent: Sent, policy: Stream, label: str) -> None:
        """Compare a period's events, found by a query of its series, with the sent events."""
        span = span_of(label)
        self.stage.clock.sleep(5)
        start, end = to_text(span.start), to_text(span.end)
        faults, self.stage.dynamo.faults.active = self.stage.dynamo.faults.active, []
        found: list[dict[str, Any]] = []
        for series in sorted({name_event["series"] for name_event in _events(sent, policy.name, start, end)}):
            asked = {"from_": start, "to": end, "series": series, "fields": "*", "limit": PAGE}
            found += walk(self.stage, policy, self.stage.reader(), **asked)
        self.stage.dynamo.faults.active = faults
        for problem in sent.differences(policy.name, found, start, end):
            self.complain(f"restored {policy.name} {label}: {problem}")
        self.outcomes["restored events"] += len(found)

    def _watched(self, operation: str, payload: Any) -> Any:
        """Pass on every call; check a deletion when it is requested."""
        if operation == "DeleteTable":
            self._check_deletion(payload["TableName"])
        try:
            return self.call(operation, payload)
        except Refusal as refusal:
            self.outcomes[f"{operation} {refusal.code}"] += 1
            if (
                refusal.code == "ValidationException"
                or "decreases" in refusal.message
                or "Table class" in refusal.message
            ):
                self.complain(f"{operation}: {refusal}")
            if refusal.code == "ResourceNotFoundException" and operation == "BatchWriteItem":
                self.complain(f"written to {set(payload['RequestItems'])}, not there")
            raise

    def _check_deletion(self, name: str) -> None:
        account, bucket = self.stage.dynamo.account, self.stage.bucket
        table = account.tables.get(name)
        if table is None or table.status == "DELETING":
            return
        owner = name.removesuffix(PARTS)
        stream, label = owner.removeprefix(PREFIX).split(".")
        if not self.deletes:
            self.complain(f"{name} is deleted while deletions are switched off")
        if self.stage.clock.now() < self.expires(stream, label):
            self.complain(f"{name} is to be deleted before {to_text(self.expires(stream, label))}")
        if self._last[stream].on_expiry == "delete":
            self.outcomes["deletions without archive"] += 1
            return
        entries = account.engine.call("Scan", {"TableName": CATALOG, "ConsistentRead": True})["Items"]
        entry = next(entry for entry in entries if entry.get("table", {}).get("S") == owner)
        if entry["state"]["S"] != "archived":
            self.complain(f"{name} is to be deleted while its entry is {entry['state']['S']}")
            return
        manifest = json.loads(bucket.objects[entry["archive"]["M"]["manifest"]["S"]])
        if owner in account.tables:
            held = account.engine.call("Scan", {"TableName": owner, "ConsistentRead": True})["Items"]
            if manifest["events"] != _count(held):
                self.complain(f"{name} holds {_count(held)} events, its archive {manifest['events']}")
        self.outcomes["deletions checked"] += 1


def _count(items: list[dict[str, Any]]) -> int:
    """The number of events in items. Several packs may hold the same event."""
    bodies = [item["pack"]["B"] for item in items if "pack" in item]
    if not bodies:
        return len(items)
    columns = [decode_body(Zstd().expand(bytes(body))) for body in bodies]
    packed = {
        name
        for column in columns
        for name in zip(column.times, map(escape, column.series), map(escape, column.ids), strict=True)
    }
    # A stream in packs is partitioned by time here.
    return len(packed | {tuple(item["sk"]["S"].split("#")) for item in items if "pack" not in item})


def _events(sent: Sent, stream: str, start: str, end: str) -> Iterator[dict[str, Any]]:
    return (sent.sendings[name][0].event for name in sent.promised(stream, start, end))
