"""Pages whose events all have the same fields, with values of the same types, as most pages have.

msgspec decodes such a page into structs of just these fields, and their values become JSON text by whole columns. That
takes two thirds of the time of removing the wrappers of the values from the text (docs/inside/performance.md). Who needs
only some fields takes their columns, and no text is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from json import JSONDecoder
from json.encoder import encode_basestring as quote_name
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from aws.dynamodb.answers import QueryAnswer
from tidetable.forms.field_columns import KINDS, name_kind

# To find the shape of a smaller page takes longer than it saves.
LEAST_BYTES = 16_384
# The first event's data is looked for in so many bytes. A struct of more fields is not worth its memory.
_LONGEST_DATA, _MOST_FIELDS = 8_192, 64
_DATA = b'"data":{"M":'
_TRUTHS = {True: "true", False: "false"}
_find_value = JSONDecoder().raw_decode


class _Text(msgspec.Struct, gc=False):
    S: str


class _Number(msgspec.Struct, gc=False):
    N: str


class _Boolean(msgspec.Struct, gc=False):
    BOOL: bool


class _Kind(NamedTuple):
    """A type of values: its struct, the type of its values in Python, and the texts around a value in JSON."""

    struct: type[msgspec.Struct]
    type: type
    quote: str


_KINDS: Mapping[str, _Kind] = {
    "S": _Kind(_Text, str, '"'), "N": _Kind(_Number, Decimal, ""), "BOOL": _Kind(_Boolean, bool, ""),
}  # fmt: skip


class _Shape(NamedTuple):
    """The decoder of pages of one shape, the type of each field's values, and the pieces of an event's text.

    Every second piece is the value of a field.
    """

    decode: Callable[[bytes], Any]
    types: Mapping[str, str]
    pieces: list[str]


class UniformPage(NamedTuple):
    """A page: the members of its answer beside the items, the sort keys of the items, and their data as structs.

    The fields are in the order of the first event's. AWS: a map has no order.
    """

    answer: QueryAnswer
    sks: list[str]
    datas: list[Any]
    shape: _Shape

    def list_texts(self) -> list[str]:
        """List the data of the items as JSON text."""
        pieces, count = self.shape.pieces * len(self.datas), len(self.shape.pieces)
        for place, (name, letter) in enumerate(self.shape.types.items()):
            values = self._read(name)
            pieces[2 * place + 1 :: count] = [_TRUTHS[value] for value in values] if letter == "BOOL" else values
        # Without escapes there is no line feed in a text.
        return "".join(pieces).split("\n")[:-1]

    def list_column(self, path: str) -> Sequence[Any]:
        """List the values of a column: see ``FieldColumns``."""
        types = self.shape.types
        if path == KINDS:
            kinds = frozenset((name, name_kind(_KINDS[letter].type)) for name, letter in types.items())
            return [kinds] * len(self.datas)
        if path not in types or "." in path:
            return [None] * len(self.datas)
        return list(map(Decimal, self._read(path))) if types[path] == "N" else self._read(path)

    def _read(self, name: str) -> list[Any]:
        types = self.shape.types
        return list(map(attrgetter(f"f{list(types).index(name)}.{types[name]}"), self.datas))


def decode_uniform_page(body: bytes) -> UniformPage | None:
    """Decode Query's answer if its items are plain events of one shape, without escapes in their texts; otherwise None."""
    if b"\\" in body:
        return None
    try:
        shape = _make_shape(_find_types(body))
        answer = shape.decode(body)
    except (ValueError, LookupError):
        return None
    return UniformPage(answer, [item.sk.S for item in answer.Items], [item.data.M for item in answer.Items], shape)


def _find_types(body: bytes) -> tuple[tuple[str, str], ...]:
    """Find the names and the types of the first event's fields. ValueError or LookupError if that is impossible.

    Another attribute may look like data: then the page does not have the shape that was found.
    """
    start = body.index(_DATA) + len(_DATA)
    found, _ = _find_value(body[start : start + _LONGEST_DATA].decode(errors="ignore"))
    values = msgspec.convert(found, dict[str, dict[str, Any]])
    return tuple((name, letter) for name, value in values.items() for letter in value)


@lru_cache(maxsize=64)
def _make_shape(types: tuple[tuple[str, str], ...]) -> _Shape:
    """Make the shape of events with fields of these names and types. LookupError if there are other types than plain ones.

    It takes half a millisecond.
    """
    if len(types) > _MOST_FIELDS:
        raise LookupError(len(types))
    kinds = [_KINDS[letter] for _, letter in types]
    members = [
        (f"f{number}", kind.struct, msgspec.field(name=name))
        for number, ((name, _), kind) in enumerate(zip(types, kinds, strict=True))
    ]
    values = msgspec.defstruct("Values", members, gc=False, forbid_unknown_fields=True)
    data = msgspec.defstruct("Data", [("M", values)], gc=False, forbid_unknown_fields=True)
    # No attribute is null, so an item with one of these attributes is refused: it is not a plain event.
    others = [(name, None, None) for name in ("z", "out", "cold", "version")]
    item = msgspec.defstruct("Item", [("sk", _Text), ("data", data), *others], gc=False)
    answer = msgspec.defstruct("Answer", [("Items", list[item])], bases=(QueryAnswer,), kw_only=True)  # type: ignore[valid-type]
    pieces, before = list[str](), "{"
    for (name, _), kind in zip(types, kinds, strict=True):
        pieces += [f"{before}{quote_name(name)}:{kind.quote}", ""]
        before = f"{kind.quote},"
    pieces.append(f"{before.removesuffix(',')}}}\n")
    return _Shape(msgspec.json.Decoder(answer).decode, dict(types), pieces)
