"""The rules about the layout and indexes at their edges: the last figures that are no reason, and the first that are.

14 days are 1,209,600 seconds, and a month has 730 hours: a million units on demand in that time cost $0.125 x 2.1726 per month.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from cli.advising.finding import Finding
from cli.advising.history import History, Hour, Resource, Use, Writing
from cli.advising.indexes import advise_hot, advise_missing, advise_unused
from cli.advising.layout import _lengthen, advise_bucket, advise_packs, advise_period, advise_shards
from cli.advising.measured import Measured
from tests.advice.hand_made import END, history, hour, set_prices
from tests.worlds.advised import BY_KIND, BY_SERIES, BY_TIME, stream
from tidetable.config import Capacity, Step, Stream

PER_UNIT = 0.125 * 730 * 3600 / 1_209_600 / 1e6
PROVISIONED = "{ age = 0, write = 143, read = 5 }, { age = 1, mode = 'on-demand' }"
M = 1_000_000


def use(queries: float, requests: float, units: float, share: float = 1.0, *conditions: str) -> Use:
    """Queries and requests in millions, the units of each request, and the share of what is read that is shown."""
    return Use("events", conditions, int(queries * M), int(requests * M), units * requests * M, 10**6, int(share * M))


def read(finding: Finding) -> Any:
    """The lines of a finding, as they are read in a file."""
    return tomllib.loads(finding.toml)["streams"]["s"]


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


def test_a_longer_period_is_judged_with_the_advised_capacity(monkeypatch: pytest.MonkeyPatch) -> None:
    advised = Capacity(mode="provisioned", ladder=(Step(age=0, write=7, read=7), Step(age=10, write=1, read=1)))
    prices = {"day": 100.0, "week": 10.0}
    seen: list[Stream] = []
    set_prices(monkeypatch, 0, lambda policy: seen.append(policy) or prices[policy.period.value])
    (finding,) = advise_period(Measured(history(stream(), 1)), advised)
    assert [[step.age for step in policy.capacity.ladder] for policy in seen] in ([[0, 2], [0, 10]], [[0, 10], [0, 2]])
    ladder = [{"age": 0, "write": 7, "read": 7}, {"age": 2, "write": 1, "read": 1}]
    assert read(finding) == {"period": "week", "retention": 1, "capacity": {"ladder": ladder}}


def test_ages_in_longer_periods_are_rounded_up_and_the_last_of_equal_ones_holds() -> None:
    steps = [Step(age=age, write=10 - number) for number, age in enumerate((0, "late", 1, 7, 8))]
    assert [(step.age, step.write) for step in _lengthen(tuple(steps), 7.0)] == [(0, 10), ("late", 9), (1, 7), (2, 6)]


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
        (stream(f'{FOUR}\nshard_by = "series"'), SMALL, 500, 1, False),
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
    seen: list[Stream] = []
    set_prices(monkeypatch, 100, lambda policy: seen.append(policy) or 1.0)
    (finding,) = advise_packs(Measured(history(stream(capacity=PROVISIONED), 1, writing=SMALL)))
    assert [(step.write, step.read) for step in seen[0].capacity.ladder] == [(29, 5), (None, None)]
    assert (finding.saving, len(finding.evidence)) == (99, 3)


OWN_UNITS = (
    "{ age = 0, write = 9, read = 9, index = { own_a = { write = 2, read = 2 }, own_b = { write = 3, read = 3 } } }"
)
TWO_INDEXES = "\n".join(f'[[streams.s.index]]\nname = "own_{name}"\npartition_by = "of_{name}"' for name in "ab")


def read_by_import(own: History) -> History:
    """The history with a table to which a backfill wrote, and whose first index was read."""
    table = Resource(own.resources[0].period, "own_a", 1, (Hour(END, read=1.0),), imported=True)
    return replace(own, resources=(*own.resources, table))


@pytest.mark.parametrize(
    ("written", "then", "days", "is_read", "confidence"),
    [
        (1.0, 95, 28, False, "high"),
        (1.0, 95, 27, False, "medium"),
        (1.0, 95.01, 28, False, None),
        (0.0, 1, 28, False, None),
        (1.0, 1, 28, True, None),
    ],
)
def test_an_index_is_unused_that_is_written_and_that_no_table_read(
    written: float, then: float, days: int, is_read: bool, confidence: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads of a table to which a backfill wrote are reads, too."""
    seen: list[Stream] = []
    set_prices(monkeypatch, 100, lambda policy: seen.append(policy) or then)
    used = {"own_a": hour(END, written), "own_b": hour(END, 1, 1)}
    own = history(stream(capacity=OWN_UNITS, tail=TWO_INDEXES), 1, days=days, indexes=used)
    found = list(advise_unused(Measured(read_by_import(own) if is_read else own)))
    assert [finding.confidence for finding in found] == ([confidence] if confidence else [])
    if confidence:
        assert read(found[0]) == {"index": [{"name": "own_b", "partition_by": "of_b"}]}
        assert [list(step.index) for step in seen[0].capacity.ladder] == [["own_b"]]


