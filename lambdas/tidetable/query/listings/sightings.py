"""Sightings: the names and values in batches of events and cells, and the times at which they were seen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from functools import lru_cache
from math import lcm
from typing import Any, cast

from tidetable.durations import Duration
from tidetable.events import Event, JsonObject
from tidetable.exact_json import decode_json
from tidetable.forms.field_columns import DATA, FieldColumns, Row, name_kind
from tidetable.query.listings.listing_parameters import Listing
from tidetable.query.listings.names import EXACT, SeenTimes
from tidetable.rollup_model.cells import FIELDS_ID, parse_names
from tidetable.rollup_model.definition import Definition
from tidetable.rollup_model.group_values import make_group_value, shorten_name
from tidetable.times import EPOCH, from_text, to_text

_SECOND = timedelta(seconds=1)
# Finds the text of a cell whose group may have no events any more. It also matches a `count` that is a name of `by`.
_MAYBE_EMPTY = re.compile(r'"count":\s*0').search
# The most groups of cells whose sightings wait.
_MOST_WAITING = 50_000


def list_of_events(listing: Listing, columns: FieldColumns) -> Iterator[tuple[Any, SeenTimes]]:
    """Yield the sightings in events, which are in the order of time: the first and the last of each name or value."""
    if listing.kind == "series":
        yield from _list_ends(columns.times, columns.series)
    elif listing.field is not None:
        values = [make_group_value(value) for value in columns.values[listing.field]]
        yield from ((value, seen) for (_, value), seen in _list_ends(columns.times, values))
    else:
        for time, _, _, data in columns.rows():
            for name, value in data.items():
                yield shorten_name(name), SeenTimes(time, time, EXACT, (name_kind(type(value)),))


class CellReader:
    """Reads the sightings in the cells of a rollup. Their times are the beginning and the end of a bucket.

    A group has a cell in each of many buckets, so only the first and the last bucket of each is a sighting.
    """

    def __init__(self, listing: Listing, definition: Definition) -> None:
        self._listing = listing
        self._definition = definition
        self._within = str(Duration(seconds=definition.every // _SECOND))
        self._see = lru_cache(maxsize=4096)(self._see_bucket)
        # The first and the last bucket of each series, or of each group by its id; and the values of the groups.
        self._buckets: dict[str, list[str]] = {}
        self._values: dict[str, Any] = {}

    def read(self, columns: FieldColumns) -> Iterator[tuple[Any, SeenTimes]]:
        """Take some cells. Yield the sightings of fields, and those of groups if many wait."""
        contents = columns.values.get(DATA, ())
        rows = zip(columns.times, columns.series, columns.ids, contents, strict=True)
        if self._listing.kind == "fields":
            for time, series, id, content in rows:
                if id == FIELDS_ID:
                    event = Event(series, from_text(time), id, _decode_content(content))
                    for name, types in parse_names(self._definition, event).items():
                        yield name, self._see(time)._replace(types=types)
            return
        self._add_groups(rows, may_be_empty=_may_be_empty(contents))
        if len(self._buckets) > _MOST_WAITING:
            yield from self.list_rest()

    def _add_groups(self, rows: Iterable[Row], *, may_be_empty: bool) -> None:
        key, field, buckets = self._definition.key, self._listing.field, self._buckets
        for time, series, id, content in rows:
            if not id.startswith(key) or (may_be_empty and not _has_events(content)):
                continue
            group = series if field is None else id
            found = buckets.get(group)
            if found is None:
                buckets[group] = [time, time]
                self._values[group] = series if field is None else _decode_content(content)["by"].get(field)
            elif time > found[1]:
                found[1] = time
            elif time < found[0]:
                found[0] = time

    def list_rest(self) -> Iterator[tuple[Any, SeenTimes]]:
        """Yield the sightings that wait."""
        for group, (first, last) in self._buckets.items():
            yield self._values[group], self._see(first)
            if last != first:
                yield self._values[group], self._see(last)
        self._buckets.clear()
        self._values.clear()

    def _see_bucket(self, start: str) -> SeenTimes:
        return SeenTimes(start, to_text(from_text(start) + self._definition.every), self._within)


def make_widener(definitions: Iterable[Definition]) -> Callable[[SeenTimes], SeenTimes]:
    """Make a function that widens the times of a sighting to whole buckets of all ``definitions``.

    Whether a cell or an event was read depends on the events of all series, for example on late events. Widened times
    are the same for both. Every ``every`` divides a day, so their least common multiple does, too.
    """
    length = lcm(*(definition.every // _SECOND for definition in definitions)) * _SECOND
    within = str(Duration(seconds=length // _SECOND))

    @lru_cache(maxsize=4096)
    def widen(first: str) -> SeenTimes:
        start = EPOCH + (from_text(first) - EPOCH) // length * length
        return SeenTimes(to_text(start), to_text(start + length), within)

    return lambda seen: widen(seen.first)._replace(types=seen.types)


def _list_ends(times: Sequence[str], keys: Iterable[Any]) -> Iterator[tuple[Any, SeenTimes]]:
    """Yield each key with its first and with its last time, which are in order."""
    first: dict[Any, str] = {}
    last: dict[Any, str] = {}
    for key, time in zip(keys, times, strict=True):
        first.setdefault(key, time)
        last[key] = time
    for key, time in first.items():
        yield key, SeenTimes(time, time, EXACT)
        if last[key] != time:
            yield key, SeenTimes(last[key], last[key], EXACT)


def _decode_content(content: str | JsonObject) -> JsonObject:
    data: JsonObject = decode_json(content) if isinstance(content, str) else content
    return data


def _may_be_empty(contents: Sequence[str | JsonObject]) -> bool:
    """True if the group of one of the cells may have no events any more."""
    if all(isinstance(content, str) for content in contents):
        return _MAYBE_EMPTY("\n".join(cast("Sequence[str]", contents))) is not None
    return True


def _has_events(content: str | JsonObject) -> bool:
    """True if a cell's group has events.

    Most cells are not decoded for this, because decoding takes ten times as long.
    """
    if isinstance(content, str) and not _MAYBE_EMPTY(content):
        return True
    return bool(_decode_content(content).get("count"))
