"""DynamoDB's control plane."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from aws.dynamodb import table_requests
from aws.dynamodb.codes import INTERNAL, NOT_FOUND, RATE_LIMITED, THROTTLING
from aws.errors import name_missing_table, read_error_code, read_error_message
from tidetable.config import TableClass
from tidetable.errors import CopyRefused, NotReady, TableMissing, TableRefused
from tidetable.ports import Table, TableSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from mypy_boto3_dynamodb import DynamoDBClient

# AWS: a table that is changing refuses with the first code; the other refusals pass with time.
_TRANSIENT = RATE_LIMITED | {"ResourceInUseException", "ContinuousBackupsUnavailableException", INTERNAL}
_WITH_IMAGES = frozenset({"NEW_IMAGE", "NEW_AND_OLD_IMAGES"})
# Measured (docs/inside/aws.md, "Copies in other Regions"): both are a ValidationException; only the message distinguishes them.
_NAME_TAKEN, _NO_COPY = "already existed as tables", "not part of the global table"
_REFUSALS = _TRANSIENT | {"LimitExceededException", "ValidationException", "AccessDeniedException"}


class DynamoTables:
    """Period tables through boto3's low-level client."""

    def __init__(self, client: DynamoDBClient, client_in: Callable[[str], DynamoDBClient] | None = None) -> None:
        """``client_in`` makes the client of another Region; only ``tag_copy`` needs it."""
        self._client = client
        self._client_in = client_in

    def describe(self, name: str) -> Table | None:
        try:
            table: Any = self._client.describe_table(TableName=name)["Table"]
        except ClientError as error:
            if read_error_code(error) != NOT_FOUND:
                raise
            return None
        on_demand = table.get("BillingModeSummary", {}).get("BillingMode") == "PAY_PER_REQUEST"
        units = {} if on_demand else table.get("ProvisionedThroughput", {})
        table_class = table.get("TableClassSummary", {}).get("TableClass")
        infrequent = table_class == table_requests.CLASSES[TableClass.INFREQUENT]
        decreases, last_decrease = _read_decreases(table)
        streams = table.get("StreamSpecification", {})
        global_indexes = table.get("GlobalSecondaryIndexes", ())
        return Table(
            name=name,
            status=table["TableStatus"],
            write=units.get("WriteCapacityUnits"),
            read=units.get("ReadCapacityUnits"),
            table_class=TableClass.INFREQUENT if infrequent else TableClass.STANDARD,
            decreases_today=decreases,
            last_decrease=last_decrease,
            protected=table.get("DeletionProtectionEnabled", False),
            index_units=dict(_list_index_units(table)) if not on_demand else {},
            created=table.get("CreationDateTime"),
            size_bytes=table.get("TableSizeBytes", 0),
            item_count=table.get("ItemCount", 0),
            index_sizes={
                index["IndexName"]: (index["ItemCount"], index["IndexSizeBytes"])
                for index in (*global_indexes, *table.get("LocalSecondaryIndexes", ()))
                if "ItemCount" in index
            },
            most=_read_maxima(table),
            index_most={index["IndexName"]: _read_maxima(index) for index in global_indexes},
            # DynamoDB shows every table's warm throughput. DynamoDB Local knows neither warm throughput nor maxima.
            shows_maxima="WarmThroughput" in table,
            stream_arn=table.get("LatestStreamArn", "") if streams.get("StreamEnabled") else "",
            has_images=streams.get("StreamViewType") in _WITH_IMAGES,
            copies={replica["RegionName"]: replica.get("ReplicaStatus", "") for replica in table.get("Replicas", ())},
        )

    def tags(self, name: str) -> Mapping[str, str]:
        """Read all pages: AWS does not say how many tags a page has; a table may have 50."""
        tags: dict[str, str] = {}
        with name_missing_table(name):
            arn = self._client.describe_table(TableName=name)["Table"]["TableArn"]
            for page in self._client.get_paginator("list_tags_of_resource").paginate(ResourceArn=arn):
                tags |= {tag["Key"]: tag["Value"] for tag in page.get("Tags", [])}
        return tags

    def create(self, spec: TableSpec) -> bool:
        """Send CreateTable with tags and class, so that the tags prove our ownership from the table's first instant."""
        keys = ("pk", "sk") if spec.sorted else ("pk",)
        try:
            with _translate_refusals():
                self._client.create_table(
                    TableName=spec.name,
                    KeySchema=table_requests.make_key_schema(*keys),
                    AttributeDefinitions=table_requests.make_attribute_definitions(spec, keys),
                    TableClass=table_requests.CLASSES[spec.table_class],
                    Tags=_make_tags(spec.tags),
                    DeletionProtectionEnabled=spec.protected,
                    **table_requests.make_billing(spec.write, spec.read),
                    **table_requests.make_index_members(spec),
                    **table_requests.make_extras(spec),
                )
        except TableRefused as refused:
            # "In use" says that the table exists in some state, even if DescribeTable does not find it yet.
            cause = refused.__cause__
            in_use = isinstance(cause, ClientError) and read_error_code(cause) == "ResourceInUseException"
            if not in_use and self.describe(spec.name) is None:
                raise
            return False
        return True

    def set_capacity(
        self,
        name: str,
        write: int | None,
        read: int | None,
        *,
        itself: bool = True,
        indexes: Mapping[str, tuple[int, int]] | None = None,
        most: tuple[int, int] | None = None,
    ) -> None:
        """Change billing mode, units and the units of indexes by one UpdateTable, which DynamoDB accepts.

        It also accepts a switch to on-demand mode together with the table's maxima, but not with the maxima of indexes.
        """
        changes: Any = table_requests.make_billing(write, read) if itself else {}
        if write is None:
            changes |= table_requests.make_maxima(most)
        if indexes and write is not None:
            changes["GlobalSecondaryIndexUpdates"] = [
                {"Update": {"IndexName": index, "ProvisionedThroughput": table_requests.make_units(*units)}}
                for index, units in indexes.items()
            ]
        self._update(name, **changes)

    def set_maxima(self, name: str, most: tuple[int, int] | None, indexes: Sequence[str]) -> None:
        """Change the maxima of the table and of its indexes by one UpdateTable; -1 removes a maximum."""
        maxima = table_requests.make_maxima(most or (-1, -1))
        changes: Any = {**maxima}
        if indexes:
            changes["GlobalSecondaryIndexUpdates"] = [{"Update": {"IndexName": index, **maxima}} for index in indexes]
        self._update(name, **changes)

    def set_class(self, name: str, table_class: TableClass) -> None:
        self._update(name, TableClass=table_requests.CLASSES[table_class])

    def set_stream(self, name: str, shows: str) -> None:
        self._update(name, **table_requests.make_stream_member(shows))

    def set_protection(self, name: str, protected: bool) -> None:
        self._update(name, DeletionProtectionEnabled=protected)

    def create_copy(self, name: str, region: str) -> None:
        try:
            self._update(name, ReplicaUpdates=[{"Create": {"RegionName": region}}])
        except TableRefused as refused:
            if _NAME_TAKEN in str(refused):
                raise CopyRefused(name, region) from refused
            raise

    def delete_copy(self, name: str, region: str) -> None:
        try:
            self._update(name, ReplicaUpdates=[{"Delete": {"RegionName": region}}])
        except TableRefused as refused:
            if _NO_COPY not in str(refused):
                raise

    def _update(self, name: str, **changes: Any) -> None:
        """Send an UpdateTable. AWS accepts only one kind of change in a request."""
        with _translate_refusals(name):
            self._client.update_table(TableName=name, **changes)

    def tag_copy(self, name: str, region: str, tags: Mapping[str, str]) -> None:
        """Tag the copy by TagResource in its Region: AWS does not copy tags."""
        assert self._client_in is not None  # noqa: S101 - callers that make copies give it
        client = self._client_in(region)
        try:
            with _translate_refusals(name):
                arn = client.describe_table(TableName=name)["Table"]["TableArn"]
                client.tag_resource(ResourceArn=arn, Tags=_make_tags(tags))
        except TableMissing as missing:
            raise NotReady(f"{region} does not know the copy of {name} yet") from missing

    def enable_recovery(self, name: str) -> None:
        with _translate_refusals(name):
            self._client.update_continuous_backups(
                TableName=name, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True}
            )

    def delete(self, name: str) -> None:
        with suppress(TableMissing), _translate_refusals(name):
            self._client.delete_table(TableName=name)


