"""DynamoDB's control plane."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from aws.codes import NOT_FOUND
from aws.errors import error_code, error_message, naming_table
from tidetable.config import TableClass
from tidetable.errors import TableMissing
from tidetable.keys import Index
from tidetable.ports import Table, TableRefused, TableSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_dynamodb.literals import TableClassType

_CLASSES: dict[TableClass, TableClassType] = {
    TableClass.STANDARD: "STANDARD",
    TableClass.INFREQUENT: "STANDARD_INFREQUENT_ACCESS",
}
# AWS: a table that is changing refuses with the first code; the other refusals pass with time.
_TRANSIENT = frozenset(
    {
        "ResourceInUseException",
        "ContinuousBackupsUnavailableException",
        "ThrottlingException",
        "RequestLimitExceeded",
        "InternalServerError",
    }
)
_REFUSALS = _TRANSIENT | {"LimitExceededException", "ValidationException", "AccessDeniedException"}


class DynamoTables:
    """Period tables through boto3's low-level client."""

    def __init__(self, client: DynamoDBClient) -> None:
        self._client = client

    def describe(self, name: str) -> Table | None:
        """DescribeTable."""
        try:
            table = self._client.describe_table(TableName=name)["Table"]
        except ClientError as error:
            if error_code(error) != NOT_FOUND:
                raise
            return None
        units: Any = table.get("ProvisionedThroughput", {})
        on_demand = table.get("BillingModeSummary", {}).get("BillingMode") == "PAY_PER_REQUEST"
        infrequent = table.get("TableClassSummary", {}).get("TableClass") == _CLASSES[TableClass.INFREQUENT]
        decreases, last_decrease = _decreases(table)
        return Table(
            name=name,
            status=table["TableStatus"],
            write=None if on_demand else units.get("WriteCapacityUnits"),
            read=None if on_demand else units.get("ReadCapacityUnits"),
            table_class=TableClass.INFREQUENT if infrequent else TableClass.STANDARD,
            decreases_today=decreases,
            last_decrease=last_decrease,
            protected=table.get("DeletionProtectionEnabled", False),
            index_units={} if on_demand else _index_units(table),
            created=table.get("CreationDateTime"),
            size_bytes=table.get("TableSizeBytes", 0),
            item_count=table.get("ItemCount", 0),
            index_sizes={
                index["IndexName"]: (index["ItemCount"], index["IndexSizeBytes"])
                for index in table.get("GlobalSecondaryIndexes", ())
                if "ItemCount" in index
            },
            most=_maxima_of(table),
            index_most={index["IndexName"]: _maxima_of(index) for index in table.get("GlobalSecondaryIndexes", ())},
            # DynamoDB shows the warm throughput of every table. DynamoDB Local knows neither that nor maxima.
            shows_maxima="WarmThroughput" in table,
        )

    def tags(self, name: str) -> Mapping[str, str]:
        """ListTagsOfResource; a period table has few tags, so one page holds them."""
        with naming_table(name):
            arn = self._client.describe_table(TableName=name)["Table"]["TableArn"]
            answer = self._client.list_tags_of_resource(ResourceArn=arn)
        return {tag["Key"]: tag["Value"] for tag in answer.get("Tags", [])}

    def create(self, spec: TableSpec) -> bool:
        """CreateTable with tags and class, so that the tags prove our ownership from the table's first instant."""
        keys = ("pk", "sk") if spec.sorted else ("pk",)
        try:
            with _translate_refusals():
                self._client.create_table(
                    TableName=spec.name,
                    KeySchema=_schema(*keys),
                    AttributeDefinitions=_definitions(spec, keys),
                    TableClass=_CLASSES[spec.table_class],
                    Tags=[{"Key": key, "Value": value} for key, value in spec.tags.items()],
                    DeletionProtectionEnabled=spec.protected,
                    **_billing(spec.write, spec.read),
                    **_indexes(spec),
                    **_extras(spec),
                )
        except TableRefused as refused:
            # "In use" says that the table exists in some state, even if DescribeTable does not find it yet.
            cause = refused.__cause__
            in_use = isinstance(cause, ClientError) and error_code(cause) == "ResourceInUseException"
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
        """UpdateTable of billing mode, units and the units of indexes, which DynamoDB accepts in one request.

        It also accepts a switch to on-demand mode together with the table's maxima, but not with the maxima of indexes.
        """
        changes: Any = _billing(write, read) if itself else {}
        if itself and write is None and most is not None:
            changes |= _maxima(most)
        if indexes and write is not None:
            changes["GlobalSecondaryIndexUpdates"] = [
                {"Update": {"IndexName": index, "ProvisionedThroughput": _units(*units)}}
                for index, units in indexes.items()
            ]
        with _translate_refusals(name):
            self._client.update_table(TableName=name, **changes)

    def set_maxima(self, name: str, most: tuple[int, int] | None, indexes: Sequence[str]) -> None:
        """UpdateTable of the maxima of the table and of its indexes in one request; -1 removes a maximum."""
        maxima = _maxima(most or (-1, -1))
        changes: Any = {**maxima}
        if indexes:
            changes["GlobalSecondaryIndexUpdates"] = [{"Update": {"IndexName": index, **maxima}} for index in indexes]
        with _translate_refusals(name):
            self._client.update_table(TableName=name, **changes)

    def set_class(self, name: str, table_class: TableClass) -> None:
        """UpdateTable of the class, which must be the only change of a request."""
        with _translate_refusals(name):
            self._client.update_table(TableName=name, TableClass=_CLASSES[table_class])

    def set_protection(self, name: str, protected: bool) -> None:
        """UpdateTable of the protection, which must be the only change of a request."""
        with _translate_refusals(name):
            self._client.update_table(TableName=name, DeletionProtectionEnabled=protected)

    def enable_recovery(self, name: str) -> None:
        """UpdateContinuousBackups: CreateTable does not take it."""
        with _translate_refusals(name):
            self._client.update_continuous_backups(
                TableName=name, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True}
            )

    def delete(self, name: str) -> None:
        """DeleteTable."""
        try:
            with _translate_refusals(name):
                self._client.delete_table(TableName=name)
        except TableMissing:
            return


