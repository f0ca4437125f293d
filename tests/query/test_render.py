"""The forms of an answer: how a row becomes flat, and which parameters say so."""

from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from aws.arrow import encode_stream
from tidetable.query.listings.page import Listed
from tidetable.query.model import Cost
from tidetable.query.render import Form, _escape_cell, choose_form, flatten_row, render_answer

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
        next=None,
        gaps=(),
        cost=Cost(),
        sources=(),
        rows=[{"series": "=1", "n": Decimal("1.50"), "ok": True, "none": None}],
        listing=SimpleNamespace(stream="s", query=SimpleNamespace(start=NOON, end=NOON)),  # type: ignore[arg-type]
        reader=SimpleNamespace(),  # type: ignore[arg-type]
        places=(),
    )
    answer = render_answer(row, Form(kind, **more), encode_stream)
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