def _make_tags(tags: Mapping[str, str]) -> Any:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def _list_index_units(table: Any) -> Iterator[tuple[str, tuple[int, int]]]:
    for index in table.get("GlobalSecondaryIndexes", ()):
        units = index["ProvisionedThroughput"]
        yield index["IndexName"], (units["WriteCapacityUnits"], units["ReadCapacityUnits"])


def _read_decreases(table: Any) -> tuple[int, datetime | None]:
    """Read the greatest count of today's decreases among the table and its indexes, and the time of the last decrease.

    AWS counts the decreases of the table and of every index separately. It refuses a whole change if the change lowers
    the units of a table or an index that has no decrease left.
    """
    resources = (table, *table.get("GlobalSecondaryIndexes", ()))
    throughputs = [resource.get("ProvisionedThroughput", {}) for resource in resources]
    busiest = max(throughputs, key=lambda throughput: throughput.get("NumberOfDecreasesToday", 0))
    return busiest.get("NumberOfDecreasesToday", 0), busiest.get("LastDecreaseDateTime")


def _read_maxima(described: Any) -> tuple[int, int] | None:
    """Read the maxima of a table or an index; -1 for a side without a maximum."""
    throughput = described.get("OnDemandThroughput", {})
    write, read = throughput.get("MaxWriteRequestUnits", -1), throughput.get("MaxReadRequestUnits", -1)
    return None if write < 0 and read < 0 else (write, read)


@contextmanager
def _translate_refusals(name: str = "") -> Iterator[None]:
    """Translate DynamoDB's refusals into the core's errors; other errors rise unchanged."""
    try:
        yield
    except ClientError as error:
        code, message = read_error_code(error), read_error_message(error)
        if code == NOT_FOUND:
            raise TableMissing(name) from error
        if code not in _REFUSALS:
            raise
        # LimitExceededException stands for many limits. Only the quota of tables must be raised by a person; the other
        # refusals pass with time.
        passing = "tables per subscriber" not in message
        transient = code in _TRANSIENT or (code == "LimitExceededException" and passing)
        # "Only 500 tables can be created, updated, or deleted simultaneously" and the like, or too many in one second.
        crowded = code == THROTTLING or (code == "LimitExceededException" and "simultaneously" in message)
        raise TableRefused(f"{code}: {message}", transient=transient, crowded=crowded) from error
