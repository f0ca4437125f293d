"""The estimated puts of a request, against what the same request writes: by time and by series, with packs and without."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from bill.compare import price_alternatives
from bill.request_puts import RequestShape, count_puts
from bill.workload import Workload, measure_packs
from tests.ingest.streams import CONFIG
from tests.lifecycle.world import configuration
from tests.worlds.intake import World
from tidetable.config import Stream
from tidetable.config.stream import KeyPolicy, LargePolicy, PackPolicy
from tidetable.durations import Duration
from tidetable.times import to_text


def make_stream(by: str, span: int | None) -> Stream:
    """A stream with a table per day. ``span`` is the span of its packs in seconds; None: no packs."""
    key = KeyPolicy(partition_by="series", shards=1)
    if by == "time":
        key = KeyPolicy(partition_by="time", shards=2, bucket=Duration(hours=6))
    if by == "suffix":
        key = msgspec.structs.replace(key, partition_by="time", shards=4, bucket=Duration(hours=6), shard_by="series")
    pack = None if span is None else PackPolicy(span=Duration(seconds=span))
    return msgspec.structs.replace(CONFIG.streams["quakes"], key=key, pack=pack, index=(), large=LargePolicy())


def send_request(stream: Stream, events: int, series: int, seconds: int) -> tuple[int, float]:
    """Send a request of readings of 16 numbers each; return the items in the table and the write units."""
    api = msgspec.structs.replace(CONFIG.api, max_body=10**7, max_events=1000)
    world = World(msgspec.structs.replace(CONFIG, streams={"quakes": stream}, api=api))
    begin = datetime(2026, 2, 28, 6, tzinfo=UTC)
    step = timedelta(seconds=seconds) / max(events - 1, 1)
    sent = [
        {"series": f"sensor-{number % series}", "time": to_text(begin + number * step), "data": {"value": number / 16}}
        for number in range(events)
    ]
    outcome = world.send(*sent)
    assert (outcome.status, outcome.accepted) == (200, events)
    return world.count("2026-02-28"), outcome.write_units


@pytest.mark.parametrize(
    "by, span, events, series, seconds, items",
    [
        ("time", None, 200, 200, 0, 200),
        ("time", 60, 200, 200, 0, 1),
        ("time", 60, 200, 1, 0, 1),
        ("time", 60, 200, 200, 239, 4),
        # Each of four shards has a pack per span: of 200 series, and of the only one.
        ("suffix", 60, 200, 200, 0, 4),
        ("suffix", 60, 200, 200, 239, 16),
        ("suffix", 60, 200, 1, 239, 4),
        ("series", 60, 200, 200, 0, 200),
        ("series", 60, 200, 40, 0, 40),
        ("series", 60, 200, 1, 0, 1),
        ("series", 60, 201, 1, 200 * 10, 34),
        ("series", 3600, 201, 1, 200 * 10, 1),
        ("series", 60, 200, 2, 119, 4),
        ("series", None, 200, 1, 0, 200),
        ("series", 60, 1, 1, 0, 1),
    ],
)
def test_a_request_is_estimated_to_make_the_items_that_it_makes(
    by: str, span: int | None, events: int, series: int, seconds: int, items: int
) -> None:
    stream = make_stream(by, span)
    assert send_request(stream, events, series, seconds)[0] == items
    assert count_puts(stream.layout, RequestShape(events, series, seconds, 170, None)).items == items


@pytest.mark.parametrize("by, units", [("time", 1), ("suffix", 4), ("series", 200)])
def test_the_units_of_many_sensors_are_those_that_the_answer_names(by: str, units: int) -> None:
    """200 sensors in a request: one pack by time, but 200 packs by series, which cost as much as plain items."""
    stream = make_stream(by, 60)
    assert send_request(stream, 200, 200, 0)[1] == units
    load = Workload([50.0] * 24, 100, 0.0, 4096, 0.0, stream, 200, packed_bytes=4)
    assert load.event_units == units / 200
    assert replace(load, series_per_request=200).event_units == units / 200


@pytest.mark.parametrize(
    ("by", "packs_per_event", "series"),
    [
        ("series", 0.1, 20),
        ("series", 0.0, 1),
        # The mean number of the 4 suffixes that n series take is 4 (1 - 0.75 ** n): 1 for one, 2.7344 for four.
        ("suffix", 1 / 200, 1),
        ("suffix", 2.7344 / 200, 4),
        ("suffix", 3.999 / 200, 29),
        ("suffix", 4 / 200, 200),
        ("suffix", 8 / 200, 200),
    ],
)
def test_the_series_of_a_request_are_found_from_its_packs(by: str, packs_per_event: float, series: int) -> None:
    # An event takes 140 bytes and its share of 130 per pack.
    measured = measure_packs(packs_per_event, 140 + 130 * packs_per_event, 200, make_stream(by, 60).layout)
    assert measured.series_per_request == series
    assert measured[:2] == pytest.approx((140, 560))
    assert measure_packs(1.0, 120.0, 200, make_stream(by, 60).layout)[:2] == (1.0, 4.0)


def test_small_packs_are_estimated_larger_than_a_quarter_of_their_events() -> None:
    """A pack of one event saves nothing and adds its own 130 bytes; 100 events share these, and the others compress."""
    alone = Workload([1.0] * 24, 160, 0.0, 4096, 0.0, make_stream("series", 60), 100)
    assert alone.stored_bytes == pytest.approx(290, abs=10)
    assert alone.items_per_event == 1
    together = replace(alone, series_per_request=1)
    assert together.stored_bytes == pytest.approx(42.5, abs=0.5)
    assert together.items_per_event == 0.01


def test_events_that_are_too_large_for_a_pack_are_items_of_their_own() -> None:
    load = Workload([1.0] * 24, 100_000, 0.0, 4096, 0.0, make_stream("time", 60), 10)
    assert (load.items_per_event, load.event_units) == (1, 98)


def test_a_request_has_at_most_as_many_series_as_events() -> None:
    load = Workload([1.0] * 24, 500, 0.0, 4096, 0.0, make_stream("series", 60), 5, series_per_request=1_000)
    assert load.items_per_event == 1


def test_packs_are_not_proposed_where_each_event_would_be_a_pack() -> None:
    config = configuration(capacity='mode = "on-demand"')
    stream = config.streams["s"]
    load = Workload([100.0] * 24, 200, 1.0, 4096, 0.0, stream)
    for series, proposed in ((None, False), (1, True)):
        found, refused = price_alternatives(config, replace(load, series_per_request=series), 0.0)
        names = [setting["name"] for setting in found]
        assert ("packs" in names) is proposed
        # 200 series have 6 packs.
        assert ("packs of many series" in names) is not proposed
        assert refused == []
