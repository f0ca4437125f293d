"""The times of a file's rows: usual forms, numbers with a unit, a form of one's own, and every digit."""

from __future__ import annotations

import json
import time as clock
from pathlib import Path
from typing import Any

import pytest

from cli.sources import Columns, SourceError, open_source


def read_time(tmp_path: Path, time: str, columns: Columns) -> Any:
    """Return the time of a row of CSV, or the row's problem; NDJSON gives the same time."""
    csv_file, lines = tmp_path / "a.csv", tmp_path / "a.ndjson"
    csv_file.write_text(f'series,time\na,"{time}"\n')
    lines.write_text(json.dumps({"series": "a", "time": time, "data": {}}))
    (row,), (line,) = (open_source(file, None, columns).read() for file in (csv_file, lines))
    assert (row.problem, row.event and row.event["time"]) == (line.problem, line.event and line.event["time"])
    return row.problem if row.event is None else row.event["time"]


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        # A date is its midnight in UTC.
        ("2026-11-27", "2026-11-27T00:00:00Z"),
        ("2026/11/27", "2026-11-27T00:00:00Z"),
        ("2026.11.27", "2026-11-27T00:00:00Z"),
        ("2026-1-5", "2026-01-05T00:00:00Z"),
        ("Jan 1 2000", "2000-01-01T00:00:00Z"),
        ("January 1, 2000", "2000-01-01T00:00:00Z"),
        ("Sat, Jan 1, 2000", "2000-01-01T00:00:00Z"),
        ("1 Jan 2000", "2000-01-01T00:00:00Z"),
        ("01-JAN-2000", "2000-01-01T00:00:00Z"),
        ("29 Sept 2024", "2024-09-29T00:00:00Z"),
        # An offset in any form.
        ("2026-11-27T12:00:00Z", "2026-11-27T12:00:00Z"),
        ("2026-11-27t12:00:00z", "2026-11-27T12:00:00Z"),
        ("2026-11-27 12:00:00+0000", "2026-11-27T12:00:00+00:00"),
        ("2026-11-27 12:00:00 +0530", "2026-11-27T12:00:00+05:30"),
        ("2026-11-27T12:00:00-09:30", "2026-11-27T12:00:00-09:30"),
        ("2026-11-27 12:00:00+01", "2026-11-27T12:00:00+01:00"),
        ("2026-11-27 12:00:00 UTC", "2026-11-27T12:00:00Z"),
        ("Fri, 27 Nov 2026 12:00:00 GMT", "2026-11-27T12:00:00Z"),
        ("27/Nov/2026:12:00:00 +0000", "2026-11-27T12:00:00+00:00"),
        ("20261127T120000Z", "2026-11-27T12:00:00Z"),
        # Without seconds, with a comma, with half days.
        ("2026-11-27T12:00Z", "2026-11-27T12:00:00Z"),
        ("2026-11-27 9:05Z", "2026-11-27T09:05:00Z"),
        ("2026-11-27 12:00:00,25Z", "2026-11-27T12:00:00.25Z"),
        ("2026-11-27 12:30 AM Z", "2026-11-27T00:30:00Z"),
        ("Nov 27, 2026, 1:05:09 p.m. UTC", "2026-11-27T13:05:09Z"),
        # Blanks around a time, and every digit of it.
        (" 2026-11-27T12:00:00Z ", "2026-11-27T12:00:00Z"),
        ("2026-11-27T12:00:00.123456789Z", "2026-11-27T12:00:00.123456789Z"),
        ("0001-01-01", "0001-01-01T00:00:00Z"),
    ],
)
def test_a_usual_form_of_a_time_is_read(tmp_path: Path, time: str, expected: str) -> None:
    assert read_time(tmp_path, time, Columns()) == expected


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("2026-11-27 12:00:00", "2026-11-27T12:00:00Z"),
        ("2026-11-27T12:00", "2026-11-27T12:00:00Z"),
        ("Fri Nov 27 12:00:00 2026", "2026-11-27T12:00:00Z"),
        ("2026-11-27 12:00:00+01:00", "2026-11-27T12:00:00+01:00"),
        ("2026-11-27", "2026-11-27T00:00:00Z"),
    ],
)
def test_a_time_without_an_offset_is_utc_with_the_option(tmp_path: Path, time: str, expected: str) -> None:
    assert read_time(tmp_path, time, Columns(utc=True)) == expected
    if not time.endswith(("+01:00", "27")):
        assert "has no offset: --utc reads such times as UTC" in read_time(tmp_path, time, Columns())


@pytest.mark.parametrize(
    ("time", "problem"),
    [
        # Which is the day, and which the month?
        ("11/27/2026", "has no known form: name it with --time-format"),
        ("01.02.2026", "has no known form: name it with --time-format"),
        ("1-2-26", "has no known form"),
        ("yesterday", "has no known form"),
        ("2026-11-27T12:00:00.Z", "has no known form"),
        ("\u0662\u0660\u0662\u0666-11-27", "has no known form"),
        ("2026-02-30", "does not exist: day is out of range"),
        ("2026-11-27T25:00:00Z", "does not exist: hour must be in 0..23"),
        ("2026-11-27 13:00 PM Z", "does not exist: hour 13 is not within 1 to 12"),
        ("27 Foo 2026", "does not exist: Foo is not a month"),
        ("NaN", "has no known form"),
        ("2026-11-27T12:00:00+12:60", "has no known form"),
        ("2026-11-27T24:00:00Z", "does not exist: hour must be in 0..23"),
        ("2026-06-30T23:59:60Z", "does not exist: second must be in 0..59"),
        # Seconds, and a date as a number, would silently be instants of 1970.
        ("1773572400", "--time-unit s if it is seconds"),
        ("-1773572400", "--time-unit s if it is seconds"),
        ("1773572400.5", "--time-unit s if it is seconds"),
        ("20261127", "--time-format %Y%m%d if it is a date"),
        ("1e999", "lies outside the years 1970 to 9998"),
        ("-1e25", "lies outside the years 1970 to 9998"),
        ("1e999999999999999999999999", "is not a time"),
        ("0." + "1" * 60, "has more than 30 digits after the point"),
        ("1e-31", "has more than 30 digits after the point"),
    ],
)
def test_a_time_with_more_than_one_meaning_or_none_spoils_its_row(tmp_path: Path, time: str, problem: str) -> None:
    assert problem in read_time(tmp_path, time, Columns())


