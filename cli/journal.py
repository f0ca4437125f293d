"""The progress of an import, in a file beside the imported file, so that the import can go on after an interruption."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

# A file is recognized by its size, and by this many bytes at its beginning and at its end.
_SAMPLE = 1 << 20


class JournalError(Exception):
    """The import cannot go on from the journal; the message says what to do."""


@dataclass
class Progress:
    """The content of the journal's file. All rows below ``rows`` are settled. ``refused`` counts rows by their code."""

    file: str
    task: dict[str, Any]
    rows: int = 0
    stored: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    is_done: bool = False


class Journal:
    """The progress of one import. Safe for the client's threads.

    Rows are settled in any order. After an interruption, all rows from the first unsettled row on are sent again. That
    is harmless: a row has a time, and an id or the hash of its content, so the same event is written again.
    """

    def __init__(self, source: Path, path: Path, task: dict[str, Any], *, anew: bool) -> None:
        self._path = path
        self.refusals = path.with_name(f"{source.name}.refused.ndjson")
        self._lock = Lock()
        self._waiting: dict[int, int] = {}
        self._next_row = 0
        fingerprint = fingerprint_file(source)
        self.progress = Progress(fingerprint, task)
        if not anew and path.exists():
            self.progress = self._load_progress(fingerprint, task)
        self._next_row = self.progress.rows
        self._trim_refusals()

    def _load_progress(self, fingerprint: str, task: dict[str, Any]) -> Progress:
        try:
            progress = Progress(**json.loads(self._path.read_bytes()))
        except (ValueError, TypeError) as error:
            raise JournalError(
                f"{self._path} cannot be read: {error}. --again imports from the first row on"
            ) from error
        if progress.file != fingerprint:
            raise JournalError(
                f"the file has changed since {self._path} was written: --again imports from the first row on"
            )
        if progress.task != task:
            changed = ", ".join(name for name in task if progress.task.get(name) != task[name])
            raise JournalError(
                f"{self._path} belongs to an import with other options ({changed}): --again begins a new one"
            )
        return progress

    def expect(self, row: int, index: int) -> None:
        """Note that the row was handed to the client as its event ``index``."""
        with self._lock:
            self._waiting[index] = row
            self._next_row = row + 1

    def skip(self, row: int) -> None:
        """Note that a row is settled without being sent."""
        with self._lock:
            self._next_row = row + 1

    def find_row(self, index: int) -> int:
        """Find the row of an event that is not settled."""
        with self._lock:
            return self._waiting[index]

    def settle(self, indexes: list[int]) -> None:
        """Note that the events are stored, or are among the refusals."""
        with self._lock:
            for index in indexes:
                self._waiting.pop(index, None)
            # Rows are handed out in order, so the first waiting row is the lowest.
            self.progress.rows = next(iter(self._waiting.values()), self._next_row)
            self._save_progress()

    def note_refusal(self, row: int, code: str, detail: str, event: Any) -> None:
        """Keep a refused row in the file of refusals."""
        with self._lock:
            self.progress.refused[code] = self.progress.refused.get(code, 0) + 1
            with self.refusals.open("a") as file:
                line = {"row": row, "code": code, "detail": detail, "event": event}
                file.write(json.dumps(line, default=str) + "\n")

    def finish(self) -> None:
        """Note that every row is settled."""
        with self._lock:
            self.progress.rows, self.progress.is_done = self._next_row, True
            self._save_progress()

    def _save_progress(self) -> None:
        """Replace the file in one step, so that an interruption leaves either the old or the new file."""
        new = self._path.with_name(f"{self._path.name}.new")
        new.write_text(json.dumps(asdict(self.progress), indent=1))
        new.replace(self._path)

    def _trim_refusals(self) -> None:
        """Remove the refusals of rows that will be sent again, and count the results of the other rows."""
        lines = self.refusals.read_text().splitlines() if self.refusals.exists() else []
        refusals = [line for line in map(_read_refusal, lines) if line is not None and line["row"] < self.progress.rows]
        if refusals:
            self.refusals.write_text("".join(json.dumps(line) + "\n" for line in refusals))
        else:
            self.refusals.unlink(missing_ok=True)
        self.progress.refused = dict(Counter(line["code"] for line in refusals))
        self.progress.stored = self.progress.rows - len(refusals)


def _read_refusal(text: str) -> dict[str, Any] | None:
    """Read a line of the refusals; None if the line was cut off.

    Then its row is not settled, because the line is written first.
    """
    try:
        line: dict[str, Any] = json.loads(text)
    except ValueError:
        return None
    return line


def fingerprint_file(path: Path) -> str:
    """Compute a hash that shows if a file has changed, without reading the whole file."""
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        digest.update(file.read(_SAMPLE))
        file.seek(max(size - _SAMPLE, 0))
        digest.update(file.read(_SAMPLE))
    return digest.hexdigest()
