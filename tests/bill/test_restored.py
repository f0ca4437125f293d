"""The price of a restore, from the sizes of archives."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from bill.restored import price_restore
from tests.worlds.rolled import PLAIN
from tidetable.catalog import ArchiveFacts, Entry, State
from tidetable.config import parse
from tidetable.layout import Index, Packing
from tidetable.periods import Kind, find_containing

START = datetime(2026, 3, 1, tzinfo=UTC)
NOW = START + timedelta(days=30)
SECOND = 3008 / 1024 * 0.0000133334


def entry(events: int, size: int, **layout: Any) -> Entry:
    facts = ArchiveFacts("manifest", events, size, START)
    period = find_containing(START, Kind.DAY)
    return Entry("s", period, "t", replace(PLAIN, **layout), State.DELETED, START, facts)


def test_small_events_take_a_unit_each_and_are_read_once_for_the_comparison() -> None:
    found = price_restore([entry(1_000_000, 8_000_000)], None, 7, NOW)
    # Eight bytes in the file are 32 in the table by their share, but no item has less than 139.
    assert (found.events, found.table_bytes, found.write_units) == (1_000_000, 139_000_000, 1_000_000)
    assert found.read_units == round(139e6 / 4096)
    storage = 139e6 * 0.25e-9 * 7 / (730 / 24)
    assert found.storage == pytest.approx(storage)
    units = 1_000_000 * 0.625e-6 + 139e6 / 4096 * 0.125e-6
    assert found.seconds == 60
    assert found.dollars == pytest.approx(units + storage + 0.2e-6 + 60 * SECOND)


def test_large_events_take_more_units_and_each_index_as_many() -> None:
    """300 bytes in the file are 1,200 in the table: two units, in the table and in its index."""
    by_kind = Index("by_kind", "kind", 1)
    found = price_restore([entry(100, 30_000, indexes=(by_kind,))], None, 1, NOW)
    assert (found.table_bytes, found.write_units) == (120_000, 400)


def test_packs_take_the_units_of_their_bytes_and_are_read_twice() -> None:
    found = price_restore([entry(1_000_000, 8_192_000, pack=Packing(3600, 300_000))], None, 1, NOW)
    assert (found.table_bytes, found.write_units, found.read_units) == (32_768_000, 32_000, 16_000)


def test_the_class_is_that_of_the_age_and_periods_are_added_up() -> None:
    ladder = '[{ age = 0 }, { age = 1, class = "infrequent-access" }]'
    text = '[streams.s]\nperiod = "day"\nlate = "1h"\nretention = 5\nkey = { partition_by = "series" }\n'
    stream = parse(f'{text}[streams.s.capacity]\nmode = "on-demand"\nladder = {ladder}\n').streams["s"]
    one = price_restore([entry(1000, 8_000)], stream, 1, NOW)
    two = price_restore([entry(1000, 8_000), entry(1000, 8_000)], stream, 1, NOW)
    assert (two.events, two.write_units) == (2 * one.events, 2 * one.write_units)
    # A million write units of this class are $0.78, as a GB-month is $0.10.
    storage = 139_000 * 0.10e-9 / (730 / 24)
    assert one.storage == pytest.approx(storage)
    units = 1000 * 0.78e-6 + 139_000 / 4096 * 0.155e-6
    assert one.dollars == pytest.approx(units + storage + 0.2e-6 + 0.06 * SECOND)


def test_nothing_costs_a_call() -> None:
    assert price_restore([], None, 7, NOW).dollars == pytest.approx(0.2e-6)
