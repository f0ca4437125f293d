"""The fields of ``data`` that have a column of their own, and their types."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from tidetable.config.columns import RESERVED_COLUMNS, is_column_name, parse_decimal

# A field is a column if more than this share of rows has it: a column with mostly empty rows costs more than it saves.
_FILLED_SHARE = 0.5
_MAX_INFERRED = 64
_INFERRED = {"S": "string", "N": "double", "BOOL": "boolean"}
_LETTERS = {"string": "S", "boolean": "BOOL"}
# Up to this number a double stores every whole number exactly.
_EXACT = 2.0**53
_INTEGER = r"^-?\d{1,18}$"


@dataclass(frozen=True, slots=True)
class Column:
    """A field of ``data`` as a column: its name, and its type as the configuration spells it."""

    name: str
    type: str

    @property
    def letter(self) -> str:
        """DynamoDB's type letter of the column's values."""
        return _LETTERS.get(self.type, "N")

    @property
    def arrow(self) -> pa.DataType:
        """The type in the file."""
        if (decimal := parse_decimal(self.type)) is not None:
            return pa.decimal128(*decimal)
        return {"string": pa.string(), "boolean": pa.bool_(), "integer": pa.int64(), "double": pa.float64()}[self.type]

    @property
    def wire(self) -> pa.DataType:
        """The type before the column is stored in the file: numbers are text."""
        return pa.bool_() if self.letter == "BOOL" else pa.string()

    def convert(self, wire: pa.Array) -> tuple[pa.Array, pa.Array | None]:
        """Convert scanned values to the column's type. The second array marks the values that it cannot keep exactly; it is
        None if there are none.
        """
        if self.letter != "N":
            return wire, None
        # Numbers repeat, so each different text is converted once.
        encoded = wire.dictionary_encode()
        values, inexact = self._convert_texts(encoded.dictionary)
        return values.take(encoded.indices), None if inexact is None else inexact.take(encoded.indices)

    def _convert_texts(self, wire: pa.Array) -> tuple[pa.Array, pa.Array | None]:
        if self._is_small and pc.all(pc.match_substring_regex(wire, self._usual)).as_py() is not False:
            return pc.cast(wire, self.arrow), None
        column = pc.cast(wire if self.type == "double" else self._normalize(wire), self.arrow)
        back = pc.coalesce(self.text(column), pa.scalar("", pa.string()))
        inexact = pc.not_equal(back, wire)
        return column, inexact if pc.any(inexact).as_py() else None

    def _normalize(self, wire: pa.Array) -> pa.Array:
        """Write numbers in the form that Arrow parses; null for a number that the column cannot store exactly."""
        plain = pc.match_substring_regex(wire, self._fitting)
        texts = pc.if_else(plain, wire, pa.scalar(None, pa.string()))
        odd = pc.invert(plain)
        normalized = [self._normalize_number(text) for text in wire.filter(odd).to_pylist()]
        return pc.replace_with_mask(texts, odd, pa.array(normalized, pa.string()))

    def _normalize_number(self, text: str) -> str | None:
        """Write a number without exponent and needless zeros; None if the column cannot store it exactly."""
        plain = format(Decimal(text), "f")
        plain = plain.rstrip("0").rstrip(".") if "." in plain else plain
        if self.type == "integer":
            return plain if "." not in plain and -(2**63) <= int(plain) < 2**63 else None
        return plain if re.fullmatch(self._fitting, plain) else None

    def text(self, column: pa.Array) -> pa.Array:
        """Write the column's values in DynamoDB's form."""
        if self.letter != "N":
            return column
        texts = pc.cast(column, pa.string())
        if self.type == "double":
            # Arrow writes 1e+15 where DynamoDB writes 1000000000000000.
            whole = pc.and_(pc.equal(pc.floor(column), column), pc.less(pc.abs(column), _EXACT))
            integers = pc.cast(pc.if_else(whole, column, pa.scalar(None, pa.float64())), pa.int64())
            return pc.if_else(pc.fill_null(whole, fill_value=False), pc.cast(integers, pa.string()), texts)
        if isinstance(self.arrow, pa.Decimal128Type) and self.arrow.scale:
            texts = pc.ascii_rtrim(pc.ascii_rtrim(texts, "0"), ".")
        return texts

    @property
    def _is_small(self) -> bool:
        """True for whole numbers, and for decimals that Parquet stores as whole numbers."""
        return self.type == "integer" or (isinstance(self.arrow, pa.Decimal128Type) and self.arrow.precision <= 18)

    @property
    def _usual(self) -> str:
        """The pattern of numbers that fit, in DynamoDB's form: without needless zeros."""
        kind = self.arrow
        whole, scale = (18, 0) if not isinstance(kind, pa.Decimal128Type) else (kind.precision - kind.scale, kind.scale)
        fraction = rf"\.\d{{0,{scale - 1}}}[1-9]" if scale else ""
        number = rf"[1-9]\d{{0,{whole - 1}}}" if whole else ""
        if not fraction:
            return rf"^(0|-?{number})$"
        return rf"^(0|-?{number}({fraction})?|-?0{fraction})$" if number else rf"^(0|-?0{fraction})$"

    @property
    def _fitting(self) -> str:
        kind = self.arrow
        if not isinstance(kind, pa.Decimal128Type):
            return _INTEGER
        whole = kind.precision - kind.scale
        fraction = rf"(\.\d{{1,{kind.scale}}})?" if kind.scale else ""
        return rf"^-?{rf'[0-9]{{1,{whole}}}' if whole else '0'}{fraction}$"


def infer_columns(declared: Mapping[str, str], data: pa.StructArray) -> list[Column]:
    """Infer the columns of a part, by name: the declared columns, and every plain field that is in most rows of a page."""
    columns = {name: Column(name, kind) for name, kind in declared.items()}
    names = {name.lower() for name in declared} | RESERVED_COLUMNS
    for name in data.type.names:
        if not is_column_name(name) or name.lower() in names or len(columns) >= _MAX_INFERRED:
            continue
        field = data.field(name)
        counts = {
            letter: len(field) - field.field(letter).null_count
            for letter in _INFERRED
            if field.type.get_field_index(letter) >= 0
        }
        letter = max(counts, key=counts.__getitem__, default=None)
        if letter is not None and counts[letter] > _FILLED_SHARE * len(field):
            columns[name] = Column(name, _INFERRED[letter])
            names.add(name.lower())
    return [columns[name] for name in sorted(columns)]
