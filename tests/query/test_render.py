"""The forms of an answer: how a row becomes flat, and which parameters say so."""

import csv
import io
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from aws.arrow import encode_stream
from tests.fakes import SEAL
from tests.worlds.days import LAYOUTS, NOW, START, STREAM, Days
from tidetable.events import Event
from tidetable.periods import Kind, find_containing
from tidetable.problems import ProblemError
from tidetable.query import parse_query, run_query
from tidetable.query.listings.listing_page import Listed
from tidetable.query.model import Cost
from tidetable.query.render import AnswerForm, _escape_cell, choose_form, flatten_row, render_answer

NOON = datetime(2026, 3, 5, 12, tzinfo=UTC)

FLAT: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"id": "a", "data": {"x": {"y": 1}}}, {"id": "a", "data.x.y": 1}),
    # An empty object within data is a value; a row without data has no field.
    ({"id": "a", "data": {"x": {}}}, {"id": "a", "data.x": {}}),
    ({"id": "a", "data": {}}, {"id": "a"}),
    ({"ref": "r", "id": "a"}, {"id": "a", "ref": "r"}),
    ({"data": {"a.b": 1, 'c"': 2}}, {'data."a.b"': 1, 'data."c"""': 2}),
]


@pytest.mark.parametrize(("row", "flat"), FLAT)
def test_a_flat_row_has_its_fields_by_their_paths(row: dict[str, Any], flat: dict[str, Any]) -> None:
    assert list(flatten_row(row).items()) == list(flat.items())


def test_formulas_are_escaped_unless_the_request_says_otherwise() -> None:
    assert [choose_form(parameters, "").escape for parameters in ({}, {"escape": "true"}, {"escape": "false"})] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/json", "json"),
        ("application/x-ndjson", "ndjson"),
        ("application/ndjson", "ndjson"),
        ("text/csv", "csv"),
        ("TEXT/CSV; header=present", "csv"),
        ("text/html,  application/vnd.apache.arrow.stream ;q=1", "arrow"),
        ("application/xml", "json"),
    ],
)
def test_a_form_is_accepted_by_each_of_its_names_in_any_letters(accept: str, kind: str) -> None:
    assert choose_form({}, accept).kind == kind


def test_rows_are_flat_only_if_the_request_says_so() -> None:
    assert [choose_form(parameters, "").flat for parameters in ({}, {"flat": "false"}, {"flat": "true"})] == [
        False,
        False,
        True,
    ]


def rendered(kind: str, **more: Any) -> tuple[str, str]:
    """The content type and the body of an answer with the row ``{"n":1}``."""
    row = Listed(
        name="series",
        stream="s",
        next=None,
        gaps=(),
        cost=Cost(),
        sources=(),
        rows=[{"series": "=1", "n": Decimal("1.50"), "ok": True, "none": None}],
        listing=SimpleNamespace(stream="s", query=SimpleNamespace(start=NOON, end=NOON)),  # type: ignore[arg-type]
        reader=SimpleNamespace(),  # type: ignore[arg-type]
        places=(),
        extras={"from": "2026-03-05T12:00:00.000000Z", "to": "2026-03-05T12:00:00.000000Z"},
    )
    answer = render_answer(row, AnswerForm(kind, **more), encode_stream)
    return answer.content_type, answer.body


def test_each_form_has_its_content_type() -> None:
    text = '{"series":"=1","n":1.50,"ok":true,"none":null}'
    rest = '"next":null,"from":"2026-03-05T12:00:00.000000Z","to":"2026-03-05T12:00:00.000000Z","gaps":[],"sources":[]}'
    assert rendered("json") == ("application/json", f'{{"series":[{text}],{rest}')
    assert rendered("ndjson") == ("application/x-ndjson", f"{text}\n")
    header = "series,first,first_within,last,last_within,n,ok,none\r\n"
    assert rendered("csv") == ("text/csv; charset=utf-8", f"{header}'=1,,,,,1.50,true,\r\n")
    assert rendered("csv", escape=False)[1] == f"{header}=1,,,,,1.50,true,\r\n"


