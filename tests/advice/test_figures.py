"""The figures that the rules of the advice share: what is measured, what is left out of it, prices, and lines of a file."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from bill.lines import write_indexes, write_ladder, write_table
from bill.prices import price_reads
from cli.advise import write_lines
from cli.advising.capacity import _size_units
from cli.advising.finding import Advice, Finding
from cli.advising.history import Hour, Resource, Writing
from cli.advising.measured import Measured, Throttling
from tests.advice.hand_made import END, HOUR, history, plain
from tests.worlds.advised import BY_KIND, stream
from tidetable.config import LadderStep, TableClass, Units, parse
from tidetable.periods import Kind, find_containing

NONE = Throttling(0.0, 0, 0.0)
OFTEN = (100.0, 3)


@pytest.mark.parametrize(("events", "hours", "enough"), [(100, 3, True), (99, 3, False), (100, 2, False)])
def test_throttles_are_a_pattern_from_a_hundred_in_three_hours_on(events: float, hours: int, enough: bool) -> None:
    assert Throttling(events, hours, 1.0).enough is enough


@pytest.mark.parametrize(
    ("peak", "now", "throttling", "units"),
    [
        (70, None, NONE, 100),
        (70.1, None, NONE, 101),
        (0, None, NONE, 1),
        # Up to half more than is needed is kept.
        (70, 150, NONE, 150),
        (70, 151, NONE, 100),
        # Too few for the peak, and nothing throttled: bursts are covered by what was left of five minutes.
        (70, 50, NONE, 50),
        # What was throttled is needed, too: at most twice as many, or ten more, and never fewer.
        (70, 90, Throttling(*OFTEN, 28.0), 140),
        (70, 90, Throttling(*OFTEN, 280.0), 180),
        (5, 4, Throttling(*OFTEN, 90.0), 14),
        (7, 300, Throttling(*OFTEN, 7.0), 300),
        (70, 100, Throttling(99.0, 3, 28.0), 100),
    ],
)
def test_a_peak_takes_seven_tenths_of_its_units(
    peak: float, now: int | None, throttling: Throttling, units: int
) -> None:
    assert _size_units(peak, now, throttling) == units


def resource(start: datetime, *hours: Hour, **keys: Any) -> Resource:
    kind = keys.pop("kind", Kind.DAY)
    return Resource(find_containing(start, kind), "", 1, hours, **keys)


LAST = END - timedelta(days=1)


def test_imports_other_periods_and_other_forms_of_items_are_left_out() -> None:
    own = plain(days=1).history
    more = (
        resource(LAST, Hour(LAST, 7.0), imported=True),
        resource(LAST, Hour(LAST, 7.0), packed=True),
        resource(LAST, Hour(LAST, 7.0), kind=Kind.WEEK),
    )
    measured = Measured(replace(own, resources=(*own.resources, *more)))
    assert measured.count_units("Write") == 10 * 86_400
    assert measured.fitting == list(own.resources)


def test_the_days_begin_with_the_first_measured_hour_and_not_before_the_history() -> None:
    own = replace(plain(days=1).history, start=END - timedelta(days=7))
    assert Measured(own).days == 1
    early = resource(END - timedelta(days=9), Hour(END - timedelta(days=9), 1.0))
    measured = Measured(replace(own, resources=(*own.resources, early)))
    assert (measured.days, round(measured.month * 168, 6)) == (7, 730)
    empty = Measured(replace(own, resources=()))
    assert (empty.days, empty.seconds, empty.mean_writes) == (0, 1, 0)


@pytest.mark.parametrize(("items", "size", "each"), [(100, 25_000, 250), (99, 25_000, None), (100, 0, None)])
def test_a_table_of_fewer_than_a_hundred_items_says_no_size(items: int, size: int, each: float | None) -> None:
    """An event of unknown size is taken for one of 1,000 bytes, which takes a write unit."""
    own = resource(LAST, Hour(LAST, 3600.0), items=items, bytes=size)
    measured = Measured(replace(plain(days=1).history, resources=(own,)))
    assert measured.event_bytes == each
    assert measured.workload.event_bytes == (each or 1000)


def test_an_hour_after_its_end_a_table_has_late_events_alone() -> None:
    hours = [Hour(END + HOUR * number, 10.0**number, peak_write=float(number)) for number in (-1, 0, 1, 2)]
    measured = Measured(replace(plain(days=1).history, resources=(resource(LAST, *hours),)))
    assert measured.count_units("Write", late=False) == pytest.approx(1.1)
    assert measured.count_units("Write", late=True) == 110
    assert (measured.find_peak("Write"), measured.find_peak("Write", late=True)) == (0, 2)


def test_reads_are_of_an_old_table_from_a_day_after_its_end_on() -> None:
    """A query of 8 KB takes a unit. The day has 86,400 seconds; an index is read, too."""
    hours = (Hour(END + 23 * HOUR, read=86_400.0), Hour(END + 24 * HOUR, read=3 * 86_400.0))
    period = find_containing(LAST, Kind.DAY)
    index = Resource(period, "by_kind", 1, (Hour(LAST, read=86_400.0),))
    own = plain(days=1).history
    measured = Measured(replace(own, end=END, resources=(*own.resources[:1], Resource(period, "", 1, hours), index)))
    assert measured.workload.reads_per_second == pytest.approx(2)
    assert measured.workload.old_reads_per_second == pytest.approx(3)


def test_throttles_have_the_rate_of_their_worst_hour_and_the_shards_of_their_table() -> None:
    hours = tuple(Hour(LAST + HOUR * n, throttles={("Write", "AccountLimit"): n * 3600.0}) for n in range(3))
    one, two = resource(LAST, *hours), replace(resource(LAST, hours[1]), shards=2)
    measured = Measured(replace(plain(days=1).history, resources=(one, two)))
    assert measured.find_throttling("Write", "AccountLimit") == (4 * 3600, 3, 2)
    assert measured.find_throttling("Write", "AccountLimit", shards=2) == (3600, 1, 1)


def test_the_share_of_an_index_follows_from_the_units_of_its_items() -> None:
    """An event of 1,500 bytes takes two units, in the index, too: ten units of it are five events of the table's ten."""
    index = {"by_kind": Hour(END, 10 * 3600.0)}
    measured = Measured(history(stream(tail=BY_KIND), 20, size=1500, days=1, indexes=index))
    own = replace(measured.history.resources[0], items=1000, bytes=1_500_000)
    measured = Measured(replace(measured.history, resources=(own, *measured.history.resources[1:])))
    assert measured.workload.index_shares == {"by_kind": pytest.approx(0.5)}
    assert sum(measured.workload.events_per_second) / 24 == pytest.approx(10)


