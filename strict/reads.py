"""The read operations of the data plane."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from strict.account import Account
from strict.engines import Document
from strict.expressions import Parser, make_sortable
from strict.metering import Charge, Meter, Reason, omit_capacity_option, render_partition_key
from strict.placeholders import Expression, find_attributes
from strict.projections import project, project_item, read_projection_paths
from strict.refusals import refuse_invalid, refuse_throttled
from strict.rules import Rule
from strict.tables import Index, Resource, Table
from strict.units import Wire, measure_item, read_units

Request = Mapping[str, Any]

PAGE_BYTES = 1024 * 1024
BATCH_KEYS = 100
BATCH_BYTES = 16 * 1024 * 1024
KEY_BYTES = 2048
_BETWEEN = re.compile(r"BETWEEN\s+(:\w+)\s+AND\s+(:\w+)")
_EQUALS = re.compile(r"(#?\w+)\s*=\s*(:\w+)")
# These members of a request change what a page shows, but not which items it reads.
_DISPLAY_MEMBERS = frozenset({"FilterExpression", "ProjectionExpression", "Select"})


class Reads:
    """GetItem, BatchGetItem, TransactGetItems, Query and Scan."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._meter = Meter(account)

    def get_item(self, request: Request) -> Document:
        """Answer GetItem."""
        table = self._account.find_usable(request["TableName"])
        key = render_partition_key(table.keys[0], request["Key"])
        self._check_throughput(table, table, key)
        consistent = request.get("ConsistentRead", False)
        bare = {"TableName": table.name, "Key": request["Key"], "ConsistentRead": consistent}
        whole = self._account.engine.call("GetItem", bare).get("Item")
        answer = {} if whole is None else {"Item": project_item(request, whole)}
        units = read_units(measure_item(whole or {}), consistent=consistent)
        return self._charge_read(request, table, Charge(table, "Read", units, key), answer)

    def batch_get_item(self, request: Request) -> Document:
        """Answer BatchGetItem. Keys beyond the tables' throughput or the answer's size come back as unprocessed."""
        account, requested = self._account, request["RequestItems"]
        self._check_batch(requested)
        size = 0
        answers: dict[str, list[Wire]] = {}
        unprocessed: dict[str, Document] = {}
        reasons: list[Reason] = []
        paid: list[tuple[Table, Charge]] = []
        for name, options in requested.items():
            table = account.find_usable(name)
            consistent = options.get("ConsistentRead", False)
            answers[name] = []
            for key in options["Keys"]:
                text = render_partition_key(table.keys[0], key)
                refusals = self._meter.find_refusals(table, [Charge(table, "Read", 0, text)])
                if refusals:
                    reasons += refusals
                    unprocessed.setdefault(name, {**options, "Keys": []})["Keys"].append(key)
                    continue
                bare = {"TableName": name, "Key": key, "ConsistentRead": consistent}
                item = account.engine.call("GetItem", bare).get("Item")
                size += measure_item(item or {})
                if size > BATCH_BYTES and account.enforces(Rule.ANSWER_BYTES):
                    unprocessed.setdefault(name, {**options, "Keys": []})["Keys"].append(key)
                    continue
                charge = Charge(table, "Read", read_units(measure_item(item or {}), consistent=consistent), text)
                self._meter.take_charges(table, [charge])
                paid.append((table, charge))
                if item is not None:
                    answers[name].append(project_item(options, item))
        if unprocessed and not paid:
            raise self._refuse_throttled(reasons)
        consumed = self._meter.report_consumed(request, paid)
        answer: Document = {"Responses": answers, "UnprocessedKeys": unprocessed}
        return answer | ({"ConsumedCapacity": consumed} if consumed else {})

    def _check_batch(self, requested: Mapping[str, Any]) -> None:
        account = self._account
        keys = [
            (name, *sorted((attribute, *value.items()) for attribute, value in key.items()))
            for name, options in requested.items()
            for key in options["Keys"]
        ]
        if len(keys) > BATCH_KEYS and account.enforces(Rule.BATCH_ITEMS):
            raise refuse_invalid(f"Too many items requested for the BatchGetItem call, at most {BATCH_KEYS}")
        if len(set(keys)) < len(keys) and account.enforces(Rule.BATCH_REPEATED_KEY):
            raise refuse_invalid("Provided list of item keys contains duplicates")

    def transact_get_items(self, request: Request) -> Document:
        """Answer TransactGetItems: strongly consistent, at twice the price."""
        charges: list[tuple[Table, Charge]] = []
        answer = self._account.engine.call("TransactGetItems", omit_capacity_option(request))
        for action, response in zip(request["TransactItems"], answer["Responses"], strict=True):
            table = self._account.find_usable(action["Get"]["TableName"])
            key = render_partition_key(table.keys[0], action["Get"]["Key"])
            self._check_throughput(table, table, key)
            units = self._meter.find_factor() * read_units(measure_item(response.get("Item", {})), consistent=True)
            charges.append((table, Charge(table, "Read", units, key)))
        for table, charge in charges:
            self._meter.take_charges(table, [charge])
        consumed = self._meter.report_consumed(request, charges)
        return answer | ({"ConsumedCapacity": consumed} if consumed else {})

    def query(self, request: Request) -> Document:
        """Answer Query."""
        account = self._account
        if account.enforces(Rule.RANGE_ORDER):
            _refuse_backwards(request)
        key = request["ExpressionAttributeValues"][_find_partition_value(request)]
        if not next(iter(key.values())) and account.enforces(Rule.EMPTY_KEYS):
            raise refuse_invalid(
                "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty "
                "string value"
            )
        if len(next(iter(key.values())).encode()) > KEY_BYTES and account.enforces(Rule.KEY_BYTES):
            raise refuse_invalid(
                "One or more parameter values were invalid: Size of hashkey has exceeded the maximum size limit of 2048 bytes"
            )
        return self._read_page("Query", request, _read_queried_key(request))

    def scan(self, request: Request) -> Document:
        """Answer Scan."""
        return self._read_page("Scan", request, f"segment {request.get('Segment', 0)}")

    def _read_page(self, operation: str, request: Request, key: str) -> Document:
        table = self._account.find_usable(request["TableName"])
        resource: Resource = table.indexes[request["IndexName"]] if "IndexName" in request else table
        payer = self._meter.find_payer(table, resource)
        self._check_throughput(table, payer, key)
        if self._account.enforces(Rule.PROJECTED_ONLY):
            _refuse_unprojected(request, resource)
        bare = {name: value for name, value in omit_capacity_option(request).items() if name not in _DISPLAY_MEMBERS}
        read, size = self._cut_page(
            table, resource, self._account.engine.call(operation, _drop_unused_placeholders(bare))
        )
        consistent = request.get("ConsistentRead", False)
        units = read_units(size, consistent=consistent)
        answer = read | {"Count": len(read["Items"]), "ScannedCount": len(read["Items"])}
        if _needs_table_items(request, resource):
            wholes = self._fetch_table_items(table, read["Items"], consistent=consistent)
            if self._account.enforces(Rule.LOCAL_FETCHES):
                units += sum(read_units(measure_item(item), consistent=consistent) for item in wholes)
            answer |= _select_items(request, wholes)
        elif _DISPLAY_MEMBERS & request.keys():
            answer |= self._filter_and_project(operation, request, table, read["Items"])
        return self._charge_read(request, table, Charge(payer, "Read", units, key), answer)

    def _fetch_table_items(self, table: Table, items: Sequence[Wire], *, consistent: bool) -> list[Wire]:
        """Read the whole items from the table: DynamoDB does so to show attributes that a local index does not hold."""
        keys = [{name: item[name] for name in table.keys} for item in items]
        request = {"TableName": table.name, "ConsistentRead": consistent}
        whole_items = [self._account.engine.call("GetItem", request | {"Key": key}).get("Item") for key in keys]
        return [item for item in whole_items if item is not None]

    def _cut_page(self, table: Table, resource: Resource, page: Document) -> tuple[Document, int]:
        """Cut the page at 1 MB, even if the engine read further; return the page and its size in bytes."""
        size, items = 0, page["Items"]
        for number, item in enumerate(items):
            bytes_ = measure_item(item)
            if size + bytes_ > PAGE_BYTES and number and self._account.enforces(Rule.PAGE_BYTES):
                last = items[number - 1]
                names = {*table.keys, *resource.keys}
                cut = {"Items": items[:number], "LastEvaluatedKey": {name: last[name] for name in names}}
                return page | cut, size
            size += bytes_
        return page, size

    def _filter_and_project(self, operation: str, request: Request, table: Table, read: Sequence[Wire]) -> Document:
        """Apply the filter and the projection to the items of the page.

        In DynamoDB the limit counts the items that are read, before the filter. Some engines count the items after the
        filter. So this method queries the engine without a limit, and drops the items that are not in ``read``.
        """
        if not read:
            return {"Items": [], "Count": 0}
        page_keys = {str([item[name] for name in table.keys]) for item in read}
        filtered = {
            name: value for name, value in omit_capacity_option(request).items() if name not in ("Limit", "Select")
        }
        filtered.pop("ProjectionExpression", None)
        matching: list[Document] = []
        while True:
            page = self._account.engine.call(operation, _drop_unused_placeholders(filtered))
            matching += [item for item in page["Items"] if str([item[name] for name in table.keys]) in page_keys]
            if "LastEvaluatedKey" not in page or not page["Items"]:
                break
            if str([page["Items"][-1][name] for name in table.keys]) not in page_keys:
                break
            filtered["ExclusiveStartKey"] = page["LastEvaluatedKey"]
        if request.get("Select") == "COUNT":
            return {"Items": [], "Count": len(matching)}
        if "ProjectionExpression" in request:
            paths = read_projection_paths(request)
            matching = [project(item, paths) for item in matching]
        return {"Items": matching, "Count": len(matching)}

    def _check_throughput(self, table: Table, resource: Resource, key: str) -> None:
        reasons = self._meter.find_refusals(table, [Charge(resource, "Read", 0, key)])
        if reasons:
            raise self._refuse_throttled(reasons)

    def _charge_read(self, request: Request, table: Table, charge: Charge, answer: Document) -> Document:
        self._meter.take_charges(table, [charge])
        consumed = self._meter.report_consumed(request, [(table, charge)])
        return answer | ({"ConsumedCapacity": consumed[0]} if consumed else {})

    def _refuse_throttled(self, reasons: list[Reason]) -> Exception:
        return refuse_throttled(reasons if self._account.enforces(Rule.THROTTLING_REASONS) else [])


