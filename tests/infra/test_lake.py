"""Athena's tables: a column for each column of the files, and partitions that are calculated from their names."""

from pathlib import Path

import pytest

from infra.lake import columns, make_projection
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


def test_the_columns_are_those_of_the_files_and_in_athenas_types() -> None:
    stream = parse(STREAM.format(period="day")).streams["a-b"]
    assert columns(stream) == {
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


@pytest.mark.parametrize("kind", list(Kind))
def test_partitions_are_projected_for_every_kind_of_period(kind: Kind) -> None:
    found = make_projection(kind)
    assert found["projection.period.type"] == ("injected" if kind is Kind.WEEK else "date")
    assert kind is Kind.WEEK or found["projection.period.range"].endswith(",NOW")


def test_the_documented_types_are_those_that_the_configuration_takes() -> None:
    from tidetable.config.check import COLUMN_TYPES

    text = (Path(__file__).parents[2] / "docs" / "use" / "archive.md").read_text()
    assert all(f"`{kind}`" in text for kind in COLUMN_TYPES)


def test_the_documents_say_before_which_year_athena_finds_nothing() -> None:
    """AWS: a query for a partition outside of the range has no rows and no error."""
    starts = {make_projection(kind)["projection.period.range"][:4] for kind in (Kind.HOUR, Kind.DAY, Kind.MONTH)}
    (year,) = starts
    document = (Path(__file__).parents[2] / "docs" / "use" / "archive.md").read_text()
    assert f"| periods before {year} |" in document
