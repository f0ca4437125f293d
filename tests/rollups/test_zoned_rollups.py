"""Rollups and the steps of zones: a rollup answers the steps whose edges are edges of its buckets, the events the others."""

import random
from collections import Counter
from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from tests.worlds.rolled import HOURS, MINUTES, START, World, begin_rollups, reading
from tidetable.times import from_text, to_text

QUARTERS = replace(HOURS, every=timedelta(minutes=15))
HALVES = replace(HOURS, every=timedelta(minutes=30))
WHOLE_DAYS = replace(HOURS, every=timedelta(days=1))
SPAN = {"from": to_text(START), "to": to_text(START + timedelta(days=3))}
# Every rollup here has buckets that do not begin at the range's edges, so events answer the rest of the first step.
CASES = [
    ("UTC", WHOLE_DAYS, True),
    ("UTC", HOURS, True),
    ("Europe/Berlin", WHOLE_DAYS, False),
    ("Europe/Berlin", HOURS, True),
    ("Asia/Kolkata", HOURS, False),
    ("Asia/Kolkata", HALVES, True),
    ("Asia/Kolkata", QUARTERS, True),
    ("Asia/Kathmandu", HALVES, False),
    ("Asia/Kathmandu", QUARTERS, True),
    ("Asia/Kathmandu", replace(MINUTES, by=("kind",)), False),
    ("Australia/Lord_Howe", HOURS, True),
    ("America/New_York", HOURS, True),
]


def fill_world(*definitions: object) -> World:
    world, chance = begin_rollups(definitions), random.Random(5)  # type: ignore[arg-type]
    world.write(*(reading(chance.uniform(0, 3 * 1440), chance.randrange(100), id=str(number)) for number in range(120)))
    world.sleep(3.6 * 86_400)
    world.refresh()
    return world


@pytest.mark.parametrize(("zone", "definition", "serves"), CASES)
def test_a_rollup_serves_a_zone_only_where_its_buckets_have_the_edges_of_its_days(
    zone: str, definition: object, serves: bool
) -> None:
    world, local = fill_world(definition), ZoneInfo(zone)
    asked = {**SPAN, "step": "1d", "tz": zone, "stat": "count,sum", "field": "mag"}
    found, events = world.ask(**asked), world.ask(**asked, rollups="false")
    assert found.rows == events.rows
    days = Counter(from_text(time).astimezone(local).date() for time in world_times())
    assert {from_text(row["start"]).astimezone(local).date(): row["count"] for row in found.rows} == days
    assert ({scan.entry.stream for scan in found.sources} > {"s"}) is serves
    (shown,) = world.explain(**asked)["rollups"]
    assert shown["used"] is serves
    if not serves:
        assert shown["reason"] == f"no step of {zone} has the edges of its buckets"


def world_times() -> list[str]:
    chance = random.Random(5)
    return [to_text(reading(chance.uniform(0, 3 * 1440), chance.randrange(100)).time) for _ in range(120)]
