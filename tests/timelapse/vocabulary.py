"""The meaning of the configuration, implemented independently of the code under test: periods, ages, capacity, expiry."""

from __future__ import annotations

import calendar
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache

AHEAD = timedelta(minutes=5)
# A table has its units this long before its first event may come.
RAISE_AHEAD = timedelta(minutes=15)
# A closed table is not archived before this time has passed, because writes may still be in progress.
SETTLE = timedelta(minutes=15)
# After its period's end a table keeps its units for this time. Then it is lowered if the ladder has a step for late events.
LATE_SETTLE = timedelta(minutes=15)
STAGGER = timedelta(minutes=4)
GRACE = timedelta(hours=3)


@dataclass(frozen=True)
class Span:
    """A period: ``[start, end)``, and the length of its kind (None: a month)."""

    start: datetime
    end: datetime
    length: timedelta | None

    def holds(self, time: str) -> bool:
        """Whether the period has the instant of a text."""
        return self.start <= datetime.fromisoformat(time) < self.end

    def later(self, count: int) -> datetime:
        """The end of the period that is a number of periods later."""
        if self.length is not None:
            return self.end + count * self.length
        end = self.end
        for _ in range(count):
            end += timedelta(days=calendar.monthrange(end.year, end.month)[1])
        return end

    def age(self, late: timedelta, now: datetime) -> int:
        """One more than the whole periods since the table closed; 0 while it takes events."""
        age = 0
        while now - late > self.later(age):
            age += 1
        return age


@cache
def span_of(label: str) -> Span:
    """The period of a label: 2026-01-31T13, 2026-01-31, 2026-W05 or 2026-01."""
    if "W" in label:
        day = date.fromisocalendar(int(label[:4]), int(label[6:]), 1)
        start, length = datetime(day.year, day.month, day.day, tzinfo=UTC), timedelta(days=7)
        return Span(start, start + length, length)
    if len(label) == len("2026-01"):
        year, month = int(label[:4]), int(label[5:])
        start = datetime(year, month, 1, tzinfo=UTC)
        return Span(start, start + timedelta(days=calendar.monthrange(year, month)[1]), None)
    length = timedelta(hours=1) if "T" in label else timedelta(days=1)
    start = datetime.fromisoformat(label + (":00" if "T" in label else "")).replace(tzinfo=UTC)
    return Span(start, start + length, length)


@dataclass(frozen=True)
class Step:
    """A step of the ladder; without units the table is on demand. ``cheap`` is the class infrequent-access.

    ``late`` is the step between the period's end and the closing, which has age 0.
    """

    age: int
    write: int | None = None
    read: int | None = None
    cheap: bool = False
    late: bool = False

    @property
    def toml(self) -> str:
        age = '"late"' if self.late else self.age
        units = f", write = {self.write}, read = {self.read}" if self.write is not None else ""
        cheap = ', class = "infrequent-access"' if self.cheap else ""
        return f"{{ age = {age}{units}{cheap} }}"


@dataclass(frozen=True)
class Rollup:
    """A rollup of a stream. Its tables are kept for so many whole periods after their own, which ``retention`` says in days."""

    name: str
    every: timedelta
    by: tuple[str, ...]
    fields: tuple[str, ...]
    stats: tuple[str, ...]
    period: str
    retention: int
    periods: int

    @property
    def toml(self) -> str:
        by, fields, stats = (json.dumps(value) for value in (self.by, self.fields, self.stats))
        return f"""
        [[streams.{{name}}.rollup]]
        name = "{self.name}"
        every = "{int(self.every.total_seconds()) // 60}m"
        by = {by}
        fields = {fields}
        stats = {stats}
        period = "{self.period}"
        retention = "{self.retention}d"
        """


@dataclass(frozen=True)
class Policy:
    """The settings of a stream that the course changes or the checks need."""

    period: str
    late: timedelta
    retention: int
    key: str
    ladder: tuple[Step, ...]
    indexed: bool = False
    scaled: tuple[int, int] | None = None
    protected: bool = False
    versions: bool = False
    cold: bool = False
    beyond: str = "refuse"
    span: str = ""
    feed: bool = False
    on_expiry: str = "archive"
    rollups: tuple[Rollup, ...] = ()

    def toml(self, name: str) -> str:
        """The stream's part of the configuration."""
        scaled = (
            f"autoscaling = {{ write = {{ min = {self.scaled[0]}, max = {self.scaled[1]} }} }}" if self.scaled else ""
        )
        index = f'[[streams.{name}.index]]\nname = "by_kind"\npartition_by = "kind"\nshards = 3' if self.indexed else ""
        versions, cold = "keep" if self.versions else "overwrite", '["raw"]' if self.cold else "[]"
        rollups = "".join(rollup.toml.replace("{name}", name) for rollup in self.rollups)
        compressed = "compress_above = 1024, " if self.beyond != "refuse" else ""
        pack = f'pack = {{ span = "{self.span}" }}' if self.span else ""
        feed = 'feed = { targets = ["arn:aws:sqs:us-east-1:000000000000:changes"] }' if self.feed else ""
        return f"""
        [streams.{name}]
        period = "{self.period}"
        late = "{int(self.late.total_seconds()) // 60}m"
        retention = {self.retention}
        on_expiry = "{self.on_expiry}"
        versions = "{versions}"
        cold = {cold}
        key = {{ {self.key} }}
        {pack}
        {feed}
        large = {{ {compressed}beyond = "{self.beyond}" }}
        table = {{ deletion_protection = {str(self.protected).lower()} }}
        {index}
        {rollups}
        [streams.{name}.capacity]
        mode = "{"on-demand" if self.ladder[0].write is None else "provisioned"}"
        {scaled}
        ladder = [{", ".join(step.toml for step in self.ladder)}]
        """

    def step(self, span: Span, now: datetime) -> Step:
        """The step in force for a period."""
        age, settled = span.age(self.late, now), now > span.end + LATE_SETTLE
        return [step for step in self.ladder if step.age <= age and (settled or age or not step.late)][-1]

    @property
    def lowers(self) -> bool:
        """Whether tables are lowered for late events."""
        return any(step.late for step in self.ladder)

    def cheap_from(self) -> int:
        """The age from which on a table is in the cheap class."""
        return next((step.age for step in self.ladder if step.cheap), 10**6)

    def rises(self, span: Span) -> datetime:
        """The latest instant at which a waiting table gets its units."""
        return span.start - AHEAD - RAISE_AHEAD

    def expires(self, span: Span) -> datetime:
        """The instant at which a table expires, unless it was restored or opened again."""
        return max(span.later(self.retention), span.end + self.late + SETTLE)


def derive_rollups(policies: Mapping[str, Policy]) -> dict[str, Policy]:
    """The streams that the rollups of streams are, by name: on demand, and open a day longer than the events may come."""
    return {
        f"{name}-{rollup.name}": Policy(
            rollup.period, policy.late + timedelta(days=1), rollup.periods, key="", ladder=(Step(0),)
        )
        for name, policy in policies.items()
        for rollup in policy.rollups
    }


def configuration(policies: dict[str, Policy], *, deletes: bool) -> str:
    """The configuration of these streams."""
    return f"""
    [lifecycle]
    delete_expired = {str(deletes).lower()}
    delete_grace = "{int(GRACE.total_seconds()) // 3600}h"
    stagger = "{int(STAGGER.total_seconds()) // 60}m"
    {"".join(policy.toml(name) for name, policy in policies.items())}
    """
