"""Read CSV with a header. No row is lost or changed in silence: a damaged row is refused with its reason and its text.

The reader of the standard library joins lines if a quote is not closed. So each row keeps the lines that it was read
from.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from cli.sources.cells import CellTypes, convert_cells
from cli.sources.columns import Columns
from cli.sources.row import Row, SourceError, make_row, open_inflated

# More characters than an event can have: 2.5 MB of JSON.
_MOST_CHARACTERS = 5_000_000
# A blank between a separator and a quote. To the reader, the quote then is a part of the cell's text.
_BLANK_QUOTE = re.compile(r'(?:^|,)[ \t]+"', re.MULTILINE)
# A byte that was not read as UTF-8: it became a lone surrogate.
_FOREIGN = re.compile("[\udc80-\udcff]")
_EXPLAIN_BLANK = "a blank stands before the quote of a cell, which is a part of the cell's text then: remove the blank"


class _Lines:
    """The lines of a text. ``take`` returns the lines since the last call, ``begin`` is the number of their first."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines, self._taken = iter(lines), list[str]()
        self._count = 0
        self.begin = 1

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self._taken.append(line)
            self._count += 1
            yield line

    def take(self) -> list[str]:
        """Return the lines that were read since the last call."""
        lines, self._taken = self._taken, []
        self.begin = self._count - len(lines) + 1
        return lines


class CsvFile:
    """A file of CSV, and the types of the cells that were read from it."""

    def __init__(self, path: Path, mapping: Columns) -> None:
        self._path, self._mapping = path, mapping
        self._types = CellTypes()

    def list_remarks(self) -> list[str]:
        """List the columns in which some cells became numbers and others stayed text."""
        return self._types.list_mixed()

    def read(self) -> Iterator[Row]:
        """Read the rows. SourceError has the line of a damage after which rows cannot be told apart."""
        self._types = CellTypes()
        with open_inflated(self._path) as (raw, stream):
            lines = _Lines(TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline=""))
            csv.field_size_limit(_MOST_CHARACTERS)
            cells = csv.reader(lines, strict=True)
            names = self._read_header(cells, lines)
            for number, (row, text, problem) in enumerate(self._read_cells(cells, lines)):
                make = partial(self._make_event, names, row, text, problem)
                yield make_row(number, raw.tell(), "".join(text).encode(errors="surrogateescape").rstrip(b"\r\n"), make)

    def _read_header(self, cells: Iterator[list[str]], lines: _Lines) -> list[str]:
        """Read the names of the columns; SourceError if they cannot be the names of fields."""
        names, text = list[str](), ""
        try:
            while not text.strip() and (row := next(cells, None)) is not None:  # blank lines before the header
                names, text = row, "".join(lines.take())
        except csv.Error as error:
            lines.take()
            raise SourceError(f"{self._path}, line {lines.begin}: the header cannot be read: {error}") from error
        names = [name if name.startswith("data.") else name.strip() for name in names]
        if (problem := self._find_problem(names, text)) is not None:
            raise SourceError(f"{self._path}, line {lines.begin}: {problem}")
        return names

    def _find_problem(self, names: Sequence[str], text: str) -> str | None:
        """Return why a header cannot be used; None if it can."""
        if _FOREIGN.search(text) or "\0" in text:
            return "the header is not text in UTF-8: convert the file with iconv -t UTF-8"
        if len(names) == 1 and (separator := next((sign for sign in ";\t|" if sign in text), None)) is not None:
            return f"the header has one column with {separator!r}: the separator of CSV is a comma"
        if _BLANK_QUOTE.search(text) and any(_is_quoted(name) for name in names):
            return _EXPLAIN_BLANK
        for place, name in enumerate(names):
            if name and name in names[:place]:
                return f"two columns are called {name!r}: rename one"
        missing = [name for name in self._mapping.text if name not in names]
        return f"--text {missing[0]}: the file has no such column" if missing and names else None

    def _read_cells(
        self, cells: Iterator[list[str]], lines: _Lines
    ) -> Iterator[tuple[list[str], list[str], str | None]]:
        """Read rows, each with its lines, and with the reason if it is not CSV."""
        while True:
            try:
                row, problem = next(cells), None
            except StopIteration:
                return
            except csv.Error as error:
                row, problem = [], str(error)
            text = lines.take()
            if (problem is not None and len(text) > 1) or problem == "unexpected end of data":
                raise SourceError(
                    f"{self._path}, line {lines.begin}: a quote is not closed in the row that begins here ({problem}): "
                    "correct the file. The rows before it are read"
                )
            if problem is not None or "".join(text).strip():
                yield row, text, problem and f"line {lines.begin} is not CSV: {problem}"

    def _make_event(
        self, names: Sequence[str], row: Sequence[str], text: Sequence[str], problem: str | None
    ) -> dict[str, Any]:
        if problem is not None:
            raise ValueError(problem)
        self._check_text(names, text)
        if len(row) != len(names):
            raise ValueError(f"the row has {len(row)} cells, but the header has {len(names)} columns")
        if _BLANK_QUOTE.search("".join(text)) and any(cell[:1] in " \t" and _is_quoted(cell) for cell in row):
            raise ValueError(_EXPLAIN_BLANK)
        values = convert_cells(names, row, {*self._mapping.names, *self._mapping.text, "series", "id", "time"})
        event = self._mapping.make_event(values)
        self._types.count(values, names)
        return event

    def _check_text(self, names: Sequence[str], text: Sequence[str]) -> None:
        whole = "".join(text)
        if _FOREIGN.search(whole):
            raise ValueError("the row is not text in UTF-8: convert the file with iconv -t UTF-8")
        if "\0" in whole:
            raise ValueError("the row has a NUL byte")
        if any(self._is_row(names, line) for line in text[1:]):
            raise ValueError("a cell holds lines that are rows themselves: a quote may not be closed there")

    def _is_row(self, names: Sequence[str], line: str) -> bool:
        """True if a line within a quoted cell would be an event by itself."""
        try:
            (row,) = csv.reader([line], strict=True)
            if len(row) != len(names) or len(names) < 2:
                return False
            self._mapping.make_event(convert_cells(names, row, {*names}))
        except (ValueError, ArithmeticError, csv.Error):
            return False
        return True


def _is_quoted(cell: str) -> bool:
    plain = cell.strip(" \t")
    return len(plain) > 1 and plain[0] == plain[-1] == '"'
