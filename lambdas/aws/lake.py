"""The archive as Athena tables, one table per stream, in the stage's Glue database.

They need no crawler, because partition projection calculates the partitions. They are no resources of the stack:
CloudFormation takes 500 resources, and a stage may have as many streams.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from typing import Any

from aws.errors import ignore_refusal
from tidetable.config import Stream
from tidetable.names import name_lake_table
from tidetable.periods import Kind
from tidetable.versions.writing import keeps_versions

# A table that somebody changed or deleted is put back after this time, even if no stream has changed.
_LOOK_AGAIN = timedelta(hours=1)
# The parameter of a table that this code made: the digest of its definition. Other tables of the database stay.
_DIGEST = "tidetable.digest"
# The format of a period's label for partition projection. There is no format for weeks, so a query must name its week.
_PROJECTIONS: dict[Kind, dict[str, str]] = {
    Kind.HOUR: {"format": "yyyy-MM-dd'T'HH", "interval": "1", "interval.unit": "HOURS"},
    Kind.DAY: {"format": "yyyy-MM-dd", "interval": "1", "interval.unit": "DAYS"},
    Kind.MONTH: {"format": "yyyy-MM", "interval": "1", "interval.unit": "MONTHS"},
}
_SINCE: dict[Kind, str] = {Kind.HOUR: "2026-01-01T00", Kind.DAY: "2026-01-01", Kind.MONTH: "2026-01"}
_OWN = {
    "time": "timestamp",
    "series": "string",
    "id": "string",
    "id_hex": "binary",
    "shard": "smallint",
    "accepted_at": "timestamp",
}
_REST = {"data": "string", "attributes": "string"}
_TYPES = {"string": "string", "boolean": "boolean", "integer": "bigint", "double": "double"}
_PARQUET = "org.apache.hadoop.hive.ql.io.parquet"


class GlueLake:
    """The tables of one database, over the files of one bucket. The client is created at its first use."""

    def __init__(self, client: Callable[[], Any], database: str, bucket: str) -> None:
        self._client = client
        self._database = database
        self._bucket = bucket
        self._right: tuple[object, datetime] | None = None

    def list_changes(self, streams: Iterable[Stream], now: datetime) -> Iterator[tuple[str, Callable[[], object]]]:
        """Yield each table that differs from its stream, and the function that changes it.

        Nothing is looked at if every table was right less than an hour ago, and no stream has changed since.
        """
        wanted = {name_lake_table(stream.name): make_table(stream, self._bucket) for stream in streams}
        if (
            self._right is not None
            and self._right[0] == wanted
            and self._right[1] <= now < self._right[1] + _LOOK_AGAIN
        ):
            return
        client, database = self._client(), {"DatabaseName": self._database}
        pages = client.get_paginator("get_tables").paginate(**database)
        known = {
            table["Name"]: table.get("Parameters", {}).get(_DIGEST) for page in pages for table in page["TableList"]
        }
        is_right = True
        for name, table in wanted.items():
            if known.get(name) != table["Parameters"][_DIGEST]:
                change = client.update_table if name in known else client.create_table
                is_right = False
                yield name, partial(change, **database, TableInput=table)
        for name, digest in known.items():
            if digest is not None and name not in wanted:
                is_right = False
                yield name, partial(self._delete, name)
        if is_right:
            self._right = wanted, now

    def _delete(self, name: str) -> None:
        with ignore_refusal("EntityNotFoundException"):
            self._client().delete_table(DatabaseName=self._database, Name=name)


def make_table(stream: Stream, bucket: str) -> dict[str, Any]:
    """Make the definition of a stream's table: external, so that nobody deletes files by deleting it."""
    location = f"s3://{bucket}/stream={stream.name}/"
    table: dict[str, Any] = {
        "Name": name_lake_table(stream.name),
        "Description": f"Archived periods of the stream {stream.name}",
        "TableType": "EXTERNAL_TABLE",
        "PartitionKeys": [{"Name": "period", "Type": "string"}],
        "Parameters": {
            "classification": "parquet",
            "EXTERNAL": "TRUE",
            "projection.enabled": "true",
            "storage.location.template": f"{location}period=${{period}}/",
            **make_projection(stream.period),
        },
        "StorageDescriptor": {
            "Location": location,
            "Columns": [{"Name": name, "Type": kind} for name, kind in list_columns(stream).items()],
            "InputFormat": f"{_PARQUET}.MapredParquetInputFormat",
            "OutputFormat": f"{_PARQUET}.MapredParquetOutputFormat",
            "SerdeInfo": {"SerializationLibrary": f"{_PARQUET}.serde.ParquetHiveSerDe"},
        },
    }
    digest = sha256(json.dumps(table, sort_keys=True).encode()).hexdigest()
    return table | {"Parameters": {**table["Parameters"], _DIGEST: digest}}


def make_projection(kind: Kind) -> dict[str, str]:
    """Make the table properties from which Athena calculates a stream's partitions."""
    if kind not in _PROJECTIONS:
        return {"projection.period.type": "injected"}
    settings = {"type": "date", "range": f"{_SINCE[kind]},NOW", **_PROJECTIONS[kind]}
    return {f"projection.period.{name}": value for name, value in settings.items()}


def list_columns(stream: Stream) -> dict[str, str]:
    """List the columns of a stream's files with Athena's types: Tidetable's own columns, the keys of indexes, declared
    columns.
    """
    indexes = {f"pk_{index.name}": "string" for index in stream.index if index.index.has_column}
    declared = {
        name.lower(): _TYPES.get(kind) or re.sub(r"\s", "", kind)
        for name, kind in sorted(stream.archive.columns.items())
    }
    own = {**_OWN, "version": "int"} if keeps_versions([stream.layout]) else _OWN
    return {**own, **indexes, **declared, **_REST}
