"""The data plane's reads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from strict.account import Account
from strict.engines import Document
from strict.expressions import sortable
from strict.metering import Charge, Meter, Reason, partition_key, plain
from strict.refusals import invalid, throttled
from strict.rules import Rule
from strict.tables import Index, Resource, Table
from strict.units import Wire, item_size, read_units

Request = Mapping[str, Any]

PAGE_BYTES = 1024 * 1024
BATCH_KEYS = 100
BATCH_BYTES = 16 * 1024 * 1024
KEY_BYTES = 2048
_BETWEEN = re.compile(r"BETWEEN\s+(:\w+)\s+AND\s+(:\w+)")
_EQUALS = re.compile(r"(#?\w+)\s*=\s*(:\w+)")
# What is answered here, or changes what a page shows but not what it reads.
_SHOWN = frozenset({"FilterExpression", "ProjectionExpression", "Select"})


class Reads:
    """GetItem, BatchGetItem, TransactGetItems, Query and Scan."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._meter = Meter(account)

    def get_item(self, request: Request) -> Document:
        """GetItem."""
        table = self._account.usable(request["TableName"])
        key = partition_key(table.keys[0], request["Key"])
        self._admit(table, table, key)
        answer = self._account.engine.call("GetItem", plain(request))
        whole = answer.get("Item")
        if "ProjectionExpression" in request:
            consistent = request.get("ConsistentRead", False)
            bare = {"TableName": table.name, "Key": request["Key"], "ConsistentRead": consistent}
            whole = self._account.engine.call("GetItem", bare).get("Item")
        units = read_units(item_size(whole or {}), consistent=request.get("ConsistentRead", False))
        return self._paid(request, table, Charge(table, "Read", units, key), answer)

    def batch_get_item(self, request: Request) -> Document:
        """BatchGetItem: what the tables' throughput or an answer's size does not allow comes back as unprocessed keys."""
        account, given = self._account, request["RequestItems"]
        self._check_batch(given)
        size = 0
        answers: dict[str, list[Wire]] = {}
        left: dict[str, Document] = {}
        reasons: list[Reason] = []
        paid: list[tuple[Table, Charge]] = []
        for name, one in given.items():
            table = account.usable(name)
            consistent = one.get("ConsistentRead", False)
            answers[name] = []
            for key in one["Keys"]:
                text = partition_key(table.keys[0], key)
                refused = self._meter.refused(table, [Charge(table, "Read", 0, text)])
                if refused:
                    reasons += refused
                    left.setdefault(name, {**one, "Keys": []})["Keys"].append(key)
                    continue
                bare = {"TableName": name, "Key": key, "ConsistentRead": consistent}
                item = account.engine.call("GetItem", bare).get("Item")
                size += item_size(item or {})
                if size > BATCH_BYTES and account.enforces(Rule.ANSWER_BYTES):
                    left.setdefault(name, {**one, "Keys": []})["Keys"].append(key)
                    continue
                charge = Charge(table, "Read", read_units(item_size(item or {}), consistent=consistent), text)
                self._meter.take(table, [charge])
                paid.append((table, charge))
                if item is not None:
                    answers[name].append(item)
        if left and not paid:
            raise self._throttled(reasons)
        consumed = self._meter.consumed(request, paid)
        answer: Document = {"Responses": answers, "UnprocessedKeys": left}
        return answer | ({"ConsumedCapacity": consumed} if consumed else {})

    def _check_batch(self, requested: Mapping[str, Any]) -> None:
        account = self._account
        keys = [(name, str(sorted(key.items()))) for name, one in requested.items() for key in one["Keys"]]
        if len(keys) > BATCH_KEYS and account.enforces(Rule.BATCH_ITEMS):
            raise invalid(f"Too many items requested for the BatchGetItem call, at most {BATCH_KEYS}")
        if len(set(keys)) < len(keys) and account.enforces(Rule.BATCH_REPEATED_KEY):
            raise invalid("Provided list of item keys contains duplicates")

    def transact_get_items(self, request: Request) -> Document:
        """TransactGetItems: strongly consistent, at twice the price."""
        charges: list[tuple[Table, Charge]] = []
        answer = self._account.engine.call("TransactGetItems", plain(request))
        for one, got in zip(request["TransactItems"], answer["Responses"], strict=True):
            table = self._account.usable(one["Get"]["TableName"])
            key = partition_key(table.keys[0], one["Get"]["Key"])
            self._admit(table, table, key)
            units = self._meter.factor() * read_units(item_size(got.get("Item", {})), consistent=True)
            charges.append((table, Charge(table, "Read", units, key)))
        for table, charge in charges:
            self._meter.take(table, [charge])
        consumed = self._meter.consumed(request, charges)
        return answer | ({"ConsumedCapacity": consumed} if consumed else {})

    def query(self, request: Request) -> Document:
        """Query."""
        account = self._account
        if account.enforces(Rule.RANGE_ORDER):
            _refuse_backwards(request)
        key = request["ExpressionAttributeValues"][_partition_value(request)]
        if not next(iter(key.values())) and account.enforces(Rule.EMPTY_KEYS):
            raise invalid(
                "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty "
                "string value"
            )
        if len(next(iter(key.values())).encode()) > KEY_BYTES and account.enforces(Rule.KEY_BYTES):
            raise invalid(
                "One or more parameter values were invalid: Size of hashkey has exceeded the maximum size limit of 2048 bytes"
            )
        return self._page("Query", request, _asked_key(request))

    def scan(self, request: Request) -> Document:
        """Scan."""
        return self._page("Scan", request, f"segment {request.get('Segment', 0)}")

    def _page(self, operation: str, request: Request, key: str) -> Document:
        table = self._account.usable(request["TableName"])
        resource: Resource = table.indexes[request["IndexName"]] if "IndexName" in request else table
        self._admit(table, resource, key)
        if self._account.enforces(Rule.PROJECTED_ONLY):
            _refuse_unprojected(request, resource)
        bare = {name: value for name, value in plain(request).items() if name not in _SHOWN}
        read, size = self._cut(table, resource, self._account.engine.call(operation, _used(bare)))
        units = read_units(size, consistent=request.get("ConsistentRead", False))
        answer = read | {"Count": len(read["Items"]), "ScannedCount": len(read["Items"])}
        if _SHOWN & request.keys():
            answer |= self._shown(operation, request, table, read["Items"])
        return self._paid(request, table, Charge(resource, "Read", units, key), answer)

    def _cut(self, table: Table, resource: Resource, page: Document) -> tuple[Document, int]:
        """A page and its bytes; it ends at 1 MB, whatever the engine thinks."""
        size, items = 0, page["Items"]
        for number, item in enumerate(items):
            bytes_ = item_size(item)
            if size + bytes_ > PAGE_BYTES and number and self._account.enforces(Rule.PAGE_BYTES):
                last = items[number - 1]
                names = {*table.keys, *resource.keys}
                cut = {"Items": items[:number], "LastEvaluatedKey": {name: last[name] for name in names}}
                return page | cut, size
            size += bytes_
        return page, size

    def _shown(self, operation: str, request: Request, table: Table, read: Sequence[Wire]) -> Document:
        """What a filter and a projection leave of the items that were read.

        The page is decided by what is read; engines that count a page after filtering are asked without a limit, and what
        lies beyond the page is dropped.
        """
        if not read:
            return {"Items": [], "Count": 0}
        wanted = {str([item[name] for name in table.keys]) for item in read}
        filtered = {name: value for name, value in plain(request).items() if name not in ("Limit", "Select")}
        filtered.pop("ProjectionExpression", None)
        kept: list[Document] = []
        while True:
            page = self._account.engine.call(operation, _used(filtered))
            kept += [item for item in page["Items"] if str([item[name] for name in table.keys]) in wanted]
            if "LastEvaluatedKey" not in page or not page["Items"]:
                break
            if str([page["Items"][-1][name] for name in table.keys]) not in wanted:
                break
            filtered["ExclusiveStartKey"] = page["LastEvaluatedKey"]
        if request.get("Select") == "COUNT":
            return {"Items": [], "Count": len(kept)}
        if "ProjectionExpression" in request:
            paths = _projected(request)
            kept = [_project(item, paths) for item in kept]
        return {"Items": kept, "Count": len(kept)}

    def _admit(self, table: Table, resource: Resource, key: str) -> None:
        reasons = self._meter.refused(table, [Charge(resource, "Read", 0, key)])
        if reasons:
            raise self._throttled(reasons)

    def _paid(self, request: Request, table: Table, charge: Charge, answer: Document) -> Document:
        self._meter.take(table, [charge])
        consumed = self._meter.consumed(request, [(table, charge)])
        return answer | ({"ConsumedCapacity": consumed[0]} if consumed else {})

    def _throttled(self, reasons: list[Reason]) -> Exception:
        return throttled(reasons if self._account.enforces(Rule.THROTTLING_REASONS) else [])


