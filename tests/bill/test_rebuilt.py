"""The price of a rebuild, from the refresher's plan, the catalog and the sizes of tables."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bill.rebuilt import price_rebuild
from tests.worlds.rolled import PLAIN
from tidetable.catalog import ArchiveFacts, Entry, State
from tidetable.config import TableClass
from tidetable.periods import Kind, find_containing
from tidetable.ports import Table

START = datetime(2026, 3, 1, tzinfo=UTC)
SECOND = 1769 / 1024 * 0.0000133334


def entry(day: int, state: State, archive: ArchiveFacts | None = None) -> Entry:
    period = find_containing(START + timedelta(days=day), Kind.DAY)
    return Entry("s", period, f"t{day}", PLAIN, state, START, archive)


def describe(name: str) -> Table | None:
    if name == "t3":
        return None
    return Table(name, "ACTIVE", None, None, TableClass.STANDARD, size_bytes=4_096_000, item_count=48_000)


FACTS = ArchiveFacts("manifest", 24_000, 1_200_000, START)
# The first day is archived and deleted, the second has its table and an archive, the third a table, the fourth lost it.
DAYS = [
    entry(0, State.DELETED, FACTS),
    entry(1, State.ARCHIVED, FACTS),
    entry(2, State.OPEN),
    entry(3, State.CLOSED),
    entry(9, State.OPEN),
]


def plan(**changes: Any) -> dict[str, Any]:
    """90 buckets of an hour from noon of the first day on; of them 6 are sealed."""
    estimate = {"from": "2026-03-01T12:00:00.000000Z", "to": "2026-03-05T06:00:00.000000Z"}
    return {
        "buckets": 84,
        "marked": 6,
        "estimate": estimate | {"cell_units": 3, "finer": None, "read_units": 2.0} | changes,
    }


def test_events_are_read_from_tables_and_archives_and_cells_are_written() -> None:
    found = price_rebuild(plan(), DAYS, describe)
    # Half of the first day, all of the second and of the third; the fourth has no table that could be described.
    assert (found.events, found.table_bytes, found.archive_bytes) == (12_000 + 24_000 + 48_000, 4_096_000, 1_800_000)
    # Two requests for the events of a bucket and one for its present cells; a mark is put and removed.
    assert (found.read_units, found.write_units) == (90 * 3 + 1_000, 90 * 3 + 6 * 2)
    seconds = 90 * 0.1 + 84_000 * 2.0e-6
    dollars = 1_270 * 0.125e-6 + 282 * 0.625e-6 + 0.2e-6 + seconds * SECOND
    assert found.seconds == 9
    assert found.dollars == pytest.approx(dollars)


def test_a_coarser_rollup_reads_cells_and_no_events() -> None:
    found = price_rebuild(plan(finer="s-m", read_units=15.0), DAYS, describe)
    dollars = 90 * 16 * 0.125e-6 + 282 * 0.625e-6 + 0.2e-6 + 9 * SECOND
    assert found[:-1] == (0, 0, 0, 90 * 16, 282, 9)
    assert found.dollars == pytest.approx(dollars)
