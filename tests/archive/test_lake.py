"""Athena's tables follow the streams: each is made, changed and deleted, and tables of others stay."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from aws.lake import GlueLake, make_table
from tidetable.config import Stream, parse

NOW = datetime(2026, 3, 5, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def make_streams(*names: str, columns: str = "") -> list[Stream]:
    policy = 'period = "day"\nlate = "1h"\nretention = 5\nkey = {{ partition_by = "series" }}\n'
    archive = f"archive = {{{{ columns = {{{{ {columns} }}}} }}}}\n"
    text = "".join(f"[streams.{name}]\n{policy}{archive}".format() for name in names)
    return list(parse(text).streams.values())


class Glue:
    """Glue's tables of a database, and the calls that change them."""

    def __init__(self, *tables: dict[str, Any]) -> None:
        self.tables = {table["Name"]: table for table in tables}
        self.calls: list[str] = []

    def get_paginator(self, operation: str) -> Any:
        assert operation == "get_tables"
        return self

    def paginate(self, **request: str) -> list[dict[str, Any]]:
        assert request == {"DatabaseName": "tidetable_t"}
        self.calls.append("list")
        return [{"TableList": [table]} for table in self.tables.values()]

    def create_table(self, **request: Any) -> None:
        name = self._put(request)
        self.calls.append(f"create {name}")

    def update_table(self, **request: Any) -> None:
        name = self._put(request)
        self.calls.append(f"update {name}")

    def _put(self, request: Any) -> str:
        assert request.keys() == {"DatabaseName", "TableInput"}
        table = request["TableInput"]
        self.tables[table["Name"]] = table
        return str(table["Name"])

    def delete_table(self, **request: str) -> None:
        assert request.keys() == {"DatabaseName", "Name"}
        self.calls.append(f"delete {request['Name']}")
        if self.tables.pop(request["Name"], None) is None:
            raise ClientError({"Error": {"Code": "EntityNotFoundException", "Message": ""}}, "DeleteTable")


def fit(glue: Glue, streams: list[Stream], lake: GlueLake | None = None, now: datetime = NOW) -> list[str]:
    """Make all changes; the calls of Glue."""
    glue.calls.clear()
    lake = lake or GlueLake(lambda: glue, "tidetable_t", "files")
    changes: list[tuple[str, Callable[[], object]]] = list(lake.list_changes(streams, now))
    for _, change in changes:
        change()
    return glue.calls


def test_every_stream_has_a_table_over_its_own_files() -> None:
    glue = Glue()
    assert fit(glue, make_streams("a", "b-c", columns='n = "integer"')) == ["list", "create a", "create b_c"]
    table = glue.tables["b_c"]
    digest = table["Parameters"].pop("tidetable.digest")
    assert len(digest) == 64
    parquet = "org.apache.hadoop.hive.ql.io.parquet"
    assert table == {
        "Name": "b_c",
        "Description": "Archived periods of the stream b-c",
        "TableType": "EXTERNAL_TABLE",
        "PartitionKeys": [{"Name": "period", "Type": "string"}],
        "Parameters": {
            "classification": "parquet",
            "EXTERNAL": "TRUE",
            "projection.enabled": "true",
            "projection.period.type": "date",
            "projection.period.range": "2026-01-01,NOW",
            "projection.period.format": "yyyy-MM-dd",
            "projection.period.interval": "1",
            "projection.period.interval.unit": "DAYS",
            "storage.location.template": "s3://files/stream=b-c/period=${period}/",
        },
        "StorageDescriptor": {
            "Location": "s3://files/stream=b-c/",
            "Columns": [
                {"Name": "time", "Type": "timestamp"},
                {"Name": "series", "Type": "string"},
                {"Name": "id", "Type": "string"},
                {"Name": "id_hex", "Type": "binary"},
                {"Name": "shard", "Type": "smallint"},
                {"Name": "accepted_at", "Type": "timestamp"},
                {"Name": "n", "Type": "bigint"},
                {"Name": "data", "Type": "string"},
                {"Name": "attributes", "Type": "string"},
            ],
            "InputFormat": f"{parquet}.MapredParquetInputFormat",
            "OutputFormat": f"{parquet}.MapredParquetOutputFormat",
            "SerdeInfo": {"SerializationLibrary": f"{parquet}.serde.ParquetHiveSerDe"},
        },
    }


def test_a_table_follows_the_columns_of_its_stream_and_goes_with_the_stream() -> None:
    glue = Glue()
    fit(glue, make_streams("a", "b"))
    assert fit(glue, make_streams("a", "b")) == ["list"]
    assert fit(glue, make_streams("a", columns='n = "integer"')) == ["list", "update a", "delete b"]
    assert [column["Name"] for column in glue.tables["a"]["StorageDescriptor"]["Columns"]][6] == "n"
    assert fit(glue, make_streams("a", columns='n = "integer"')) == ["list"]


def test_a_range_that_somebody_has_set_stays() -> None:
    """docs/use/archive.md advises that after an import of older events."""
    glue = Glue()
    fit(glue, make_streams("a"))
    glue.tables["a"]["Parameters"]["projection.period.range"] = "2019-01-01,NOW"
    assert fit(glue, make_streams("a")) == ["list"]


def test_tables_of_others_stay_and_a_table_of_an_older_version_is_taken_over() -> None:
    """Older versions made each table with the stack, and without a digest."""
    glue = Glue({"Name": "view", "Parameters": {"presto_view": "true"}}, {"Name": "bare"}, {"Name": "a"})
    assert fit(glue, make_streams("a")) == ["list", "update a"]
    assert set(glue.tables) == {"view", "bare", "a"}


def test_a_table_that_is_gone_need_not_be_deleted() -> None:
    glue = Glue()
    lake = GlueLake(lambda: glue, "tidetable_t", "files")
    fit(glue, make_streams("a", "b"), lake)
    changes = list(lake.list_changes(make_streams("a"), NOW))
    del glue.tables["b"]
    for _, change in changes:
        change()
    assert glue.calls[-1] == "delete b"


def test_tables_are_listed_until_all_are_right_and_then_once_per_hour() -> None:
    glue = Glue()
    lake = GlueLake(lambda: glue, "tidetable_t", "files")
    streams = make_streams("a")
    assert fit(glue, streams, lake) == ["list", "create a"]
    assert fit(glue, streams, lake, NOW + MINUTE) == ["list"]
    del glue.tables["a"]
    assert fit(glue, streams, lake, NOW + 60.9 * MINUTE) == []
    assert fit(glue, streams, lake, NOW + 61 * MINUTE) == ["list", "create a"]
    assert fit(glue, streams, lake, NOW + 62 * MINUTE) == ["list"]
    assert fit(glue, streams, lake, NOW) == ["list"], "the clock was set back"
    assert fit(glue, make_streams("a", "b"), lake, NOW) == ["list", "create b"]


@pytest.mark.parametrize("name", ["a", "b-c"])
def test_a_definition_has_the_same_digest_in_every_process(name: str) -> None:
    (stream,) = make_streams(name)
    assert make_table(stream, "files") == make_table(stream, "files")
    digests = {make_table(stream, bucket)["Parameters"]["tidetable.digest"] for bucket in ("files", "others")}
    assert len(digests) == 2
