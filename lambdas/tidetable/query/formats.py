"""The forms of an answer: JSON, NDJSON and CSV, by ``format=`` or by Accept, with flat rows on request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from io import StringIO
from typing import Any, NamedTuple, Protocol

from tidetable.events import JsonObject
from tidetable.exact import decode_json, encode_json
from tidetable.problems import refuse
from tidetable.query.rows import escaped_bytes

FORMAT = ("format", "flat")
_TYPES = {"json": "application/json", "ndjson": "application/x-ndjson", "csv": "text/csv; charset=utf-8"}
_ACCEPTED = {"application/x-ndjson": "ndjson", "application/ndjson": "ndjson", "text/csv": "csv"}
# AWS: a Lambda answers at most 6 MB. Pages are cut well before; rows may take more room flat than they do nested.
_MOST_BYTES = 6_000_000
# What comes after everything else in a row.
_LAST = "ref"


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
    """How an answer is written; ``flat`` rows have no objects in them, but fields by their paths."""

    kind: str = "json"
    flat: bool = False


def form_of(given: Mapping[str, str], accept: str) -> Form:
    """The form asked for, or that the Accept header names first; JSON if neither says anything that is known."""
    flat = given.get("flat", "false")
    if flat not in ("true", "false"):
        raise refuse(400, "bad_parameter", "flat must be true or false")
    asked = given.get("format")
    if asked is not None:
        if asked not in _TYPES:
            raise refuse(400, "bad_parameter", f"format must be one of {', '.join(_TYPES)}")
        return Form(asked, flat == "true")
    kinds = (one.partition(";")[0].strip().lower() for one in accept.split(","))
    return Form(next((_ACCEPTED[kind] for kind in kinds if kind in _ACCEPTED), "json"), flat == "true")


def rendered(answer: Rows, form: Form) -> tuple[str, str]:
    """An answer's content type and body. Where there is no place for them, cursor and gaps are in the headers alone."""
    if form.kind == "csv":
        return _TYPES["csv"], _csv(answer)
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
    if answer.bounded and form == Form():
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


def _csv(answer: Rows) -> str:
    """A header, and a line for each row; arrays are JSON."""
    import csv  # the few who ask for it wait for it

    rows = [flattened(decode_json(text)) for text in answer.texts()]
    # The same on every page, whatever its rows have, and on one without any.
    names = list(dict.fromkeys([*answer.columns, *(name for row in rows for name in row)]))
    # Rows differ in what their data has: the ref stays at the end.
    names.sort(key=lambda name: (name == _LAST, name.startswith("data.")))
    out = StringIO()
    writer = csv.writer(out)
    writer.writerow(names)
    writer.writerows([_text(row.get(name)) for name in names] for row in rows)
    return out.getvalue()


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | Decimal) else encode_json(value).decode()