def test_a_unit_is_taken_as_it_is_named(tmp_path: Path) -> None:
    assert read_time(tmp_path, "1773572400", Columns(time_unit="ms")) == "1970-01-21T12:39:32.400000Z"
    assert read_time(tmp_path, "1773572", Columns(time_unit="s")) == "1970-01-21T12:39:32.000000Z"
    assert read_time(tmp_path, "1773572400", Columns(time_unit="s")) == 1773572400000
    assert read_time(tmp_path, "1773572400000", Columns()) == 1773572400000


@pytest.mark.parametrize(
    ("form", "time", "utc", "expected"),
    [
        ("%d/%m/%Y", "27/11/2026", False, "2026-11-27T00:00:00+00:00"),
        ("%m/%d/%y", "11/27/26", False, "2026-11-27T00:00:00+00:00"),
        ("%Y%m%d", "20261127", False, "2026-11-27T00:00:00+00:00"),
        ("%d.%m.%Y %H:%M", "27.11.2026 12:30", True, "2026-11-27T12:30:00+00:00"),
        ("%d.%m.%Y %H:%M %z", "27.11.2026 12:30 +0100", False, "2026-11-27T12:30:00+01:00"),
        ("%Y-%m-%d %H:%M:%S.%f", "2026-11-27 12:30:00.000001", True, "2026-11-27T12:30:00.000001+00:00"),
    ],
)
def test_a_form_of_ones_own_is_read(tmp_path: Path, form: str, time: str, utc: bool, expected: str) -> None:
    assert read_time(tmp_path, time, Columns(utc=utc, time_format=form)) == expected
    if utc:
        assert "has no offset" in read_time(tmp_path, time, Columns(time_format=form))


def test_a_row_in_another_form_than_the_named_one_is_refused(tmp_path: Path) -> None:
    assert "does not match format" in read_time(tmp_path, "2026-11-27", Columns(time_format="%d/%m/%Y"))
    assert "unconverted data remains" in read_time(tmp_path, "27/11/2026 1", Columns(time_format="%d/%m/%Y"))


@pytest.mark.parametrize(
    ("form", "time", "expected"),
    [
        ("%Y-%m-%d %H:%M %Z", "2026-11-27 12:30 UTC", "2026-11-27T12:30:00+00:00"),
        ("%Y-%m-%d %H:%M %Z", "2026-11-27 12:30 gmt", "2026-11-27T12:30:00+00:00"),
        ("%a %b %d %H:%M:%S %Z %Y", "Fri Nov 27 12:30:00 UTC 2026", "2026-11-27T12:30:00+00:00"),
        ("%Y-%m-%d %H:%M %z (%Z)", "2026-11-27 12:30 +0100 (UTC)", "2026-11-27T12:30:00+01:00"),
        ("%Y-%m-%d %%Z %H:%M %z", "2026-11-27 %Z 12:30 +0100", "2026-11-27T12:30:00+01:00"),
        ("%Y-%m-%d %H:%M %Z", "2026-11-27 12:30 EST", "the only names for %Z are UTC and GMT"),
        ("%Y-%m-%d %H:%M %Z", "2026-11-27 12:30 EDT", "the only names for %Z are UTC and GMT"),
        ("%Y-%m-%d %H:%M %Z", "2026-11-27 12:30", "the only names for %Z are UTC and GMT"),
    ],
)
@pytest.mark.parametrize("utc", [True, False])
def test_the_name_of_a_zone_is_never_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, time: str, expected: str, utc: bool
) -> None:
    """On a machine in New York, Python reads EST, and forgets it."""
    monkeypatch.setattr(clock, "tzname", ("EST", "EDT"))
    monkeypatch.setattr(clock, "daylight", 1)
    assert expected in read_time(tmp_path, time, Columns(utc=utc, time_format=form))


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        (Columns(time_format="%Q"), "--time-format %Q: "),
        (Columns(time_format="%H:%M"), "it does not hold a whole date"),
        (Columns(time_format="%Y-%m"), "it does not hold a whole date"),
        (Columns(time_format="%Y", time_unit="s"), "use either --time-unit or --time-format"),
    ],
)
def test_a_form_that_cannot_be_used_is_refused_before_the_first_row(
    tmp_path: Path, columns: Columns, reason: str
) -> None:
    (tmp_path / "a.csv").write_text("series,time\na,1\n")
    with pytest.raises(SourceError, match=reason):
        open_source(tmp_path / "a.csv", None, columns)


def test_a_boolean_is_not_a_time(tmp_path: Path) -> None:
    (tmp_path / "a.ndjson").write_text('{"series": "a", "time": true}\n{"series": "a", "time": [1]}\n')
    rows = list(open_source(tmp_path / "a.ndjson", None, Columns()).read())
    assert [row.problem for row in rows] == [
        "the time True is neither text nor a number",
        "the time '[1]' has no known form: name it with --time-format",
    ]
