"""How far an import into the archive is: a file in its folder, replaced in one step."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path

import msgspec

from cli.bulk.runs import Extent
from cli.errors import CommandError
from tidetable.layout import Layout

_NAME, _REFUSED = "progress.json", "refused.ndjson"


class PeriodProgress(msgspec.Struct):
    """The rows of a period: how many, the times of their events, the layout of their items, and where their runs are."""

    layout: Layout
    rows: int = 0
    oldest: str = ""
    newest: str = ""
    extents: list[Extent] = []
    done: bool = False


class Progress(msgspec.Struct):
    """``task`` says which files are imported, and how. All events count as accepted ``at``.

    The first ``files`` files are read, and ``rows`` rows of the next one. ``refused`` counts the refused rows by code,
    in the first ``refused_bytes`` bytes of their file.
    """

    task: Mapping[str, str]
    at: str
    files: int = 0
    rows: int = 0
    refused: dict[str, int] = {}
    refused_bytes: int = 0
    periods: dict[str, PeriodProgress] = {}
    is_done: bool = False


class ProgressFolder:
    """The folder of an import: its progress, its runs, and the file of its refused rows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.refused = path / _REFUSED

    def load(self, task: Mapping[str, str], at: str, *, anew: bool) -> Progress:
        """Load the progress, or begin a new import. CommandError if the folder belongs to another one."""
        file = self.path / _NAME
        if anew or not file.exists():
            return Progress(task, at)
        try:
            progress = msgspec.json.decode(file.read_bytes(), type=Progress)
        except msgspec.DecodeError as error:
            raise CommandError(f"{file} cannot be read: {error}. --again begins anew") from error
        if progress.task != task:
            names = [name for name in {**task, **progress.task} if progress.task.get(name) != task.get(name)]
            raise CommandError(
                f"{file} belongs to an import with other files or options ({', '.join(names[:5])}): --again begins anew,"
                " --state names another folder"
            )
        return progress

    @contextmanager
    def hold(self, progress: Progress) -> Iterator[None]:
        """Keep other commands out of the folder, which belongs to this import from now on."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "lock").open("w") as lock:
            try:
                flock(lock, LOCK_EX | LOCK_NB)
            except OSError as error:
                raise CommandError(f"another command works in {self.path}: --state names another folder") from error
            self.save(progress)
            yield

    def save(self, progress: Progress) -> None:
        """Replace the progress in one step, so that an interruption leaves either the old or the new one."""
        self.path.mkdir(parents=True, exist_ok=True)
        new = self.path / f"{_NAME}.new"
        with new.open("wb") as file:
            file.write(msgspec.json.encode(progress))
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path / _NAME)

    def trim_refusals(self, progress: Progress) -> None:
        """Remove what a killed process, or a former import, has written behind the saved progress."""
        if self.refused.exists():
            os.truncate(self.refused, progress.refused_bytes)

    def note_refusals(self, progress: Progress, lines: bytes) -> None:
        """Add lines to the file of refused rows."""
        self.path.mkdir(parents=True, exist_ok=True)
        with self.refused.open("ab") as file:
            file.write(lines)
            progress.refused_bytes = file.tell()
