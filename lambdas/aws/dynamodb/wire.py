"""Read and write DynamoDB's JSON without botocore: encode items and the requests that write them, and decode items."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from json.encoder import encode_basestring as quote_name
from typing import Any

import msgspec
from msgspec import Raw

from tidetable.events import Item
from tidetable.exact_json import are_texts, canonical_lines, decode_json
from tidetable.layout import is_plain
from tidetable.ports import Guard, Guarded, Put

# AWS: BatchWriteItem takes 25 puts and 16 MB. The bytes of the request count: an item of 400 KB may be longer as JSON.
_BATCH = 25
_MOST_BYTES = 16_000_000
_MOST_NAMES = 10_000
_EVENT = len(("pk", "sk", "at", "data"))
_NUMBERS = frozenset({int, Decimal})


# A put, and its item as text.
EncodedPut = tuple[Put, str]


def encode_item(item: Item) -> str:
    """Encode an item as the text of a request: ``{"pk":{"S":"..."},...}``."""
    return "{" + _encode_members(item) + "}"


def encode_items(items: Sequence[Item]) -> list[str]:
    """Encode items. Those of events whose data have the same fields are encoded together, by columns."""
    # An item of an event without indexes has four attributes.
    shapes = [
        tuple(item["data"]) if len(item) == _EVENT and "at" in item and type(item.get("data")) is dict else None
        for item in items
    ]
    kinds = set(shapes)
    if len(kinds) == 1:
        return _encode_alike(items, shapes[0])
    texts = [""] * len(items)
    for kind in kinds:
        numbers = [number for number, shape in enumerate(shapes) if shape == kind]
        for number, text in zip(numbers, _encode_alike([items[number] for number in numbers], kind), strict=True):
            texts[number] = text
    return texts


def _encode_alike(items: Sequence[Item], names: Sequence[str] | None) -> list[str]:
    """Encode items of events whose data have the fields ``names``; other items if it is None."""
    if names is None:
        return list(map(encode_item, items))
    members, columns = _encode_fields([item["data"] for item in items], names)
    (pk, pks), (sk, sks) = (_encode_column([item[name] for item in items]) for name in ("pk", "sk"))
    template = f'{{"pk":{pk},"sk":{sk},"at":{{"N":"%s"}},"data":{{"M":{{{members}}}}}}}'
    return list(map(template.__mod__, zip(pks, sks, [item["at"] for item in items], *columns, strict=True)))


def _encode_fields(maps: Sequence[Mapping[str, Any]], names: Sequence[str]) -> tuple[str, list[Sequence[str]]]:
    """Return the members of maps that all have these fields, with ``%s`` for each value; and the values by fields."""
    fields = [_encode_column([values[name] for values in maps]) for name in names]
    members = [f"{NAMED[name].replace('%', '%%')}{form}" for name, (form, _) in zip(names, fields, strict=True)]
    return ",".join(members), [texts for _, texts in fields]


def _encode_maps(maps: Sequence[Mapping[str, Any]]) -> Sequence[str]:
    """Encode maps: an object that is there several times once, and maps of one shape by columns."""
    different = {id(values): values for values in maps}
    shapes = {*map(tuple, different.values())}
    names = shapes.pop()
    if shapes or not names:
        encoded = list(map(encode_value, different.values()))
    else:
        members, columns = _encode_fields(list(different.values()), names)
        encoded = list(map(f'{{"M":{{{members}}}}}'.__mod__, zip(*columns, strict=True)))
    texts = dict(zip(different, encoded, strict=True))
    return [texts[id(values)] for values in maps]


def _encode_column(values: Sequence[Any]) -> tuple[str, Sequence[str]]:
    """Return the form in which each value of a column is an attribute value, with ``%s`` in its place; and the values as
    texts.
    """
    kinds = {*map(type, values)}
    if kinds == {str}:
        # A text that needs no escape is written as it is: this takes a quarter of the time.
        return ('{"S":"%s"}', values) if is_plain("".join(values)) else ('{"S":%s}', list(map(quote_name, values)))
    if kinds <= _NUMBERS:
        return '{"N":"%s"}', list(map(str, values))
    if kinds == {Raw}:
        # Each is JSON of one line: a text without escapes, a number, a boolean or null.
        lines = canonical_lines(values)
        texts = lines.decode().split("\n")[:-1]
        if are_texts(lines):
            return '{"S":%s}', texts
        if not lines.translate(None, b"0123456789.-\n"):
            return '{"N":"%s"}', texts
    return "%s", _encode_maps(values) if kinds == {dict} else list(map(encode_value, values))


class Named(dict[str, str]):
    """A cache of names in the form that JSON has before a value, such as ``"mag":``. Few names are used, but often."""

    def __missing__(self, name: str) -> str:
        if len(self) >= _MOST_NAMES:
            # So many different names are data, such as the keys of a map by user. They are not worth their memory.
            self.clear()
        text = self[name] = f"{quote_name(name)}:"
        return text


NAMED = Named()


def _encode_members(values: Mapping[str, Any]) -> str:
    return ",".join([f"{NAMED[name]}{encode_value(value)}" for name, value in values.items()])


def encode_value(value: Any) -> str:
    """Encode a value as an attribute value; numbers keep all their digits."""
    kind = type(value)
    if kind is str:
        return f'{{"S":{quote_name(value)}}}'
    if kind is int or kind is Decimal:
        return f'{{"N":"{value!s}"}}'
    if kind is dict:
        return f'{{"M":{{{_encode_members(value)}}}}}'
    if kind is bool:
        return '{"BOOL":true}' if value else '{"BOOL":false}'
    if value is None:
        return '{"NULL":true}'
    if kind is Raw:
        return encode_value(decode_json(value))
    if kind is list:
        return f'{{"L":[{",".join([encode_value(element) for element in value])}]}}'
    return _encode_rare(value)


def encode_transaction_put(guarded: Guarded) -> str:
    """Encode a put of a transaction, as JSON."""
    put = guarded.put
    return f'{{"Put":{{"TableName":{quote_name(put.table)},"Item":{encode_item(put.item)}{_encode_guard(guarded)}}}}}'


def encode_put(put: Put, guard: Guard | None = None) -> bytes:
    """Encode the body of PutItem. With a guard, the put has a condition, and a refusal shows the present item."""
    options = '"ReturnConsumedCapacity":"TOTAL","ReturnValuesOnConditionCheckFailure":"ALL_OLD"'
    text = _encode_guard(Guarded(put, guard))
    return f'{{"TableName":{quote_name(put.table)},"Item":{encode_item(put.item)}{text},{options}}}'.encode()


def make_condition(guarded: Guarded) -> dict[str, Any]:
    """Make the members of a request for a put's condition. The values are Python's values, not attribute values."""
    match guarded.guard:
        case None:
            return {}
        case "absent":
            return {"ConditionExpression": "attribute_not_exists(pk)"}
        case "newer":
            return {
                "ConditionExpression": "attribute_not_exists(pk) OR attribute_not_exists(#at) OR #at <= :at",
                "ExpressionAttributeNames": {"#at": "at"},
                "ExpressionAttributeValues": {":at": guarded.put.item["at"]},
            }
        case version:
            return {
                "ConditionExpression": "#version = :version",
                "ExpressionAttributeNames": {"#version": "version"},
                "ExpressionAttributeValues": {":version": version},
            }


def _encode_guard(guarded: Guarded) -> str:
    members = make_condition(guarded)
    values = members.pop("ExpressionAttributeValues", None)
    text = "".join(f",{quote_name(name)}:{msgspec.json.encode(member).decode()}" for name, member in members.items())
    return text + (f',"ExpressionAttributeValues":{encode_item(values)}' if values is not None else "")


def make_requests(puts: Sequence[Put]) -> Iterator[tuple[list[Put], bytes]]:
    """Split puts into batches; yield each batch with the body of its BatchWriteItem."""
    texts = encode_items([put.item for put in puts])
    for batch in split_batches(list(zip(puts, texts, strict=True))):
        yield from _fit_batch(batch)


def _fit_batch(batch: list[EncodedPut]) -> Iterator[tuple[list[Put], bytes]]:
    """Yield a batch and its body. If the body is too long for a request, yield the halves of the batch instead."""
    begin, between, end = '[{"PutRequest":{"Item":', '}},{"PutRequest":{"Item":', "}}]"
    requests = f"{begin}{between.join([text for _, text in batch])}{end}"
    table = quote_name(batch[0][0].table)
    body = f'{{"RequestItems":{{{table}:{requests}}},"ReturnConsumedCapacity":"TOTAL"}}'.encode()
    if len(body) <= _MOST_BYTES or len(batch) == 1:
        yield [put for put, _ in batch], body
        return
    middle = len(batch) // 2
    yield from _fit_batch(batch[:middle])
    yield from _fit_batch(batch[middle:])


def split_batches(puts: Sequence[EncodedPut]) -> Iterator[list[EncodedPut]]:
    """Batches of puts into one table. Batches take turns between tables, and the puts of a table between partitions.

    A request's events are often in order of series or time. In that order, a batch would write to only one partition.
    """
    by_table: defaultdict[str, defaultdict[str, list[EncodedPut]]] = defaultdict(lambda: defaultdict(list))
    for pair in puts:
        by_table[pair[0].table][pair[0].item["pk"]].append(pair)
    queues = [_interleave_queues(list(partitions.values())) for partitions in by_table.values()]
    batches = [[queue[start : start + _BATCH] for start in range(0, len(queue), _BATCH)] for queue in queues]
    yield from _interleave_queues(batches)


def _interleave_queues(queues: list[list[Any]]) -> list[Any]:
    """Yield an element of each queue in turn, until all queues are empty."""
    if len(queues) == 1:
        return queues[0]
    longest = max(map(len, queues), default=0)
    return [queue[place] for place in range(longest) for queue in queues if place < len(queue)]


def decode_item(attributes: Mapping[str, Mapping[str, Any]]) -> Item:
    """Decode the attribute values of an answer or of a stream's record: numbers to Decimal, binary values to bytes."""
    return {name: decode_value(value) for name, value in attributes.items()}


