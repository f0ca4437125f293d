"""The rule for ages, compared with counting."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lifecycle.world import configuration
from tidetable.expiry import compute_closing
from tidetable.ladder import compute_age
from tidetable.periods import Kind, find_containing

instants = st.datetimes(datetime(2024, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - bounds
LATE = {Kind.HOUR: "90m", Kind.DAY: "1d", Kind.WEEK: "3d", Kind.MONTH: "7d"}


@given(instants, st.sampled_from(list(Kind)), st.integers(-3, 40), st.sampled_from([-1, 0, 1]))
def test_an_age_counts_the_periods_that_have_closed_since(begin: datetime, kind: Kind, ahead: int, edge: int) -> None:
    stream = configuration(period=kind.value, late=LATE[kind], retention=40).streams["s"]
    period = find_containing(begin, kind)
    # The instant of a closing, and a microsecond before and after it.
    now = compute_closing(period.shift(ahead), stream) + timedelta(microseconds=edge)
    closed = 0
    while compute_closing(period.shift(closed), stream) < now:
        closed += 1
    assert compute_age(period, stream, now) == closed


@pytest.mark.parametrize("kind", list(Kind))
def test_until_undoes_shift(kind: Kind) -> None:
    period = find_containing(datetime(2024, 12, 31, 23, tzinfo=UTC), kind)
    assert [period.count_until(period.shift(count)) for count in range(-30, 500, 7)] == list(range(-30, 500, 7))
