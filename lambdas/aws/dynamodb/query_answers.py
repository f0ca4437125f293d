"""Pages of Query's answers. The data of plain events becomes JSON text, without Python values in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from json.encoder import encode_basestring as quote_name
from typing import Any

import msgspec

from aws.dynamodb.answers import ITEMS, QueryAnswer
from aws.dynamodb.uniform_pages import LEAST_BYTES, decode_uniform_page
from aws.dynamodb.wire import NAMED, decode_item, decode_value
from tidetable.events import Item
from tidetable.ports import FieldPage, ItemColumns, KeyRange, Page


class _Text(msgspec.Struct, gc=False):
    S: str


class PlainItem(msgspec.Struct, gc=False):
    """An item of a plain event, with its data undecoded. An item with one of the other attributes is not plain."""

    sk: _Text
    data: msgspec.Raw = msgspec.Raw(b"")
    z: Any = None
    out: Any = None
    cold: Any = None
    version: Any = None


class _PlainAnswer(QueryAnswer, kw_only=True):
    Items: list[PlainItem]


_PLAIN = msgspec.json.Decoder(_PlainAnswer).decode


def decode_query(keys: KeyRange, body: bytes, *, texts: bool, uniform: bool = True) -> Page:
    """Decode Query's answer. If an index's page begins at the item ``keys.after``, that item is left out.

    With ``texts``, the data of the items is JSON text if all items are plain events. They may be ``uniform``.
    """
    index = keys.index
    if texts and (index is None or index.replica):
        page = decode_uniform_page(body) if uniform and len(body) >= LEAST_BYTES else None
        if page is not None:
            columns = ItemColumns([keys.pk] * len(page.sks), page.sks, page.list_texts())
            return Page(columns, *_find_end(page.answer))
        read = _PLAIN(body)
        contents = render_texts(read.Items)
        if contents is not None:
            columns = ItemColumns([keys.pk] * len(contents), [item.sk.S for item in read.Items], contents)
            return Page(columns, *_find_end(read))
    answer = ITEMS(body)
    items = [decode_item(item) for item in answer.Items]
    if index is not None and keys.after is not None:
        items = [item for item in items if item[index.sk] != keys.after]
    return Page(ItemColumns.of(items), *_find_end(answer))


def decode_columns(keys: KeyRange, body: bytes, columns: Sequence[str]) -> Page | FieldPage:
    """Decode the answer for a range of a table: these columns if its events are uniform, otherwise items or texts."""
    page = decode_uniform_page(body) if len(body) >= LEAST_BYTES else None
    if page is None:
        return decode_query(keys, body, texts=True, uniform=False)
    return FieldPage(page.sks, list(map(page.list_column, columns)), [], *_find_end(page.answer))


def _find_end(answer: QueryAnswer) -> tuple[bool, float, Item | None, int]:
    """Find the members of a page that say how far it reaches and what it cost."""
    units = answer.ConsumedCapacity.CapacityUnits if answer.ConsumedCapacity is not None else 0.0
    return answer.LastEvaluatedKey is not None, units, find_last_key(answer.LastEvaluatedKey), answer.ScannedCount


def find_last_key(answered: dict[str, dict[str, Any]] | None) -> Item | None:
    """Find, in Query's answer, the key at which the page ended."""
    return None if answered is None else {name: decode_value(value) for name, value in answered.items()}


def render_texts(items: Sequence[PlainItem]) -> list[str] | None:
    """Write the data of some items as JSON; None if one of the items is not a plain event."""
    for item in items:
        if item.z is not None or item.out is not None or item.cold is not None or item.version is not None:
            return None
    datas = [item.data for item in items]
    texts = _render_flat(datas)
    if texts is None:
        if not all(map(bytes, datas)):
            return None
        texts = []
        for data in datas:
            members = _DATA(data).M
            if members is None:
                return None
            texts.append(render_object(members))
    return texts


class _Map(msgspec.Struct, gc=False):
    """An item's data. If another program wrote the item, the data may not be a map."""

    M: dict[str, dict[str, Any]] | None = None


_DATA = msgspec.json.Decoder(_Map).decode
_OPEN = '{"M":'


def _render_flat(datas: Sequence[msgspec.Raw]) -> list[str] | None:
    """Render flat data of all items at once; None if an item has no data, or data that is not flat.

    It also returns None if a text has an escaped quote. Without escaped quotes, every quote belongs to the JSON itself,
    so a text between quotes cannot be mistaken for JSON.
    """
    if not datas:
        return []
    text = b"\n".join(datas).decode()
    if "\\" in text and '\\"' in text:
        return None
    # After the opening of a value, the first quote with a brace ends the value, whatever texts and names contain.
    before, *numbers = text.split('{"N":"')
    # A map of a method takes half the time of a loop.
    text = "".join([before, *map(str.replace, numbers, repeat('"}'), repeat(""), repeat(1))])
    before, *strings = text.split('{"S":"')
    text = '"'.join([before, *map(str.replace, strings, repeat('"}'), repeat('"'), repeat(1))])
    if '{"BOOL":' in text:
        text = text.replace('{"BOOL":true}', "true").replace('{"BOOL":false}', "false")
    if '{"NULL":' in text:
        text = text.replace('{"NULL":true}', "null")
    # An item's data still has two opening braces: its own and its map's. A third brace belongs to a list, a map or a
    # set, or is in a text.
    if text.count("{") != 2 * len(datas):
        return None
    # Neither this JSON nor a text in it contains a line feed, so a match around a line feed is never inside a text.
    texts = text[len(_OPEN) : -1].split(f"}}\n{_OPEN}")
    # An item whose data is missing or is not a map gives no text. Additional braces of another item may have hidden
    # this in the count above.
    return texts if len(texts) == len(datas) and text.startswith(_OPEN) else None


def render_object(values: Mapping[str, Mapping[str, Any]]) -> str:
    """Render a map of attribute values as JSON; numbers keep DynamoDB's spelling."""
    fields = [
        NAMED[name] + _render_value(letter, inner) for name, value in values.items() for letter, inner in value.items()
    ]
    return "{" + ",".join(fields) + "}"


def _render_value(letter: str, inner: Any) -> str:
    if letter == "S":
        return quote_name(inner)
    if letter == "M":
        return render_object(inner)
    if letter == "BOOL":
        return "true" if inner else "false"
    if letter == "NULL":
        return "null"
    if letter == "L":
        return "[" + ",".join([_render_value(*member) for value in inner for member in value.items()]) + "]"
    if letter == "NS":
        return "[" + ",".join(inner) + "]"
    if letter in ("SS", "BS"):
        return "[" + ",".join(map(quote_name, inner)) + "]"
    return inner if letter == "N" else quote_name(inner)
