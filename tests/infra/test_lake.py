"""Athena's tables: a column for each column of the files, and partitions that are calculated from their names."""

from pathlib import Path

import pytest

from infra.lake import list_columns, make_projection
from tests.infra.synth import Template
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


def test_every_stream_has_a_table_over_its_own_files(dev: Template) -> None:
    tables = dev.all("AWS::Glue::Table").values()
    assert {table["TableInput"]["Name"] for table in tables} == {"quakes", "stations", "reports"}
    for one in tables:
        made = one["TableInput"]
        assert "${period}" in str(made["Parameters"]["storage.location.template"])
        assert made["PartitionKeys"] == [{"Name": "period", "Type": "string"}]
        # Athena: a table is over files that it does not own, so that dropping it deletes none.
        assert (made["TableType"], made["Parameters"]["EXTERNAL"]) == ("EXTERNAL_TABLE", "TRUE")
        assert (made["Parameters"]["classification"], made["Parameters"]["projection.enabled"]) == ("parquet", "true")


def test_a_table_is_over_the_files_of_one_stream_in_the_stages_database(dev: Template) -> None:
    (database,) = dev.all("AWS::Glue::Database")
    (bucket,) = (id for id in dev.all("AWS::S3::Bucket") if id.startswith("StorageArchive"))
    account = {"Ref": "AWS::AccountId"}
    found = dev.resources[database]["Properties"]
    assert (found["CatalogId"], found["DatabaseInput"]["Name"]) == (account, "tidetable_dev")
    (table,) = (one for id, one in dev.resources.items() if id.startswith("LakeTablequakes"))
    assert database in table["DependsOn"]
    made = table["Properties"]
    assert (made["CatalogId"], made["DatabaseName"]) == (account, "tidetable_dev")
    stored = made["TableInput"]["StorageDescriptor"]
    assert stored["Location"] == {"Fn::Join": ["", ["s3://", {"Ref": bucket}, "/stream=quakes/"]]}
    assert made["TableInput"]["Parameters"]["storage.location.template"] == {
        "Fn::Join": ["", ["s3://", {"Ref": bucket}, "/stream=quakes/period=${period}/"]]
    }
    parquet = "org.apache.hadoop.hive.ql.io.parquet"
    assert stored["InputFormat"] == f"{parquet}.MapredParquetInputFormat"
    assert stored["OutputFormat"] == f"{parquet}.MapredParquetOutputFormat"
    assert stored["SerdeInfo"] == {"SerializationLibrary": f"{parquet}.serde.ParquetHiveSerDe"}
    columns = [f"{column['Name']} {column['Type']}" for column in stored["Columns"]]
    assert columns == [
        *("time timestamp", "series string", "id string", "id_hex binary", "shard smallint", "accepted_at timestamp"),
        *("mag double", "place string", "data string", "attributes string"),
    ]


def test_a_table_of_a_stream_with_a_hyphen_has_a_name_that_athena_takes(rolled: Template) -> None:
    (table,) = (one for id, one in rolled.all("AWS::Glue::Table").items() if id.startswith("LakeTablequakeshours"))
    assert table["TableInput"]["Name"] == "quakes_hours"
    assert table["TableInput"]["StorageDescriptor"]["Location"]["Fn::Join"][1][2] == "/stream=quakes-hours/"


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
