"""The rules about capacity at their edges, the order of the findings, and what is said to be missing."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from cli.advising import advise
from cli.advising.capacity import choose_capacity, raise_maximum
from cli.advising.history import History, Writing
from cli.advising.measured import Measured
from tests.advice.hand_made import END, history, hour, set_prices
from tests.worlds.advised import BY_KIND, BY_SERIES, stream

STEPS = '{{ age = 0, write = {0}, read = 10 }}, {{ age = "late", write = 10, read = 10 }}, {{ age = 1, write = 1, read = 1 }}'
PROVISIONED = STEPS.format(100)
OLD = {"age": 1, "write": 1, "read": 1}
# Four requests per second, each hour.
WRITES = {"Write_ProvisionedThroughput": 4 * 3600}
READS = {"Read_ProvisionedThroughput": 4 * 3600}


def ladder(write: int, read: int, late: int = 10, **index: dict[str, int]) -> list[dict[str, Any]]:
    more = {"index": index} if index else {}
    return [{"age": 0, "write": write, "read": read} | more, {"age": "late", "write": late, "read": 10}, OLD]


def choose(own: History, *, enough: bool) -> Any:
    """The lines of the advised capacity; None if there is none."""
    capacity, finding = choose_capacity(Measured(own), enough=enough)
    if finding is None:
        assert capacity == own.stream.capacity
        return None
    return tomllib.loads(finding.toml)["streams"]["s"]["capacity"]


def throttled(units: float = 8, *, capacity: str = PROVISIONED, **known: Any) -> History:
    return history(stream(head=HEAD, capacity=capacity, tail=known.pop("tail", "")), units, days=1, **known)


HEAD = 'period = "day"\nlate = "7d"\nretention = 7'
OWN = "{{ age = 0, write = 100, read = 10, index = {{ by_kind = {{ write = {0}, read = 5 }} }} }}"
LATE = hour(END, 6, Write_ProvisionedThroughput=8 * 3600)
FEW_LATE = throttled(100, throttles=WRITES, late=hour(END, 2, Write_ProvisionedThroughput=1))
ONCE = {"Write_ProvisionedThroughput": 20}
SAME = (
    "{ age = 0, write = 100, read = 10, index = { by_kind = { write = 100, read = 10 } } },"
    " { age = 1, write = 1, read = 1, index = { by_kind = { write = 1, read = 1 } } }"
)
OF_INDEX = hour(END, 4, Write_ProvisionedThroughput=6 * 3600)


@pytest.mark.parametrize(
    ("own", "advised"),
    [
        # (8 + 4) / 0.7 read units; write units are not lowered for a day of little traffic.
        (throttled(reads=8, throttles=READS), ladder(100, 18)),
        (throttled(100, throttles=WRITES), ladder(149, 10)),
        # (6 + 8) / 0.7 units for late events, in three hours of which they were throttled; never more than for the others.
        (replace(throttled(late=LATE), resources=throttled(late=LATE).resources * 3), ladder(100, 10, 20)),
        (
            replace(
                throttled(),
                stream=throttled(capacity=STEPS.format(15)).stream,
                resources=throttled(late=LATE).resources * 3,
            ),
            ladder(15, 10, 15),
        ),
        # 90 events in all are no pattern.
        (throttled(throttles={"Write_ProvisionedThroughput": 90 / 24}), None),
        # An index keeps its units while the table gets more, and one that is throttled itself gets more of its own.
        (
            throttled(
                100, capacity=f"{OWN.format(40)}, {PROVISIONED.partition('}, ')[2]}", throttles=WRITES, tail=BY_KIND
            ),
            ladder(149, 10, by_kind={"write": 40, "read": 5}),
        ),
        (
            throttled(100, throttles=WRITES, tail=BY_KIND, indexes={"by_kind": hour(END, 4)}),
            ladder(149, 10, by_kind={"write": 100, "read": 10}),
        ),
        (
            throttled(
                100,
                capacity=f"{OWN.format(5)}, {PROVISIONED.partition('}, ')[2]}",
                throttles=WRITES,
                tail=BY_KIND,
                indexes={"by_kind": OF_INDEX},
            ),
            ladder(149, 10, by_kind={"write": 15, "read": 5}),
        ),
        # Three throttled late events are no pattern, and the units of their step stay, although they are too many.
        (replace(FEW_LATE, resources=FEW_LATE.resources * 3), ladder(149, 10)),
        # Nothing is to be raised: the units of the index stand for themselves, although they are those of the table.
        (
            throttled(60, reads=6, capacity=SAME, throttles=ONCE, tail=BY_KIND, indexes={"by_kind": hour(END, 60, 6)}),
            None,
        ),
        # On-demand tables have no units, whatever throttled their forerunners.
        (throttled(capacity="{ age = 0, mode = 'on-demand' }", throttles=WRITES | READS), None),
    ],
)
def test_a_day_of_throttles_raises_what_was_throttled_and_lowers_nothing(
    own: History, advised: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_prices(monkeypatch, 100, 110)
    found = choose(own, enough=False)
    assert found == (None if advised is None else {"ladder": advised})


@pytest.mark.parametrize(
    ("now", "then", "found"), [(100, 90, True), (100, 90.1, False), (40, 35, True), (40, 35.1, False)]
)
def test_a_capacity_must_save_five_dollars_and_a_tenth(
    now: float, then: float, found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_prices(monkeypatch, now, then)
    assert (choose(history(stream(capacity=PROVISIONED), 8), enough=True) is not None) is found


@pytest.mark.parametrize(
    ("days", "throttles", "confidence"),
    [(12, {}, "medium"), (13, {}, "high"), (13, WRITES, "medium"), (13, READS, "medium")],
)
def test_a_saving_is_certain_after_two_weeks_but_a_day_without_throttles(
    days: int, throttles: dict[str, float], confidence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_prices(monkeypatch, 100, 10)
    measured = Measured(history(stream(capacity=PROVISIONED), 8, days=days, throttles=throttles))
    _, finding = choose_capacity(measured, enough=True)
    assert finding is not None
    assert finding.confidence == confidence


OLDER = "{ age = 1, write = 1, read = 1 }, { age = 2, write = 1, read = 1, class = 'infrequent-access' }"


def test_on_demand_tables_keep_the_steps_that_change_their_class(monkeypatch: pytest.MonkeyPatch) -> None:
    set_prices(monkeypatch, 100, lambda policy: 10.0 if policy.capacity.mode == "on-demand" else 90.0)
    assert choose(history(stream(capacity=f"{{ age = 0, write = 9, read = 5 }}, {OLDER}"), 20), enough=True) == {
        "mode": "on-demand",
        "ladder": [{"age": 0}, {"age": 2, "class": "infrequent-access"}],
    }


def test_steps_of_on_demand_tables_stay_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    set_prices(monkeypatch, 100, lambda policy: 10.0 if policy.capacity.ladder[0].write else 90.0)
    cold = "class = 'infrequent-access'"
    capacity = f"{{ age = 0 }}, {{ age = 'late', {cold} }}, {{ age = 1, {cold} }}"
    text = stream(head=HEAD, capacity=capacity).replace('"provisioned"', '"on-demand"')
    assert [step["age"] for step in choose(history(text, 8), enough=True)["ladder"]] == [0, "late", 1]


@pytest.mark.parametrize("capacity", ["", PROVISIONED])
def test_a_step_for_late_events_has_no_more_units_than_the_others(
    capacity: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 500 units per second after the period's end the table takes as many as it does before: 10 / 0.7."""
    set_prices(monkeypatch, 100, lambda policy: 50.0 if policy.capacity.late_step else 80.0)
    own = history(stream(head=HEAD, capacity=capacity), 10, reads=7, late=hour(END, 500))
    found = choose(own, enough=True)
    late = 10 if capacity else 15
    assert found["ladder"][:2] == [
        {"age": 0, "write": 15, "read": 10},
        {"age": "late", "write": late, "read": 10},
    ]


