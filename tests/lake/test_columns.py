"""The columns of a stream's table: what Iceberg widens, what is refused, and what is hidden."""

import pytest

from tidetable.lake.columns import join_columns, list_own_columns
from tidetable.layout import Index, Layout

N = {"n": "integer"}


def test_the_columns_of_all_periods_are_joined() -> None:
    joined = join_columns([{"time": "timestamp", "n": "integer"}, {"time": "timestamp", "Mag": "double"}], [])
    assert joined == ({"time": "timestamp", "n": "integer", "Mag": "double"}, (), {})


@pytest.mark.parametrize("kinds", [("decimal(9, 2)", "decimal(12,2)"), ("decimal(12,2)", "decimal(9,2)")])
def test_a_decimal_has_its_greatest_precision(kinds: tuple[str, str]) -> None:
    assert join_columns([{"p": kind} for kind in kinds], []).columns == {"p": "decimal(12,2)"}


@pytest.mark.parametrize(
    "kinds",
    [
        ("integer", "double"),
        ("double", "integer"),
        ("decimal(9,2)", "decimal(9,3)"),
        ("string", "boolean"),
        ("integer", "decimal(9,0)"),
        ("decimal(9,0)", "integer"),
    ],
)
def test_a_column_whose_files_do_not_agree_is_left_out_and_told(kinds: tuple[str, str]) -> None:
    joined = join_columns([{"p": kind, "n": "integer"} for kind in kinds], [])
    assert joined == (N, ("p",), {"p": (f"p {kinds[0]}", f"p {kinds[1]}")})


def test_names_that_differ_only_in_case_are_refused() -> None:
    assert join_columns([{"Mag": "double"}, {"mag": "double"}], []) == (
        {},
        ("Mag", "mag"),
        {"Mag": ("Mag double", "mag double")},
    )


def test_a_field_that_a_file_has_without_a_declaration_is_hidden() -> None:
    assert join_columns([N], [{"x": "string", "a": "double"}]) == (N, ("a", "x"), {})


def test_an_undeclared_field_of_the_declared_type_is_shown() -> None:
    assert join_columns([{"x": "string"}], [{"x": "string"}]) == ({"x": "string"}, (), {})


@pytest.mark.parametrize("spelled", ["x", "X"])
def test_an_undeclared_field_of_another_type_refuses_the_declared_column(spelled: str) -> None:
    joined = join_columns([{"x": "integer"}], [{spelled: "double"}])
    assert (joined.columns, joined.hidden) == ({}, tuple(sorted({"x", spelled})))
    assert joined.refused == {"x": ("x integer", f"{spelled} double")}


def test_files_have_columns_of_the_pipeline_of_indexes_and_of_versions() -> None:
    layout = Layout("time", 2, "id", 3_600, (Index("status", "status"), Index("all", replica=True)), versioned=True)
    assert list_own_columns(layout) == {
        "time": "timestamp",
        "series": "string",
        "id": "string",
        "id_hex": "binary",
        "shard": "int",
        "accepted_at": "timestamp",
        "version": "int",
        "pk_status": "string",
        "data": "string",
        "attributes": "string",
        "period": "string",
    }
    assert "version" not in list_own_columns(Layout("series", 2, "id"))
