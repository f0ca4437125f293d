"""Decode Query's answers into columns of some fields: msgspec skips everything else, and no item becomes an object."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from operator import attrgetter, methodcaller
from typing import Any

import msgspec

from aws.dynamodb.answers import ITEMS
from aws.dynamodb.query_answers import find_last_key
from aws.dynamodb.wire import decode_item, decode_value
from tidetable.events import Item
from tidetable.layout import find_value
from tidetable.ports import FieldPage


class _Text(msgspec.Struct, gc=False):
    S: str


class _Value(msgspec.Struct, gc=False, eq=False):
    """An attribute value; other kinds of values than these three are skipped."""

    S: str | None = None
    N: str | None = None
    BOOL: bool | None = None


class _Units(msgspec.Struct):
    CapacityUnits: float = 0.0


# msgspec refuses a struct whose field has such a name.
_UNUSUAL = re.compile(r'[\x00-\x1f"\\]')
# Decodes an answer, and returns the column of each path.
_Shape = tuple[Callable[[bytes], Any], tuple[Callable[[Sequence[Any]], list[Any]], ...]]


def decode_fields(body: bytes, fields: tuple[str, ...]) -> FieldPage:
    """Decode Query's answer into columns of these fields, which are paths."""
    decode, readers = _make_shape(fields)
    try:
        answer = decode(body)
        items = answer.Items
        others: list[Item] = []
        if any(item.z is not None or item.out is not None for item in items):
            outside = [item.z is not None or item.out is not None for item in items]
            others = [
                decode_item(item) for item, is_outside in zip(ITEMS(body).Items, outside, strict=True) if is_outside
            ]
            items = [item for item, is_outside in zip(items, outside, strict=True) if not is_outside]
        sks: list[str] = [item.sk.S for item in items]
        maps = [None if item.data is None else item.data.M for item in items]
        values = [read(maps) for read in readers]
    except msgspec.ValidationError:
        # Another program wrote an item whose data is not a map.
        answer, sks, values = ITEMS(body), [], [[] for _ in fields]
        others = [decode_item(item) for item in answer.Items]
    units = 0.0 if answer.ConsumedCapacity is None else answer.ConsumedCapacity.CapacityUnits
    last = find_last_key(answer.LastEvaluatedKey)
    return FieldPage(sks, values, others, last is not None, units, last, answer.ScannedCount)


@lru_cache(maxsize=64)
def _make_shape(fields: tuple[str, ...]) -> _Shape:
    """Make the type of an answer that has only the fields of these paths, and the readers of the columns."""
    tops = list(dict.fromkeys(field.partition(".")[0] for field in fields))
    # A field at the top has a plain value. Within other fields, everything is decoded.
    nested = {field.partition(".")[0] for field in fields if "." in field}
    members = [
        (f"f{number}", (dict[str, Any] if top in nested else _Value) | None, msgspec.field(name=top, default=None))
        for number, top in enumerate(tops)
    ]
    values: Any
    gets: list[Callable[[Any], Any]]
    if any(_UNUSUAL.search(top) for top in tops):
        values, nested, gets = dict[str, Any], set(tops), [methodcaller("get", top) for top in tops]
    else:
        values = msgspec.defstruct("Values", members, gc=False)
        gets = [attrgetter(name) for name, *_ in members]
    data = msgspec.defstruct("Data", [("M", values | None, None)], gc=False)
    item = msgspec.defstruct(
        "Item",
        [("sk", _Text), ("data", data | None, None), ("z", Any, None), ("out", Any, None)],
        gc=False,
    )
    answer = msgspec.defstruct(
        "Answer",
        [
            ("Items", list[item]),  # type: ignore[valid-type]
            ("LastEvaluatedKey", dict[str, Any] | None, None),
            ("ConsumedCapacity", _Units | None, None),
            ("ScannedCount", int, 0),
        ],
    )
    readers = []
    for field in fields:
        top = field.partition(".")[0]
        readers.append(_make_reader(gets[tops.index(top)], field, nested=top in nested))
    return msgspec.json.Decoder(answer).decode, tuple(readers)


def _make_reader(get: Callable[[Any], Any], field: str, *, nested: bool) -> Callable[[Sequence[Any]], list[Any]]:
    def read_plain(maps: Sequence[Any]) -> list[Any]:
        found: list[Any] = [None if values is None else get(values) for values in maps]
        if None not in found:
            numbers = [value.N for value in found]
            if None not in numbers:
                return list(map(Decimal, numbers))
            texts = [value.S for value in found]
            if None not in texts:
                return texts
        return [None if value is None else _read_value(value) for value in found]

    def read_nested(maps: Sequence[Any]) -> list[Any]:
        found: list[Any] = [None if values is None else get(values) for values in maps]
        inner = [
            None if value is None else find_value({field.partition(".")[0]: decode_value(value)}, field)
            for value in found
        ]
        return [value if isinstance(value, str | bool | Decimal) else None for value in inner]

    return read_nested if nested else read_plain


def _read_value(value: _Value) -> Any:
    if value.S is not None:
        return value.S
    return value.BOOL if value.N is None else Decimal(value.N)
