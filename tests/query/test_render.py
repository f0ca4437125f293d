"""The forms of an answer: how a row becomes flat, and which parameters say so."""

from typing import Any

import pytest

from tidetable.query.render import choose_form, flatten

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
    assert list(flatten(row).items()) == list(flat.items())


def test_formulas_are_escaped_unless_the_request_says_otherwise() -> None:
    assert [choose_form(parameters, "").escape for parameters in ({}, {"escape": "true"}, {"escape": "false"})] == [
        True,
        True,
        False,
    ]