def _used(request: Document) -> Document:
    """A request without the names and values that none of its expressions mentions: DynamoDB refuses those."""
    text = " ".join(value for name, value in request.items() if name.endswith("Expression"))
    tokens = set(re.findall(r"[#:]\w+", text))
    for member in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
        if member in request:
            kept = {name: value for name, value in request[member].items() if name in tokens}
            request = {**request, member: kept}
            if not kept:
                del request[member]
    return request


def _refuse_unprojected(request: Request, resource: Resource) -> None:
    """Refuse what a request shows or filters by of an index that does not hold it."""
    if not isinstance(resource, Index) or resource.included is None:
        return
    names = request.get("ExpressionAttributeNames", {})
    text = " ".join(request.get(name, "") for name in ("ProjectionExpression", "FilterExpression"))
    asked = {names.get(one, one) for one in re.findall(r"(?<![.\w#])#\w+", text)}
    missing = asked - resource.included
    if missing:
        index = resource.name.rpartition("/")[2]
        raise invalid(
            "One or more parameter values were invalid: "
            f"Global secondary index {index} does not project {sorted(missing)}"
        )


def _refuse_backwards(request: Request) -> None:
    """Refuse a range whose upper bound lies below its lower bound."""
    found = _BETWEEN.search(request.get("KeyConditionExpression", ""))
    if found is not None:
        low, high = (sortable(request["ExpressionAttributeValues"][found[one]]) for one in (1, 2))
        if low > high:
            raise invalid(
                "Invalid KeyConditionExpression: The BETWEEN operator requires upper bound to be greater than or equal "
                "to lower bound"
            )


