"""Periods: half-open UTC intervals stepped by the calendar, and the labels that name them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from functools import lru_cache

import msgspec

from tidetable.errors import InvalidName
from tidetable.times import to_text

_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)
_WEEK = timedelta(days=7)


class Kind(StrEnum):
    """The length of a period: an hour, a day, an ISO week or a calendar month."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


# The greatest length of each kind: the period that holds an instant begins at most this time before the instant.
LONGEST: dict[Kind, timedelta] = {
    Kind.HOUR: _HOUR,
    Kind.DAY: _DAY,
    Kind.WEEK: _WEEK,
    Kind.MONTH: timedelta(days=31),
}

_FORMATS = {Kind.HOUR: "%Y-%m-%dT%H", Kind.DAY: "%Y-%m-%d", Kind.WEEK: "%G-W%V", Kind.MONTH: "%Y-%m"}


class Period(msgspec.Struct, frozen=True, order=True):
    """The interval ``[start, end)``.

    ``find_containing`` and ``parse_label`` make it, so it is always a whole period of its kind.
    """

    start: datetime
    kind: Kind

    @property
    def end(self) -> datetime:
        return _shift_start(self.start, self.kind, 1)

    @property
    def label(self) -> str:
        """The period's name: ``2026-01-31T13``, ``2026-01-31``, ``2026-W05`` or ``2026-01``."""
        return self.start.strftime(_FORMATS[self.kind])

    def shift(self, count: int) -> Period:
        """Return the period ``count`` whole periods later; earlier if ``count`` is negative."""
        return Period(_shift_start(self.start, self.kind, count), self.kind)

    def count_until(self, later: Period) -> int:
        """Return the number of periods from this period to a later period of its kind: the inverse of ``shift``."""
        if self.kind is Kind.MONTH:
            return (later.start.year - self.start.year) * 12 + later.start.month - self.start.month
        return (later.start - self.start) // LONGEST[self.kind]

    def overlaps(self, other: Period) -> bool:
        return self.start < other.end and other.start < self.end

    def __contains__(self, instant: datetime) -> bool:
        return self.start <= instant < self.end


@lru_cache(256)
def show_bounds(period: Period) -> tuple[str, str, str]:
    """Return the start and the end of a period as texts, and its label."""
    return to_text(period.start), to_text(period.end), period.label


def find_containing(instant: datetime, kind: Kind) -> Period:
    """Find the period of a kind that contains the instant."""
    utc = instant.astimezone(UTC)
    if kind is Kind.HOUR:
        return Period(utc.replace(minute=0, second=0, microsecond=0), kind)
    midnight = utc.replace(hour=0, minute=0, second=0, microsecond=0)
    if kind is Kind.WEEK:
        return Period(midnight - midnight.weekday() * _DAY, kind)
    return Period(midnight.replace(day=1) if kind is Kind.MONTH else midnight, kind)


_LABELS: dict[Kind, re.Pattern[str]] = {
    Kind.HOUR: re.compile(r"\d{4}-\d\d-\d\dT\d\d", re.ASCII),
    Kind.DAY: re.compile(r"\d{4}-\d\d-\d\d", re.ASCII),
    Kind.WEEK: re.compile(r"(\d{4})-W(\d\d)", re.ASCII),
    Kind.MONTH: re.compile(r"\d{4}-\d\d", re.ASCII),
}


def parse_label(label: str) -> Period:
    """Return the period of a label. The label's form tells the kind. InvalidName if no period has this label."""
    for kind, pattern in _LABELS.items():
        match = pattern.fullmatch(label)
        if match is None:
            continue
        try:
            if kind is Kind.WEEK:
                day = date.fromisocalendar(int(match[1]), int(match[2]), 1)
                start = datetime(day.year, day.month, day.day, tzinfo=UTC)
            else:
                start = datetime.fromisoformat(f"{label}-01" if kind is Kind.MONTH else label).replace(tzinfo=UTC)
        except ValueError as error:
            raise InvalidName(f"{label!r} is not a period: {error}") from error
        return Period(start, kind)
    raise InvalidName(f"{label[:40]!r} is not a period: write such as 2026-01-31T13, 2026-01-31, 2026-W05 or 2026-01")


@lru_cache(1024)
def _shift_start(start: datetime, kind: Kind, count: int) -> datetime:
    if kind is Kind.MONTH:
        months = start.year * 12 + start.month - 1 + count
        return start.replace(year=months // 12, month=months % 12 + 1)
    return start + count * LONGEST[kind]
