"""Athena's tables: a column for each column of the files, and partitions that are calculated from their names."""

from pathlib import Path

import pytest

from aws.lake import list_columns, make_projection
from tests.infra.synth import Template, actions
from tidetable.config import parse
from tidetable.periods import Kind

STREAM = """
[streams.a-b]
period = "{period}"
late = "1h"
retention = 400
archive = {{ columns = {{ Price = "decimal(12, 2)", n = "integer", ok = "boolean" }} }}
index = [
    {{ name = "status", partition_by = "status" }},
    {{ name = "top", partition_by = "*", sort_by = "n" }},
    {{ name = "again", replica = true }},
    {{ name = "places", partition_by = "*", sort_by = ["country", "region"] }},
    {{ name = "near", local = true, sort_by = ["country"] }},
    {{ name = "best", local = true, sort_by = "n" }},
]
[streams.a-b.key]
partition_by = "series"
"""


def test_the_stage_has_a_database_without_tables_and_the_lifecycle_may_make_them(dev: Template) -> None:
    (database,) = dev.all("AWS::Glue::Database")
    account = {"Ref": "AWS::AccountId"}
    found = dev.resources[database]["Properties"]
    assert (found["CatalogId"], found["DatabaseInput"]["Name"]) == (account, "tidetable_dev")
    assert dev.all("AWS::Glue::Table") == {}
    (tables,) = dev.all("Custom::TidetableTables")
    assert database in dev.resources[tables]["DependsOn"]
    for name in ("lifecycle", "deployment"):
        (statement,) = (statement for statement in dev.statements(name) if "glue:GetTables" in statement["Action"])
        changes = {"glue:CreateTable", "glue:UpdateTable", "glue:DeleteTable"}
        assert actions(statement) == {"glue:GetTables", *changes}
        ends = [resource["Fn::Join"][1][-1] for resource in statement["Resource"]]
        assert ends == [":catalog", ":database/tidetable_dev", ":table/tidetable_dev/*"]
        bucket = dev.functions()[name]["Environment"]["Variables"]["TIDETABLE_ARCHIVE_BUCKET"]
        assert bucket["Ref"].startswith("StorageArchive")


def test_the_columns_are_those_of_the_files_and_in_athenas_types() -> None:
    stream = parse(STREAM.format(period="day")).streams["a-b"]
    assert list_columns(stream) == {
        "time": "timestamp",
        "series": "string",
        "id": "string",
        "id_hex": "binary",
        "shard": "smallint",
        "accepted_at": "timestamp",
        "pk_status": "string",
        "pk_top": "string",
        "n": "bigint",
        "ok": "boolean",
        "price": "decimal(12,2)",
        "data": "string",
        "attributes": "string",
    }


def test_a_stream_that_keeps_versions_has_a_column_for_them() -> None:
    stream = parse(STREAM.format(period="day").replace('late = "1h"', 'late = "1h"\nversions = "keep"')).streams["a-b"]
    names = list(list_columns(stream))
    assert list_columns(stream)["version"] == "int"
    assert names[5:] == ["accepted_at", "version", "pk_status", "pk_top", "price", "n", "ok", "data", "attributes"]


# Athena has no format for weeks: a query names its week.
PROJECTIONS = {
    Kind.HOUR: {"type": "date", "range": "2026-01-01T00,NOW", "format": "yyyy-MM-dd'T'HH", "unit": "HOURS"},
    Kind.DAY: {"type": "date", "range": "2026-01-01,NOW", "format": "yyyy-MM-dd", "unit": "DAYS"},
    Kind.WEEK: {"type": "injected"},
    Kind.MONTH: {"type": "date", "range": "2026-01,NOW", "format": "yyyy-MM", "unit": "MONTHS"},
}


@pytest.mark.parametrize("kind", list(Kind))
def test_partitions_are_projected_for_every_kind_of_period(kind: Kind) -> None:
    expected = {f"projection.period.{name}": value for name, value in PROJECTIONS[kind].items() if name != "unit"}
    if "unit" in PROJECTIONS[kind]:
        expected |= {"projection.period.interval": "1", "projection.period.interval.unit": PROJECTIONS[kind]["unit"]}
    assert make_projection(kind) == expected


def test_the_documented_types_are_those_that_the_configuration_takes() -> None:
    from tidetable.config.columns import COLUMN_TYPES

    text = (Path(__file__).parents[2] / "docs" / "use" / "archive.md").read_text()
    assert all(f"`{kind}`" in text for kind in COLUMN_TYPES)


def test_the_documents_say_before_which_year_athena_finds_nothing() -> None:
    """AWS: a query for a partition outside of the range has no rows and no error."""
    starts = {make_projection(kind)["projection.period.range"][:4] for kind in (Kind.HOUR, Kind.DAY, Kind.MONTH)}
    (year,) = starts
    document = (Path(__file__).parents[2] / "docs" / "use" / "archive.md").read_text()
    assert f"| periods before {year} |" in document
