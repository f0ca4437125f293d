"""Sightings: the names and values in batches of events and cells, and the times at which they were seen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from functools import lru_cache
from math import lcm
from typing import Any

from tidetable.durations import Duration
from tidetable.events import Event, JsonObject
from tidetable.exact_json import decode_json
from tidetable.layout import find_value
from tidetable.query.batch_events import read_batch_events
from tidetable.query.batches import ArchiveBatch, LiveBatch, list_events
from tidetable.query.listings.listing_parameters import Listing
from tidetable.query.listings.names import EXACT, SeenTimes
from tidetable.query.model import Reader
from tidetable.query.scans import Gap
from tidetable.rollup_model.cells import FIELDS_ID, name_kind, parse_names
from tidetable.rollup_model.definition import Definition
from tidetable.rollup_model.group_values import make_group_value, shorten_name
from tidetable.times import EPOCH, from_text, to_text

_Batch = LiveBatch | ArchiveBatch
_SECOND = timedelta(seconds=1)
# Finds the text of a cell whose group may have no events any more. It also matches a `count` that is a name of `by`.
_MAYBE_EMPTY = re.compile(r'"count":\s*0').search


def list_of_events(
    listing: Listing, batch: _Batch, reader: Reader, note_lost: Callable[[Gap], None]
) -> Iterator[tuple[Any, SeenTimes]]:
    """Yield the sightings in events, with the events' own times.

    ``note_lost`` gets the gap of each event whose needed data is lost.
    """
    if listing.kind == "series":
        for time, series in _list_series(batch):
            yield series, SeenTimes(time, time, EXACT)
    elif listing.field is not None:
        for time, _, _, data in list_events(batch):
            yield make_group_value(find_value(data, listing.field))[1], SeenTimes(time, time, EXACT)
    else:
        for time, _, _, data in read_batch_events(batch, reader, note_lost):
            for name, value in data.items():
                yield shorten_name(name), SeenTimes(time, time, EXACT, (name_kind(value),))


def list_of_cells(
    listing: Listing, batch: _Batch, definition: Definition, reader: Reader
) -> Iterator[tuple[Any, SeenTimes]]:
    """Yield the sightings in cells. The times of a sighting are the beginning and the end of the cell's bucket."""
    within = str(Duration(seconds=definition.every // Duration(seconds=1)))
    start, sighting = "", SeenTimes("", "", within)
    for time, series, id, content in _list_cells(batch, reader):
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


def _list_cells(batch: _Batch, reader: Reader) -> Iterator[tuple[str, str, str, str | JsonObject]]:
    """Yield the time as text, the series, the id and the content of each cell.

    Content that is text in a pack stays text.
    """
    if isinstance(batch, ArchiveBatch) or any(type(content) is not str for content in batch.columns.contents):
        yield from read_batch_events(batch, reader)
        return
    names_of = batch.scan.entry.layout.parse_names
    for pk, sk, content in zip(*batch.columns, strict=True):
        yield *names_of(pk, sk), content


def _list_series(batch: _Batch) -> Iterator[tuple[str, str]]:
    """Yield the time as text and the series of each event."""
    if isinstance(batch, ArchiveBatch):
        yield from ((to_text(event.time), event.series) for event in batch.page.events)
        return
    names_of = batch.scan.entry.layout.parse_names
    yield from (names_of(pk, sk)[:2] for pk, sk in zip(*batch.columns[:2], strict=True))


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
