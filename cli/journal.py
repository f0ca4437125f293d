"""The progress of an import, in a file beside the imported file, so that the import can go on after an interruption."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any

import msgspec

# A file is recognized by its size, and by this many bytes at its beginning and at its end.
_SAMPLE = 1 << 20


class JournalError(Exception):
    """The import cannot go on from the journal; the message says what to do."""


@dataclass
class Progress:
    """The content of the journal's file. All rows below ``rows`` are settled. ``refused`` counts rows by their code.

    ``refusals`` is the name of the file of this import's refused rows, empty before the first of them.
    """

    file: str
    task: dict[str, Any]
    rows: int = 0
    stored: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    is_done: bool = False
    refusals: str = ""


class Journal:
    """The progress of one import. Safe for the client's threads.

    Rows are settled in any order. After an interruption, all rows from the first unsettled row on are sent again. That
    is harmless: a row has a time, and an id or the hash of its content, so the same event is written again.
    """

    def __init__(self, source: Path, path: Path, task: dict[str, Any], *, anew: bool) -> None:
        self._path = path
        self._source_name = source.name
        self._lock = Lock()
        self._waiting: dict[int, tuple[int, bytes]] = {}
        self._next_row = 0
        with _name_failure(source, "read"):
            fingerprint = fingerprint_file(source)
        self.progress = Progress(fingerprint, task)
        if not anew and path.exists():
            with _name_failure(path, "read"):
                self.progress = self._load_progress(fingerprint, task)
        self._next_row = self.progress.rows
        with _name_failure(self.refusals):
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

    @property
    def refusals(self) -> Path:
        """The file of this import's refused rows; it does not exist before the first of them."""
        return self._path.with_name(self.progress.refusals or f"{self._source_name}.refused.ndjson")

    def expect(self, row: int, index: int, text: bytes = b"") -> None:
        """Note that the row was handed to the client as its event ``index``. ``text`` is the row as the file has it."""
        with self._lock:
            self._waiting[index] = row, text
            self._next_row = row + 1

    def skip(self, row: int) -> None:
        """Note that a row is settled without being sent."""
        with self._lock:
            self._next_row = row + 1

    def find_row(self, index: int) -> tuple[int, bytes]:
        """Find the row of an event that is not settled, and the row's text."""
        with self._lock:
            return self._waiting[index]

    def settle(self, indexes: list[int]) -> None:
        """Note that the events are stored, or are among the refusals."""
        with self._lock:
            for index in indexes:
                self._waiting.pop(index, None)
            # Rows are handed out in order, so the first waiting row is the lowest.
            self.progress.rows = next((row for row, _ in self._waiting.values()), self._next_row)
            self._save_progress()

    def note_refusal(self, row: int, code: str, detail: str, event: bytes, text: bytes) -> None:
        """Keep a refused row in the file of refusals: its event as JSON, if it has one, and its text."""
        line = encode_refusal(row, code, detail, event, text)
        with self._lock:
            if not self.progress.refusals:
                self._make_refusals()
            with _name_failure(self.refusals), self.refusals.open("ab") as file:
                file.write(line)
            self.progress.refused[code] = self.progress.refused.get(code, 0) + 1

    def finish(self) -> None:
        """Note that every row is settled."""
        with self._lock:
            self.progress.rows, self.progress.is_done = self._next_row, True
            self._save_progress()

    def _save_progress(self) -> None:
        """Replace the file in one step, so that an interruption leaves either the old or the new file."""
        new = self._path.with_name(f"{self._path.name}.new")
        with _name_failure(self._path):
            new.write_text(json.dumps(asdict(self.progress), indent=1))
            new.replace(self._path)

    def _make_refusals(self) -> None:
        """Make the file of this import's refused rows, beside those of earlier imports: nobody can make these rows again
        from a file that has changed since.
        """
        for number in count(1):
            suffix = "" if number == 1 else f".{number}"
            path = self._path.with_name(f"{self._source_name}.refused{suffix}.ndjson")
            with _name_failure(path), suppress(FileExistsError):
                path.touch(exist_ok=False)
                self.progress.refusals = path.name
                break
        # Saved before the first row is written, so that an interrupted import goes on with its own file.
        try:
            self._save_progress()
        except JournalError:
            path.unlink()
            self.progress.refusals = ""
            raise

    def _trim_refusals(self) -> None:
        """Remove the refusals of rows that will be sent again, and count the results of the other rows."""
        mine = self.progress.refusals and self.refusals.exists()
        lines = self.refusals.read_bytes().splitlines(keepends=True) if mine else []
        refusals = [
            (refusal.code, line)
            for line in lines
            if (refusal := _read_refusal(line)) is not None and refusal.row < self.progress.rows
        ]
        if len(refusals) < len(lines):
            new = self.refusals.with_name(f"{self.refusals.name}.new")
            new.write_bytes(b"".join(line for _, line in refusals))
            new.replace(self.refusals)
        self.progress.refused = dict(Counter(code for code, _ in refusals))
        self.progress.stored = self.progress.rows - len(refusals)


class _Refusal(msgspec.Struct):
    """A line of the refusals, as far as the journal reads it. The other members stay as they were written."""

    row: int
    code: str


def encode_refusal(row: int, code: str, detail: str, event: bytes, text: bytes) -> bytes:
    """Encode a line of the refusals. Its event keeps its digits, because it is not decoded."""
    line: dict[str, Any] = {"row": row, "code": code, "detail": detail}
    if event:
        line["event"] = msgspec.Raw(event)
    if text:
        line["text"] = shown = text.decode(errors="backslashreplace")
        if shown.encode() != text:
            line["base64"] = b64encode(text).decode()
    return msgspec.json.encode(line) + b"\n"


def _read_refusal(line: bytes) -> _Refusal | None:
    """Read a line of the refusals; None if the line was cut off.

    Then its row is not settled, because the line is written first.
    """
    if not line.endswith(b"\n"):
        return None
    try:
        return msgspec.json.decode(line, type=_Refusal)
    except msgspec.DecodeError:
        return None


@contextmanager
def _name_failure(path: Path, verb: str = "written") -> Iterator[None]:
    """Turn an error of the system, such as that of a full disk, into JournalError."""
    try:
        yield
    except OSError as error:
        remedy = "" if verb == "read" else ". No row is lost: the same command goes on when it can be written"
        raise JournalError(f"{path} cannot be {verb}: {error.strerror or error}{remedy}") from error


def fingerprint_file(path: Path) -> str:
    """Compute a hash that shows if a file has changed, without reading the whole file."""
    size = path.stat().st_size
    digest = hashlib.sha256(str(size).encode())
    with path.open("rb") as file:
        digest.update(file.read(_SAMPLE))
        file.seek(max(size - _SAMPLE, 0))
        digest.update(file.read(_SAMPLE))
    return digest.hexdigest()
