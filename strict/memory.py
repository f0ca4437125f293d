"""An engine in memory, which is fast enough for simulated months.

It does not validate requests: the rules do that first.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from strict.engines import Document
from strict.expressions import Parser, make_sortable, meets_condition, update_item
from strict.refusals import Refusal, refuse_in_use, refuse_missing_table, refuse_transaction
from strict.tables import read_keys
from strict.units import Stored, Wire

Request = Mapping[str, Any]
_RANGE = re.compile(r"#?\w+ = :\w+ AND #?\w+ BETWEEN :\w+ AND :\w+")
_Item = dict[str, Wire]
# The position of an item within its partition: its sort value and, in an index, the table's own key.
_Position = tuple[Any, ...]


class _Sorted:
    """The items of a table or an index, sorted within their partitions."""

    def __init__(self, keys: tuple[str, ...], own: tuple[str, ...] = ()) -> None:
        self.keys = keys
        self._names = (*keys, *own)
        # The attributes that an index holds; None if it holds all attributes.
        self.included: set[str] | None = None
        self._partitions: dict[Any, tuple[list[_Position], dict[_Position, _Item]]] = {}

    def find_position(self, item: Mapping[str, Wire]) -> tuple[Any, _Position] | None:
        try:
            partition, *rest = [make_sortable(item[name]) for name in self._names]
        except KeyError:
            return None
        return partition, tuple(rest)

    def put(self, item: _Item) -> None:
        place = self.find_position(item)
        if place is not None:
            partition, position = place
            order, items = self._partitions.setdefault(partition, ([], {}))
            if position not in items:
                insort(order, position)
            items[position] = item

    def remove(self, item: Mapping[str, Wire]) -> None:
        place = self.find_position(item)
        if place is not None and place[0] in self._partitions:
            partition, position = place
            order, items = self._partitions[partition]
            if items.pop(position, None) is not None:
                del order[bisect_left(order, position)]

    def get(self, key: Mapping[str, Wire]) -> _Item | None:
        place = self.find_position(key)
        return self._partitions.get(place[0], ([], {}))[1].get(place[1]) if place else None

    def list_between(
        self, partition: Any, low: Any, high: Any, after: Mapping[str, Wire] | None, *, ascending: bool
    ) -> Iterator[_Item]:
        """Return the items from ``low`` to ``high`` (None: no bound) by sort value, beginning after the item ``after``."""
        order, items = self._partitions.get(partition, ([], {}))
        start = bisect_left(order, (low,)) if low is not None else 0
        end = bisect_right(order, high, key=lambda position: position[0]) if high is not None else len(order)
        if after is not None:
            place = self.find_position(after)
            assert place is not None
            if ascending:
                start = max(start, bisect_right(order, place[1]))
            else:
                end = min(end, bisect_left(order, place[1]))
        positions = order[start:end] if ascending else reversed(order[start:end])
        return (items[position] for position in positions)

    def project_items(self, items: Iterator[_Item]) -> Iterator[_Item]:
        """Reduce items to the attributes that the index holds."""
        included = self.included
        if included is None:
            return items
        return ({name: value for name, value in item.items() if name in included} for item in items)

    def find_order(self, item: Mapping[str, Wire]) -> tuple[str, _Position]:
        """Find the place of an item, or of a key that no item has, among all items."""
        place = self.find_position(item)
        assert place is not None
        return str(place[0]), place[1]

    def list_all(self) -> Iterator[_Item]:
        for partition in sorted(self._partitions, key=str):
            order, items = self._partitions[partition]
            yield from (items[position] for position in order)


class _Table:
    def __init__(self, request: Request) -> None:
        self.main = _Sorted(read_keys(request["KeySchema"]))
        self.indexes: dict[str, _Sorted] = {}
        for index in (*request.get("GlobalSecondaryIndexes", ()), *request.get("LocalSecondaryIndexes", ())):
            self.add_index(index)

    def add_index(self, described: Any) -> None:
        index = _Sorted(read_keys(described["KeySchema"]), self.main.keys)
        for item in self.main.list_all():
            index.put(item)
        self.indexes[described["IndexName"]] = index
        projection = described.get("Projection", {"ProjectionType": "ALL"})
        if projection["ProjectionType"] != "ALL":
            index.included = {*self.main.keys, *index.keys, *projection.get("NonKeyAttributes", ())}

    def put(self, item: _Item) -> None:
        item = item if isinstance(item, Stored) else Stored(item)
        self.remove(item)
        for order in (self.main, *self.indexes.values()):
            order.put(item)

    def remove(self, key: Mapping[str, Wire]) -> None:
        old = self.main.get(key)
        if old is not None:
            for order in (self.main, *self.indexes.values()):
                order.remove(old)


class MemoryEngine:
    """DynamoDB's operations on dictionaries."""

    def __init__(self) -> None:
        self._tables: dict[str, _Table] = {}
        self._operations: dict[str, Callable[[Request], Document]] = {
            "CreateTable": self._create_table,
            "UpdateTable": self._update_table,
            "DeleteTable": self._delete_table,
            "PutItem": self._put_item,
            "UpdateItem": self._update_item,
            "DeleteItem": self._delete_item,
            "GetItem": self._get_item,
            "BatchGetItem": self._get_items,
            "BatchWriteItem": self._write_items,
            "TransactGetItems": self._get_transaction,
            "TransactWriteItems": self._write_transaction,
            "Query": self._read_query,
            "Scan": self._read_scan,
        }

    def call(self, operation: str, payload: Request) -> Document:
        """Answer an operation."""
        if operation == "DescribeTable" or operation == "ListTagsOfResource":
            raise refuse_missing_table(str(payload))
        if operation not in self._operations:
            raise NotImplementedError(operation)
        return self._operations[operation](payload)

    def _find_table(self, name: str) -> _Table:
        if name not in self._tables:
            raise refuse_missing_table(name)
        return self._tables[name]

    def _create_table(self, request: Request) -> Document:
        if request["TableName"] in self._tables:
            raise refuse_in_use(f"Table already exists: {request['TableName']}")
        self._tables[request["TableName"]] = _Table(request)
        return {}

    def _update_table(self, request: Request) -> Document:
        table = self._find_table(request["TableName"])
        for change in request.get("GlobalSecondaryIndexUpdates", ()):
            if "Create" in change:
                table.add_index(change["Create"])
            elif "Delete" in change:
                del table.indexes[change["Delete"]["IndexName"]]
        return {}

    def _delete_table(self, request: Request) -> Document:
        self._find_table(request["TableName"])
        del self._tables[request["TableName"]]
        return {}

    def _check_condition(self, request: Request, old: _Item | None) -> None:
        if not meets_condition(request, old):
            raise Refusal("ConditionalCheckFailedException", "The conditional request failed")

    def _put_item(self, request: Request) -> Document:
        table = self._find_table(request["TableName"])
        self._check_condition(request, table.main.get(request["Item"]))
        table.put(request["Item"])
        return {}

    def _update_item(self, request: Request) -> Document:
        table = self._find_table(request["TableName"])
        old = table.main.get(request["Key"])
        self._check_condition(request, old)
        new = update_item(request, old)
        table.put(new)
        return {"Attributes": new} if request.get("ReturnValues") == "ALL_NEW" else {}

    def _delete_item(self, request: Request) -> Document:
        table = self._find_table(request["TableName"])
        self._check_condition(request, table.main.get(request["Key"]))
        table.remove(request["Key"])
        return {}

    def _get_item(self, request: Request) -> Document:
        item = self._find_table(request["TableName"]).main.get(request["Key"])
        return {"Item": item} if item is not None else {}

    def _get_items(self, request: Request) -> Document:
        responses = {
            name: [item for key in options["Keys"] if (item := self._find_table(name).main.get(key)) is not None]
            for name, options in request["RequestItems"].items()
        }
        return {"Responses": responses, "UnprocessedKeys": {}}

    def _write_items(self, request: Request) -> Document:
        for name, changes in request["RequestItems"].items():
            table = self._find_table(name)
            for change in changes:
                if "PutRequest" in change:
                    table.put(change["PutRequest"]["Item"])
                else:
                    table.remove(change["DeleteRequest"]["Key"])
        return {"UnprocessedItems": {}}

    def _write_transaction(self, request: Request) -> Document:
        codes, messages = [], dict[int, str]()
        for action in request["TransactItems"]:
            ((_, inner),) = action.items()
            old = self._find_table(inner["TableName"]).main.get(inner.get("Key", inner.get("Item")))
            try:
                self._check_condition(inner, old)
                if "UpdateExpression" in inner:
                    update_item(inner, old)
                codes.append("None")
            except Refusal as refusal:
                if refusal.code == "ValidationException":
                    messages[len(codes)] = refusal.message
                codes.append("ValidationError" if refusal.code == "ValidationException" else "ConditionalCheckFailed")
        if set(codes) != {"None"}:
            raise refuse_transaction(codes, messages)
        acts = {"Put": self._put_item, "Update": self._update_item, "Delete": self._delete_item}
        for action in request["TransactItems"]:
            ((kind, inner),) = action.items()
            if kind != "ConditionCheck":
                acts[kind](inner)
        return {}

    def _get_transaction(self, request: Request) -> Document:
        return {
            "Responses": [self._get_item(inner) for action in request["TransactItems"] for inner in action.values()]
        }

    def _read_query(self, request: Request) -> Document:
        table = self._find_table(request["TableName"])
        index = table.indexes[request["IndexName"]] if "IndexName" in request else table.main
        partition, low, high = _read_bounds(request, index)
        ascending = request.get("ScanIndexForward", True)
        after = request.get("ExclusiveStartKey")
        items = index.list_between(partition, low, high, after, ascending=ascending)
        if len(index.keys) > 1 and not _is_range(request):
            matches = Parser(request["KeyConditionExpression"], request).parse_condition()
            items = (item for item in items if matches(item))
        return _cut_page(index.project_items(items), request, {*table.main.keys, *index.keys})

    def _read_scan(self, request: Request) -> Document:
        table = self._find_table(request["TableName"])
        index = table.indexes[request["IndexName"]] if "IndexName" in request else table.main
        items = [item for item in index.list_all() if index.find_position(item)]
        if "TotalSegments" in request:
            total, segment = request["TotalSegments"], request["Segment"]
            items = [item for item in items if sum(str(item[index.keys[0]]).encode()) % total == segment]
        after = request.get("ExclusiveStartKey")
        if after is not None:
            place = index.find_order(after)
            items = [item for item in items if index.find_order(item) > place]
        return _cut_page(index.project_items(iter(items)), request, {*table.main.keys, *index.keys})


