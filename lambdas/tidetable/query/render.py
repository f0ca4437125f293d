"""The forms of an answer: JSON, JSON by columns, NDJSON, CSV and Arrow.

``format=`` or the header Accept chooses; rows can be flat, and events without refs.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from io import StringIO
from math import inf
from typing import Any, NamedTuple

from tidetable.events import JsonObject
from tidetable.exact_json import decode_json, encode_json
from tidetable.ports import TableEncoder
from tidetable.problems import refuse_parameter, refuse_request
from tidetable.query.page import Answer, count_fitting_rows

_ARROW = "application/vnd.apache.arrow.stream"
_TYPES = {
    "json": "application/json",
    "columns": "application/json",
    "ndjson": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "arrow": _ARROW,
}
_ACCEPTED = {
    "application/json": "json",
    "application/x-ndjson": "ndjson",
    "application/ndjson": "ndjson",
    "text/csv": "csv",
    _ARROW: "arrow",
}
# The last field of a row, and its beginning in a row's text.
_LAST, _REF = "ref", ',"ref":"'
# The path of the members of an aggregate's group. Other rows never have this path: the fields of an event are in its
# data.
_GROUP = "group."
# For a spreadsheet, these characters begin a formula, also after white space. In some languages, their wide forms do,
# too. https://owasp.org/www-community/attacks/CSV_Injection
_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
# The forms that are tables: each row has a cell for each column.
_TABULAR = frozenset({"csv", "columns"})
# The most cells of a page of a table, rows times columns, and the most characters of the paths in the rows of a flat page. Rows
# with different fields have thousands of columns, which most rows leave empty: 10,000 rows of 35 fields of their own would
# have 3,500,000,000 cells. The path of a field repeats the names of all objects around it.
MOST_CELLS, MOST_PATHS = 2_000_000, 20_000_000
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)


class AnswerForm(NamedTuple):
    """The form of an answer.

    A ``flat`` row does not have objects: the fields of an object are fields of the row, by their paths. With ``escape``
    no spreadsheet executes a cell of CSV as a formula. Without ``refs`` events have no refs, which are half of an answer.
    """

    kind: str = "json"
    flat: bool = False
    escape: bool = True
    refs: bool = True


def choose_form(parameters: Mapping[str, str], accept: str) -> AnswerForm:
    """Choose the form that the parameters name, or the first form in the Accept header; JSON if neither names a known
    form.
    """
    for name in ("flat", "escape", "refs"):
        if parameters.get(name, "true") not in ("true", "false"):
            raise refuse_parameter(f"{name} must be true or false")
    kind = parameters.get("format")
    if kind is not None and kind not in _TYPES:
        raise refuse_parameter(f"format must be one of {', '.join(_TYPES)}")
    if kind is None:
        accepted = (media.partition(";")[0].strip().lower() for media in accept.split(","))
        kind = next((_ACCEPTED[name] for name in accepted if name in _ACCEPTED), "json")
    flat, escape, refs = parameters.get("flat"), parameters.get("escape"), parameters.get("refs")
    return AnswerForm(kind, flat == "true", escape != "false", refs != "false")


class Rendered(NamedTuple):
    """The answer, cut to the rows that its body holds, and the body with its content type.

    ``encoded`` says that the body is bytes in Base64, as a Lambda function must answer bytes. ``untyped`` counts the
    values that cannot be held by their columns, by column.
    """

    answer: Answer
    content_type: str
    body: str
    encoded: bool = False
    untyped: Mapping[str, int] = {}


def render_answer(answer: Answer, form: AnswerForm, encode_table: TableEncoder) -> Rendered:
    """Write an answer's body. Rows that do not fit in this form go to the next page, without another read.

    ``encode_table`` writes a table as Arrow's stream. Raises ProblemError if even the rows that must be on one page do
    not fit.
    """
    while True:
        flat_rows: list[JsonObject] = []
        if form.kind in _TABULAR or (form.flat and form.kind != "arrow"):
            flat_rows = _flatten_rows(answer, form)
            if len(flat_rows) < answer.count:
                answer = _cut_answer(answer, len(flat_rows))
                continue
        rendered = _write_body(answer, form, flat_rows, encode_table)
        if form.kind == "json" and not form.flat and answer.surely_fits:
            return rendered
        rows = answer.count
        fitting = count_fitting_rows(rendered.body, rows)
        if fitting >= rows:
            return rendered
        answer = _cut_answer(answer, fitting)


def _cut_answer(answer: Answer, count: int) -> Answer:
    """Cut an answer to ``count`` rows or fewer; ProblemError if its first rows must be on one page."""
    shorter = answer.cut_to(count) if count > 0 else None
    if shorter is None:
        detail = "rows that belong into one page are larger than an answer may be in this format: ask for fewer fields"
        raise refuse_request(422, "too_much", f"{detail}, or for format=ndjson")
    return shorter


def _show_texts(answer: Answer) -> list[str]:
    """Return the rows as JSON objects, with times in the zone of the answer."""
    if not answer.tz:
        return answer.list_texts()
    from tidetable.query.local import show_rows  # imported only when it is needed

    return show_rows(answer.list_texts(), answer.times, answer.tz)


def _list_texts(answer: Answer, form: AnswerForm) -> list[str]:
    """Return the rows of the form, each as a JSON object."""
    texts = _show_texts(answer)
    return texts if form.refs else list(map(_leave_out_ref, texts))


def _leave_out_ref(text: str) -> str:
    """Remove the ref of an event. Data comes before it, and no member after it holds a text like it."""
    head, found, tail = text.rpartition(_REF)
    return head + tail.partition('"')[2] if found else text


def _list_columns(answer: Answer, form: AnswerForm) -> list[str]:
    """List the columns that a table always has."""
    return [name for name in answer.columns if form.refs or name != _LAST]


def _flatten_rows(answer: Answer, form: AnswerForm) -> list[JsonObject]:
    """Make flat rows, as many as a page of this kind may have. The bounds are checked before a row is kept."""
    rows: list[JsonObject] = []
    names = dict.fromkeys(_list_columns(answer, form))
    left = MOST_PATHS
    for text in _list_texts(answer, form):
        try:
            row = flatten_row(decode_json(text), left)
        except OverflowError:
            return rows
        left -= sum(map(len, row))
        if form.kind in _TABULAR:
            names |= dict.fromkeys(row)
            if (len(rows) + 1) * len(names) > MOST_CELLS:
                return rows
        rows.append(row)
    return rows


def _write_body(answer: Answer, form: AnswerForm, flat_rows: list[JsonObject], encode_table: TableEncoder) -> Rendered:
    """Write an answer's body. CSV, NDJSON and Arrow cannot hold the cursor and the gaps: headers have them."""
    if form.kind == "arrow":
        table = answer.make_typed_table()
        columns = [column for column in table.columns if form.refs or column.name != _LAST]
        if answer.tz:
            from tidetable.query.local import name_zone  # imported only when it is needed

            columns = name_zone(columns, answer.tz)
        body = b64encode(encode_table(columns)).decode()
        return Rendered(answer, _ARROW, body, encoded=True, untyped=table.untyped)
    if form.kind == "csv":
        body = _render_csv(_name_columns(answer, form, flat_rows), flat_rows, escape=form.escape)
    elif form.kind == "columns":
        names = _name_columns(answer, form, flat_rows)
        by_name = {name: [row.get(name) for row in flat_rows] for name in names}
        body = encode_json({"columns": by_name, **answer.describe_rest()}).decode()
    elif form.kind == "json" and not form.flat and form.refs and not answer.tz:
        body = _write_json(answer, answer.list_pieces())
    else:
        texts = [encode_json(row).decode() for row in flat_rows] if form.flat else _list_texts(answer, form)
        body = (
            _write_json(answer, [",".join(texts)]) if form.kind == "json" else "".join([f"{text}\n" for text in texts])
        )
    return Rendered(answer, _TYPES[form.kind], body)


