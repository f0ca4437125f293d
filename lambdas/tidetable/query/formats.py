"""The forms of an answer: JSON, NDJSON and CSV, by ``format=`` or by Accept, with flat rows on request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from io import StringIO
from typing import Any, NamedTuple, Protocol

from tidetable.events import JsonObject
from tidetable.exact import decode_json, encode_json
from tidetable.problems import refuse
from tidetable.query.rows import escaped_bytes

FORMAT = ("format", "flat", "escape")
_TYPES = {"json": "application/json", "ndjson": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}
_ACCEPTED = {"application/x-ndjson": "ndjson", "application/ndjson": "ndjson", "text/csv": "csv"}
# AWS: a Lambda answers at most 6 MB. Pages are cut well before; rows may take more room flat than they do nested.
_MOST_BYTES = 6_000_000
# What comes after everything else in a row.
_LAST = "ref"
# What spreadsheets take for the beginning of a formula, in some languages also in its wide form; they skip white space before it.
# https://owasp.org/www-community/attacks/CSV_Injection
_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)


class Rows(Protocol):
    """An answer that is rows, and something about them."""

    @property
    def name(self) -> str:
        """What the rows are called in JSON."""
        ...

    @property
    def columns(self) -> Sequence[str]:
        """What a table of the rows has in any case."""
        ...

    @property
    def bounded(self) -> bool:
        """Whether it surely can be answered as JSON."""
        ...

    def texts(self) -> list[str]:
        """The rows, each as a JSON object."""
        ...

    def joined(self) -> str:
        """The same with commas between them."""
        ...

    def about(self) -> Mapping[str, Any]:
        """The rest of the answer."""
        ...


class Form(NamedTuple):
    """How an answer is written; ``flat`` rows have no objects in them, but fields by their paths.

    With ``escape`` no cell of CSV is a formula to a spreadsheet.
    """

    kind: str = "json"
    flat: bool = False
    escape: bool = True


def form_of(given: Mapping[str, str], accept: str) -> Form:
    """The form asked for, or that the Accept header names first; JSON if neither says anything that is known."""
    for name in ("flat", "escape"):
        if given.get(name, "true") not in ("true", "false"):
            raise refuse(400, "bad_parameter", f"{name} must be true or false")
    kind = given.get("format")
    if kind is not None and kind not in _TYPES:
        raise refuse(400, "bad_parameter", f"format must be one of {', '.join(_TYPES)}")
    if kind is None:
        accepted = (one.partition(";")[0].strip().lower() for one in accept.split(","))
        kind = next((_ACCEPTED[name] for name in accepted if name in _ACCEPTED), "json")
    return Form(kind, given.get("flat") == "true", given.get("escape") != "false")


def rendered(answer: Rows, form: Form) -> tuple[str, str]:
    """An answer's content type and body. Where there is no place for them, cursor and gaps are in the headers alone."""
    if form.kind == "csv":
        return _TYPES["csv"], _csv(answer, escape=form.escape)
    if form.kind == "json" and not form.flat:
        return _TYPES["json"], _json(answer, answer.joined())
    texts = answer.texts()
    if form.flat:
        texts = [encode_json(flattened(decode_json(text))).decode() for text in texts]
    if form.kind == "ndjson":
        return _TYPES["ndjson"], "".join([f"{text}\n" for text in texts])
    return _TYPES["json"], _json(answer, ",".join(texts))


def _json(answer: Rows, rows: str) -> str:
    return "".join(['{"', answer.name, '":[', rows, "],", encode_json(answer.about()).decode()[1:]])


def fits(answer: Rows, form: Form, body: str) -> bool:
    """Whether an answer can be given in a form."""
    if answer.bounded and form.kind == "json" and not form.flat:
        return True
    return escaped_bytes(body) + body.count("\n") <= _MOST_BYTES


def flattened(row: JsonObject) -> JsonObject:
    """A row without objects in it: their fields by their paths, the ref at the end."""
    flat = dict(_cells(row, ""))
    if _LAST in flat:
        flat[_LAST] = flat.pop(_LAST)
    return flat


def _cells(row: JsonObject, path: str) -> Iterator[tuple[str, Any]]:
    """The fields of an object by their paths, in which a name that has a dot itself is quoted: no two paths are the same."""
    for name, value in row.items():
        if "." in name or '"' in name:
            name = '"' + name.replace('"', '""') + '"'
        if isinstance(value, dict) and (value or not path):
            yield from _cells(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def _csv(answer: Rows, *, escape: bool) -> str:
    """A header, and a line for each row; arrays are JSON."""
    import csv  # the few who ask for it wait for it

    rows = [flattened(decode_json(text)) for text in answer.texts()]
    # The same on every page, whatever its rows have, and on one without any.
    names = list(dict.fromkeys([*answer.columns, *(name for row in rows for name in row)]))
    # Rows differ in what their data has: the ref stays at the end.
    names.sort(key=lambda name: (name == _LAST, name.startswith("data.")))
    out = StringIO()
    writer = csv.writer(out)
    cell = _escaped if escape else _text
    writer.writerow(map(cell, names))
    writer.writerows([cell(row.get(name)) for name in names] for row in rows)
    return out.getvalue()


def _escaped(value: Any) -> str:
    """A cell that no spreadsheet executes: text that would be a formula has an apostrophe in front, numbers are as they are."""
    text = _text(value)
    if isinstance(value, str) and text.startswith(_FORMULA) and not _NUMBER.fullmatch(text):
        return f"'{text}"
    return text


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | Decimal) else encode_json(value).decode()
