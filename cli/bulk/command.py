"""The steps of an import into the archive: read and sort the files, look at the periods, merge them one after another.

Nothing is written into the bucket before all files are read. The command may be stopped anywhere, and goes on when it is
called again.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from cli.bulk.inputs import Input, open_input
from cli.bulk.judge import Judge, Periods, Refusal
from cli.bulk.merge import OLD, PARTS, ImportRefused, Merged, Merger
from cli.bulk.progress import PeriodProgress, Progress, ProgressFolder
from cli.bulk.runs import MEMORY, Runs
from cli.errors import CommandError
from cli.journal import encode_refusal
from cli.sources import Columns, Row, open_source
from tidetable.archive.importing import ImportOrder
from tidetable.config import Stream
from tidetable.times import from_text

# So many rows are judged together.
_TOGETHER = 5_000
_RUNS, _FETCHED = "runs", "fetched"
# A run of an import calls it with what it does, how far it is, and how far it will get.
Show = Callable[[str, int, int], None]


class Plan(NamedTuple):
    """What an import would do with a period; ``problem`` says why it cannot."""

    label: str
    rows: int
    archived: int
    problem: str


class Outcome(NamedTuple):
    """What an import has done: the periods that it merged, and those that it could not, each with the reason."""

    merged: Mapping[str, Merged]
    refused: Mapping[str, str]


@dataclass(slots=True)
class ArchiveImport:
    """An import into the archive. ``stops`` says that it ends at the first refused row, or refused period.

    ``keeps`` is False in a dry run: then the rows are only judged and counted. ``tell`` is called with each period that is
    merged.
    """

    stream: Stream
    inputs: Sequence[Input]
    columns: Columns
    kind: str | None
    folder: ProgressFolder
    progress: Progress
    merger: Merger
    open_s3: Callable[[], Any]
    stops: bool
    keeps: bool = True
    memory: int = MEMORY
    show: Show = lambda *_: None
    tell: Callable[[str], object] = lambda _: None
    remarks: list[str] = field(default_factory=list)
    first_refusals: list[str] = field(default_factory=list)

    def read_files(self) -> Runs:
        """Read the files that are not read yet, judge their rows, and sort the items of each period into runs."""
        entries = self.merger.catalog.entries(self.stream.name, consistent=True)
        periods, progress = Periods(self.stream, entries), self.progress
        if self.keeps:
            self.folder.trim_refusals(progress)
        judge = Judge(self.stream, periods, from_text(progress.at))
        extents = {label: own.extents for label, own in progress.periods.items()}
        runs = Runs(self.folder.path / _RUNS, extents, self.memory)
        for number, own in enumerate(self.inputs[progress.files :], progress.files):
            with open_input(own, self.folder.path / _FETCHED, self.open_s3) as path:
                source = open_source(path, self.kind, self.columns)
                for rows in _list_chunks(source.read(), progress.rows):
                    self._take(rows, own, judge, periods, runs)
                    self.show(f"reading {own.name}", rows[-1].read, source.total)
                self.remarks += source.list_remarks()
            progress.files, progress.rows = number + 1, 0
            self._save(runs)
        return runs

    def _take(self, rows: Sequence[Row], own: Input, judge: Judge, periods: Periods, runs: Runs) -> None:
        found, refusals = judge.judge_rows(rows)
        if refusals:
            self._note_refusals(refusals, own)
        is_full = False
        for period, items in found.items():
            known = self.progress.periods.get(period.label)
            if known is None:
                known = self.progress.periods[period.label] = PeriodProgress(periods.find_layout(period))
            elif known.layout != periods.find_layout(period):
                raise CommandError(f"the layout of period {period.label} has changed meanwhile: --again imports anew")
            known.rows += items.rows
            known.oldest = min(known.oldest or items.oldest, items.oldest)
            known.newest = max(known.newest, items.newest)
            if self.keeps:
                is_full |= runs.add(period.label, items.keys, items.texts)
        self.progress.rows = rows[-1].number + 1
        if is_full:
            self._save(runs)

    def _note_refusals(self, refusals: Sequence[Refusal], own: Input) -> None:
        for row, code, detail in refusals:
            self.progress.refused[code] = self.progress.refused.get(code, 0) + 1
            if len(self.first_refusals) < 10:
                self.first_refusals.append(f"{own.name}, row {row.number:,}: {code}: {detail}")
        if self.stops:
            raise CommandError(
                f"{self.first_refusals[0]}. Nothing was imported; --on-error skip leaves such rows out,"
                " --dry-run counts them"
            )
        if self.keeps:
            lines = [encode_refusal(row.number, code, detail, b"", row.text) for row, code, detail in refusals]
            self.folder.note_refusals(self.progress, b"".join(lines))

    def _save(self, runs: Runs) -> None:
        """Write the items in memory, and then the progress that names them."""
        if not self.keeps:
            return
        runs.spill()
        for label, extents in runs.extents.items():
            self.progress.periods[label].extents = extents
        self.folder.save(self.progress)

    def plan_periods(self) -> list[Plan]:
        """Ask for each period that is not done if it takes an import; the oldest comes first."""
        plans, labels = list[Plan](), self._list_left()
        archived = {
            entry.period.label: entry.archive.events
            for entry in self.merger.catalog.entries(self.stream.name, consistent=True)
            if entry.archive is not None
        }
        for number, label in enumerate(labels):
            self.show(f"looking at {label}", number, len(labels))
            answer = self.merger.finish(self.stream.name, label, ImportOrder())
            problem = "" if answer["state"] == "ready" else answer["reason"]
            plans.append(Plan(label, self.progress.periods[label].rows, archived.get(label, 0), problem))
        return plans

    def _list_left(self) -> list[str]:
        known = self.progress.periods
        return sorted((label for label in known if not known[label].done), key=lambda label: known[label].oldest)

    def merge_periods(self, runs: Runs) -> Outcome:
        """Merge the periods that are not done, the oldest first."""
        merged, refused, labels = dict[str, Merged](), dict[str, str](), self._list_left()
        for number, label in enumerate(labels):
            self.show(f"merging {label}", number, len(labels))
            known = self.progress.periods[label]
            try:
                merged[label] = self.merger.merge_period(label, runs, known)
            except ImportRefused as error:
                refused[label] = str(error)
                continue
            known.done = True
            self.folder.save(self.progress)
            self.tell(label)
            runs.remove([label])
        return Outcome(merged, refused)

    def end(self) -> None:
        """Note that the import is done, and remove the files that it does not need any more."""
        self.progress.is_done = True
        self.folder.save(self.progress)
        for name in (_RUNS, _FETCHED, PARTS, OLD):
            shutil.rmtree(self.folder.path / name, ignore_errors=True)


def _list_chunks(rows: Iterator[Row], begin: int) -> Iterator[list[Row]]:
    """Yield the rows of a file from the number ``begin`` on, some at a time."""
    left = (row for row in rows if row.number >= begin)
    while chunk := list(islice(left, _TOGETHER)):
        yield chunk