def _drop_unused_placeholders(request: Document) -> Document:
    """Return the request without names and values that its expressions do not use: DynamoDB refuses unused
    placeholders.
    """
    texts = (text for name, text in request.items() if name.endswith("Expression"))
    tokens = frozenset[str]().union(*(Expression.of(text).placeholders for text in texts))
    for member in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
        if member in request:
            used = {name: value for name, value in request[member].items() if name in tokens}
            request = {**request, member: used}
            if not used:
                del request[member]
    return request


def _refuse_unprojected(request: Request, resource: Resource) -> None:
    """Refuse a projection or a filter on attributes that a global index does not hold."""
    if not isinstance(resource, Index) or resource.included is None or resource.local:
        return
    missing = _find_used_names(request) - resource.included
    if missing:
        index = resource.name.rpartition("/")[2]
        raise refuse_invalid(
            "One or more parameter values were invalid: "
            f"Global secondary index {index} does not project {sorted(missing)}"
        )


def _needs_table_items(request: Request, resource: Resource) -> bool:
    """True if a request on a local index shows, or filters by, attributes that the index does not hold."""
    if not isinstance(resource, Index) or not resource.local or resource.included is None:
        return False
    return request.get("Select") == "ALL_ATTRIBUTES" or bool(_find_used_names(request) - resource.included)