@pytest.mark.parametrize("sign", ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"])
def test_every_sign_with_which_a_spreadsheet_begins_a_formula_is_escaped(sign: str) -> None:
    """https://owasp.org/www-community/attacks/CSV_Injection"""
    assert _escape_cell(f"{sign}a") == f"'{sign}a"
    assert _escape_cell(f"a{sign}") == f"a{sign}"


def make_wide_days(count: int, fields: int) -> Days:
    """A day of events, each with fields of its own names."""
    days, layout = Days(), LAYOUTS[0]
    events = [
        Event("a", START + timedelta(seconds=n), str(n), {f"f{n}_{field}": n for field in range(fields)})
        for n in range(count)
    ]
    days.add_table(find_containing(START, Kind.DAY), layout, [layout.make_item(event) for event in events])
    return days


def write_csv(days: Days, **parameters: str) -> tuple[list[dict[str, str]], str | None]:
    """The rows of a page of CSV, and the cursor of the next page."""
    asked = {"from": "2026-03-01T00:00:00Z", "to": "2026-03-02T00:00:00Z", "order": "asc"}
    values = {name: [value] for name, value in (parameters if "cursor" in parameters else asked | parameters).items()}
    answer = run_query(parse_query(STREAM, values, NOW, SEAL), STREAM, days.reader, NOW, lambda: 100.0)
    rendered = render_answer(answer, AnswerForm("csv"), encode_stream)
    return list(csv.DictReader(io.StringIO(rendered.body, newline=""))), rendered.answer.next


def test_pages_of_csv_end_before_their_cells_are_too_many_and_together_have_every_event() -> None:
    """40 events of 3,000 fields of their own would make 40 rows of 120,004 columns, 4,800,160 cells."""
    days = make_wide_days(40, 3_000)
    first, cursor = write_csv(days)
    assert cursor is not None
    second, end = write_csv(days, cursor=cursor)
    # 25 rows of 75,004 columns are 1,875,100 cells; 26 rows of 78,004 would be more than 2,000,000.
    assert (len(first), len(second), end) == (25, 15, None)
    rows = [*first, *second]
    assert [row["id"] for row in rows] == [str(number) for number in range(40)]
    assert all(row[f"data.f{row['id']}_2999"] == row["id"] for row in rows)


def test_named_fields_keep_a_page_of_csv_whole() -> None:
    rows, cursor = write_csv(make_wide_days(40, 3_000), fields="f7_0,f39_1")
    assert (len(rows), cursor) == (40, None)
    assert (rows[7]["data.f7_0"], rows[7]["data.f39_1"], rows[39]["data.f39_1"]) == ("7", "", "39")


def test_paths_that_repeat_a_long_name_end_a_page_and_one_such_event_is_refused() -> None:
    """Each of the 50 paths of an event repeats a name of 90,000 characters: 4,500,000 of the 20,000,000 of a page."""
    days, layout = Days(), LAYOUTS[0]
    inner = {f"{n:03}": 1 for n in range(50)}
    small = [Event("a", START + timedelta(seconds=n), str(n), {"x" * 90_000: inner}) for n in range(5)]
    huge = Event("a", START + timedelta(hours=1), "h", {"x" * 90_000: {f"{n:04}": 1 for n in range(1000)}})
    items = [layout.make_item(event) for event in (*small, huge)]
    days.add_table(find_containing(START, Kind.DAY), layout, items)
    first, cursor = write_csv(days)
    assert [row["id"] for row in first] == ["0", "1", "2", "3"]
    assert cursor is not None
    with pytest.raises(ProblemError, match="422 too_much: rows that belong into one page are larger"):
        write_csv(days, **{"from": "2026-03-01T01:00:00Z"})