def decode_value(value: Mapping[str, Any]) -> Any:
    """Return the Python value of an attribute value."""
    ((letter, inner),) = value.items()
    return _READ[letter](inner)


def plain(value: Mapping[str, Any]) -> Any:
    """Convert an attribute value to a value of an event's data: a binary value to Base64, a set to a list."""
    ((letter, inner),) = value.items()
    if letter == "M":
        return {name: plain(member) for name, member in inner.items()}
    if letter == "L":
        return [plain(element) for element in inner]
    if letter == "NS":
        return [Decimal(number) for number in inner]
    return inner if letter in ("B", "SS", "BS") else _READ[letter](inner)


def _decode_bytes(value: str | bytes) -> bytes:
    """Return the bytes of a binary value: Base64 in JSON, but bytes already in an answer that boto3 has read."""
    return b64decode(value) if isinstance(value, str) else value


_READ: dict[str, Callable[[Any], Any]] = {
    "S": lambda inner: inner,
    "N": Decimal,
    "M": decode_item,
    "BOOL": lambda inner: inner,
    "NULL": lambda _: None,
    "L": lambda inner: [decode_value(element) for element in inner],
    "B": _decode_bytes,
    "SS": set,
    "NS": lambda inner: {Decimal(number) for number in inner},
    "BS": lambda inner: set(map(_decode_bytes, inner)),
}


def _encode_rare(value: Any) -> str:
    """Encode a binary value or a set, which no event of the API has, but a restored item may have; or a tuple."""
    if isinstance(value, set | frozenset):
        first = next(iter(value))
        if isinstance(first, str):
            return f'{{"SS":[{",".join(map(quote_name, value))}]}}'
        if isinstance(first, int | Decimal):
            numbers = ",".join(f'"{number}"' for number in value)
            return f'{{"NS":[{numbers}]}}'
        return f'{{"BS":[{",".join(map(_encode_base64, value))}]}}'
    if isinstance(value, Mapping):
        return encode_value(dict(value))
    if isinstance(value, tuple):
        return encode_value(list(value))
    return f'{{"B":{_encode_base64(value)}}}'


def _encode_base64(value: Any) -> str:
    # boto3 wraps binary values; bytes() unwraps them.
    return f'"{b64encode(bytes(value)).decode()}"'
