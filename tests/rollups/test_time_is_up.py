"""The time of a request is up at any of its looks at the time: its answer is right, or it is refused with too_much."""

from collections.abc import Callable
from itertools import count

import pytest
from msgspec.structs import replace

from tests.worlds.listings import ask_listing
from tests.worlds.rolled import MINUTES, PLAIN, SERIES, World, begin_rollups, reading
from tidetable.layout import Layout
from tidetable.periods import Kind
from tidetable.problems import ProblemError
from tidetable.query import indexed_series
from tidetable.query import whole as whole_reads

BY_DAY = replace(MINUTES, period=Kind.DAY)
RANGE = {"from": "2026-03-02T01:00:00Z", "to": "2026-03-02T04:00:00Z"}


def make_world(layout: Layout) -> World:
    """Buckets that are sealed, and two hours of events that are not: the refresher has not run."""
    world = begin_rollups((BY_DAY if layout is SERIES else MINUTES,), layout)
    world.write(*[reading(62 + number / 10, number, f"s{number % 3}", kind="x") for number in range(60)])
    world.refresh()
    world.sleep(8_000)
    world.write(*[reading(150 + number / 10, number, f"s{number % 3}", kind="x") for number in range(60)])
    return world


def expire_after(looks: int) -> Callable[[], float]:
    seen = count()
    return lambda: 100.0 if next(seen) < looks else 0.0


@pytest.mark.parametrize("layout", [PLAIN, SERIES], ids=["by time", "by series"])
def test_an_aggregate_is_whole_or_refused(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """One page at a time, so that a section takes several looks."""
    monkeypatch.setattr(whole_reads, "PAGES", 1)
    monkeypatch.setattr(indexed_series, "_RANGES", 2)
    world = make_world(layout)
    outcomes = []
    for looks in range(40):
        try:
            answer = world.ask(expire_after(looks), stat="count", **RANGE)
        except ProblemError as error:
            outcomes.append(f"{error.problem.status} {error.problem.code}")
        else:
            assert ([row["count"] for row in answer.rows], answer.next) == ([120], None)
            outcomes.append("whole")
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {"422 too_much", "whole"}


@pytest.mark.parametrize("layout", [PLAIN, SERIES], ids=["by time", "by series"])
def test_the_pages_of_an_aggregate_have_each_step_once(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_reads, "PAGES", 1)
    monkeypatch.setattr(indexed_series, "_RANGES", 2)
    world = make_world(layout)
    whole = [(row["start"], row["count"]) for row in world.ask(step="10m", stat="count", **RANGE).rows]
    assert sum(number for _, number in whole) == 120
    ends = set()
    for looks in [*range(1, 30), 200]:
        rows, parameters = [], {"step": "10m", "stat": "count", **RANGE}
        try:
            for _ in range(40):
                page = world.ask(expire_after(looks), **parameters)
                rows += [(row["start"], row["count"]) for row in page.rows]
                if page.next is None:
                    break
                parameters = {"cursor": page.next}
        except ProblemError as error:
            ends.add(f"{error.problem.status} {error.problem.code}")
        else:
            ends.add("whole")
            assert rows == whole
        assert rows == whole[: len(rows)]
    assert {"whole"} <= ends <= {"whole", "422 too_much"}


@pytest.mark.parametrize("what", ["fields", "kind"])
@pytest.mark.parametrize("layout", [PLAIN, SERIES], ids=["by time", "by series"])
def test_a_listing_is_whole_or_refused(what: str, layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_reads, "PAGES", 1)
    monkeypatch.setattr(indexed_series, "_RANGES", 2)
    world = make_world(layout)
    outcomes = []
    for looks in range(200):
        try:
            page = ask_listing(world, what, expire_after(looks), world.stream, **RANGE)
        except ProblemError as error:
            outcomes.append(f"{error.problem.status} {error.problem.code}")
        else:
            assert page.next is None
            assert page.count == (2 if what == "fields" else 1)
            outcomes.append("whole")
    assert outcomes == sorted(outcomes)
    assert set(outcomes) == {"422 too_much", "whole"}
