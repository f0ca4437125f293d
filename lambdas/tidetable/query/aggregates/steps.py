"""Steps of an aggregate: lengths of time, and days, weeks and months of the calendar of a zone."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from tidetable.durations import parse_length
from tidetable.rollup_model.cover import join_spans
from tidetable.times import EPOCH

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from tidetable.ports.rollups import Span

# ISO weeks begin on Mondays, the epoch on a Thursday.
_WEEK, _MONDAY = timedelta(days=7), EPOCH + timedelta(days=4)
_EARLIEST, _LATEST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
_FIRST_DAY, _FIRST_MONDAY = date(1970, 1, 1).toordinal(), date(1970, 1, 5).toordinal()
_MONTHS, _CALENDAR = "mo", ("d", "w", "mo")
_YEAR = 12
_MOST_MONTHS = 99_999
# A month has 28 days at the least.
_MONTH = timedelta(days=28)


class TimeStep(msgspec.Struct, frozen=True, array_like=True):
    """The step of an aggregate: either a ``length`` of time, or some ``days`` or some ``months`` of a calendar.

    Steps of the calendar follow the clocks of a zone: a day may have 23 or 25 hours. Lengths are counted from the epoch,
    whole weeks from a Monday. Days are counted from 1 January 1970, whole weeks from a Monday, and months from January.
    """

    length: timedelta = timedelta(0)
    days: int = 0
    months: int = 0

    @property
    def by_calendar(self) -> bool:
        return bool(self.days or self.months)

    @property
    def shortest(self) -> timedelta:
        """The least length of a step, without changes of the clocks."""
        return self.length + timedelta(days=self.days) + self.months * _MONTH

    def find_whole(self, at: datetime, zone: str) -> tuple[datetime, datetime]:
        """Return the start and the end of the step that holds an instant.

        An edge that no answer can have is the earliest or the latest instant of Python.
        """
        if self.by_calendar:
            from tidetable.zones import find_zone  # imported only for steps of the calendar

            return self._find_calendar(at, find_zone(zone or "UTC"))
        origin = _MONDAY if not self.length % _WEEK else EPOCH
        # Compute with times since the origin: the beginning of a step of thousands of years may be no valid instant.
        first = (at - origin) // self.length * self.length
        return _add(origin, first), _add(origin, first + self.length)

    def _find_calendar(self, at: datetime, zone: ZoneInfo) -> tuple[datetime, datetime]:
        number = self._number_of(at.astimezone(zone).date())
        start, end = self._begin(number, zone), self._begin(number + 1, zone)
        # Where the clocks go back over midnight, a date returns for a while after the next date has begun.
        while end <= at:
            number += 1
            start, end = end, self._begin(number + 1, zone)
        while at < start:
            number -= 1
            start, end = self._begin(number, zone), start
        return start, end

    def _number_of(self, day: date) -> int:
        if self.months:
            return ((day.year - 1970) * _YEAR + day.month - 1) // self.months
        return (day.toordinal() - self._origin) // self.days

    @property
    def _origin(self) -> int:
        return _FIRST_DAY if self.days % 7 else _FIRST_MONDAY

    def _begin(self, number: int, zone: ZoneInfo) -> datetime:
        from tidetable.zones import begin_day

        if not self.months:
            return begin_day(self._origin + number * self.days, zone)
        year, month = divmod(number * self.months, _YEAR)
        # Every instant lies within these years, in every zone.
        year = min(max(year + 1970, 1969), 9999)
        return begin_day(date(year, month + 1, 1).toordinal(), zone)


def parse_step(text: str, *, local: bool) -> TimeStep:
    """Read a step: a duration, weeks, or months such as ``1mo``; ValueError says what they look like.

    With ``local``, days and weeks are those of a zone's calendar. Months always are.
    """
    count = text.removesuffix(_MONTHS)
    if text.endswith(_MONTHS) and count.isascii() and count.isdigit() and 0 < int(count[:9]) <= _MOST_MONTHS:
        return TimeStep(months=int(count))
    try:
        # Convert to a plain timedelta: a cursor cannot hold a subclass.
        length = timedelta(0) + parse_length(text)
    except ValueError as error:
        raise ValueError(f"{error}; or months, such as 1mo") from error
    if length < timedelta(seconds=1):
        raise ValueError("a step is one second at the least, such as 5m")
    return TimeStep(days=length.days) if local and text.endswith(_CALENDAR) else TimeStep(length)


@lru_cache(maxsize=4)
def list_steps(step: TimeStep, zone: str, start: datetime, end: datetime) -> tuple[Span, ...]:
    """List the whole steps of a calendar that hold instants of a range."""
    steps, at = [], start
    while at < end:
        steps.append(step.find_whole(at, zone))
        at = steps[-1][1]
    return tuple(steps)


def find_fitting_spans(step: TimeStep, zone: str, start: datetime, end: datetime, every: timedelta) -> list[Span]:
    """Find the spans of a range whose steps begin and end where buckets of the length ``every`` do."""
    return join_spans(
        (first, last)
        for first, last in list_steps(step, zone, start, end)
        if not (first - EPOCH) % every and not (last - EPOCH) % every
    )


def _add(origin: datetime, length: timedelta) -> datetime:
    try:
        return origin + length
    except OverflowError:
        return _EARLIEST if length < timedelta(0) else _LATEST
