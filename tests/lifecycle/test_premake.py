"""The rule for creating tables ahead of time."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lifecycle.world import configuration
from tidetable.catalog import Entry, State
from tidetable.lifecycle.premake import find_missing_periods
from tidetable.periods import Kind

KINDS = {Kind.HOUR: ("3h", 24), Kind.DAY: ("2d", 5), Kind.WEEK: ("7d", 3), Kind.MONTH: ("7d", 2)}
instants = st.datetimes(datetime(2024, 1, 1), datetime(2032, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - bounds


@settings(deadline=None)
@given(instants, st.lists(st.tuples(st.sampled_from(list(Kind)), st.integers(0, 40 * 24)), min_size=1, max_size=5))
def test_whatever_the_changes_of_period_no_instant_is_claimed_twice_or_left_out(
    now: datetime, changes: list[tuple[Kind, int]]
) -> None:
    entries: list[Entry] = []
    for kind, hours in changes:
        now += timedelta(hours=hours)
        late, retention = KINDS[kind]
        stream = configuration(period=kind.value, late=late, retention=retention).streams["s"]
        missing = [period for period, _ in find_missing_periods(stream, now, entries)]
        entries += [Entry("s", period, period.label, stream.layout, State.OPEN, now) for period in missing]
        periods = sorted(entry.period for entry in entries)
        for earlier, later in pairwise(periods):
            assert earlier.end <= later.start, "two tables claim one instant"
        at = now - stream.late
        while at <= now + stream.ahead:
            held = [period for period in periods if at in period]
            assert len(held) == 1, f"{at} belongs to {held}"
            at = held[0].end
        assert find_missing_periods(stream, now, entries) == []
