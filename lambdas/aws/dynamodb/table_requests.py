"""The members of CreateTable and UpdateTable requests, from the core's specification of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidetable.config import TableClass
from tidetable.config.capacity import find_index_units
from tidetable.layout import Index
from tidetable.ports import TableSpec

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.literals import TableClassType

CLASSES: dict[TableClass, TableClassType] = {
    TableClass.STANDARD: "STANDARD",
    TableClass.INFREQUENT: "STANDARD_INFREQUENT_ACCESS",
}

_GLOBAL = "GlobalSecondaryIndexes"
# The change stream that copies in other Regions need.
_COPIED = "new-and-old-images"


def make_billing(write: int | None, read: int | None) -> Any:
    if write is None or read is None:
        return {"BillingMode": "PAY_PER_REQUEST"}
    return {"BillingMode": "PROVISIONED", "ProvisionedThroughput": make_units(write, read)}


def make_units(write: int, read: int) -> dict[str, int]:
    return {"WriteCapacityUnits": write, "ReadCapacityUnits": read}


def make_index_members(spec: TableSpec) -> Any:
    """Both kinds of indexes; a local index has the units of its table."""
    members: Any = {}
    for index in spec.indexes:
        described = {
            "IndexName": index.name,
            "KeySchema": make_key_schema(index.pk, index.sk),
            "Projection": _make_projection(index),
        }
        kind, own = ("LocalSecondaryIndexes", {}) if index.local else (_GLOBAL, _make_throughput(spec, index.name))
        members.setdefault(kind, []).append(described | own)
    return members


def make_attribute_definitions(spec: TableSpec, keys: tuple[str, ...]) -> Any:
    """Make the key attributes and their types; a ranking's sort key is a number."""
    types = dict.fromkeys(keys, "S")
    for index in spec.indexes:
        types |= {index.pk: "S", index.sk: "N" if index.ranks else "S"}
    return [{"AttributeName": name, "AttributeType": kind} for name, kind in types.items()]


def _make_projection(index: Index) -> Any:
    if index.project is None:
        return {"ProjectionType": "ALL"}
    if not index.project:
        return {"ProjectionType": "KEYS_ONLY"}
    return {"ProjectionType": "INCLUDE", "NonKeyAttributes": [index.copy]}


def _make_throughput(spec: TableSpec, index: str) -> Any:
    """Make the limits and the warm throughput of an index: a slow index throttles its table."""
    limits: Any = {}
    warm = spec.warm
    if spec.write is not None and spec.read is not None:
        write, read = find_index_units(index, spec.index_units, (spec.write, spec.read))
        limits["ProvisionedThroughput"] = make_units(write, read)
        # AWS refuses a warm throughput below the provisioned one, and an index may have more units than its table.
        warm = (max(spec.warm[0], write), max(spec.warm[1], read)) if spec.warm is not None else None
    return limits | _make_warm_throughput(warm) | make_maxima(spec.most)


def _make_warm_throughput(warm: tuple[int, int] | None) -> Any:
    if warm is None:
        return {}
    write, read = warm
    return {"WarmThroughput": {"WriteUnitsPerSecond": write, "ReadUnitsPerSecond": read}}


def make_maxima(most: tuple[int, int] | None) -> Any:
    if most is None:
        return {}
    write, read = most
    return {"OnDemandThroughput": {"MaxWriteRequestUnits": write, "MaxReadRequestUnits": read}}


def make_extras(spec: TableSpec) -> Any:
    """Make all settings of a table except its key and its units. They are set when the table is created."""
    extras = _make_warm_throughput(spec.warm) | make_maxima(spec.most)
    if spec.encryption != "aws-owned":
        own = {} if spec.encryption == "aws-managed" else {"KMSMasterKeyId": spec.encryption}
        extras["SSESpecification"] = {"Enabled": True, "SSEType": "KMS", **own}
    return extras | make_stream_member(_COPIED if spec.copied else spec.stream)


def make_stream_member(shows: str) -> Any:
    """Make the member for the change stream; ``shows`` has the configuration's spelling."""
    if shows == "none":
        return {}
    return {"StreamSpecification": {"StreamEnabled": True, "StreamViewType": shows.replace("-", "_").upper()}}


def make_key_schema(pk: str, sk: str | None = None) -> Any:
    keys = [{"AttributeName": pk, "KeyType": "HASH"}]
    return [*keys, {"AttributeName": sk, "KeyType": "RANGE"}] if sk is not None else keys
