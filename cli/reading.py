"""The commands that read events: ``tail`` and ``query``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from cli.common import USAGE, app, fail, out, say, warn
from cli.completion import complete_series, complete_stream
from cli.connection import open_client
from cli.forms import (
    choose_form,
    make_chart,
    make_table,
    write_cell,
    write_csv,
    write_document,
    write_lines,
    write_parquet,
)
from cli.options import ApiTarget
from cli.outputs import open_stdout, replace_file
from tidetable.exact_json import encode_json
from tidetable.statistics import PLAIN, TIMES
from tidetable_client import Policy, TidetableError

# ``tail`` retries for a day, so that it survives an outage.
_PATIENT = Policy(retry_for=86_400.0)
SeriesOption = Annotated[
    list[str] | None, typer.Option(help="Only this series; may be repeated.", autocompletion=complete_series)
]
Where = Annotated[list[str] | None, typer.Option(help="A condition: mag:ge=4.5, status=new; may be repeated.")]


@app.command()
def tail(
    target: ApiTarget,
    stream: Annotated[str, typer.Argument(help="The stream to follow.", autocompletion=complete_stream)],
    series: SeriesOption = None,
    where: Where = None,
    overlap: Annotated[float, typer.Option(min=1, help="Show events that arrive up to this many seconds late.")] = 60.0,
    interval: Annotated[float, typer.Option(min=0, help="Seconds between two readings.")] = 2.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print NDJSON.")] = False,
    count: Annotated[int, typer.Option(min=0, help="End after so many events; 0 never ends.")] = 0,
) -> None:
    """Show the events of the last minute, and then each new event, until Ctrl-C."""
    shown_count = 0
    try:
        with open_client(target, policy=_PATIENT) as client:
            narrowed = {"series": series or None, "where": _read_conditions(where), "decimals": True}
            for event in client.tail(stream, overlap=overlap, interval=interval, **narrowed):
                if as_json:
                    typer.echo(encode_json(event).decode())
                else:
                    fields = " ".join(f"{name}={write_cell(value)}" for name, value in event["data"].items())
                    typer.echo(f"{event['time']} {event['series']} {event['id']} {fields}")
                shown_count += 1
                if shown_count == count:
                    return
    except (TidetableError, ValueError) as error:
        fail(str(error))
    except KeyboardInterrupt:
        return


@app.command()
def query(
    target: ApiTarget,
    stream: Annotated[str, typer.Argument(help="The stream to read.", autocompletion=complete_stream)],
    start: Annotated[
        str | None, typer.Option("--from", help="Such as -6h, today, 2026-01-31, 2026-01-31T12:00:00Z.")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", help="The end of the range.")] = None,
    tz: Annotated[
        str | None,
        typer.Option(
            metavar="ZONE", help="A time zone, such as Europe/Berlin: dates, steps of days, times of the answer."
        ),
    ] = None,
    series: SeriesOption = None,
    where: Where = None,
    order: Annotated[str | None, typer.Option(help="asc or desc.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="The most rows; 0 for all.")] = 100,
    fields: Annotated[str | None, typer.Option(help="Fields of data to show: mag,place.state.")] = None,
    latest: Annotated[bool, typer.Option("--latest", help="The latest event of each --series.")] = False,
    top: Annotated[
        str | None,
        typer.Option(metavar="INDEX|N", help="The first events of a ranking; aggregate: the N first groups."),
    ] = None,
    value: Annotated[str | None, typer.Option(help="With --top: the value by which it is partitioned.")] = None,
    stat: Annotated[str | None, typer.Option(help=f"Aggregate: {','.join(PLAIN)},p95.")] = None,
    align: Annotated[bool, typer.Option("--align", help="Aggregate: only whole steps.")] = False,
    step: Annotated[str | None, typer.Option(help="Aggregate: the length of a step, such as 1h, 1d, 1w, 1mo.")] = None,
    field: Annotated[str | None, typer.Option(help="The field to aggregate, or to draw.")] = None,
    by: Annotated[str | None, typer.Option(help="Aggregate: group by series or fields.")] = None,
    fill: Annotated[str | None, typer.Option(help="Aggregate: none, null, zero or previous for empty steps.")] = None,
    id: Annotated[list[str] | None, typer.Option(help="Only events of this id; may be repeated.")] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show what would be read and its cost; read nothing.")
    ] = False,
    form: Annotated[str | None, typer.Option(help="table, chart, csv, ndjson, json, parquet.")] = None,
    escape: Annotated[
        bool,
        typer.Option("--escape/--no-escape", help="CSV: put an apostrophe before text that a spreadsheet would run."),
    ] = True,
    file: Annotated[Path | None, typer.Option("--out", help="Write to a file; its name says the form.")] = None,
) -> None:
    """Read events, a ranking or an aggregate, and show or write them. Goes through all pages."""
    try:
        output_form = choose_form(form, file)
        # Numbers with a fraction are read as Decimal, so that every form shows all of their digits.
        shared: dict[str, Any] = {
            "start": start, "end": end, "where": _read_conditions(where), "order": order, "decimals": True,
            "fields": fields, "tz": tz,
        }  # fmt: skip
        narrowed: dict[str, Any] = {"series": series or None, "limit": limit or None}
        with open_client(target) as client:
            if latest:
                if not series or explain or id:
                    fail("--latest needs --series, and goes with neither --explain nor --id", USAGE)
                events = client.latest(stream, series, **shared).values()
                found = [event for event in events if event is not None]
                _show_rows(found, output_form, file, field, escape=escape)
                return
            is_aggregate = bool(stat or step or by)
            if top is not None and not is_aggregate:
                if id or fill:
                    fail("a ranking (--top) goes with neither --id nor --fill", USAGE)
                pages = client.top(stream, index=top, value=value, **shared, **narrowed)
            elif is_aggregate:
                statistics = {"stat": stat, "step": step, "field": field, "by": by, "fill": fill, "top": top}
                statistics["align"] = "true" if align else None
                pages = client.aggregate(stream, id=id or None, **statistics, **shared, **narrowed)
                field = stat or "count"
            else:
                if fill:
                    fail("--fill is for an aggregate: add --step and --stat", USAGE)
                pages = client.events(stream, id=id or None, **shared, **narrowed)
            if explain:
                write_document(pages.explain(), sys.stdout)
                return
            rows = pages.to_arrow(every_field=True) if output_form == "parquet" else list(pages)
            _show_rows(rows, output_form, file, field, escape=escape)
            for gap in pages.gaps:
                warn(f"not read: {gap.get('from')} to {gap.get('to')}: {gap.get('reason')}")
    except (TidetableError, ValueError) as error:
        fail(str(error))


def _show_rows(rows: Any, form: str, file: Path | None, field: str | None, *, escape: bool) -> None:
    """Print rows in a form, or write them to a file."""
    if form == "parquet" and file is not None:
        if isinstance(rows, list):
            raise ValueError("--latest shows few events: use csv or ndjson")
        with replace_file(file) as path:
            written = write_parquet(rows, path)
        warn_count(written, file)
    elif form in ("csv", "ndjson", "json"):
        if file is None:
            with open_stdout() as target:
                _write_rows(rows, form, target, escape=escape)
            return
        with replace_file(file) as path, path.open("w", newline="", encoding="utf-8") as target:
            written = _write_rows(rows, form, target, escape=escape)
        warn_count(written, file)
    elif form == "chart":
        if field is None:
            raise ValueError("a chart needs --field, or --stat for an aggregate")
        for name in field.split(","):
            if name in TIMES:
                warn(f"{name} is a time, which a chart does not draw: use --form table")
                continue
            if "," in field:
                say(name, "bold")
            out.print(make_chart(rows, name))
    else:
        out.print(make_table(rows) if rows else "no rows")


def _write_rows(rows: Any, form: str, target: IO[str], *, escape: bool) -> int:
    if form == "csv":
        return write_csv(rows, target, escape=escape)
    return write_lines(rows, target) if form == "ndjson" else write_document(rows, target)


def warn_count(count: int, file: Path) -> None:
    """Print how many rows a file has."""
    say(f"{count:,} rows in {file}")


def _read_conditions(where: list[str] | None) -> dict[str, str] | None:
    """Read conditions such as ``mag:ge=4.5`` into the client's form: ``{"mag:ge": "4.5"}``."""
    conditions = {}
    for condition in where or []:
        path, equals, value = condition.partition("=")
        if not equals or not path:
            raise ValueError(f"--where {condition}: write FIELD=VALUE or FIELD:OPERATOR=VALUE, such as mag:ge=4.5")
        conditions[path] = value
    return conditions or None
