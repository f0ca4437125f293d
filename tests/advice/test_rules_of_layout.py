"""The rules about the layout and indexes at their edges: the last figures that are no reason, and the first that are.

14 days are 1,209,600 seconds, and a month has 730 hours: a million units on demand in that time cost $0.125 x 2.1726 per month.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cli.advising.history import Use, Writing
from cli.advising.layout import _stretch_ladder, advise_bucket, advise_packs, advise_period, advise_shards
from cli.advising.measured import Measured
from tests.advice.hand_made import PER_UNIT, PROVISIONED, M, history, read, set_prices, use
from tests.worlds.advised import BY_KIND, BY_SERIES, BY_TIME, stream
from tidetable.config import Capacity, LadderStep

HOURLY = 'partition_by = "time"\nbucket = "1h"'
BY_HOUR = 'period = "hour"\nlate = "15m"\nretention = 40'


@pytest.mark.parametrize(
    ("text", "used", "bucket", "saved"),
    [
        (stream(HOURLY), use(5, 40, 0.75), "24h", 0.5 * 40 * 23 / 24),
        (stream(HOURLY), use(6, 42, 0.75), None, 0),
        (stream(HOURLY), use(5, 40, 0.76), None, 0),
        # It would save $4.95.
        (stream(HOURLY), use(4, 38, 0.75), None, 0),
        (stream(HOURLY), use(0, 40, 0.75), None, 0),
        (stream(BY_TIME), use(5, 400, 0.75), None, 0),
        (stream(BY_SERIES), use(5, 400, 0.75), None, 0),
        # A provisioned unit costs less than half of 2.6 million requests.
        (stream(HOURLY, capacity=PROVISIONED), use(5, 40, 0.75), None, 0),
        (stream('partition_by = "time"\nbucket = "15m"', head=BY_HOUR), use(5, 60, 0.5), "1h", 0.5 * 60 * 3 / 4),
        (stream(HOURLY, head=BY_HOUR), use(5, 400, 0.5), None, 0),
    ],
)
def test_longer_buckets_are_for_queries_of_eight_ranges_that_hold_little(
    text: str, used: Use, bucket: str | None, saved: float
) -> None:
    found = list(advise_bucket(Measured(history(text, 1, uses=(used,)))))
    assert [read(finding) for finding in found] == ([{"key": {"bucket": bucket}}] if bucket else [])
    assert [finding.saving for finding in found] == ([pytest.approx(saved * M * PER_UNIT)] if bucket else [])


FOUR = f"{BY_TIME}\nshards = 4"


@pytest.mark.parametrize(
    ("key", "peak", "uses", "shards", "saved"),
    [
        (FOUR, 500, (use(10, 60, 0.75),), 1, 0.5 * 60 * 3 / 4),
        (FOUR, 501, (use(10, 90, 0.5),), 2, 0.5 * 90 / 2),
        (FOUR, 1501, (use(10, 900, 0.5),), None, 0),
        (FOUR, 500, (use(10, 120, 0.76),), 1, 0.25 * 120 * 3 / 4),
        (FOUR, 500, (use(10, 60, 0.76),), None, 0),
        (FOUR, 500, (use(10, 30, 0.5), use(10, 30, 0.5)._replace(refused=True)), None, 0),
        (FOUR, 500, (), None, 0),
        (BY_TIME, 100, (use(10, 900, 0.5),), None, 0),
        (f"{BY_SERIES}\nshards = 4", 100, (use(10, 900, 0.5),), None, 0),
    ],
)
def test_fewer_shards_are_for_what_is_read_by_many_ranges_in_vain(
    key: str, peak: float, uses: tuple[Use, ...], shards: int | None, saved: float
) -> None:
    found = list(advise_shards(Measured(history(stream(key), peak, uses=uses)), enough=True))
    assert [read(finding) for finding in found] == ([{"key": {"shards": shards}}] if shards else [])
    assert [finding.saving for finding in found] == ([pytest.approx(saved * M * PER_UNIT)] if shards else [])


@pytest.mark.parametrize(("peak", "units", "times"), [(100, 0.5, "0.7"), (10, 0.5, "7.4"), (10, 0.25, "3.7")])
def test_fewer_shards_say_what_reads_cost_beside_writes(peak: float, units: float, times: str) -> None:
    """In 14 days, 900 M requests of half a unit take 450 M units, and 100 per second 121 M units of five times the price."""
    measured = Measured(history(stream(FOUR), peak, uses=(use(10, 900, units),)))
    (finding,) = advise_shards(measured, enough=True)
    assert finding.evidence[0] == f"write units per second at the peak: {peak}; 1 shards take 1,000"
    assert finding.evidence[2].startswith(f"reads cost {times} times as much as writes: ")


@pytest.mark.parametrize(
    ("events", "peak", "then", "shards"),
    [
        # 600 events over 64 shards are 9 in a pack: 30 fill a write unit.
        (600, 1, 90, 20),
        (600, 1, 90.1, None),
        (600, 10_001, 1, 21),
        (1_920, 1, 1, None),
        (5, 1, 90, 1),
    ],
)
def test_fewer_shards_are_for_packs_of_few_events(
    events: int, peak: float, then: float, shards: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever queries read: a query of a series reads one shard."""
    set_prices(monkeypatch, 100, then)
    text = stream(f'{BY_TIME}\nshards = 64\nshard_by = "series"', tail='[streams.s.pack]\nspan = "1m"')
    own = history(text, peak, uses=(use(10, 900, 0.5),), writing=Writing(10, 10 * events))
    own = replace(own, resources=tuple(replace(resource, packed=True) for resource in own.resources))
    assert [read(finding) for finding in advise_shards(Measured(own), enough=True)] == (
        [{"key": {"shards": shards}}] if shards else []
    )
    assert not list(advise_shards(Measured(replace(own, writing=None)), enough=True))