def test_an_index_keeps_up_to_half_more_units_than_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs 2.8 / 0.7 read units, and 4 / 0.7 write units."""
    set_prices(monkeypatch, 100, lambda policy: 10.0 if policy.capacity.ladder[0].write else 90.0)
    capacity = f"{OWN.format(8)}, {PROVISIONED.partition('}, ')[2]}"
    own = history(stream(capacity=capacity, tail=BY_KIND), 8, indexes={"by_kind": hour(END, 4, 2.8)})
    assert choose(own, enough=True)["ladder"][0]["index"] == {"by_kind": {"write": 8, "read": 5}}


@pytest.mark.parametrize(
    "text",
    [
        stream(capacity=PROVISIONED, tail="[streams.s.capacity.autoscaling]\nwrite = { min = 1, max = 100 }"),
        stream(tail="[streams.s.capacity]\nmax = { write = 500, read = 100 }"),
    ],
)
def test_auto_scaling_and_maxima_leave_the_capacity_as_it_is(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    set_prices(monkeypatch, 100, 10)
    assert choose(history(text, 8), enough=True) is None


def test_warm_throughput_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    set_prices(monkeypatch, 100, 10)
    text = stream(tail="[streams.s.capacity]\nwarm = { write = 5000, read = 13000 }")
    measured = Measured(history(text, 8))
    advised, _ = choose_capacity(measured, enough=True)
    assert advised.warm == measured.stream.capacity.warm is not None


def test_a_change_of_the_units_is_none_of_the_late_step_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    set_prices(monkeypatch, 100, 110)
    own = throttled(100, throttles=WRITES, late=LATE)
    own = replace(own, resources=own.resources * 3)
    finding = choose_capacity(Measured(own), enough=False)[1]
    assert finding is not None
    assert (finding.rule, finding.saving) == ("units", -10)
    late = choose_capacity(
        Measured(replace(throttled(late=LATE), resources=throttled(late=LATE).resources * 3)), enough=False
    )[1]
    assert late is not None
    assert late.rule == "late"


@pytest.mark.parametrize(
    ("most", "peak", "rate", "raised"),
    [
        ("{ write = 500, read = 100 }", 100, 20, {"write": 500, "read": 172}),
        ("{ write = 500, read = 100 }", 100, 90, {"write": 500, "read": 200}),
        # It was raised since then.
        ("{ write = 500, read = 150 }", 100, 5, None),
        ("{ write = 500, read = 100 }", 100, 0.001, None),
    ],
)
def test_a_maximum_is_raised_at_most_to_twice_itself(most: str, peak: float, rate: float, raised: Any) -> None:
    throttles = {"Read_MaxOnDemandThroughput": rate * 3600}
    text = stream(tail=f"[streams.s.capacity]\nmax = {most}")
    found = list(raise_maximum(Measured(history(text, 1, days=1, reads=peak, throttles=throttles))))
    lines = [tomllib.loads(finding.toml)["streams"]["s"]["capacity"] for finding in found]
    assert lines == ([] if raised is None else [{"max": raised}])


def price_by_indexes(**dollars: float) -> Any:
    """A policy's price: that of each of its indexes."""
    return lambda policy: sum(dollars[index.name] for index in policy.index)


