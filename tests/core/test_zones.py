"""Time zones: names, local times that are skipped or shown twice, the beginnings of days, and times as text."""

from datetime import UTC, datetime

import pytest

from tidetable.errors import InvalidTime, UnknownZone
from tidetable.times import from_text
from tidetable.zones import begin_day, find_zone, parse_local_point, show_local

NOW = from_text("2026-10-25T22:30:00.000000Z")

POINTS = [
    ("a date", "Europe/Berlin", "2026-11-24", "2026-11-23T23:00:00Z"),
    ("a time", "Europe/Berlin", "2026-07-01T12:00", "2026-07-01T10:00:00Z"),
    ("a time with a blank and digits", "Europe/Berlin", "2026-07-01 12:00:00.1234567", "2026-07-01T10:00:00.123456Z"),
    ("a time with an offset", "Europe/Berlin", "2026-07-01T12:00+05:00", "2026-07-01T07:00:00Z"),
    ("a plus that a URL lost", "Europe/Berlin", "2026-07-01T12:00 05:00", "2026-07-01T07:00:00Z"),
    ("an instant", "Europe/Berlin", "2026-07-01T12:00:00Z", "2026-07-01T12:00:00Z"),
    ("milliseconds", "Europe/Berlin", "1782907200000", "2026-07-01T12:00:00Z"),
    ("now", "Europe/Berlin", "now", "2026-10-25T22:30:00Z"),
    ("today", "Europe/Berlin", "today", "2026-10-24T22:00:00Z"),
    ("yesterday", "Europe/Berlin", "yesterday", "2026-10-23T22:00:00Z"),
    ("today, where it is tomorrow", "Asia/Kolkata", "today", "2026-10-25T18:30:00Z"),
    ("an age is a length of time", "Europe/Berlin", "-1d", "2026-10-24T22:30:00Z"),
    ("a skipped time is the jump", "Europe/Berlin", "2026-03-29T02:30", "2026-03-29T01:00:00Z"),
    ("the first skipped time", "Europe/Berlin", "2026-03-29T02:00", "2026-03-29T01:00:00Z"),
    ("the last skipped time", "Europe/Berlin", "2026-03-29T02:59:59.999999", "2026-03-29T01:00:00Z"),
    ("the first time after the jump", "Europe/Berlin", "2026-03-29T03:00", "2026-03-29T01:00:00Z"),
    ("a doubled time is the first", "Europe/Berlin", "2026-10-25T02:30", "2026-10-25T00:30:00Z"),
    ("half an hour skipped", "Australia/Lord_Howe", "2026-10-04T02:15", "2026-10-03T15:30:00Z"),
    ("half an hour doubled", "Australia/Lord_Howe", "2026-04-05T01:45", "2026-04-04T14:45:00Z"),
    ("a skipped day is the jump", "Pacific/Apia", "2011-12-30", "2011-12-30T10:00:00Z"),
    ("noon of a skipped day", "Pacific/Apia", "2011-12-30T12:00", "2011-12-30T10:00:00Z"),
    ("the day after a skipped day", "Pacific/Apia", "2011-12-31", "2011-12-30T10:00:00Z"),
    ("an offset with seconds", "Africa/Monrovia", "1971-06-01", "1971-06-01T00:44:30Z"),
    ("a skipped midnight", "America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00:00Z"),
    ("a midnight shown twice on one day", "America/Havana", "2020-11-01", "2020-11-01T04:00:00Z"),
    ("the first instant of all", "Asia/Kolkata", "1970-01-01T05:30", "1970-01-01T00:00:00Z"),
    ("a midnight after which yesterday returns", "America/St_Johns", "2006-10-29", "2006-10-29T03:30:00Z"),
]


@pytest.mark.parametrize(("name", "zone", "text", "instant"), POINTS, ids=[case[0] for case in POINTS])
def test_a_point_in_a_zone_is_an_instant(name: str, zone: str, text: str, instant: str) -> None:
    assert parse_local_point(text, NOW, find_zone(zone)) == datetime.fromisoformat(instant)


@pytest.mark.parametrize(
    "text",
    [
        "2026-02-30",
        "2026-01-01T24:01",
        "2026-01-01T10:61",
        "2016-12-31T23:59:60",
        "1970-01-01",
        "9998-12-31T12:00",
        "soon",
    ],
)
def test_a_text_that_is_no_local_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidTime):
        parse_local_point(text, NOW, find_zone("Europe/Berlin"))


NAMES = [
    ("Europe/Berlim", "did you mean Europe/Berlin?"),
    ("europe/berlin", "did you mean Europe/Berlin?"),
    ("Berlin", "did you mean Europe/Berlin?"),
    ("New York", "did you mean America/New_York?"),
    ("+02:00", "such as Europe/Berlin or UTC"),
    ("Europe", "such as Europe/Berlin or UTC"),
    ("right/UTC", "such as Europe/Berlin or UTC"),
    ("localtime", "such as Europe/Berlin or UTC"),
    ("../../etc/localtime", "such as Europe/Berlin or UTC"),
    ("/etc/localtime", "such as Europe/Berlin or UTC"),
    ("UTC\n", "is not a time zone"),
    ("Ünix", "is not a time zone"),
    ("x" * 5000, "is not a time zone"),
    ("", "is not a time zone"),
]


@pytest.mark.parametrize(("name", "detail"), NAMES)
def test_a_name_that_is_no_zones_is_refused_with_a_hint(name: str, detail: str) -> None:
    with pytest.raises(UnknownZone) as caught:
        find_zone(name)
    assert detail in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("name", ["Europe/Berlin", "America/Argentina/Buenos_Aires", "UTC", "Etc/GMT+5", "CET"])
def test_zones_of_each_form_of_name_are_found(name: str) -> None:
    assert find_zone(name).key == name


SHOWN = [
    ("Europe/Berlin", "2026-10-24T22:00:00.000000Z", "2026-10-25T00:00:00.000000+02:00"),
    ("Europe/Berlin", "2026-10-25T01:30:00.000001Z", "2026-10-25T02:30:00.000001+01:00"),
    ("America/New_York", "2026-01-01T00:00:00.000000Z", "2025-12-31T19:00:00.000000-05:00"),
    ("UTC", "2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:00.000000+00:00"),
    # 00:44:30 behind UTC: RFC 3339 cannot write it. The offset is rounded, and the instant is the same.
    ("Africa/Monrovia", "1971-06-01T00:44:30.000000Z", "1971-06-01T00:00:30.000000-00:44"),
]


@pytest.mark.parametrize(("zone", "instant", "text"), SHOWN)
def test_an_instant_is_shown_as_the_same_instant(zone: str, instant: str, text: str) -> None:
    assert show_local(instant, find_zone(zone)) == text
    assert from_text(text) == from_text(instant)


def test_days_of_the_first_and_the_last_years_have_a_beginning() -> None:
    for name in ("Pacific/Kiritimati", "Pacific/Pago_Pago", "Africa/Monrovia"):
        assert begin_day(-10, find_zone(name)) < datetime(1970, 1, 1, tzinfo=UTC)
        assert begin_day(10**9, find_zone(name)) > datetime(9998, 12, 31, tzinfo=UTC)
