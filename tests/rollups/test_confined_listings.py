"""Listings of a key with a series prefix: late events of other series change neither their rows nor their range."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.worlds.listings import ask_listing, at, roll_up
from tests.worlds.rolled import PACKED, PLAIN, World, reading
from tidetable.access import Access
from tidetable.layout import Layout
from tidetable.query.listings.listing_page import Listed

EVENTS = (reading(65, 1, "a/1"), reading(70, 1, "b/1"), reading(200, 1, "a/1"), reading(340, 2, "a/2"))


def ask(world: World, **parameters: str) -> Listed:
    """Ask with the key of a tenant."""
    world.reader = replace(world.reader, access=Access("k", None, frozenset({"read"}), "a/"))
    return ask_listing(world, "series", **{"prefix": "a/", **parameters})


def test_a_late_event_in_the_first_bucket_does_not_move_the_beginning_of_the_range() -> None:
    world = roll_up(*EVENTS)
    assert ask_listing(world, "series").describe_rest()["from"] == at(10)
    world.write(reading(10.5, 1, "late"))
    assert world.rollups.marks
    assert ask_listing(world, "series").describe_rest()["from"] == at(10)


@pytest.mark.parametrize("layout", [PLAIN, PACKED], ids=["items", "packs"])
@pytest.mark.parametrize(
    ("start", "end"), [(60, 360), (61, 361), (64.5, 350), (65, 341)], ids=["buckets", "parts", "seconds", "events"]
)
def test_times_are_whole_buckets_whatever_was_read(layout: Layout, start: float, end: float) -> None:
    """The rollups have buckets of a minute and of an hour. The rest of the range is read from the events."""
    world = roll_up(*EVENTS, layout=layout)
    span: Any = {"from": at(start), "to": at(end)}
    rows = [
        {"series": "a/1", "first": at(60), "first_within": "1h", "last": at(240), "last_within": "1h"},
        {"series": "a/2", "first": at(300), "first_within": "1h", "last": at(360), "last_within": "1h"},
    ]
    assert ask(world, **span).rows == rows
    world.write(reading(66, 1, "b/late"), reading(201, 1, "b/late"), reading(341, 1, "b/late"))
    assert len(world.rollups.marks) == 3
    assert ask(world, **span).rows == rows
