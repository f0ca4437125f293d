"""The forms of a time. Times that come together have the same texts, and the same refusals, as times that come alone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tidetable.errors import InvalidTime
from tidetable.times import identify_time, parse_instant, parse_point, parse_stamp, parse_stamps, to_text


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (
            ["2026-03-01T00:04:00Z", "2026-03-01T23:59:59Z"],
            ["2026-03-01T00:04:00.000000Z", "2026-03-01T23:59:59.000000Z"],
        ),
        (["2026-03-01T00:04:00.123Z"], ["2026-03-01T00:04:00.123000Z"]),
        (["2026-03-01T00:04:00.123456Z"], ["2026-03-01T00:04:00.123456Z"]),
        (["2026-03-01T00:04:00.123456+00:00"], ["2026-03-01T00:04:00.123456Z"]),
        (["2026-03-01T00:04:00.123456+02:00"], ["2026-02-28T22:04:00.123456Z"]),
        (
            ["2026-03-01T00:04:00Z", "2026-03-01T00:04:00.5Z"],
            ["2026-03-01T00:04:00.000000Z", "2026-03-01T00:04:00.500000Z"],
        ),
        (
            ["2026-03-01 00:04:00Z", "2026-03-01t00:04:00z"],
            ["2026-03-01T00:04:00.000000Z", "2026-03-01T00:04:00.000000Z"],
        ),
        ([1772323440000, "2026-03-01T00:04:00Z"], ["2026-03-01T00:04:00.000000Z", "2026-03-01T00:04:00.000000Z"]),
        (
            ["1970-01-01T00:00:00Z", "9998-12-30T23:59:59Z"],
            ["1970-01-01T00:00:00.000000Z", "9998-12-30T23:59:59.000000Z"],
        ),
    ],
)
def test_several_times_have_their_canonical_texts(sent: list[object], expected: list[str]) -> None:
    assert parse_stamps(sent) == expected


@pytest.mark.parametrize(
    "wrong",
    [
        "2026-02-29T00:04:00Z",
        "2026-03-01T24:00:00Z",
        "2026-03-01T00:04:60Z",
        "2026-W09-7T00:04:00Z",
        "2026-03-01T00.04:00Z",
        "2026-03-01T00:04:00,123Z",
        "2026-03-01T00:04:00 123Z",
        "2026-03-01T0004:00.1230Z",
        "1969-12-31T23:59:59Z",
        "9998-12-31T00:00:00Z",
        "\u0662026-03-01T00:04:00Z",
        "yesterday",
    ],
)
def test_of_several_times_the_wrong_one_has_no_text(wrong: str) -> None:
    usual = "2026-03-01T00:04:00Z" if len(wrong) == 20 else "2026-03-01T00:04:00.123Z"
    time = parse_stamp(usual)[1]
    for sent, expected in (([wrong], [""]), ([usual, wrong], [time, ""]), ([wrong, usual], ["", time])):
        assert parse_stamps(sent) == expected


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ("2026-11-27", "2026-11-27T00:00:00.000000Z"),
        ("2026-11-27T12:34Z", "2026-11-27T12:34:00.000000Z"),
        ("2026-11-27 12:34+01:00", "2026-11-27T11:34:00.000000Z"),
        ("2026-11-27T12:34:56+0000", "2026-11-27T12:34:56.000000Z"),
        ("2026-11-27T12:34:56-0330", "2026-11-27T16:04:56.000000Z"),
        ("2026-11-27 12:34:56.5+00", "2026-11-27T12:34:56.500000Z"),
        ("2026-11-27T12:34:56-05", "2026-11-27T17:34:56.000000Z"),
        ("2026-11-27 12:34:56 +0200", "2026-11-27T10:34:56.000000Z"),
        ("2026-11-27T12:34:56.123456789012345678Z", "2026-11-27T12:34:56.123456Z"),
    ],
)
def test_usual_forms_beside_rfc_3339_are_times(sent: str, expected: str) -> None:
    assert to_text(parse_instant(sent)) == expected
    assert parse_stamp(sent)[1] == expected
    assert parse_stamps([sent, "2026-11-27T00:00:00Z"]) == [expected, "2026-11-27T00:00:00.000000Z"]


@pytest.mark.parametrize(
    "wrong",
    [
        "2026-11-27T12:34:56",
        "2026-11-27T12:34",
        "2026-11-27Z",
        "2026-11-27+01:00",
        "2026-11-27T",
        "2026-11-27T12Z",
        "2026-11-27T12:34.5Z",
        "2026-11-27T12:34:56.Z",
        "2026-11-27T12:34:56+1",
        "2026-11-27T12:34:56+010",
        "2026-11-27T12:34:56+01:0",
        "2026-11-27T12:34:56+25",
        "2026-11-27T12:34:56  +01:00",
        "20261127T123456Z",
        "2026-13-01",
        "2026-02-30",
        "9999-01-01",
        "1969-12-31",
        "2026-03-01T00:04:00+12:60",
        "2026-03-01T00:04:00-0199",
    ],
)
def test_other_forms_are_refused(wrong: str) -> None:
    with pytest.raises(InvalidTime):
        parse_instant(wrong)


@pytest.mark.parametrize("sent", ["2016-12-31T23:59:60Z", "2017-01-01T00:59:60.5+01:00"])
def test_a_leap_second_is_refused_by_its_name(sent: str) -> None:
    with pytest.raises(InvalidTime, match="is a leap second, which no calendar here has: send the second before or"):
        parse_instant(sent)


@pytest.mark.parametrize(
    ("sent", "hint"),
    [
        (1795767889, "1795767889 looks like seconds: send milliseconds (1795767889000), or RFC 3339 text"),
        (946684800, "946684800 looks like seconds: send milliseconds (946684800000), or RFC 3339 text"),
        (9_999_999_999, "9999999999 looks like seconds"),
        (100_000_000, "100000000 looks like seconds"),
        (
            253370764800000,
            "lies outside the years 1970 to 9998: a number is a time in milliseconds, not in microseconds",
        ),
        (1795767889123456, "is not a time: a number is a time in milliseconds, not in microseconds or nanoseconds"),
        (1795767889123456789, "is not a time: a number is a time in milliseconds, not in microseconds or nanoseconds"),
    ],
)
def test_a_number_in_another_unit_is_refused_with_a_hint(sent: int, hint: str) -> None:
    for read in (parse_instant, parse_stamp, lambda value: parse_point(str(value), datetime(2026, 11, 27, tzinfo=UTC))):
        with pytest.raises(InvalidTime) as refused:
            read(sent)
        assert hint in str(refused.value)


@pytest.mark.parametrize(
    ("sent", "expected"),
    [(99_999_999, "1970-01-02T03:46:39.999000Z"), (10_000_000_000, "1970-04-26T17:46:40.000000Z")],
)
def test_other_numbers_are_milliseconds(sent: int, expected: str) -> None:
    assert to_text(parse_instant(sent)) == expected


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ("2026-11-27T12:34:56.123456789Z", "2026-11-27T12:34:56.123456789Z"),
        ("2026-11-27T13:34:56.123456789+01:00", "2026-11-27T12:34:56.123456789Z"),
        # The same instant has one text.
        ("2026-11-27T12:34:56.1234567890000Z", "2026-11-27T12:34:56.123456789Z"),
        ("2026-11-27T12:34:56.123456000Z", "2026-11-27T12:34:56.123456Z"),
        ("2026-11-27T12:34:56.123456Z", "2026-11-27T12:34:56.123456Z"),
        ("2026-11-27 12:34:56.123456+0000", "2026-11-27T12:34:56.123456Z"),
        ("2026-11-27T12:34:56.0000001Z", "2026-11-27T12:34:56.0000001Z"),
        ("2026-11-27", "2026-11-27T00:00:00.000000Z"),
        (1795782896123, "2026-11-27T12:34:56.123000Z"),
    ],
)
def test_the_text_that_identifies_a_time_has_all_its_digits(sent: object, expected: str) -> None:
    assert identify_time(sent, parse_stamp(sent)[1]) == expected


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ("2026-11-27", "2026-11-27T00:00:00.000000Z"),
        ("2026-11-27T12:00 02:00", "2026-11-27T10:00:00.000000Z"),
        ("2026-11-27T12:00:00.5 0200", "2026-11-27T10:00:00.500000Z"),
        ("2026-11-27 12:00:00 02", "2026-11-27T10:00:00.000000Z"),
    ],
)
def test_an_edge_of_a_query_may_be_a_date_or_have_lost_the_plus_of_its_offset(sent: str, expected: str) -> None:
    assert to_text(parse_point(sent, datetime(2026, 11, 27, tzinfo=UTC))) == expected


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ("now", "2026-11-27T12:34:56.789012Z"),
        ("today", "2026-11-27T00:00:00.000000Z"),
        ("yesterday", "2026-11-26T00:00:00.000000Z"),
        ("-90s", "2026-11-27T12:33:26.789012Z"),
        ("-2w", "2026-11-13T12:34:56.789012Z"),
        ("-1000000h", "1970-01-01T00:00:00.000000Z"),
        ("1795782896123", "2026-11-27T12:34:56.123000Z"),
    ],
)
def test_an_edge_of_a_query_may_be_relative_to_now(sent: str, expected: str) -> None:
    assert to_text(parse_point(sent, datetime(2026, 11, 27, 12, 34, 56, 789012, tzinfo=UTC))) == expected


def test_no_edge_of_a_query_is_before_1970() -> None:
    assert to_text(parse_point("yesterday", datetime(1970, 1, 1, 12, tzinfo=UTC))) == "1970-01-01T00:00:00.000000Z"


def test_an_edge_of_a_query_without_an_offset_is_refused() -> None:
    with pytest.raises(InvalidTime, match="is not an RFC 3339 time with an offset"):
        parse_point("2026-11-27 12:00", datetime(2026, 11, 27, tzinfo=UTC))
