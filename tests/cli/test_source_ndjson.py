"""NDJSON that is damaged or odd, and JSON that is not NDJSON."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from cli.sources import Columns, Row, SourceError, open_source


def list_rows(tmp_path: Path, content: str | bytes, name: str = "a.ndjson") -> list[Row]:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return list(open_source(path, None, Columns()).read())


GOOD = b'{"series": "a", "time": 1, "n": 1}'


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b'{"series": "a", "time": 1, "n": NaN}', "JSON is malformed"),
        (b'{"series": "a", "time": 1, "n": -Infinity}', "JSON is malformed"),
        (b'{"series": "a", "time": 1, "n": 01}', "JSON is malformed"),
        (b'{"series": "a", "time": 1, "n": 1e999999999}', "1e999999999 is a number that cannot be stored"),
        (b'{"series": "a", "time": 1, "n": [{"m": 1e9999999999999999999999}]}', "is a number that cannot be stored"),
        (b'{"series": "a", "time": 1, "n": 0.' + b"9" * 5000 + b"}", "is a number that cannot be stored"),
        (b'{"series": "a", "time": 1, "n": ' + b"9" * 5000 + b"}", "Integer value out of range"),
        (b'{"series": "a", "time": 1, "n": "\\ud800"}', "is half of a surrogate pair"),
        (b'{"series": "a", "time": 1, "n": "\xff"}', "utf-8"),
        (b'{"series": "a", "time": 1, "n": "\xed\xa0\x80"}', "utf-8"),
        (b'{"series": "a", "time": 1, "n": "a\tb"}', "JSON is malformed"),
        (b'{"series": "a", "time": 1, "n": 1, "n": 2}', "the line has the name 'n' twice"),
        (b'{"series": "a", "time": 1, "data": {"n": 1, "n": 1}}', "the line has the name 'n' twice"),
        (b'{"series": "a", "series": "b", "time": 1}', "the line has the name 'series' twice"),
        (b'{"series": "a", "time": 1, "n": ' + b"[" * 100_000, "nested too deeply"),
        (b'{"series": "a", "time": 1, "n": 1', "truncated"),
        (b'{"series": "a", "time": 1}, {"series": "a", "time": 2}', "JSON is malformed"),
        (b"\0\0\0\0", "JSON is malformed"),
        (b"null", "the line is not a JSON object"),
    ],
)
def test_a_damaged_line_is_refused_alone_with_its_text(tmp_path: Path, line: bytes, problem: str) -> None:
    before, damaged, after = list_rows(tmp_path, GOOD + b"\n" + line + b"\r\n" + GOOD)
    assert [row.event for row in (before, after)] == [{"series": "a", "time": 1, "data": {"n": 1}}] * 2
    assert (damaged.event, damaged.number, damaged.text) == (None, 1, line)
    assert problem in damaged.problem


@pytest.mark.parametrize(
    "number", ["1e400", "-0.0", "123456789012345678901234567890", "0.1000", "18446744073709551616"]
)
def test_a_number_keeps_its_digits(tmp_path: Path, number: str) -> None:
    (row,) = list_rows(tmp_path, f'{{"series": "a", "time": 1, "n": {number}}}')
    assert row.event is not None
    assert str(Decimal(row.event["data"]["n"])) == str(Decimal(number))


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r", b"\n\n \n"])
def test_every_line_end_is_one_also_if_the_last_is_missing(tmp_path: Path, end: bytes) -> None:
    rows = list_rows(tmp_path, b"\xef\xbb\xbf" + end.join([GOOD, GOOD, GOOD]))
    assert [(row.number, row.event is not None) for row in rows] == [(0, True), (1, True), (2, True)]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'[{"series": "a", "time": 1}]', r"a\.json is a JSON array, .*jq -c '\.\[\]' .*a\.json > a\.ndjson"),
        (b"  [\n  {}\n]", "is a JSON array"),
        (b'{\n  "series": "a"\n}', r"has objects of several lines, .*jq -c \. "),
        (b'{"series": "a",\n"time": 1}', "has objects of several lines"),
        (b'{"events": [{"series": "a", "time": 1}], "next": null}', r"is one object with a list of events, .*jq -c '\."),
        (b'{"type": "x", "features": [{"id": 1}]}', "is one object with a list of features"),
        (b'{"Items": [{"id": {"S": "a"}}], "Count": 1}', r"is an answer of DynamoDB, .*'\.Items\[\] \| \{Item: \.\}'"),
        (b'{"Metadata": {}, "Keys": {}, "NewImage": {}}', "is an incremental export of DynamoDB"),
        (b'$ion_1_0 {Item:{id:"a"}}', "is an export in Ion: .*DYNAMODB_JSON"),
        ('{"series": "a"}'.encode("utf-16"), "is UTF-16 or UTF-32"),
    ],
)  # fmt: skip
def test_json_in_another_form_says_how_to_convert_it(tmp_path: Path, content: bytes, reason: str) -> None:
    with pytest.raises(SourceError, match=reason):
        list_rows(tmp_path, content, "a.json")


def test_a_line_with_a_list_may_be_an_event(tmp_path: Path) -> None:
    (row,) = list_rows(tmp_path, b'{"series": "a", "time": 1, "parts": [{"n": 1}]}')
    assert row.event is not None


def test_an_export_of_dynamodb_is_read(tmp_path: Path) -> None:
    item = (
        '{"Item":{"series":{"S":"a"},"time":{"N":"1773572400000"},"n":{"N":"0.10000000000000000000000000000000000001"},'
        '"m":{"M":{"ok":{"BOOL":true},"none":{"NULL":true}}},"l":{"L":[{"N":"1"},{"S":"x"}]},"b":{"B":"AQI="},'
        '"ss":{"SS":["x","y"]},"ns":{"NS":["1","2"]}}}\n'
    )
    (row,) = list_rows(tmp_path, item, "a.json")
    expected: Any = {
        "series": "a",
        "time": 1773572400000,
        "data": {
            "n": Decimal("0.10000000000000000000000000000000000001"),
            "m": {"ok": True, "none": None},
            "l": [1, "x"],
            "b": "AQI=",
            "ss": ["x", "y"],
            "ns": [1, 2],
        },
    }
    assert row.event == expected


def test_nulls_of_an_export_of_dynamodb_are_kept(tmp_path: Path) -> None:
    item = '{"Item":{"series":{"S":"a"},"time":{"N":"1773572400000"},"none":{"NULL":true}}}'
    (row,) = list_rows(tmp_path, item)
    assert row.event == {"series": "a", "time": 1773572400000, "data": {"none": None}}


@pytest.mark.parametrize("number", ["x", "NaN", "1_0", " 1 ", "", "Infinity", "1e9999999999999999999", "\u0663"])
@pytest.mark.parametrize("form", ['{"N":%s}', '{"NS":["1",%s]}', '{"L":[{"M":{"n":{"N":%s}}}]}'])
def test_a_number_of_dynamodb_that_is_none_is_refused(tmp_path: Path, number: str, form: str) -> None:
    value = form % json.dumps(number)
    line = '{"Item":{"series":{"S":"a"},"time":{"N":"1773572400000"},"n":' + value + "}}"
    (row,) = list_rows(tmp_path, line)
    assert (row.event, row.problem) == (None, f"{number[:40]!r} is not a number of DynamoDB")


@pytest.mark.parametrize(
    "value",
    [
        '{"L":5}',
        '{"M":{"a":5}}',
        '{"S":5}',
        '{"SS":"a"}',
        '{"SS":[1]}',
        '{"N":5}',
        '{"L":[{"N":1}]}',
        '{"BOOL":"true"}',
    ],
)
def test_a_field_called_item_that_only_resembles_an_export_is_a_field(tmp_path: Path, value: str) -> None:
    (tmp_path / "b.ndjson").write_text('{"Item":{"n":' + value + '},"time":1}')
    (row,) = open_source(tmp_path / "b.ndjson", None, Columns(series="=a")).read()
    assert row.event == {"series": "a", "time": 1, "data": {"Item": {"n": json.loads(value)}}}
    (tmp_path / "c.ndjson").write_text('{"Item":{"n":' + value + "}}")
    (row,) = open_source(tmp_path / "c.ndjson", None, Columns(series="=a")).read()
    assert row.problem == "the row has no time: name its column with --time"


def test_a_null_of_a_flat_row_is_a_value(tmp_path: Path) -> None:
    (row,) = list_rows(tmp_path, '{"series": "a", "time": 1, "id": null, "n": null, "data.m": null, "l": [null]}')
    assert row.event == {"series": "a", "time": 1, "data": {"n": None, "m": None, "l": [None]}}


def test_a_field_called_item_is_a_field(tmp_path: Path) -> None:
    (row,) = list_rows(tmp_path, '{"Item": {"series": "a"}}')
    assert row.problem == "the row has no series: name its column with --series"