def _is_range(request: Request) -> bool:
    """True if a key condition is a BETWEEN of the sort key: then only its bounds must be checked."""
    return _RANGE.fullmatch(request["KeyConditionExpression"]) is not None


@lru_cache(4096)
def _split_condition(text: str, names: tuple[tuple[str, str], ...]) -> list[str]:
    """Split a key condition into words, with the names of attributes in it. Programs send the same few conditions."""
    named = re.sub(r"#\w+", lambda placeholder: dict(names)[placeholder[0]], text)
    return named.replace("(", " ").replace(")", " ").replace(",", " ").split()


def _read_bounds(request: Request, index: _Sorted) -> tuple[Any, Any, Any]:
    """Read the partition of a key condition, and the lowest and the highest sort value (None: no bound)."""
    names, values = request.get("ExpressionAttributeNames", {}), request["ExpressionAttributeValues"]
    words = _split_condition(request["KeyConditionExpression"], tuple(names.items()))
    hash_key, *rest = index.keys
    partition = make_sortable(values[words[words.index(hash_key) + 2]])
    if not rest or rest[0] not in words:
        return partition, None, None
    start = words.index(rest[0])
    operator = words[start + 1]
    if operator == "BETWEEN":
        return partition, make_sortable(values[words[start + 2]]), make_sortable(values[words[start + 4]])
    if words[start - 1] == "begins_with":
        prefix = make_sortable(values[operator])
        return partition, prefix, prefix + "\U0010ffff"
    value = make_sortable(values[words[start + 2]])
    return partition, None if operator.startswith("<") else value, None if operator.startswith(">") else value


def _cut_page(items_in_order: Iterator[_Item], request: Request, keys: set[str]) -> Document:
    """Answer items up to the limit. Like the service, answer LastEvaluatedKey at the limit even if no item follows."""
    limit = request.get("Limit")
    items: list[_Item] = []
    more = False
    for item in items_in_order:
        items.append(item)
        if len(items) == limit:
            more = True
            break
    answer: Document = {"ScannedCount": len(items)}
    if more:
        answer["LastEvaluatedKey"] = {name: items[-1][name] for name in keys}
    if "FilterExpression" in request:
        matches = Parser(request["FilterExpression"], request).parse_condition()
        items = [item for item in items if matches(item)]
    return answer | {"Items": items, "Count": len(items)}
