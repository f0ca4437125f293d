"""The forms of an answer: JSON, NDJSON and CSV, by ``format=`` or by Accept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from io import StringIO
from typing import Any

from tidetable.events import JsonObject
from tidetable.exact import decode_json, encode_json
from tidetable.problems import refuse
from tidetable.query.answer import Answer

_TYPES = {"json": "application/json", "ndjson": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}
_ACCEPTED = {"application/x-ndjson": "ndjson", "application/ndjson": "ndjson", "text/csv": "csv"}
_OWN = ("series", "time", "id")
_VERSIONS = ("version", "newest", "accepted")


def format_of(asked: str | None, accept: str) -> str:
    """The format asked for, or that the Accept header names first; JSON if neither says anything that is known."""
    if asked is not None:
        if asked not in _TYPES:
            raise refuse(400, "bad_parameter", f"format must be one of {', '.join(_TYPES)}")
        return asked
    kinds = (one.partition(";")[0].strip().lower() for one in accept.split(","))
    return next((_ACCEPTED[kind] for kind in kinds if kind in _ACCEPTED), "json")


def rendered(answer: Answer, kind: str) -> tuple[str, str]:
    """An answer's content type and body. Where there is no place for them, cursor and gaps are in the headers alone."""
    return _TYPES[kind], _BODIES[kind](answer)


def _ndjson(answer: Answer) -> str:
    return "".join([f"{text}\n" for text in answer.texts()])


def _csv(answer: Answer) -> str:
    """A header and a row for each event: its own fields, those of its data by their path, its ref."""
    import csv  # the few who ask for it wait for it

    rows = [decode_json(text) for text in answer.texts()]
    cells = [dict(_cells(row["data"], "")) for row in rows]
    names = list(dict.fromkeys(name for row in cells for name in row))
    versions = [name for name in _VERSIONS if any(name in row for row in rows)]
    out = StringIO()
    writer = csv.writer(out)
    writer.writerow([*_OWN, *versions, *(f"data.{name}" for name in names), "ref"])
    for row, cell in zip(rows, cells, strict=True):
        own = [row[name] for name in _OWN]
        writer.writerow(
            [*own, *(_text(row.get(name)) for name in versions), *(cell.get(name, "") for name in names), row["ref"]]
        )
    return out.getvalue()


def _cells(data: JsonObject, path: str) -> Iterator[tuple[str, str]]:
    """The plain fields of an object by their paths; arrays are JSON."""
    for name, value in data.items():
        if isinstance(value, dict) and value:
            yield from _cells(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", _text(value)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | Decimal) else encode_json(value).decode()


_BODIES: dict[str, Callable[[Answer], str]] = {"json": Answer.text, "ndjson": _ndjson, "csv": _csv}