def _billing(write: int | None, read: int | None) -> Any:
    if write is None or read is None:
        return {"BillingMode": "PAY_PER_REQUEST"}
    return {"BillingMode": "PROVISIONED", "ProvisionedThroughput": _units(write, read)}


def _units(write: int, read: int) -> dict[str, int]:
    return {"WriteCapacityUnits": write, "ReadCapacityUnits": read}


def _indexes(spec: TableSpec) -> Any:
    if not spec.indexes:
        return {}
    return {
        "GlobalSecondaryIndexes": [
            {
                "IndexName": index.name,
                "KeySchema": _schema(index.pk, index.sk),
                "Projection": _projection(index),
                **_throughput(spec, index.name),
            }
            for index in spec.indexes
        ]
    }


def _definitions(spec: TableSpec, keys: tuple[str, ...]) -> Any:
    """The key attributes and their types; a ranking's sort key is a number."""
    types = dict.fromkeys(keys, "S")
    for index in spec.indexes:
        types |= {index.pk: "S", index.sk: "N" if index.ranks else "S"}
    return [{"AttributeName": name, "AttributeType": kind} for name, kind in types.items()]


def _projection(index: Index) -> Any:
    if index.project is None:
        return {"ProjectionType": "ALL"}
    if not index.project:
        return {"ProjectionType": "KEYS_ONLY"}
    return {"ProjectionType": "INCLUDE", "NonKeyAttributes": [index.copy]}


def _throughput(spec: TableSpec, index: str) -> Any:
    """An index's own limits, with warm throughput, because a slow index throttles its table."""
    limits: Any = {}
    if spec.write is not None and spec.read is not None:
        limits["ProvisionedThroughput"] = _units(*spec.index_units.get(index, (spec.write, spec.read)))
    return limits | _warm(spec) | _maxima(spec.most)


def _warm(spec: TableSpec) -> Any:
    if spec.warm is None:
        return {}
    write, read = spec.warm
    return {"WarmThroughput": {"WriteUnitsPerSecond": write, "ReadUnitsPerSecond": read}}


def _maxima(most: tuple[int, int] | None) -> Any:
    if most is None:
        return {}
    write, read = most
    return {"OnDemandThroughput": {"MaxWriteRequestUnits": write, "MaxReadRequestUnits": read}}


def _extras(spec: TableSpec) -> Any:
    """The settings of a table besides its key and its units, all of them set at its creation."""
    extras = _warm(spec) | _maxima(spec.most)
    if spec.encryption != "aws-owned":
        own = {} if spec.encryption == "aws-managed" else {"KMSMasterKeyId": spec.encryption}
        extras["SSESpecification"] = {"Enabled": True, "SSEType": "KMS", **own}
    if spec.stream != "none":
        view = spec.stream.replace("-", "_").upper()
        extras["StreamSpecification"] = {"StreamEnabled": True, "StreamViewType": view}
    return extras


def _schema(pk: str, sk: str | None = None) -> Any:
    keys = [{"AttributeName": pk, "KeyType": "HASH"}]
    return [*keys, {"AttributeName": sk, "KeyType": "RANGE"}] if sk is not None else keys


def _index_units(table: Any) -> dict[str, tuple[int, int]]:
    return {
        index["IndexName"]: (
            index["ProvisionedThroughput"]["WriteCapacityUnits"],
            index["ProvisionedThroughput"]["ReadCapacityUnits"],
        )
        for index in table.get("GlobalSecondaryIndexes", ())
    }


def _decreases(table: Any) -> tuple[int, datetime | None]:
    """The greatest count of decreases today, of the table and its indexes, with the time of the last decrease.

    AWS counts decreases of the table and of each index alone, and refuses a whole change if one of them may not
    decrease.
    """
    resources = (table, *table.get("GlobalSecondaryIndexes", ()))
    throughputs = [resource.get("ProvisionedThroughput", {}) for resource in resources]
    busiest = max(throughputs, key=lambda throughput: throughput.get("NumberOfDecreasesToday", 0))
    return busiest.get("NumberOfDecreasesToday", 0), busiest.get("LastDecreaseDateTime")


def _maxima_of(described: Any) -> tuple[int, int] | None:
    """The maxima of a table or an index; -1 for a side without a maximum."""
    throughput = described.get("OnDemandThroughput", {})
    write, read = throughput.get("MaxWriteRequestUnits", -1), throughput.get("MaxReadRequestUnits", -1)
    return None if write < 0 and read < 0 else (write, read)


@contextmanager
def _translate_refusals(name: str = "") -> Iterator[None]:
    """Translate DynamoDB's refusals into the core's errors; other errors rise unchanged."""
    try:
        yield
    except ClientError as error:
        code, message = error_code(error), error_message(error)
        if code == NOT_FOUND:
            raise TableMissing(name) from error
        if code not in _REFUSALS:
            raise
        # The code stands for many limits: only the quota of tables needs a person who raises it; the others pass with
        # time.
        passing = "tables per subscriber" not in message
        transient = code in _TRANSIENT or (code == "LimitExceededException" and passing)
        # "Only 500 tables can be created, updated, or deleted simultaneously" and its kin; and too many in one second.
        crowded = code == "ThrottlingException" or (code == "LimitExceededException" and "simultaneously" in message)
        raise TableRefused(f"{code}: {message}", transient=transient, crowded=crowded) from error