def _select_items(request: Request, items: Sequence[Wire]) -> Document:
    """Apply a request's filter and projection to whole items."""
    if "FilterExpression" in request:
        matches = Parser(request["FilterExpression"], request).parse_condition()
        items = [item for item in items if matches(item)]
    if "ProjectionExpression" in request:
        paths = read_projection_paths(request)
        items = [project(item, paths) for item in items]
    return {"Items": [] if request.get("Select") == "COUNT" else list(items), "Count": len(items)}


def _find_used_names(request: Request) -> set[str]:
    """Find the attributes that a request shows or filters by."""
    names = request.get("ExpressionAttributeNames", {})
    texts = (request.get(name, "") for name in ("ProjectionExpression", "FilterExpression"))
    return {attribute for text in texts for attribute in find_attributes(text, names)}


def _refuse_backwards(request: Request) -> None:
    """Refuse a range whose upper bound lies below its lower bound."""
    match = _BETWEEN.search(request.get("KeyConditionExpression", ""))
    if match is not None:
        low, high = (make_sortable(request["ExpressionAttributeValues"][match[group]]) for group in (1, 2))
        if low > high:
            raise refuse_invalid(
                "Invalid KeyConditionExpression: The BETWEEN operator requires upper bound to be greater than or equal "
                "to lower bound"
            )


def _read_queried_key(request: Request) -> str:
    """Read the partition key of a Query, as text."""
    return render_partition_key("pk", {"pk": request["ExpressionAttributeValues"][_find_partition_value(request)]})


def _find_partition_value(request: Request) -> str:
    """Find the placeholder of the partition key's value in the key condition."""
    match = _EQUALS.search(request["KeyConditionExpression"])
    if match is None:
        raise refuse_invalid("Query condition missed key schema element")
    return str(match[2])
