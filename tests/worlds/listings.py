"""Listings of a stream with rollups, page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from tests.fakes import SEAL
from tests.worlds.rolled import HOURS, MINUTES, PLAIN, START, STREAM, World
from tidetable.config import Stream
from tidetable.events import Event
from tidetable.layout import Layout
from tidetable.query.listings import find_listing, parse_fields, parse_series, parse_values
from tidetable.query.listings.listing_page import Listed
from tidetable.times import to_text

BY_HOUR = replace(HOURS, by=("series", "kind"))


def parse_listing(what: str, parameters: Mapping[str, str], now: datetime, stream: Stream = STREAM) -> Any:
    given = {name: [value] for name, value in parameters.items()}
    if what == "series":
        return parse_series(stream, given, now, SEAL)
    return parse_fields(stream, given, now, SEAL) if what == "fields" else parse_values(what, stream, given, now, SEAL)


def ask_listing(
    world: World,
    what: str,
    remaining: Callable[[], float] = lambda: 100.0,
    stream: Stream = STREAM,
    /,
    **parameters: str,
) -> Listed:
    """Ask for a page of ``series``, of ``fields``, or of the values of the field ``what``."""
    now = max(world.time, START + timedelta(hours=1))
    return find_listing(parse_listing(what, parameters, now, stream), stream, world.reader, now, remaining)


def names_of(page: Listed) -> list[Any]:
    return [next(iter(row.values())) for row in page.rows]


def walk_listing(world: World, what: str, **parameters: str) -> list[dict[str, Any]]:
    """Read the rows of all pages."""
    page = ask_listing(world, what, **parameters)
    rows = list(page.rows)
    while page.next is not None:
        assert len(page.rows) == int(parameters["limit"])
        page = ask_listing(world, what, cursor=page.next, limit=parameters["limit"])
        rows += page.rows
    return rows


def at(minutes: float) -> str:
    return to_text(START + timedelta(minutes=minutes))


def roll_up(*events: Event, definitions: Iterable[Any] = (MINUTES, BY_HOUR), layout: Layout = PLAIN) -> World:
    """A world whose events are in sealed buckets, from 01:00 to 06:00."""
    world = World(tuple(definitions), layout)
    world.refresh()
    world.sleep(3_600)
    for event in events:
        world.write(event)
    world.sleep(5 * 3_600 + 300)
    world.refresh()
    assert not world.rollups.marks
    return world