def test_throttles_come_first_and_then_the_largest_saving(monkeypatch: pytest.MonkeyPatch) -> None:
    tail = "\n".join(f'[[streams.s.index]]\nname = "own_{name}"\npartition_by = "{name}"' for name in "ab")
    hot = {"Write_KeyRangeThroughput": 3600}
    indexes = {"own_a": hour(END, 10), "own_b": hour(END, 50)}
    set_prices(monkeypatch, 100, price_by_indexes(own_a=40, own_b=60))
    found = advise(history(stream(BY_SERIES, tail=tail), 50, days=7, throttles=hot, indexes=indexes)).findings
    assert [(finding.text, finding.saving) for finding in found] == [
        ("take 2 shards", None),
        ("remove the index own_b", 60),
        ("remove the index own_a", 40),
    ]


def test_what_costs_more_against_throttling_comes_before_any_saving(monkeypatch: pytest.MonkeyPatch) -> None:
    set_prices(monkeypatch, 100, lambda policy: 50.0 if not policy.index else 101.0)
    text = stream(capacity=PROVISIONED, tail=BY_KIND)
    own = history(text, 100, days=7, throttles=WRITES, indexes={"by_kind": hour(END, 1)})
    assert [finding.saving for finding in advise(own).findings] == [-1, 50]


@pytest.mark.parametrize(("days", "judged"), [(7, True), (6, False)])
def test_a_week_suffices_for_the_bill(days: int, judged: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few minutes less are a week, too."""
    set_prices(monkeypatch, 100, lambda policy: 100.0 if policy.index else 50.0)
    own = history(stream(tail=BY_KIND), 1, days=days, indexes={"by_kind": hour(END, 1)})
    for start in (own.start, own.start + timedelta(minutes=14)):
        assert bool(advise(replace(own, start=start)).findings) is judged


SCALED = "[streams.s.capacity.autoscaling]\nwrite = { min = 1, max = 100 }"


@pytest.mark.parametrize(
    ("text", "known", "missing"),
    [
        (stream(), {"throttles": {"Write_AccountLimit": 1}}, "24 writes were throttled by the account's limit"),
        (stream(capacity=PROVISIONED, tail=SCALED), {}, "auto scaling sets the units by itself"),
        (stream(tail="[streams.s.capacity]\nmax = { write = 500, read = 100 }"), {}, "the tables have a maximum"),
        (stream(), {"uses": None}, "the queries' conditions are not known"),
        (stream(), {"writing": None}, "the events per request are not known"),
        (stream(), {"throttles": {"Write_KeyRangeThroughput": 4.2}}, "the heaviest partition keys are not known"),
        (stream(), {"throttles": {"Write_KeyRangeThroughput": 4.1}}, None),
        (stream(), {"imported": True}, "1 tables were left out"),
        (stream(), {}, None),
    ],
)
def test_what_is_not_judged_is_said(text: str, known: dict[str, Any], missing: str | None) -> None:
    imported = known.get("imported", False)
    own = history(text, 1, days=1, **({"writing": Writing(1, 1)} | {k: v for k, v in known.items() if k != "imported"}))
    if imported:
        earlier = replace(own.resources[0], period=own.resources[0].period.shift(-1), imported=True)
        own = replace(own, resources=(*own.resources, earlier))
    days, *said = advise(own).missing
    assert days.startswith("1.0 days are measured")
    assert [line.startswith(missing) for line in said if missing] == ([True] if missing else [])
    assert bool(said) is (missing is not None)
