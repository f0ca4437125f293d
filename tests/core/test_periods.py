"""Periods, names and times: calendar arithmetic, strict both ways."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidetable.errors import InvalidName, InvalidTime
from tidetable.names import name_table, parse_table_name
from tidetable.periods import LONGEST, Kind, find_containing, parse_label
from tidetable.times import from_text, parse_instant, parse_point, parse_stamp, to_text

instants = st.datetimes(datetime(1971, 1, 1), datetime(9000, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - bounds
kinds = st.sampled_from(list(Kind))

CASES = [
    (Kind.HOUR, "2026-12-31T23:59:59", "2026-12-31T23", "2027-01-01T00"),
    (Kind.DAY, "2028-02-28T12:00:00", "2028-02-28", "2028-02-29"),
    (Kind.DAY, "2026-12-31T23:59:59", "2026-12-31", "2027-01-01"),
    (Kind.WEEK, "2021-01-03T23:59:59", "2020-W53", "2021-W01"),
    (Kind.WEEK, "2027-01-01T00:00:00", "2026-W53", "2027-W01"),
    (Kind.WEEK, "2024-12-30T00:00:00", "2025-W01", "2025-W02"),
    (Kind.MONTH, "2026-01-31T12:00:00", "2026-01", "2026-02"),
    (Kind.MONTH, "2026-12-31T23:59:59", "2026-12", "2027-01"),
]


@pytest.mark.parametrize(("kind", "instant", "label", "following"), CASES)
def test_the_calendar_is_followed_at_its_awkward_ends(kind: Kind, instant: str, label: str, following: str) -> None:
    period = find_containing(datetime.fromisoformat(instant).replace(tzinfo=UTC), kind)
    assert (period.label, period.shift(1).label, period.shift(1).shift(-1)) == (label, following, period)


@given(instants, kinds, st.integers(-50, 50))
def test_periods_tile_time_and_their_labels_name_them(instant: datetime, kind: Kind, count: int) -> None:
    period = find_containing(instant, kind)
    assert instant in period
    assert period.shift(1).start == period.end
    assert find_containing(period.end - timedelta(microseconds=1), kind) == period
    assert parse_label(period.label) == period
    moved = period.shift(count)
    assert find_containing(moved.start, kind) == moved


@pytest.mark.parametrize(
    "label",
    [
        "",
        "2026",
        "2026-13",
        "2026-02-30",
        "2026-02-01T24",
        "2026-W54",
        "2025-W53",
        "2026-W00",
        "2026-1-1",
        "\u0662026-01",
    ],
)
def test_a_label_that_names_no_period_is_refused(label: str) -> None:
    with pytest.raises(InvalidName):
        parse_label(label)


@given(instants, kinds)
def test_table_names_are_read_back_as_they_were_made(instant: datetime, kind: Kind) -> None:
    period = find_containing(instant, kind)
    assert parse_table_name("prod", name_table("prod", "my-stream_2", period)) == ("my-stream_2", period)


@pytest.mark.parametrize(
    "name",
    [
        "tidetable-prod-eu.s.2026-01-01",
        "tidetable-prod.s",
        "tidetable-prod.s.2026-01-01.bak",
        "tidetable-prod..2026-01-01",
        "tidetable-prod.S.2026-01-01",
        "tidetable-prod.s.2026-1-1",
        "tidetable-prod-catalog",
        "xtidetable-prod.s.2026-01-01",
    ],
)
def test_a_strangers_name_is_no_table_of_ours(name: str) -> None:
    with pytest.raises(InvalidName):
        parse_table_name("prod", name)


@given(instants, instants)
def test_time_texts_sort_as_the_instants_do_and_are_read_back(first: datetime, second: datetime) -> None:
    assert (to_text(first) < to_text(second)) == (first < second)
    assert from_text(to_text(first)) == parse_instant(to_text(first)) == first
    assert len(to_text(first)) == 27


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00.000000Z"),
        ("2026-01-31t12:00:00.9999999z", "2026-01-31T12:00:00.999999Z"),
        ("2026-01-31T23:30:00-01:00", "2026-02-01T00:30:00.000000Z"),
        (0, "1970-01-01T00:00:00.000000Z"),
        (1769860800001, "2026-01-31T12:00:00.001000Z"),
    ],
)
def test_a_time_is_read_in_each_form_and_never_rounded_into_the_next_period(value: object, expected: str) -> None:
    assert to_text(parse_instant(value)) == expected


NO_TIMES = [
    *("", "now", "2026-01-31T12:00:00", "2026-02-30T12:00:00Z", "2026-01-31T12:00:00+25:00"),
    *("9999-12-31T23:59:59Z", "1969-12-31T23:59:59Z", "0001-01-01T00:00:00+23:59"),
    *(-1, 10**18, 10**30, 1.5, True, None),
]


@pytest.mark.parametrize("value", NO_TIMES)
def test_what_is_no_time_is_refused(value: object) -> None:
    with pytest.raises(InvalidTime):
        parse_instant(value)


def test_an_age_counts_back_from_now() -> None:
    now = datetime(2026, 1, 31, tzinfo=UTC)
    assert parse_point("-15m", now) == now - timedelta(minutes=15)
    for text in ("-15", "-x", "--1m", "15m"):
        with pytest.raises(InvalidTime):
            parse_point(text, now)


@pytest.mark.parametrize(
    ("first", "last", "count"),
    [
        ("2025-11", "2027-02", 15),
        ("2025-12", "2026-01", 1),
        ("2025-W52", "2026-W02", 2),
        ("2026-02-28", "2026-03-01", 1),
    ],
)
def test_the_periods_between_two_are_counted_by_the_calendar(first: str, last: str, count: int) -> None:
    assert parse_label(first).count_until(parse_label(last)) == count
    assert parse_label(last).count_until(parse_label(first)) == -count
    assert parse_label(first).shift(count) == parse_label(last)


@pytest.mark.parametrize(
    "text", ["1969-12-31T23:59:59.999999Z", "9998-12-31T00:00:00.000000Z", "2026-02-30T00:00:00.000000+00:00"]
)
def test_a_time_in_the_usual_form_is_refused_like_any_other(text: str) -> None:
    with pytest.raises(InvalidTime):
        parse_stamp(text)
    instant, stamp = parse_stamp("9998-12-30T23:59:59.999999+00:00")
    assert (to_text(instant), stamp) == ("9998-12-30T23:59:59.999999Z", "9998-12-30T23:59:59.999999Z")


@pytest.mark.parametrize(
    ("other", "overlap"),
    [("2026-03-04", False), ("2026-03-05", True), ("2026-03-06", False), ("2026-03-05T23", True), ("2026-03", True)],
)
def test_periods_that_only_touch_do_not_overlap(other: str, overlap: bool) -> None:
    day = parse_label("2026-03-05")
    assert (day.overlaps(parse_label(other)), parse_label(other).overlaps(day)) == (overlap, overlap)


def test_no_period_is_longer_than_its_kind() -> None:
    """The period that holds an instant begins at most this time before the instant."""
    hours = {"2026-03-05T01": 1, "2026-03-05": 24, "2026-W10": 168, "2026-01": 744, "2026-02": 672}
    for label, length in hours.items():
        period = parse_label(label)
        assert period.end - period.start == timedelta(hours=length)
        longest = timedelta(hours=744) if label == "2026-02" else timedelta(hours=length)
        assert LONGEST[period.kind] == longest
