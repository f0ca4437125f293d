"""The command that imports a file."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from cli import clock
from cli.archive_import import import_into_archive
from cli.common import USAGE, app, err, fail, find_account, print_json, say, try_config, warn
from cli.completion import complete_target
from cli.connection import open_client
from cli.journal import Journal, JournalError
from cli.options import DEFAULT, ApiTarget, AsJson, ConfigFile
from cli.rehearsal import Rehearsal
from cli.sources import Columns, Row, Source, SourceError, open_source
from tidetable.problems import describe_unknown_stream
from tidetable_client import Client, Failure, Policy, Settled, TidetableError

# The API refuses single events with these codes. Any other code ends the import, and its events are sent by the next run.
_OF_EVENTS = frozenset({"invalid", "too_old", "too_new", "too_large", "forbidden_series"})
# The number of refused rows that a dry run shows.
_SHOWN = 10


@app.command("import")
def import_file(
    target: ApiTarget,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="NDJSON, CSV or Parquet; NDJSON and CSV may be compressed (.gz). With --to archive, several files, and"
            " s3://BUCKET/PREFIX.",
        ),
    ],
    stream: Annotated[str, typer.Option(help="The stream that gets the events.", autocompletion=complete_target)],
    to: Annotated[str, typer.Option(help="api, or archive: straight into the archive, without tables.")] = "api",
    kind: Annotated[
        str | None, typer.Option("--format", help="ndjson, csv or parquet; by default, FILE's name says it.")
    ] = None,
    series: Annotated[str | None, typer.Option(help="The column of the series, or =TEXT for every row.")] = None,
    time: Annotated[str | None, typer.Option(help="The column of the time.")] = None,
    id: Annotated[str | None, typer.Option(help="The column of the id.")] = None,
    time_unit: Annotated[
        str | None, typer.Option(help="The unit of times that are numbers: s, ms, us, ns; by default ms.")
    ] = None,
    time_format: Annotated[
        str | None, typer.Option(help="The form of times, as for Python's strptime, such as %d/%m/%Y.")
    ] = None,
    utc: Annotated[bool, typer.Option("--utc", help="Read times without an offset as UTC.")] = False,
    text: Annotated[list[str] | None, typer.Option(help="A column of CSV that stays text.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show which rows would be refused.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Begin with the first row, whatever was imported.")] = False,
    state: Annotated[
        Path | None,
        typer.Option(help="Where the progress is kept; by default beside FILE, or with --to archive in STREAM.import."),
    ] = None,
    on_error: Annotated[
        str, typer.Option(help="With --to archive: stop before anything is imported, or skip what is refused.")
    ] = "stop",
    batch: Annotated[int, typer.Option(min=1, max=10_000, help="Events per request.")] = 500,
    parallel: Annotated[int, typer.Option(min=1, max=32, help="Requests at the same time; 1 keeps the order.")] = 1,
    config: ConfigFile = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Send the rows of a file. An interrupted import goes on where it was when the same command is called again.

    With --to archive, write the rows of files straight into the archives of their periods. Nothing goes through tables, so
    a period whose table is live is refused.
    """
    columns = Columns(series, time, id, time_unit, utc, tuple(text or ()), time_format)
    if to not in ("api", "archive") or (to == "api" and len(files) > 1):
        fail("--to is api, for one file, or archive, for several", USAGE)
    file = Path(files[0])
    try:
        if to == "archive":
            options: dict[str, Any] = {"state": state, "on_error": on_error, "dry_run": dry_run, "again": again}
            import_into_archive(find_account(target), files, stream, columns, kind, **options, as_json=as_json)
            return
        # Before the file is read: with a misspelled stream, every remark on its rows would mislead.
        _check_stream(stream, target)
        source = open_source(file, kind, columns)
        if dry_run:
            with open_client(target) as client:
                rehearsal = Rehearsal(client, stream, try_config(config), clock.read_clock())
            _rehearse_import(source, rehearsal, as_json=as_json)
            return
        task = {"stream": stream, "url": target.url or target.stage, "format": source.kind, "columns": repr(columns)}
        path = state or file.with_name(f"{file.name}.import.json")
        journal = Journal(file, path, task, anew=again)
        if journal.progress.is_done:
            fail(f"{file} is imported already ({path}): --again imports it once more", USAGE)
        policy = Policy(batch_events=batch, in_flight=parallel, block_for=None)
        transfer = Transfer(journal)
        with open_client(target, policy=policy, on_settled=transfer.note, on_refused=lambda _: None) as client:
            transfer.run(client, source, stream)
        transfer.report(source, as_json=as_json)
    except (SourceError, JournalError, TidetableError, ValueError) as error:
        fail(str(error))


def _check_stream(stream: str, target: ApiTarget) -> None:
    """End the command if the stage has no such stream. Every key may list its streams."""
    with open_client(target) as client:
        known = sorted(policy["stream"] for policy in client.streams())
    if stream not in known:
        fail(f"--stream: {describe_unknown_stream(stream, known)}", USAGE)


