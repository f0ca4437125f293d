"""The cost of archiving, calculated by hand at the prices of us-east-1."""

import pytest

from bench.archive_cost import price_archive
from tidetable.config import ArchivePolicy, TableClass

GB = 1e9


def test_a_gigabyte_by_the_default_costs_little_more_than_its_reads() -> None:
    cost = price_archive(GB, ArchivePolicy(), provisioned=2)
    # 1e9 / 4096 units at $0.125 a million.
    assert cost.reads == pytest.approx(0.0305, abs=0.0001)
    # 100 s at 10 MB a second, and 4 s for its start, at 1.7275 GB x $0.0000133334.
    assert cost.function == pytest.approx(0.00240, abs=0.00001)
    # One segment: 6 writes at $5 a million, 5 reads at $0.4.
    assert cost.requests == pytest.approx(0.000032, abs=0.000001)
    assert cost.total <= 3 * cost.reads
    assert cost.hours == pytest.approx(100 / 3600, rel=0.01)


def test_a_table_of_many_segments_is_read_by_as_many_workers_as_its_pace_allows() -> None:
    """Four workers at 1,500 units per second; and 32 workers at 1,250 of 40,000: a terabyte in 1.7 hours."""
    cost = price_archive(100 * GB, ArchivePolicy(), provisioned=2)
    assert cost.hours == pytest.approx(1.13, abs=0.01)
    assert cost.busy == pytest.approx(4 * 4069 + 68 * 4, rel=0.01)
    fast = ArchivePolicy(read_share=1.0, read_units=40_000, segments=32)
    assert price_archive(1000 * GB, fast, provisioned=2).hours == pytest.approx(1.70, abs=0.01)


@pytest.mark.parametrize("size", [30e6, 100e6, GB, 100 * GB])
@pytest.mark.parametrize("kind", list(TableClass))
def test_it_is_at_most_three_times_the_reads_from_30_megabytes_on(size: float, kind: TableClass) -> None:
    cost = price_archive(size, ArchivePolicy(), table_class=kind, provisioned=1)
    reads = size / 4096 * 0.125e-6
    assert cost.total <= 3 * reads


def test_the_least_that_an_archive_costs_is_a_start_and_six_writes() -> None:
    assert price_archive(1000, ArchivePolicy(), provisioned=1).total == pytest.approx(0.00012, abs=0.00001)


def test_a_table_that_is_not_raised_is_read_in_runs_that_do_not_wait() -> None:
    """One unit per second: 244,141 seconds on the clock, 814 runs of 300 units, of which each starts for four seconds."""
    cost = price_archive(GB, ArchivePolicy(read_units=1), provisioned=2)
    assert cost.hours == pytest.approx(67.8, abs=0.1)
    assert cost.busy == pytest.approx(100 + 814 * 4, abs=1)
    assert cost.function == pytest.approx(0.0775, abs=0.001), "it was $9.6 when the function slept"
    assert cost.reads == 0.0, "the ladder pays for the units anyway"


def test_a_table_that_is_raised_costs_begun_hours() -> None:
    cost = price_archive(GB, ArchivePolicy(read_units=400), provisioned=2)
    assert cost.hours == pytest.approx(0.339, abs=0.001)
    assert cost.reads == pytest.approx(398 * 0.00013)
    assert cost.over_reads < 3


def test_what_a_table_may_take_at_the_most_makes_it_slower() -> None:
    assert price_archive(GB, ArchivePolicy(), maximum=100).hours == pytest.approx(1.356, abs=0.001)
