"""Time zones: local times become instants and back, and local days have edges.

This module is imported only for a request with ``tz``. zoneinfo reads the zone data of the system; where the system has
none, it reads the package tzdata (docs/decisions/0177).
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta, timezone
from zoneinfo import ZoneInfo, available_timezones

from tidetable.errors import InvalidTime, UnknownZone
from tidetable.times import EPOCH, LATEST, MOMENT, parse_point

# A name of the IANA database. zoneinfo would open other files, too: `right/` counts leap seconds, and `localtime` is
# another zone on each machine.
_NAME = re.compile(
    r"(?!right/|posix/|(?:localtime|posixrules|Factory)$)[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){0,2}", re.ASCII
)
_MOST_LETTERS = 64
# A date, or a date and a time of day without an offset.
_LOCAL = re.compile(r"(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d:\d\d)(?::(\d\d)(?:\.(\d{1,30}))?)?)?", re.ASCII)
_SECOND, _MINUTE = timedelta(seconds=1), timedelta(minutes=1)
_DAYS = {"today": 0, "yesterday": 1}
# Every instant lies between the beginnings of these days, in every zone.
_FIRST_DAY, _LAST_DAY = date(1969, 12, 30).toordinal(), date(9999, 1, 2).toordinal()


def find_zone(name: str) -> ZoneInfo:
    """Find a zone by its name in the IANA database; UnknownZone otherwise."""
    if len(name) <= _MOST_LETTERS and _NAME.fullmatch(name):
        try:
            return ZoneInfo(name)
        except (LookupError, OSError, ValueError):
            pass  # there is no such file, or it is a folder such as `Europe`, or it is not a zone
    raise UnknownZone(f"{name[:_MOST_LETTERS]!r} is not a time zone{_suggest(name)}")


def _suggest(name: str) -> str:
    from difflib import get_close_matches  # only a refusal needs this import

    known = {zone.lower(): zone for zone in available_timezones() if _NAME.fullmatch(zone)}
    # Many know only the name of the city.
    cities = {zone.rpartition("/")[2]: zone for zone in sorted(known)}
    word = name[:_MOST_LETTERS].lower().replace(" ", "_")
    close = get_close_matches(word, known, 1, 0.75) or [
        cities[city] for city in get_close_matches(word, cities, 1, 0.8)
    ]
    form = "tz is a name of the IANA database, such as Europe/Berlin or UTC"
    return f"; did you mean {known[close[0]]}?" if close else f": {form}"


def resolve(wall: datetime, zone: ZoneInfo) -> datetime:
    """Return the instant at which the clocks of a zone show ``wall``, a time without a zone.

    If they show it twice, it is the first time. If they skip it, it is the instant of the jump.
    """
    first, second = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    if second >= first:
        return first
    # The clocks jump after ``second`` and not after ``first``. All jumps are at whole seconds.
    low, high = second.replace(microsecond=0), first.replace(microsecond=0)
    before = low.astimezone(zone).utcoffset()
    while high - low > _SECOND:
        middle = low + (high - low) // 2 // _SECOND * _SECOND
        low, high = (middle, high) if middle.astimezone(zone).utcoffset() == before else (low, middle)
    return high


def begin_day(ordinal: int, zone: ZoneInfo) -> datetime:
    """Return the instant at which a local day begins, by its number as in ``date.toordinal``.

    It is the beginning of the day for good: if the clocks go back over midnight and show the end of the day before once
    more, the day begins after that. A day that the clocks skip begins, and ends, at the jump.
    """
    wall = datetime.combine(date.fromordinal(min(max(ordinal, _FIRST_DAY), _LAST_DAY)), time())
    begin = resolve(wall, zone)
    again = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    if again > begin and (again - MOMENT).astimezone(zone).date() < wall.date():
        return again
    return begin


def parse_local_point(text: str, now: datetime, zone: ZoneInfo) -> datetime:
    """Read a query's edge as ``parse_point`` does, but read dates and times without an offset in a zone.

    ``today`` and ``yesterday`` are the instants at which these days begin in the zone.
    """
    if text in _DAYS:
        return max(begin_day(now.astimezone(zone).date().toordinal() - _DAYS[text], zone), EPOCH)
    match = _LOCAL.fullmatch(text)
    if match is None or match[3] == "60":
        return parse_point(text, now)  # a leap second is refused there
    day, clock, seconds, fraction = match.groups()
    try:
        if clock is None:
            instant = begin_day(date.fromisoformat(day).toordinal(), zone)
        else:
            micros = ((fraction or "") + "000000")[:6]
            instant = resolve(datetime.fromisoformat(f"{day}T{clock}:{seconds or '00'}.{micros}"), zone)
    except (ValueError, OverflowError) as error:
        raise InvalidTime(f"{text!r} is not a time: {error}") from error
    if not EPOCH <= instant < LATEST:
        raise InvalidTime(f"{text!r} in {zone.key} lies outside the years 1970 to 9998 of UTC")
    return instant


def show_local(text: str, zone: ZoneInfo) -> str:
    """Write an instant, given as text in UTC, as the local time with its offset: RFC 3339 with six digits.

    RFC 3339 has offsets of whole minutes. Some zones had other offsets before 1973. Then the offset is rounded to a
    minute, and the time follows it: the text is the same instant (RFC 3339, section 5.8, last example).
    """
    local = datetime.fromisoformat(text).astimezone(zone)
    offset = local.utcoffset() or timedelta(0)
    if offset % _MINUTE:
        local = local.astimezone(timezone((offset + _MINUTE / 2) // _MINUTE * _MINUTE))
    return local.isoformat(timespec="microseconds")
