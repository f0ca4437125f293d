"""Convert InfluxDB's line protocol to events. A point is a measurement with its tags and a time.

Its fields are its data. Source of the format: docs.influxdata.com, "Line protocol reference". In InfluxDB, a write of
other fields to an existing point adds these fields to the point. So the names of the fields are part of an event's id,
and lines of one point in one request become one event.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from doors.reading import Limits, Reading, Row, make_id, refuse_too_many, set_beside, set_values, split_nanos
from doors.series import fill_template, fit_name, join_tags
from tidetable.config.stream import InfluxPolicy
from tidetable.events import JsonObject
from tidetable.problems import refuse_request

# Parses a line (without its end) to measurement, tags, fields and time; None for a comment. ValueError gives a reason.
ParseLine = Callable[[str], "Mapping[str, Any] | None"]

NANOS: Mapping[str, int] = {
    **dict.fromkeys(("ns", "n", "nanosecond"), 1),
    **dict.fromkeys(("us", "u", "µ", "microsecond"), 1_000),
    **dict.fromkeys(("ms", "millisecond"), 1_000_000),
    **dict.fromkeys(("s", "second"), 1_000_000_000),
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
# Pairs of (bound, unit), as InfluxDB 3 guesses a unit: a time below the bound has this unit, in nanoseconds.
_AUTO = ((5_000_000_000, 10**9), (5_000_000_000_000, 10**6), (5_000_000_000_000_000, 10**3))
# The measurement and the tags of a line; a text as the value of a field; and the rest of a text that began in an
# earlier line. A backslash escapes the next character. The group is the quote that ends the text; empty without one.
_KEY = re.compile(rb"\s*+(?:[^\\ ]|\\.)++ ", re.DOTALL)
_TEXT = re.compile(rb'="(?:[^"\\]|\\.?)*+("?)', re.DOTALL)
_REST = re.compile(rb'(?:[^"\\]|\\.?)*+("?)', re.DOTALL)
_AGAIN = 4
_Identity = tuple[str, tuple[tuple[str, str], ...]]


def read_precision(name: str) -> int | None:
    """Return a precision's unit in nanoseconds, None for ``auto``; ProblemError for a name unknown to InfluxDB."""
    if name == "auto":
        return None
    if name not in NANOS:
        raise refuse_request(400, "bad_parameter", f"precision {name[:32]!r} is not known: use ns, us, ms or s")
    return NANOS[name]


def read_lines(
    text: bytes, parse_line: ParseLine, *, unit: int | None, policy: InfluxPolicy, now: int, limits: Limits
) -> Reading:
    """Return the points of a body; their places are line numbers, from 1.

    ``unit`` is the unit of times, in nanoseconds; if it is None, the size of each time decides. ``now`` (in
    nanoseconds) is the time of lines without a time. ProblemError for too many lines.
    """
    reading, reader = Reading(limits), _PointReader(policy)
    points: dict[tuple[_Identity, int], tuple[dict[str, Any], list[int]]] = {}
    for count, (number, line) in enumerate(_parse_all(text, parse_line), start=1):
        if count > limits.most:
            raise refuse_too_many(limits.most)
        if isinstance(line, str):
            reading.refuse([number], line)
            continue
        identity = line["measurement"], tuple(sorted(line["tags"].items()))
        stamp: int | None = line["time"]
        nanos = now if stamp is None else stamp * (unit or _guess_unit(stamp))
        point = points.get((identity, nanos))
        if point is None:
            points[identity, nanos] = line["fields"], [number]
        else:
            point[0].update(line["fields"])
            point[1].append(number)
    for (identity, nanos), (fields, lines) in points.items():
        reading.take(lines, reader.read, identity, nanos, fields)
    return reading


def quote_lines(text: bytes, numbers: Sequence[int], longest: int) -> dict[int, str]:
    """Return the beginnings of these lines, at most ``longest`` characters of each, to quote them in an answer."""
    wanted_numbers, lines = set(numbers), text.split(b"\n") if numbers else []
    return {
        number: line.decode(errors="replace").rstrip("\r")[:longest]
        for number, line in enumerate(lines, start=1)
        if number in wanted_numbers
    }


