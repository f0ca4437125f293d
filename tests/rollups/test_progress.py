"""A run that ends before it has computed all marked buckets leaves less to the next run."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.worlds.rolled import LENGTH, QUERIES, begin_rollups, reading
from tidetable.rollups import refresh as refreshing
from tidetable.rollups.refresh import Report, refresh


def test_marks_within_one_long_bucket_are_cleared_though_one_run_cannot_compute_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Six buckets of ten minutes lie in one hour. A run of 40 seconds computes four buckets, each in 10 seconds."""
    world = begin_rollups()
    world.sleep(10_000)
    world.refresh()
    world.write(*[reading(61 + 10 * n, n, kind="x") for n in range(6)])
    world.sleep(200)
    spent: list[object] = []
    compute = refreshing.compute_bucket

    def compute_slowly(*details: Any) -> bool:
        spent.append(details[1])
        return compute(*details)

    monkeypatch.setattr(refreshing, "compute_bucket", compute_slowly)
    reports: list[Report] = []
    for _ in range(2):
        spent.clear()
        services = replace(world.services(), remaining=lambda: 40.0 - 10 * len(spent))
        report = refresh(world.definitions, services, "run", LENGTH)
        assert report is not None
        assert world.check(QUERIES) > 0
        reports.append(report)
    assert [(report.resealed, report.marks, report.finished) for report in reports] == [(4, 3, False), (4, 0, True)]