def test_events_in_packs_have_the_bytes_of_their_table_and_are_four_times_as_large_outside() -> None:
    text = stream(tail='[streams.s.pack]\nspan = "1m"')
    own = history(text, 1, days=1, writing=Writing(10, 400))
    table = replace(own.resources[0], packed=True, items=9, bytes=400 * 50)
    workload = Measured(replace(own, resources=(table,))).workload
    # 400 events of 50 bytes in 9 packs, of whose bytes 130 each are their own.
    assert (workload.event_bytes, workload.batch) == (188, 40)
    assert workload.packed_bytes == pytest.approx(47.075)
    assert workload.series_per_request == 1
    none = Measured(replace(own, resources=(replace(table, bytes=0),))).workload
    assert (none.packed_bytes, none.event_bytes) == (1, 4)
    unknown = Measured(replace(own, resources=(table,), writing=None)).workload
    assert (unknown.packed_bytes, unknown.batch) == (None, 100)


def test_read_units_cost_by_the_million_on_demand_and_by_the_hour_at_seven_tenths_when_provisioned() -> None:
    """$0.125 per million units; $0.00013 per unit and hour."""
    assert price_reads(7.0, on_demand=True) == pytest.approx(7 * 730 * 3600 * 0.125 / 1e6)
    assert price_reads(7.0, on_demand=False) == pytest.approx(10 * 0.00013 * 730)


def test_lines_are_toml_whatever_names_and_values_they_have() -> None:
    units = {"by.kind": Units(write=2, read=3)}
    steps = (LadderStep(age=0, write=5, read=6, index=units), LadderStep(age=1, table_class=TableClass.INFREQUENT))
    policy = parse(stream(tail=f"{BY_KIND}\n[[streams.s.index]]\nname = 'again'\nreplica = true")).streams["s"]
    text = [write_table("a.b", "key", {"x": True, "y": [1, "z"], "n": {}}), write_ladder("c", steps, "on-demand")]
    text += [write_indexes("d", policy.index), write_indexes("e", ())]
    assert tomllib.loads("\n".join(text))["streams"] == {
        "a.b": {"key": {"x": True, "y": [1, "z"], "n": {}}},
        "c": {
            "capacity": {
                "mode": "on-demand",
                "ladder": [
                    {"age": 0, "write": 5, "read": 6, "index": {"by.kind": {"write": 2, "read": 3}}},
                    {"age": 1, "class": "infrequent-access"},
                ],
            }
        },
        "d": {"index": [{"name": "by_kind", "partition_by": "kind"}, {"name": "again", "replica": True}]},
        "e": {"index": []},
    }


def test_documents_have_cents_and_tenths_of_days() -> None:
    finding = Finding("rule", "text", ("seen",), 12.3456, "lines", "low")
    document = Advice("s", 3.14159, (finding, replace(finding, saving=None)), ("else",)).document()
    assert (document["stream"], document["days"], document["missing"]) == ("s", 3.1, ["else"])
    assert [found["dollars_saved_per_month"] for found in document["findings"]] == [12.35, None]
    assert document["findings"][0] | {"dollars_saved_per_month": 0} == {
        "rule": "rule",
        "advice": "text",
        "evidence": ["seen"],
        "dollars_saved_per_month": 0,
        "toml": "lines",
        "confidence": "low",
    }


@pytest.mark.parametrize(
    ("saving", "words"),
    [
        (1234.5, "saves $1,234.50 per month"),
        (0.0, "saves $0.00 per month"),
        (-1.5, "costs $1.50 per month"),
        (None, "against throttling"),
    ],
)
def test_a_finding_says_what_it_saves_or_costs(saving: float | None, words: str) -> None:
    finding = Finding("rule", "take two shards", ("seen",), saving, "[a]\nb = 1", "low")
    lines = list(write_lines(Advice("s", 3.14159, (finding,), ("else",))))
    assert lines == [
        ("s: 1 to change, by 3.1 days", "bold"),
        ("", None),
        (f"  1. take two shards: {words} (confidence: low)", "green"),
        ("     - seen", None),
        ("", None),
        ("         [a]", None),
        ("         b = 1", None),
        ("  missing: else", "yellow"),
        ("", None),
    ]
    assert next(write_lines(Advice("s", 1.0, (), ())))[0] == "s: nothing to change, by 1.0 days"