def _asked_key(request: Request) -> str:
    """The partition key that a Query asks for, as text."""
    return partition_key("pk", {"pk": request["ExpressionAttributeValues"][_partition_value(request)]})


def _partition_value(request: Request) -> str:
    """The placeholder of the partition key's value."""
    found = _EQUALS.search(request["KeyConditionExpression"])
    if found is None:
        raise invalid("Query condition missed key schema element")
    return str(found[2])


def _projected(request: Request) -> list[list[str]]:
    """The paths of a projection; elements of lists are beyond this double."""
    names = request.get("ExpressionAttributeNames", {})
    paths = [path.strip().split(".") for path in request["ProjectionExpression"].split(",")]
    if "[" in request["ProjectionExpression"]:
        raise NotImplementedError(request["ProjectionExpression"])
    return [[names.get(name, name) for name in path] for path in paths]


def _project(item: Wire, paths: Sequence[Sequence[str]]) -> Document:
    """What a projection leaves of an item: of a map only the members that are named."""
    shown: dict[str, Any] = {}
    for first, *rest in paths:
        if first not in item:
            continue
        if not rest:
            shown[first] = item[first]
            continue
        inner = _project(item[first].get("M", {}), [rest])
        if inner:
            shown.setdefault(first, {"M": {}})["M"].update(inner)
    return shown