def _write_json(answer: Answer, pieces: Sequence[str]) -> str:
    # One join of all pieces, because a page has some MB, and each join copies them.
    return "".join(['{"', answer.name, '":[', *pieces, "],", encode_json(answer.describe_rest()).decode()[1:]])


def flatten_row(row: JsonObject, most: float = inf) -> JsonObject:
    """Make a row without objects: the fields of an object become fields of the row, by their paths. The ref is last.

    OverflowError if the paths have more than ``most`` characters.
    """
    flat: JsonObject = {}
    for path, value in _list_cells(row, ""):
        most -= len(path)
        if most < 0:
            raise OverflowError("the paths of a row are too long")
        flat[path] = value
    if _LAST in flat:
        flat[_LAST] = flat.pop(_LAST)
    return flat


def _list_cells(row: JsonObject, path: str) -> Iterator[tuple[str, Any]]:
    """List the fields of an object by their paths.

    A name that contains a dot is quoted, so that all paths are different. The names of a group are paths already.
    """
    for name, value in row.items():
        if path != _GROUP and ("." in name or '"' in name):
            name = '"' + name.replace('"', '""') + '"'
        if isinstance(value, dict) and (value or not path):
            yield from _list_cells(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def _name_columns(answer: Answer, form: AnswerForm, rows: list[JsonObject]) -> list[str]:
    """Name the columns of a table of flat rows, in order."""
    # The first columns are the same on every page, whatever its rows have, and even on a page without rows.
    names = list(dict.fromkeys([*_list_columns(answer, form), *(name for row in rows for name in row)]))
    # The fields of data differ from row to row: they come after the other columns, and the ref stays last.
    names.sort(key=lambda name: (name == _LAST, name.startswith("data.")))
    return names


def _render_csv(names: list[str], rows: list[JsonObject], *, escape: bool) -> str:
    """Write a header, and a line for each flat row. Arrays are written as JSON."""
    import csv  # only requests for CSV wait for the import

    out = StringIO()
    writer = csv.writer(out)
    cell = _escape_cell if escape else _render_text
    writer.writerow(map(cell, names))
    writer.writerows([cell(row.get(name)) for name in names] for row in rows)
    return out.getvalue()


def _escape_cell(value: Any) -> str:
    """Make a cell that no spreadsheet executes: a text that would be a formula gets an apostrophe before it.

    Numbers stay unchanged.
    """
    text = _render_text(value)
    if isinstance(value, str) and text.startswith(_FORMULA) and not _NUMBER.fullmatch(text):
        return f"'{text}"
    return text


def _render_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | Decimal) else encode_json(value).decode()
