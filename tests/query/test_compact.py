"""Answers without refs, and answers by columns."""

from __future__ import annotations

import csv
import io
import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from aws.arrow import encode_stream
from tests.fakes import SEAL
from tests.worlds.days import LAYOUTS, NOW, START, STREAM, Days
from tidetable.events import Event
from tidetable.exact_json import decode_json
from tidetable.periods import Kind, find_containing
from tidetable.problems import ProblemError
from tidetable.query import parse_query, run_query
from tidetable.query.render import Rendered, choose_form, render_answer

# Data that looks like a ref in several ways.
DATA: list[dict[str, Any]] = [
    {"a": 1, "ref": "mine"},
    {"text": ',"ref":"no"', "deep": {"b": 2, "ref": "deeper"}},
    {"n": Decimal("0.1000000000000000000000000001"), "list": [{"c": 3, "ref": "x"}]},
    {},
]


def make_days() -> Days:
    days, layout = Days(), LAYOUTS[0]
    events = [Event("a,b", START + timedelta(seconds=n), f"i{n}", data) for n, data in enumerate(DATA)]
    days.add_table(find_containing(START, Kind.DAY), layout, [layout.make_item(event) for event in events])
    return days


def render(days: Days, **parameters: str) -> Rendered:
    asked = {"from": "2026-03-01T00:00:00Z", "to": "2026-03-02T00:00:00Z", "order": "asc"}
    values = {name: [value] for name, value in (parameters if "cursor" in parameters else asked | parameters).items()}
    answer = run_query(parse_query(STREAM, values, NOW, SEAL), STREAM, days.reader, NOW, lambda: 100.0)
    return render_answer(answer, choose_form(parameters, ""), encode_stream)


def test_only_the_ref_of_the_event_is_left_out() -> None:
    days = make_days()
    whole, bare = (decode_json(render(days, **more).body) for more in ({}, {"refs": "false"}))
    assert [event["data"] for event in bare["events"]] == DATA
    assert [event.keys() for event in bare["events"]] == [{"series", "time", "id", "data"}] * 4
    assert all(event.pop("ref") for event in whole["events"])
    assert bare == whole


@pytest.mark.parametrize("flat", ["true", "false"])
def test_lines_without_refs(flat: str) -> None:
    lines = render(make_days(), format="ndjson", refs="false", flat=flat).body.splitlines()
    assert ["ref" in json.loads(line) for line in lines] == [False] * 4
    assert json.loads(lines[0]).get("data.ref" if flat == "true" else "data") == ("mine" if flat == "true" else DATA[0])


def test_csv_and_arrow_without_refs() -> None:
    header = next(csv.reader(io.StringIO(render(make_days(), format="csv", refs="false").body)))
    assert header[:3] == ["series", "time", "id"]
    assert ("ref" in header, "data.ref" in header) == (False, True)
    days = make_days()
    sizes = [len(render(days, format="arrow", refs=refs).body) for refs in ("true", "false")]
    assert sizes[1] < sizes[0]


def test_columns_hold_what_the_rows_hold_with_all_digits() -> None:
    answer = decode_json(render(make_days(), format="columns", refs="false").body)
    assert answer["columns"] == {
        "series": ["a,b"] * 4,
        "time": [f"2026-03-01T00:00:0{n}.000000Z" for n in range(4)],
        "id": ["i0", "i1", "i2", "i3"],
        "data.a": [1, None, None, None],
        "data.ref": ["mine", None, None, None],
        "data.text": [None, ',"ref":"no"', None, None],
        "data.deep.b": [None, 2, None, None],
        "data.deep.ref": [None, "deeper", None, None],
        "data.n": [None, None, Decimal("0.1000000000000000000000000001"), None],
        "data.list": [None, None, [{"c": 3, "ref": "x"}], None],
    }
    assert (answer["next"], answer["gaps"], "sources" in answer) == (None, [], True)
    assert list(decode_json(render(make_days(), format="columns").body)["columns"])[-1] == "ref"


def test_an_answer_by_columns_has_its_columns_without_rows() -> None:
    answer = json.loads(render(make_days(), format="columns", series="nobody", fields="mag").body)
    assert answer["columns"] == {"series": [], "time": [], "id": [], "data.mag": [], "ref": []}


def test_pages_by_columns_end_before_they_are_too_large_and_together_have_every_event() -> None:
    """30 events of 3,000 fields of their own would be 2,700,000 cells, nearly all of them null."""
    days, layout = Days(), LAYOUTS[0]
    events = [
        Event("a", START + timedelta(seconds=n), str(n), {f"f{n}_{field}": n for field in range(3_000)})
        for n in range(30)
    ]
    days.add_table(find_containing(START, Kind.DAY), layout, [layout.make_item(event) for event in events])
    ids, cursor = list[str](), dict[str, str]()
    for _ in range(10):
        body = render(days, format="columns", **cursor).body
        page = json.loads(body)
        rows = page["columns"]["id"]
        assert len(rows) * len(page["columns"]) <= 2_000_000
        assert len(json.dumps(body)) <= 6 * 1024 * 1024
        ids += rows
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
    assert ids == [str(number) for number in range(30)]


@pytest.mark.parametrize("value", ["", "no", "TRUE"])
def test_another_value_of_refs_is_refused(value: str) -> None:
    with pytest.raises(ProblemError, match="refs must be true or false"):
        render(make_days(), refs=value)