@pytest.mark.parametrize(("days", "confidence"), [(12, "medium"), (13, "high")])
def test_two_weeks_but_a_day_make_a_saving_certain(days: int, confidence: str) -> None:
    measured = Measured(history(stream(FOUR), 1, days=days, uses=(use(10, 900, 0.5),)))
    assert [finding.confidence for finding in advise_shards(measured, enough=True)] == [confidence]
    assert not list(advise_shards(measured, enough=False))


OFTEN = {"Write_KeyRangeThroughput": 300 * 3600}
RARELY = {"Write_KeyRangeThroughput": 36}
TWO = f"{BY_TIME}\nshards = 2"


@pytest.mark.parametrize(
    ("key", "peak", "throttles", "shares", "lines", "confidence"),
    [
        (TWO, 1500, OFTEN, None, {"shards": 4}, "high"),
        (TWO, 10, RARELY, None, {"shards": 3}, "high"),
        (f"{BY_SERIES}\nshards = 2", 4000, OFTEN, {"a#0": 0.3, "b#0": 0.1}, {"shards": 6}, "high"),
        (f"{BY_SERIES}\nshards = 2", 4000, OFTEN, None, {"shards": 4}, "low"),
        (f'{FOUR}\nshard_by = "series"', 3000, OFTEN, {"2": 0.38, "0": 0.3}, {"shard_by": "id"}, "high"),
        (f'{FOUR}\nshard_by = "series"', 3000, OFTEN, {"2": 0.37, "0": 0.3}, {"shards": 7}, "high"),
    ],
)
def test_shards_are_twice_as_many_as_the_demand_of_the_heaviest_key_needs(
    key: str, peak: float, throttles: dict[str, float], shares: Any, lines: Any, confidence: str
) -> None:
    measured = Measured(history(stream(key), peak, throttles=throttles, shares=shares))
    (finding,) = advise_shards(measured, enough=False)
    assert (read(finding), finding.confidence, finding.saving) == ({"key": lines}, confidence, None)


def test_throttles_of_tables_with_fewer_shards_are_no_reason_for_more() -> None:
    own = history(stream(TWO), 1500, throttles=OFTEN)
    former = tuple(replace(resource, shards=1) for resource in own.resources[:-1])
    last = replace(own.resources[-1], hours=tuple(replace(one, throttles={}) for one in own.resources[-1].hours))
    assert not list(advise_shards(Measured(replace(own, resources=(*former, last))), enough=False))


