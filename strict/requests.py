"""Check a request's text, and compare its keys with the key attributes of its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from strict.account import Account
from strict.placeholders import Expression, check_filter, check_placeholders, check_projection
from strict.refusals import refuse_invalid
from strict.rules import Rule
from strict.tables import Table, read_keys

Request = Mapping[str, Any]

# The greatest sizes of a partition key and of a sort key, in bytes.
KEY_BYTES = (2048, 1024)
LEVELS = 32
DIGITS = 38
INDEXES = 20
LOCAL_INDEXES = 5
# The greatest number of attributes, without keys, that all indexes of a table project together.
ATTRIBUTES = 100
TAGS = 50
# A number is zero, or the power of ten of its first digit lies between these two.
_SMALLEST, _LARGEST = -130, 125
_WRONG = "One or more parameter values were invalid: "


def _read_attribute_types(table: Table) -> dict[str, str]:
    return {definition["AttributeName"]: definition["AttributeType"] for definition in table.definitions}


class Requests:
    """Checks requests before they are answered."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._checks: Mapping[str, Callable[[Request], None]] = {
            "CreateTable": self._check_creation,
            "TagResource": self._check_tags,
            "PutItem": self._check_action,
            "UpdateItem": self._check_action,
            "DeleteItem": self._check_action,
            "GetItem": self._check_action,
            "BatchWriteItem": self._check_batch_write,
            "BatchGetItem": self._check_batch_get,
            "TransactWriteItems": self._check_transaction,
            "TransactGetItems": self._check_transaction,
            "Query": self._check_page,
            "Scan": self._check_page,
        }

    def check(self, operation: str, request: Request) -> None:
        """Raise a Refusal if the service refuses the request, whatever its tables contain."""
        check = self._checks.get(operation)
        if check is not None:
            check(request)

    def _find_table(self, name: str) -> Table | None:
        """Find a table; None if it is missing. The operation itself refuses a missing table."""
        return self._account.tables.get(name)

    def _check_creation(self, request: Request) -> None:
        enforces = self._account.enforces
        indexes, local = request.get("GlobalSecondaryIndexes", ()), request.get("LocalSecondaryIndexes", ())
        self._check_local_indexes(request, local)
        attributes = sum(len(index["Projection"].get("NonKeyAttributes", ())) for index in (*indexes, *local))
        if attributes > ATTRIBUTES and enforces(Rule.PROJECTED_ATTRIBUTES):
            raise refuse_invalid(
                f"{_WRONG}the indexes project {attributes} attributes besides keys, at most {ATTRIBUTES}"
            )
        keys = {key["AttributeName"] for described in (request, *indexes, *local) for key in described["KeySchema"]}
        defined = {definition["AttributeName"] for definition in request["AttributeDefinitions"]}
        if keys != defined and enforces(Rule.DEFINITIONS):
            raise refuse_invalid(
                f"{_WRONG}Number of attributes in KeySchema does not exactly match number of attributes defined in "
                f"AttributeDefinitions: {sorted(keys ^ defined)}"
            )
        if len(indexes) > INDEXES and enforces(Rule.INDEX_QUOTA):
            raise refuse_invalid(
                f"{_WRONG}GlobalSecondaryIndex count exceeds the per-table limit of {INDEXES}: {len(indexes)}"
            )
        self._check_tags(request)

    def _check_local_indexes(self, request: Request, indexes: Sequence[Any]) -> None:
        enforces = self._account.enforces
        if len(indexes) > LOCAL_INDEXES and enforces(Rule.LOCAL_QUOTA):
            raise refuse_invalid("Cannot have more than 5 local secondary indexes per table")
        keys = read_keys(request["KeySchema"])
        for index in indexes:
            own = read_keys(index["KeySchema"])
            if (len(keys) < 2 or len(own) != 2 or own[0] != keys[0]) and enforces(Rule.LOCAL_SCHEMA):
                raise refuse_invalid(
                    f"{_WRONG}Table KeySchema does not have a range key, which is required when specifying a LocalSecondaryIndex"
                    if len(keys) < 2
                    else f"{_WRONG}Index KeySchema of {index['IndexName']} must have the hash key of the table and a range key"
                )

    def _check_tags(self, request: Request) -> None:
        if len(request.get("Tags", ())) > TAGS and self._account.enforces(Rule.TAG_QUOTA):
            raise refuse_invalid(f"Too many tags: {len(request['Tags'])}, at most {TAGS}")

    def _check_action(self, request: Request) -> None:
        """Check a request for one item, or one action of a transaction."""
        self._check_expressions(request)
        table = self._find_table(request["TableName"])
        if "Item" in request:
            self._check_item(table, request["Item"])
        if "Key" in request and table is not None:
            self._check_key(table, request["Key"])

    def _check_batch_write(self, request: Request) -> None:
        for name, changes in request["RequestItems"].items():
            table = self._find_table(name)
            for change in changes:
                if "PutRequest" in change:
                    self._check_item(table, change["PutRequest"]["Item"])
                elif table is not None:
                    self._check_key(table, change["DeleteRequest"]["Key"])

    def _check_batch_get(self, request: Request) -> None:
        for name, keys_and_options in request["RequestItems"].items():
            self._check_expressions(keys_and_options)
            table = self._find_table(name)
            if table is not None:
                for key in keys_and_options["Keys"]:
                    self._check_key(table, key)

    def _check_transaction(self, request: Request) -> None:
        items = []
        for action in request["TransactItems"]:
            ((_, inner),) = action.items()
            self._check_action(inner)
            table = self._find_table(inner["TableName"])
            key = inner.get("Key", inner.get("Item", {}))
            if table is not None:
                items.append((table.name, *(str(key.get(name)) for name in table.keys)))
        if len(set(items)) < len(items) and self._account.enforces(Rule.ONE_ACTION_PER_ITEM):
            raise refuse_invalid("Transaction request cannot include multiple operations on one item")

    def _check_page(self, request: Request) -> None:
        """Check a Query or a Scan."""
        enforces = self._account.enforces
        self._check_expressions(request)
        table = self._find_table(request["TableName"])
        local = table is not None and "IndexName" in request and table.indexes[request["IndexName"]].local
        if "IndexName" in request and not local and request.get("ConsistentRead") and enforces(Rule.INDEX_READS):
            raise refuse_invalid("Consistent reads are not supported on global secondary indexes")
        if table is None or "KeyConditionExpression" not in request:
            return
        keys = table.indexes[request["IndexName"]].keys if "IndexName" in request else table.keys
        if enforces(Rule.FILTERED_KEYS):
            check_filter(request, keys)

    def _check_expressions(self, request: Request) -> None:
        enforces = self._account.enforces
        expressions = [
            Expression.of(text) for name, text in request.items() if name.endswith("Expression") and text is not None
        ]
        for expression in expressions:
            expression.check(enforces)
        if enforces(Rule.PLACEHOLDERS):
            check_placeholders(request, expressions)
        if "ProjectionExpression" in request and enforces(Rule.OVERLAPPING_PATHS):
            check_projection(request)
        values = request.get("ExpressionAttributeValues")
        if values:
            self._check_values(values.values())

    def _check_item(self, table: Table | None, item: Mapping[str, Any]) -> None:
        self._check_values(item.values())
        if table is None:
            return
        types = _read_attribute_types(table)
        for number, name in enumerate(table.keys):
            if name in item:
                self._check_key_value(name, item[name], types, number, "the table's key")
        for index in table.indexes.values():
            for number, name in enumerate(index.keys):
                if name in item:
                    self._check_key_value(name, item[name], types, number, f"the key of index {index.name}")

    def _check_key(self, table: Table, key: Mapping[str, Any]) -> None:
        if key.keys() != set(table.keys) and self._account.enforces(Rule.KEY_TYPES):
            raise refuse_invalid("The provided key element does not match the schema")
        types = _read_attribute_types(table)
        for number, name in enumerate(table.keys):
            if name in key:
                self._check_key_value(name, key[name], types, number, "the table's key")

    def _check_key_value(self, name: str, value: Any, types: Mapping[str, str], number: int, owner: str) -> None:
        """Check one attribute of a key; ``number`` is 0 for a partition key and 1 for a sort key."""
        enforces = self._account.enforces
        ((kind, inner),) = value.items()
        if kind != types.get(name, kind):
            if enforces(Rule.KEY_TYPES):
                raise refuse_invalid(
                    f"{_WRONG}Type mismatch for {owner}: {name}, expected: {types[name]}, actual: {kind}"
                )
        elif kind in ("S", "B"):
            if not inner and enforces(Rule.EMPTY_KEYS):
                raise refuse_invalid(
                    "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain "
                    f"an empty string value. {owner}: {name}"
                )
            maximum = KEY_BYTES[number]
            # A character has four bytes at most. So a short key is within the limit, and is not encoded to measure it.
            if len(inner) * 4 > maximum and enforces(Rule.KEY_BYTES):
                size = len(inner.encode() if isinstance(inner, str) else inner)
                if size > maximum:
                    key = ("hashkey", "rangekey")[number]
                    raise refuse_invalid(
                        f"{_WRONG}Size of {key} has exceeded the maximum size limit of {maximum} bytes"
                    )

    def _check_values(self, values: Iterable[Any]) -> None:
        """Check the numbers and the nesting of values."""
        for value in values:
            ((kind, inner),) = value.items()
            if kind in ("M", "L"):
                self._check_nesting(inner.values() if kind == "M" else inner, 1)
            elif kind in ("N", "NS"):
                self._check_numbers([inner] if kind == "N" else inner)

    def _check_nesting(self, values: Iterable[Any], level: int) -> None:
        if level > LEVELS and self._account.enforces(Rule.LEVELS):
            raise refuse_invalid(
                "Nesting Levels have exceeded supported limits: Attributes are nested beyond 32 levels"
            )
        for value in values:
            ((kind, inner),) = value.items()
            if kind in ("M", "L"):
                self._check_nesting(inner.values() if kind == "M" else inner, level + 1)
            elif kind in ("N", "NS"):
                self._check_numbers([inner] if kind == "N" else inner)

    def _check_numbers(self, texts: Iterable[str]) -> None:
        for text in texts:
            # A number of at most 38 characters without an exponent is within every limit.
            if len(text) > DIGITS or "e" in text or "E" in text:
                self._check_number(text)

    def _check_number(self, text: str) -> None:
        if not self._account.enforces(Rule.NUMBERS):
            return
        number = Decimal(text)
        digits = "".join(map(str, number.as_tuple().digits)).strip("0")
        if len(digits) > DIGITS:
            raise refuse_invalid(f"Attempting to store more than {DIGITS} significant digits in a Number")
        if number and not _SMALLEST <= number.adjusted() <= _LARGEST:
            large = number.adjusted() > _LARGEST
            raise refuse_invalid(
                "Number overflow. Attempting to store a number with magnitude larger than supported range"
                if large
                else "Number underflow. Attempting to store a number with magnitude smaller than supported range"
            )
