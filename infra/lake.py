"""The archive as Athena tables, one table per stream.

It needs no crawler, because partition projection calculates the partitions.
"""

from __future__ import annotations

import re

from aws_cdk import RemovalPolicy, Stack
from aws_cdk import aws_glue as glue
from aws_cdk import aws_s3 as s3
from constructs import Construct

from tidetable.config import Config, Stream
from tidetable.names import name_lake_table
from tidetable.periods import Kind

from .naming import name_lake_database

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


class Lake(Construct):
    """A Glue database with the archive's streams as external tables."""

    def __init__(self, scope: Construct, id: str, *, stage: str, config: Config, bucket: s3.IBucket) -> None:
        super().__init__(scope, id)
        account = Stack.of(self).account
        self.name = name_lake_database(stage)
        database = glue.CfnDatabase(
            self,
            "Database",
            catalog_id=account,
            database_input=glue.CfnDatabase.DatabaseInputProperty(
                name=self.name, description=f"Archived events of Tidetable's stage {stage}"
            ),
        )
        database.apply_removal_policy(RemovalPolicy.DESTROY)
        for stream in config.streams.values():
            table = self._make_table(stream, account, bucket)
            table.add_dependency(database)

    def _make_table(self, stream: Stream, account: str, bucket: s3.IBucket) -> glue.CfnTable:
        location = f"s3://{bucket.bucket_name}/stream={stream.name}/"
        column = glue.CfnTable.ColumnProperty
        return glue.CfnTable(
            self,
            f"Table-{stream.name}",
            catalog_id=account,
            database_name=self.name,
            table_input=glue.CfnTable.TableInputProperty(
                name=name_lake_table(stream.name),
                description=f"Archived periods of the stream {stream.name}",
                table_type="EXTERNAL_TABLE",
                partition_keys=[column(name="period", type="string")],
                parameters={
                    "classification": "parquet",
                    "EXTERNAL": "TRUE",
                    "projection.enabled": "true",
                    "storage.location.template": f"{location}period=${{period}}/",
                    **make_projection(stream.period),
                },
                storage_descriptor=glue.CfnTable.StorageDescriptorProperty(
                    location=location,
                    columns=[column(name=name, type=kind) for name, kind in list_columns(stream).items()],
                    input_format=f"{_PARQUET}.MapredParquetInputFormat",
                    output_format=f"{_PARQUET}.MapredParquetOutputFormat",
                    serde_info=glue.CfnTable.SerdeInfoProperty(
                        serialization_library=f"{_PARQUET}.serde.ParquetHiveSerDe",
                    ),
                ),
            ),
        )


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
    own = {**_OWN, "version": "int"} if stream.versions == "keep" else _OWN
    return {**own, **indexes, **declared, **_REST}