def index_of(*fields: str) -> list[dict[str, str]]:
    return [{"name": f"by_{field}", "partition_by": field} for field in fields]


ONE = "customer:eq"
BY_CUSTOMER_OF_KIND = '[[streams.s.index]]\nname = "by_order"\nkind = "type"\npartition_by = { order = "customer" }'


@pytest.mark.parametrize(
    ("text", "uses", "indexes", "saving"),
    [
        # Half of 100 million units are for what is shown, and the index costs three dollars.
        (stream(), [use(0.1, 0.1, 1000, 0.5, ONE)], [["customer"]], (50 - 0.05) * M * PER_UNIT - 3),
        (stream(), [use(0.1, 0.1, 1000, 0.5, "customer:in", "series:eq", "id:eq", "size:ge")], [["customer"]], None),
        (stream(), [use(0.1, 0.1, 1000, 0.51, ONE)], [], None),
        (stream(), [use(0.1, 0.1, 1000, 0.5, ONE)._replace(route="aggregate")], [], None),
        (stream(tail='[streams.s.pack]\nspan = "1m"'), [use(0.1, 0.1, 1000, 0.5, ONE)], [], None),
        (stream(tail=BY_CUSTOMER_OF_KIND), [use(0.1, 0.1, 1000, 0.5, ONE)], [], None),
        (stream(capacity=PROVISIONED), [use(0.1, 0.1, 1000, 0.5, ONE)], [], None),
        # Each query, and each period that it meets, takes half a unit of the index.
        (stream(), [use(90, 90, 1.11, 0.5, ONE)], [], None),
        (stream(), [use(1, 80, 1.25, 0.5, ONE)], [], None),
        (
            stream(f"{HOURLY}\nshards = 2"),
            [use(1, 80, 1.25, 0.5, ONE)],
            [["customer"]],
            (50 - 0.5 * 1 / 0.6) * M * PER_UNIT - 3,
        ),
        (stream(), [Use("events", (ONE,), 100, refused=True)], [["customer"]], -3),
        (stream(), [Use("events", (ONE,), 99, refused=True)], [], None),
        (stream(), [Use("events", (ONE,), 100, refused=True), use(10, 10, 0.1, 0.1, ONE)], [["customer"]], -3),
        # The best field first, and then those that help other queries.
        (
            stream(),
            [
                use(0.1, 0.1, 1000, 0.1, ONE, "shop:eq"),
                use(0.1, 0.1, 1000, 0.1, "shop:eq"),
                use(0.1, 0.1, 1000, 0.1, "till:eq"),
            ],
            [["shop"], ["till"]],
            None,
        ),
    ],
)
def test_a_new_index_is_for_queries_that_show_half_of_what_they_read_or_less(
    text: str, uses: Sequence[Use], indexes: list[list[str]], saving: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_prices(monkeypatch, 100, lambda policy: 100.0 + 3 * len(policy.index))
    found = list(advise_missing(Measured(history(text, 1, uses=tuple(uses)))))
    assert [read(finding)["index"] for finding in found] == [index_of(*fields) for fields in indexes]
    if saving is not None:
        assert found[0].saving == pytest.approx(saving, abs=0.01)


def test_an_index_by_a_field_is_named_by_it_and_stands_beside_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    set_prices(monkeypatch, 100, lambda policy: 100.0 + 3 * len(policy.index))
    fields = ["Place.State", "x" * 70]
    uses = tuple(Use("events", (f"{field}:eq",), 100, refused=True) for field in fields)
    found = [
        read(finding)["index"] for finding in advise_missing(Measured(history(stream(tail=BY_KIND), 1, uses=uses)))
    ]
    assert [[index["name"] for index in some] for some in found] == [
        ["by_kind", "by_place_state"],
        ["by_kind", "by_" + "x" * 60],
    ]


def test_a_hot_index_has_twice_its_shards_if_tables_with_so_many_are_throttled() -> None:
    """Late events throttle it, too; the other index stays, and so do tables that have fewer shards."""
    tail = TWO_INDEXES.replace('"of_a"', '"of_a"\nshards = 3')
    own = history(stream(tail=tail), 1, indexes={"own_b": hour(END, 1)})
    period = own.resources[0].period
    hours = tuple(replace(hour(END), throttles={("Write", "KeyRangeThroughput"): 50.0}) for _ in range(3))
    fewer = Resource(period, "own_a", 2, hours)
    assert not list(advise_hot(Measured(replace(own, resources=(*own.resources, fewer)))))
    (finding,) = advise_hot(Measured(replace(own, resources=(*own.resources, replace(fewer, shards=3)))))
    assert read(finding) == {
        "index": [
            {"name": "own_a", "partition_by": "of_a", "shards": 6},
            {"name": "own_b", "partition_by": "of_b"},
        ]
    }
