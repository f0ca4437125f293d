"""The requests of DynamoDB's Query: key conditions, filters and projections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from tidetable.conditions import Condition, read_numbers
from tidetable.layout import Index
from tidetable.ports import KeyRange, RangeRead

_ORDERED = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}
# AWS: a page ends at 1 MB, so it never has this many items. Limit is a number of 32 bits; AWS refuses a greater number.
# A reader with a filter doubles its limit from request to request, so the limit must be bounded.
_MOST_ITEMS = 1_000_000
# Alternatives: at least one of them must hold.
_Terms = list[str]
# The types of plain values: a filter excludes events without a plain value.
_PLAIN = ("S", "N", "BOOL")
# Attributes of an item whose data is compressed or kept elsewhere: DynamoDB's filter cannot see that data.
_ELSEWHERE = ("z", "out")


class _Names(dict[str, str]):
    """Short names of attributes, each assigned at its first use."""

    def add(self, path: Sequence[str]) -> str:
        """Write a path in an expression, with short names."""
        shorts = []
        for name in path:
            short = next((short for short, known in self.items() if known == name), f"#n{len(self)}")
            self[short] = name
            shorts.append(short)
        return ".".join(shorts)


class _Values(dict[str, dict[str, Any]]):
    """Placeholders of values."""

    def add(self, letter: str, value: Any) -> str:
        """Write the placeholder of a value in an expression."""
        short = f":v{len(self)}"
        self[short] = {letter: value}
        return short


def make_query(read: RangeRead, *, ascending: bool, consistent: bool, fields: Sequence[str] = ()) -> dict[str, Any]:
    """Make the members of a Query request; with ``fields``, the answer has only these fields of the items' data."""
    keys, limit = read.keys, min(read.limit, _MOST_ITEMS)
    names, values = _Names(), _Values()
    index = keys.index
    low, high = keys.low, keys.high
    body: dict[str, Any] = {
        "TableName": keys.table,
        "ScanIndexForward": ascending,
        "ReturnConsumedCapacity": "TOTAL",
        "Limit": limit,
    }
    if index is None or index.local:
        body["ConsistentRead"] = consistent
    if index is not None:
        body["IndexName"] = index.name
    if keys.start is not None:
        body["ExclusiveStartKey"] = {
            name: {"S": value} if isinstance(value, str) else {"N": str(value)} for name, value in keys.start.items()
        }
    elif keys.after is not None and (index is None or index.replica):
        body["ExclusiveStartKey"] = {"pk": {"S": keys.pk}, "sk": {"S": keys.after}}
    elif keys.after is not None:
        # The range begins at the item ``after``, and the caller skips that item. To begin after the item, the request
        # would also need the item's key in the table.
        low, high = (keys.after, high) if ascending else (low, keys.after)
        body["Limit"] = limit + 1
    pk, sk = ("pk", "sk") if index is None else (index.pk, index.sk)
    condition = f"{names.add([pk])} = {values.add('S', keys.pk)}"
    body["KeyConditionExpression"] = condition + _make_sort_condition(
        replace(keys, low=low, high=high), names, sk, values
    )
    filters = list(_make_filters(keys, names, values))
    if filters:
        body["FilterExpression"] = _join_terms(filters)
    if fields:
        body["ProjectionExpression"] = ", ".join(names.add(path) for path in _find_projected_paths(keys.index, fields))
    return body | {"ExpressionAttributeNames": names, "ExpressionAttributeValues": values}


def _make_sort_condition(keys: KeyRange, names: _Names, sk: str, values: _Values) -> str:
    """Make the condition on the sort key; empty for a whole partition."""
    low, high = keys.low, keys.high
    letter = "N" if keys.index is not None and keys.index.ranks else "S"
    if keys.prefix:
        return f" AND begins_with({names.add([sk])}, {values.add('S', keys.prefix)})"
    if low is not None and high is not None:
        edges = values.add(letter, str(low)), values.add(letter, str(high))
        return f" AND {names.add([sk])} BETWEEN {edges[0]} AND {edges[1]}"
    if low is None and high is None:
        return ""
    sign, edge = (">=", low) if low is not None else ("<=", high)
    return f" AND {names.add([sk])} {sign} {values.add(letter, str(edge))}"


def _find_root(index: Index | None) -> str:
    """Find the attribute that holds an event's data, in a table or an index."""
    return index.copy if index is not None and index.project else "data"


def _find_projected_paths(index: Index | None, fields: Sequence[str]) -> Iterator[Sequence[str]]:
    root = _find_root(index)
    yield ["pk"]
    yield ["sk"]
    if index is not None and not index.replica:
        # DynamoDB refuses a projection of attributes that the index does not hold.
        yield from ([name] for name in (index.pk, index.sk) if name != "pk")
        if index.project == ():
            return
    if root == "data":
        yield from ([name] for name in ("version", "at", *_ELSEWHERE))
    # DynamoDB refuses two paths if one begins with the other.
    yield from ([root, name] for name in dict.fromkeys(field.partition(".")[0] for field in fields))


def _make_filters(keys: KeyRange, names: _Names, values: _Values) -> Iterator[_Terms]:
    """Make the terms of the filter. An item must meet every term, by at least one alternative of the term."""
    if keys.times is not None:
        low, high = (values.add("S", edge) for edge in keys.times)
        yield [f"{names.add(['sk'])} BETWEEN {low} AND {high}"]
    if keys.skip_oldest is not None:
        low, high = (values.add("S", edge) for edge in keys.skip_oldest)
        oldest = names.add(["oldest"])
        # A plain item beside packs has no such attribute.
        yield [f"attribute_not_exists({oldest})", f"{oldest} < {low}", f"{oldest} > {high}"]
    if not keys.conditions:
        return
    root = _find_root(keys.index)
    terms = [
        _make_condition(condition, names.add([root, *condition.field.split(".")]), values)
        for condition in keys.conditions
    ]
    if root == "data":
        elsewhere = [f"attribute_exists({names.add([name])})" for name in _ELSEWHERE]
        yield [*(terms[0] if len(terms) == 1 else [_join_terms(terms)]), *elsewhere]
    else:
        yield from terms


def _join_terms(terms: Sequence[_Terms]) -> str:
    """Join terms by AND. DynamoDB refuses redundant parentheses."""
    if len(terms) == 1:
        return " OR ".join(terms[0])
    return " AND ".join([term[0] if len(term) == 1 else f"({' OR '.join(term)})" for term in terms])


def _make_condition(condition: Condition, path: str, values: _Values) -> _Terms:
    """Express a condition as alternatives. A value is compared as text and, if possible, as a number or a boolean."""
    if condition.operator == "prefix":
        return [f"begins_with({path}, {values.add('S', condition.values[0])})"]
    typed_values = [pair for text in condition.values for pair in _type_values(text)]
    if condition.operator in _ORDERED:
        # Booleans have no order here: an order of true and false would surprise callers.
        ordered = [values.add(letter, value) for letter, value in typed_values if letter != "BOOL"]
        return [f"{path} {_ORDERED[condition.operator]} {placeholder}" for placeholder in ordered]
    among = f"{path} IN ({', '.join([values.add(letter, value) for letter, value in typed_values])})"
    if condition.equals:
        return [among]
    plain = " OR ".join(f"attribute_type({path}, {values.add('S', letter)})" for letter in _PLAIN)
    return [f"({plain}) AND NOT {among}"]


def _type_values(text: str) -> Iterator[tuple[str, Any]]:
    yield "S", text
    yield from (("N", str(number)) for number in read_numbers(text))
    if text in ("true", "false"):
        yield "BOOL", text == "true"
