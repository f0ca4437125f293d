"""Read NDJSON: a JSON object per line, an event or a flat row. Lines of DynamoDB's export to S3 are taken, too."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Never

from aws.dynamodb.wire import plain
from cli.sources.columns import Columns
from cli.sources.row import Row, SourceError, make_row, open_inflated
from tidetable.exact_json import decode_json, parse_exact_number
from tidetable.ingest.unreadable import find_lone_surrogate

# More names than a line has.
_MANY = 1 << 40
_BOM = b"\xef\xbb\xbf"
# The type of JSON in which DynamoDB writes a value of each type.
_TYPES: dict[str, Any] = {
    **dict.fromkeys(("S", "N", "B"), str),
    **dict.fromkeys(("BOOL", "NULL"), bool),
    **dict.fromkeys(("L", "SS", "NS", "BS"), list),
    "M": dict,
}
_NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d{1,3})?", re.ASCII)


def read_ndjson(path: Path, mapping: Columns) -> Iterator[Row]:
    """Read the rows of a file. SourceError if the file is JSON, but not a JSON object per line."""
    number = 0
    with open_inflated(path) as (raw, stream):
        for block in stream:
            # JSON has no line end within a text, so a carriage return can only end a line.
            for line in block.removesuffix(b"\n").split(b"\r"):
                text = line.removeprefix(_BOM)
                if not text.strip():
                    continue
                if number == 0:
                    _refuse_other_json(path, text.strip())
                yield make_row(number, raw.tell(), line, partial(_read_line, text, mapping))
                number += 1


def _read_line(line: bytes, mapping: Columns) -> dict[str, Any]:
    try:
        value = decode_json(line)
    except ValueError as error:
        raise ValueError(find_lone_surrogate(line) or str(error)) from error
    if not isinstance(value, dict):
        raise ValueError("the line is not a JSON object")
    # The decoder keeps the last value of a repeated name, and marks numbers that no event can hold.
    if not _has_each_name_once(line, value):
        json.loads(line, object_pairs_hook=_refuse_repeated, parse_int=len, parse_float=_refuse_endless)
    if value.keys() == {"Item"} and _is_typed(value["Item"]):
        value = plain({"M": value["Item"]})
    return mapping.find_event(value)


def _has_each_name_once(line: bytes, value: Any) -> bool:
    """True if a line surely has each name once, and no number that is not finite. To decode it again takes ten times as long.

    Each name ends with a quote before a colon, unless white space is between them.
    """
    return b'" ' not in line and b'"\t' not in line and line.count(b'":') == _count_names(value)


def _count_names(value: Any) -> int:
    """Count the names of objects within an object or a list; less than nothing if a number is not finite."""
    count = len(value) if isinstance(value, dict) else 0
    for inner in value.values() if isinstance(value, dict) else value:
        kind = type(inner)
        if kind is dict or kind is list:
            count += _count_names(inner)
        elif kind is Decimal and not inner.is_finite():
            return -_MANY
    return count


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> None:
    names: set[str] = set()
    for name, _ in pairs:
        if name in names:
            raise ValueError(f"the line has the name {name!r} twice")
        names.add(name)


def _refuse_endless(text: str) -> None:
    if not parse_exact_number(text).is_finite():
        raise ValueError(f"{text[:40]} is a number that cannot be stored: write it as text")


def _is_typed(item: Any) -> bool:
    """True if every value is in DynamoDB's form, such as ``{"N": "1"}``; ValueError if a number is not a number."""
    return isinstance(item, dict) and all(map(_is_typed_value, item.values()))


def _is_typed_value(value: Any) -> bool:
    if not (isinstance(value, dict) and len(value) == 1):
        return False
    letter: str
    inner: Any
    ((letter, inner),) = value.items()
    if letter not in _TYPES or not isinstance(inner, _TYPES[letter]):
        return False
    if letter == "M":
        return _is_typed(inner)
    if letter == "L":
        return all(map(_is_typed_value, inner))
    texts = inner if isinstance(inner, list) else [inner] if letter == "N" else []
    if not all(isinstance(text, str) for text in texts):
        return False
    for text in texts if letter in ("N", "NS") else ():
        if not _NUMBER.fullmatch(text):
            raise ValueError(f"{text[:40]!r} is not a number of DynamoDB")
    return True


def _refuse_other_json(path: Path, line: bytes) -> None:
    """Raise SourceError if the first line shows that the file has another form; say how to convert it."""
    if line.startswith(b"["):
        _refuse_form(path, "is a JSON array", "jq -c '.[]'")
    if line.startswith(b"$ion_1_0"):
        raise SourceError(f"{path} is an export in Ion: export the table again in the format DYNAMODB_JSON")
    if line.startswith(b"{") and line.endswith((b"{", b"[", b",")):
        _refuse_form(path, "has objects of several lines", "jq -c .")
    try:
        value = decode_json(line)
    except ValueError:
        return
    if not isinstance(value, dict):
        return
    if isinstance(value.get("Items"), list):
        _refuse_form(path, "is an answer of DynamoDB", "jq -c '.Items[] | {Item: .}'")
    if "Keys" in value and "Metadata" in value:
        _refuse_form(path, "is an incremental export of DynamoDB", "jq -c 'select(.NewImage) | {Item: .NewImage}'")
    lists = [name for name, inner in value.items() if isinstance(inner, list) and inner and isinstance(inner[0], dict)]
    if len(lists) == 1 and not {"series", "time"} & value.keys():
        _refuse_form(path, f"is one object with a list of {lists[0]}", f"jq -c '.{json.dumps(lists[0])}[]'")


def _refuse_form(path: Path, form: str, command: str) -> Never:
    raise SourceError(f"{path} {form}, not an object per line: convert it with {command} {path} > {path.stem}.ndjson")