class _PointReader:
    """Makes events of points. Points of one request share their series and, with the same fields, their ids."""

    def __init__(self, policy: InfluxPolicy) -> None:
        self._policy = policy
        self._series: dict[_Identity, str] = {}
        self._ids: dict[tuple[_Identity, tuple[str, ...], int], str] = {}

    def read(self, identity: _Identity, nanos: int, fields: Mapping[str, Any]) -> Row:
        """Make the event of a point: of its measurement and tags, its time in nanoseconds, and its fields."""
        time, rest = split_nanos(nanos)
        series = self._series.get(identity) or self._name_series(identity)
        data: JsonObject = {}
        set_values((data, name, value) for name, value in fields.items())
        measurement, pairs = identity
        # A field, or the text of a number that DynamoDB cannot hold, may have the name already.
        set_beside(data, "measurement", measurement, "_name")
        for name, value in pairs:
            set_beside(data, name, value, "_tag")
        key = identity, tuple(fields), rest
        id = self._ids.get(key)
        if id is None:
            id = self._ids[key] = make_id([*identity, sorted(fields)], rest)
        return series, time, id, data

    def _name_series(self, identity: _Identity) -> str:
        """Name the series of a measurement and its tags; ValueError if a tag of the template is missing."""
        measurement, pairs = identity
        template = self._policy.series
        name = (
            fill_template(template, dict(pairs) | {"measurement": measurement})
            if template
            else join_tags(measurement, pairs)
        )
        series = self._series[identity] = fit_name(name)
        return series


def _guess_unit(stamp: int) -> int:
    return next((unit for bound, unit in _AUTO if abs(stamp) < bound), 1)


def _parse_all(text: bytes, parse_line: ParseLine) -> Iterator[tuple[int, Mapping[str, Any] | str]]:
    """Yield each line's number with the parsed line, or with the reason why it cannot be parsed.

    Blank lines and comments are left out. A quoted text may contain line ends. So if a line fails and ends within a
    text, it is parsed again together with the next lines, up to the line in which that text ends. In all, not more than
    four times the body is parsed again, so that a body full of quotes costs little more than any other body.
    """
    lines = [line.removeprefix(BOM_UTF8) for line in text.split(b"\n")]
    texts: _Texts | None = None
    at, left = 0, _AGAIN * len(text)
    while at < len(lines):
        line, end = lines[at], at + 1
        if not line or line.isspace():
            at = end
            continue
        parsed = _parse_or_explain(line, parse_line)
        if isinstance(parsed, str) and _ends_within_text(line):
            texts = texts or _Texts(lines)
            last, size = texts.find_end(at)
            # The size is known before the lines are joined: joining costs as much as parsing.
            if 0 < size <= left:
                left -= size
                joined = _parse_or_explain(b"\n".join(lines[at : last + 1]), parse_line)
                if not isinstance(joined, str):
                    parsed, end = joined, last + 1
        if parsed is not None:
            yield at + 1, parsed
        at = end


def _ends_within_text(line: bytes) -> bool:
    """True if a line ends within a quoted text. Quotes in the measurement, in tags and in names are usual characters."""
    key = _KEY.match(line)
    return key is not None and _is_open(line, key.end())


class _Texts:
    """The lines in which a text ends that began in an earlier line, if it has not ended before."""

    def __init__(self, lines: Sequence[bytes]) -> None:
        self._ends = [number for number, line in enumerate(lines) if _ends_text(line)]
        self._sizes = [0, *accumulate(len(line) + 1 for line in lines)]

    def find_end(self, begin: int) -> tuple[int, int]:
        """Return the line in which the text of a line ends, and the bytes up to its end; 0 bytes if it does not end."""
        place = bisect_left(self._ends, begin + 1)
        if place == len(self._ends):
            return begin, 0
        end = self._ends[place]
        return end, self._sizes[end + 1] - self._sizes[begin]


def _ends_text(line: bytes) -> bool:
    rest = _REST.match(line) if b'"' in line else None
    return rest is not None and bool(rest[1]) and not _is_open(line, rest.end())


def _is_open(line: bytes, position: int) -> bool:
    """True if the last of the texts that begin after a position does not end in this line."""
    return any(not text[1] for text in _TEXT.finditer(line, position))


def _parse_or_explain(line: bytes, parse_line: ParseLine) -> Mapping[str, Any] | str | None:
    try:
        return parse_line(line.decode())
    except UnicodeDecodeError:
        return "the line is not UTF-8"
    except ValueError as error:
        return str(error)
