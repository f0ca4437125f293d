"""A run that ends before it has computed all marked buckets leaves less to the next run."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes.refresher import refresh_rollups
from tests.worlds.rolled import LENGTH, MINUTES, QUERIES, START, World, begin_rollups, reading
from tidetable.ports import Mark, RollupState
from tidetable.rollups import reseal as resealing
from tidetable.rollups.bucket import Computed, compute_bucket
from tidetable.rollups.run import RefreshReport


def refresh_slowly(
    world: World, runs: int, monkeypatch: pytest.MonkeyPatch, seconds: float = 40.0
) -> list[tuple[int, int, bool]]:
    """The resealed buckets, the remaining marks and the end of some runs of 40 seconds; a bucket takes 10 seconds."""
    spent: list[object] = []

    def compute_slowly(*details: Any, divides: bool) -> Computed:
        spent.append(details[1])
        return compute_bucket(*details, divides=divides)

    monkeypatch.setattr(resealing, "compute_bucket", compute_slowly)
    reports: list[RefreshReport] = []
    for _ in range(runs):
        spent.clear()
        services = replace(world.services(), remaining=lambda: seconds - 10 * len(spent))
        report = refresh_rollups(world.definitions, services, "run", LENGTH)
        assert report is not None
        assert world.check(QUERIES) > 0
        reports.append(report)
    return [(report.resealed, report.marks, report.finished) for report in reports]


def test_marks_within_one_long_bucket_are_cleared_though_one_run_cannot_compute_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Six buckets of ten minutes lie in one hour. A run computes four buckets."""
    world = begin_rollups()
    world.sleep(10_000)
    world.refresh()
    world.write(*[reading(61 + 10 * n, n, kind="x") for n in range(6)])
    world.sleep(400)
    assert refresh_slowly(world, 2, monkeypatch, 45.0) == [(4, 3, False), (4, 0, True)]


def test_a_run_goes_on_if_it_cannot_compute_all_buckets_of_any_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mark of an hour covers six buckets of ten minutes: no mark could be cleared if the run stopped at half its time."""
    world = begin_rollups()
    world.sleep(10_000)
    world.refresh()
    world.rollups.put_marks("s", [START + timedelta(hours=1)], 0, timedelta(hours=1))
    assert refresh_slowly(world, 1, monkeypatch, 41.0) == [(4, 1, False)]


@pytest.mark.parametrize(("seconds", "resealed"), [(3.0, 1), (2.999, 0)])
def test_a_marked_bucket_is_computed_if_the_reserve_of_a_request_is_left(seconds: float, resealed: int) -> None:
    world = begin_rollups((MINUTES,))
    world.refresh()
    world.rollups.put_marks("s", [START + timedelta(minutes=20)], 0, MINUTES.every)
    report = refresh_rollups(world.definitions, replace(world.services(), remaining=lambda: seconds), "run", LENGTH)
    assert report is not None
    assert (report.resealed, report.marks, report.finished) == (resealed, 1 - resealed, bool(resealed))


class CountedMark(Mark):
    """A mark that counts how often it is compared with another mark."""

    comparisons = 0
    __hash__ = Mark.__hash__

    def __eq__(self, other: object) -> bool:
        CountedMark.comparisons += 1
        return super().__eq__(other)


def test_each_mark_is_not_compared_with_all_other_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """An import of a year with a rollup of minutes puts half a million marks."""
    world = begin_rollups()
    world.sleep(60 * 3_600)
    world.refresh()
    buckets = [START + timedelta(hours=2) + number * MINUTES.every for number in range(240)]
    world.rollups.put_marks("s", buckets, 0, MINUTES.every)
    read_state = world.rollups.read_state

    def read_counted(*names: Any) -> RollupState:
        state = read_state(*names)
        return state._replace(marks=[CountedMark(*mark) for mark in state.marks])

    monkeypatch.setattr(world.rollups, "read_state", read_counted)
    report = world.refresh()
    assert report is not None
    assert (report.resealed, report.marks) == (280, 0)
    assert CountedMark.comparisons < 10 * 240