@pytest.mark.parametrize(
    ("period", "now", "then", "longer"),
    [
        ("day", 1000, 900, {"period": "week", "retention": 2}),
        ("day", 1000, 901, None),
        ("day", 40, 35, {"period": "week", "retention": 2}),
        ("day", 40, 35.01, None),
        ("week", 1000, 100, {"period": "month", "retention": 2}),
        ("month", 1000, 100, None),
    ],
)
def test_a_longer_period_must_save_five_dollars_and_a_tenth(
    period: str, now: float, then: float, longer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight days or weeks are two weeks or months at the least, of which none may be missing."""
    measured = Measured(history(stream(head=f'period = "{period}"\nlate = "1h"\nretention = 8'), 1))
    set_prices(monkeypatch, 0, lambda policy: now if policy.period.value == period else then)
    found = list(advise_period(measured, measured.stream.capacity))
    assert [read(finding) for finding in found] == ([longer] if longer else [])
    assert [finding.saving for finding in found] == ([now - then] if longer else [])


def test_auto_scaling_keeps_the_period(monkeypatch: pytest.MonkeyPatch) -> None:
    scaled = "[streams.s.capacity.autoscaling]\nwrite = { min = 1, max = 1000 }"
    set_prices(monkeypatch, 0, lambda policy: 100.0 if policy.period.value == "day" else 10.0)
    measured = Measured(history(stream(capacity=PROVISIONED.partition(", {")[0], tail=scaled), 1))
    assert not list(advise_period(measured, measured.stream.capacity))


def test_a_longer_period_is_judged_with_the_advised_capacity(monkeypatch: pytest.MonkeyPatch) -> None:
    advised = Capacity(
        mode="provisioned", ladder=(LadderStep(age=0, write=7, read=7), LadderStep(age=10, write=1, read=1))
    )
    prices = {"day": 100.0, "week": 10.0}
    seen: Any = []
    set_prices(monkeypatch, 0, lambda policy: seen.append(policy) or prices[policy.period.value])
    (finding,) = advise_period(Measured(history(stream(), 1)), advised)
    assert [[step.age for step in policy.capacity.ladder] for policy in seen] in ([[0, 2], [0, 10]], [[0, 10], [0, 2]])
    ladder = [{"age": 0, "write": 7, "read": 7}, {"age": 2, "write": 1, "read": 1}]
    assert read(finding) == {"period": "week", "retention": 1, "capacity": {"ladder": ladder}}


def test_ages_in_longer_periods_are_rounded_up_and_the_last_of_equal_ones_holds() -> None:
    ages: Any = (0, "late", 1, 7, 8)
    steps = [LadderStep(age=age, write=10 - number) for number, age in enumerate(ages)]
    assert [(step.age, step.write) for step in _stretch_ladder(tuple(steps), 7.0)] == [
        (0, 10),
        ("late", 9),
        (1, 7),
        (2, 6),
    ]


SMALL = Writing(10, 100)


@pytest.mark.parametrize(
    ("text", "writing", "size", "then", "found"),
    [
        (stream(), SMALL, 500, 90, True),
        (stream(), SMALL, 500, 90.1, False),
        (stream(), Writing(10, 99), 500, 1, False),
        (stream(), None, 500, 1, False),
        (stream(), SMALL, 0, 1, False),
        (stream(tail=BY_KIND), SMALL, 500, 1, False),
        (stream(head='period = "day"\nlate = "1h"\nretention = 7\nversions = "keep"'), SMALL, 500, 1, False),
        (stream(head='period = "day"\nlate = "1h"\nretention = 7\ncold = ["text"]'), SMALL, 500, 1, False),
        (stream(f'{FOUR}\nshard_by = "series"'), SMALL, 500, 1, True),
        (stream(tail='[streams.s.pack]\nspan = "1m"'), SMALL, 500, 1, False),
    ],
)
def test_packs_are_for_ten_events_per_request_where_nothing_forbids_them(
    text: str, writing: Writing | None, size: int, then: float, found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_prices(monkeypatch, 100, then)
    measured = Measured(history(text, 1, size=size, writing=writing))
    assert [read(finding) for finding in advise_packs(measured)] == ([{"pack": {"span": "1m"}}] if found else [])


def test_packs_save_by_fewer_provisioned_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten events of 125 bytes in packs, and 130 bytes of it, are two units in place of ten."""
    seen: Any = []
    set_prices(monkeypatch, 100, lambda policy: seen.append(policy) or 1.0)
    (finding,) = advise_packs(Measured(history(stream(capacity=PROVISIONED), 1, writing=SMALL)))
    assert [(step.write, step.read) for step in seen[0].capacity.ladder] == [(29, 5), (None, None)]
    assert (finding.saving, len(finding.evidence)) == (99, 3)
