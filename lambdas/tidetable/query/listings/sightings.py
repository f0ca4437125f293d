"""Sightings: the names and values in batches of events and cells, and the times at which they were seen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from functools import lru_cache
from math import lcm
from typing import Any

from tidetable.durations import Duration
from tidetable.events import Event, JsonObject
from tidetable.exact_json import decode_json
from tidetable.forms.field_columns import DATA, FieldColumns, name_kind
from tidetable.query.listings.listing_parameters import Listing
from tidetable.query.listings.names import EXACT, SeenTimes
from tidetable.rollup_model.cells import FIELDS_ID, parse_names
from tidetable.rollup_model.definition import Definition
from tidetable.rollup_model.group_values import make_group_value, shorten_name
from tidetable.times import EPOCH, from_text, to_text

_SECOND = timedelta(seconds=1)
# Finds the text of a cell whose group may have no events any more. It also matches a `count` that is a name of `by`.
_MAYBE_EMPTY = re.compile(r'"count":\s*0').search


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


def list_of_cells(listing: Listing, columns: FieldColumns, definition: Definition) -> Iterator[tuple[Any, SeenTimes]]:
    """Yield the sightings in cells. The times of a sighting are the beginning and the end of the cell's bucket."""
    within = str(Duration(seconds=definition.every // Duration(seconds=1)))
    start, sighting = "", SeenTimes("", "", within)
    for time, series, id, content in zip(
        columns.times, columns.series, columns.ids, columns.values.get(DATA, ()), strict=True
    ):
        if time != start:
            start, sighting = time, SeenTimes(time, to_text(from_text(time) + definition.every), within)
        if listing.kind == "fields":
            if id == FIELDS_ID:
                names = parse_names(definition, Event(series, from_text(time), id, _decode_content(content)))
                yield from ((name, sighting._replace(types=types)) for name, types in names.items())
        elif not id.startswith(definition.key):
            continue
        elif listing.field is not None:
            data = _decode_content(content)
            if data.get("count"):
                yield data["by"].get(listing.field), sighting
        elif _has_events(content):
            yield series, sighting


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


def _has_events(content: str | JsonObject) -> bool:
    """True if a cell's group has events.

    Most cells are not decoded for this, because decoding takes ten times as long.
    """
    if isinstance(content, str) and not _MAYBE_EMPTY(content):
        return True
    return bool(_decode_content(content).get("count"))