class Transfer:
    """Sends the rows of one run, and records the results."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._trouble: Failure | None = None
        self._broken: JournalError | None = None
        self._damage: SourceError | None = None

    def run(self, client: Client, source: Source, stream: str) -> None:
        """Send all rows that are not settled yet."""
        begin, index = self._journal.progress.rows, 0
        if begin:
            warn(f"going on with row {begin:,}; --again begins with the first")
        with _show_progress() as bar:
            task = bar.add_task(source.path.name, total=source.total, counts="")
            try:
                for row in source.read():
                    if self._trouble is not None or self._broken is not None:
                        break
                    if row.number >= begin and self._send_row(client, stream, row, index):
                        index += 1
                        if index % 100 == 0:
                            bar.update(task, completed=row.read, counts=self._describe_progress())
            except SourceError as error:
                self._damage = error
            client.flush()
            bar.update(task, completed=source.total, counts=self._describe_progress())
        if self._broken is not None:
            raise self._broken

    def _send_row(self, client: Client, stream: str, row: Row, index: int) -> bool:
        """Give a row to the client as its event ``index``. False if the row is refused before."""
        if row.event is None:
            self._journal.skip(row.number)
            self._journal.note_refusal(row.number, "unreadable", row.problem, b"", row.text)
            return False
        self._journal.expect(row.number, index, row.text)
        try:
            client.write(stream, row.event)
        except ValueError as error:
            # A row of Parquet has no text. Its event may have a number that is not finite.
            text = row.text or json.dumps(row.event, default=str).encode()
            self._journal.note_refusal(row.number, "invalid", str(error), b"", text)
            self._journal.settle([index])
            # The client does not count an event that it refuses, so the next row has the same index.
            return False
        return True

    def note(self, settled: Settled) -> None:
        """Record the results of an answer. The client calls this function, and would only log its errors."""
        try:
            self._record_results(settled)
        except JournalError as error:
            self._broken = self._broken or error

    def _record_results(self, settled: Settled) -> None:
        lost = {failure.index for failure in settled.failures}
        for failure in settled.failures:
            if failure.code in _OF_EVENTS:
                row, text = self._journal.find_row(failure.index)
                self._journal.note_refusal(row, failure.code, failure.detail, failure.line, text)
                lost.discard(failure.index)
            else:
                self._trouble = self._trouble or failure
        self._journal.progress.stored += len(settled.indexes) - len(settled.failures)
        self._journal.settle([index for index in settled.indexes if index not in lost])

    def report(self, source: Source, *, as_json: bool) -> None:
        """Print how many rows were stored and refused; ends the command with 1 if a row is not stored."""
        progress = self._journal.progress
        problem = self._describe_problem()
        if problem is None:
            self._journal.finish()
        refused = sum(progress.refused.values())
        if as_json:
            summary = {"rows": progress.rows, "stored": progress.stored, "refused": progress.refused}
            detail = self._trouble.detail if self._trouble else problem
            print_json(summary | {"done": progress.is_done, "problem": detail})
        else:
            say(f"{source.path}: {progress.rows:,} rows, {self._describe_progress()}")
        if refused:
            warn(f"the refused rows are in {self._journal.refusals}; no later import changes this file")
        _end_import(source, problem, refused=bool(refused))

    def _describe_problem(self) -> str | None:
        """Say why the import ended before the end of the file; None if it did not."""
        rows = f"{self._journal.progress.rows:,}"
        if self._trouble is not None:
            reason = f"{self._trouble.status} {self._trouble.code}: {self._trouble.detail}"
            return f"the import ended at row {rows}: {reason}. The same command goes on from there"
        return None if self._damage is None else f"the import ended at row {rows}: {self._damage}"

    def _describe_progress(self) -> str:
        progress = self._journal.progress
        kinds = ", ".join(f"{code} {count:,}" for code, count in sorted(progress.refused.items()))
        refused = sum(progress.refused.values())
        return f"{progress.stored:,} stored, {refused:,} refused{f' ({kinds})' if kinds else ''}"


def _rehearse_import(source: Source, rehearsal: Rehearsal, *, as_json: bool) -> None:
    codes: Counter[str] = Counter()
    rows_to_show: list[dict[str, Any]] = []
    rows, damage = 0, None
    with _show_progress() as bar:
        task = bar.add_task(f"reading {source.path.name}", total=source.total, counts="")
        try:
            for row in source.read():
                rows += 1
                problem = _judge_row(row, rehearsal)
                if problem is not None:
                    codes[problem[0]] += 1
                    if len(rows_to_show) < _SHOWN:
                        rows_to_show.append({"row": row.number, "code": problem[0], "detail": problem[1]})
                if rows % 1000 == 0:
                    bar.update(task, completed=row.read)
        except SourceError as error:
            damage = str(error)
    if as_json:
        print_json({"rows": rows, "refused": dict(codes), "first": rows_to_show, "complete": rehearsal.is_complete})
    else:
        for line in rows_to_show:
            say(f"row {line['row']:,}: {line['code']}: {line['detail']}")
        say(f"{rows:,} rows, {codes.total():,} would be refused; nothing was sent")
    if not rehearsal.is_complete:
        warn("the configuration does not have this stream: indexes and sizes were not checked")
    _end_import(source, damage, refused=bool(codes))


def _end_import(source: Source, problem: str | None, *, refused: bool) -> None:
    """Print the remarks on the file; end the command with 1 if there is a problem, or if rows were refused."""
    for remark in source.list_remarks():
        warn(remark)
    if problem:
        fail(problem)
    if refused:
        raise typer.Exit(1)


def _judge_row(row: Row, rehearsal: Rehearsal) -> tuple[str, str] | None:
    """Return the code and the reason with which a row would be refused; None if it would be stored."""
    if row.event is None:
        return "unreadable", row.problem
    verdict = rehearsal.judge_event(row.event)
    return None if verdict is None else (verdict.code, verdict.detail)


def _show_progress() -> Progress:
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn()
    return Progress(*columns, TextColumn("{task.fields[counts]}"), console=err, transient=True)
