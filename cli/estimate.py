"""The commands that need no account: they check, simulate and price a configuration."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table as Grid

from bill.rolled import list_rollups
from bill.timeline import Day
from bill.timeline import simulate as simulate_days
from bill.workload import Workload, spread_by_hour
from bill.workload_bill import compute_whole_bill
from cli import clock
from cli.advice import describe_stream, warn_about
from cli.billing import describe_date, print_bills, refuse_load
from cli.common import DEFAULT, USAGE, AsJson, ConfigFile, Region, app, fail, out, print_json, read_config
from cli.completion import complete_stream_of_file
from cli.timeline import draw_timeline
from cli.workload import choose_stream, read_shares, read_workload
from tidetable.config import Config, Stream
from tidetable.config.check_copies import check_own_region, check_regions
from tidetable.config.demand import describe_tables, list_demands
from tidetable.config.regions import advise_offer, check_offer
from tidetable.errors import ConfigError

Rate = Annotated[float | None, typer.Option(help="Events per second.", min=0)]
Night = Annotated[float | None, typer.Option(help="Events per second from 23 to 7 o'clock UTC, if different.", min=0)]
Size = Annotated[int, typer.Option("--bytes", help="Bytes of an event as stored.", min=1, max=400_000)]
Batch = Annotated[int, typer.Option(help="Events per request.", min=1, max=10_000)]
Reads = Annotated[float, typer.Option(help="Queries of recent events per second.", min=0)]
PackedSize = Annotated[
    float | None,
    typer.Option(
        "--packed-bytes", help="Bytes of an event in a pack, of a stream with packs; default: a quarter.", min=1
    ),
]
ReadSize = Annotated[int, typer.Option("--read-bytes", help="Bytes that a query reads.", min=1)]
OldReads = Annotated[float, typer.Option("--old-reads", help="Queries per second of events older than a day.", min=0)]
ArchiveDays = Annotated[
    int | None,
    typer.Option("--archive-days", help="For how many days archives are kept; default: as the file says.", min=1),
]
InIndex = Annotated[
    list[str] | None,
    typer.Option("--in-index", help="The share of events in an index, such as by_error=0.01; by default all."),
]


SeriesPerRequest = Annotated[
    int | None,
    typer.Option(
        help="Series per request: packs of a stream by series hold one series each; default: each event has its own.",
        min=1,
        max=10_000,
    ),
]
SecondsPerRequest = Annotated[
    float,
    typer.Option(
        help="Seconds from the oldest to the newest event of a request: a pack holds events of one span.", min=0
    ),
]
Groups = Annotated[int, typer.Option(help="Groups, such as series, in a bucket of a rollup.", min=1, max=100_000)]


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="The configuration.", envvar="TIDETABLE_CONFIG")] = DEFAULT,
    region: Region = None,
    as_json: AsJson = False,
) -> None:
    """Check a configuration: its mistakes (exit code 1), or its streams, the tables that they need, and warnings.

    With a Region it also checks what that Region does not offer.
    """
    config = read_config(file)
    if region:
        _check_region(config, region)
    tables = {demanded.stream: demanded.tables for demanded in list_demands(config)}
    warnings = [*warn_about(config), *(advise_offer(config, region) if region else ())]
    if as_json:
        print_json({"configuration": str(file), "tables": tables, "warnings": warnings})
        return
    out.print(f"configuration: {file}, streams: {', '.join(config.streams)}", markup=False, soft_wrap=True)
    for name, stream in config.streams.items():
        out.print(f"  {name}: {describe_stream(stream)}; up to {tables[name]:,} tables", markup=False, soft_wrap=True)
    out.print(describe_tables(config), markup=False, soft_wrap=True)
    for warning in warnings:
        out.print(f"warning: {warning}", style="yellow", markup=False, soft_wrap=True)


def _check_region(config: Config, region: str) -> None:
    """End the command if the Region does not offer what the configuration needs."""
    if unknown := list(check_regions("--region", [region])):
        fail(unknown[0], USAGE)
    if problems := [*check_offer(config, region), *check_own_region(config, region)]:
        fail(str(ConfigError(problems)))


@app.command()
def simulate(
    config: ConfigFile = DEFAULT,
    days: Annotated[int, typer.Option(help="How many days.", min=1, max=3660)] = 90,
    every: Annotated[int, typer.Option(help="Show every n-th day.", min=1)] = 7,
    svg: Annotated[Path | None, typer.Option(help="Draw each stream into this folder.")] = None,
    rate: Rate = None,
    night: Night = None,
    size: Size = 1000,
    batch: Batch = 100,
    reads: Reads = 1.0,
    read_bytes: ReadSize = 8192,
    groups: Groups = 100,
    series_per_request: SeriesPerRequest = None,
    seconds_per_request: SecondsPerRequest = 1.0,
    as_json: AsJson = False,
) -> None:
    """Show what the configuration does over time, from an empty start: tables, units of tables and indexes, and the
    price.

    With --rate each stream gets that workload, and its events, queries and storage are priced, too. The price of a
    stream with packs depends on --batch, --series-per-request and --seconds-per-request, because the events of a
    request share packs. The price of a rollup depends on
    --groups. The column "late" counts the open tables that are lowered for late events, by the ladder's step for them.
    """
    start = clock.read_clock().replace(hour=12, minute=0, second=0, microsecond=0)
    streams = read_config(config).streams
    lives = {}
    for name, stream in streams.items():
        workload = None
        if rate is not None:
            source = streams[stream.source] if stream.source else stream
            workload = Workload(spread_by_hour(rate, night), size, reads, read_bytes, 0.0, source, batch, groups=groups)
            workload = workload.shape_requests(series_per_request, seconds_per_request)
            if stream.source:
                workload = next(rollup.workload for rollup in list_rollups(workload) if rollup.name == name)
        lives[name] = list(simulate_days(stream, start, days, workload))
    if svg is not None:
        svg.mkdir(parents=True, exist_ok=True)
        for name, life in lives.items():
            (svg / f"{name}.svg").write_text(draw_timeline(name, life))
    if as_json:
        print_json({name: [day.document() for day in life] for name, life in lives.items()})
        return
    on_demand = {name for name, stream in streams.items() if _has_on_demand(stream)}
    for name, life in lives.items():
        out.print(_draw_life(f"{name}{', on demand' if name in on_demand else ''}", life, every))
    if rate is not None:
        out.print("DynamoDB's bill: units of tables and indexes, events, queries, storage; `cost` prices the rest")
        out.print(describe_date(), soft_wrap=True)
        return
    out.print(
        "provisioned units of tables and indexes only: to price events, queries and storage, add --rate, or use `cost`"
    )
    out.print(describe_date(), soft_wrap=True)
    if on_demand:
        out.print(
            "an on-demand table costs what its events and queries take: add --rate, --bytes and --reads to price it"
        )


def _draw_life(title: str, life: list[Day], every: int) -> Grid:
    """Draw a table of every n-th day of a stream, and of the last day."""
    grid = Grid(title=title)
    headings = (
        "day",
        "tables",
        "ahead",
        "open",
        "late",
        "closed",
        "write units",
        "read units",
        "infrequent",
        "$ a day",
    )
    for heading in headings:
        grid.add_column(heading, justify="right")
    for number, day in enumerate(life):
        if number % every == 0 or number == len(life) - 1:
            cells = (number, day.tables, day.ahead, day.open, day.late, day.closed, day.write, day.read, day.infrequent)
            grid.add_row(*map(str, cells), f"{day.dollars:.2f}")
    return grid


@app.command()
def cost(
    file: Annotated[
        Path,
        typer.Argument(help="A configuration, or a folder with tidetable.toml and workload.toml, as bench/workload."),
    ] = DEFAULT,
    stream: Annotated[
        str | None, typer.Option(help="The stream, if there are several.", autocompletion=complete_stream_of_file)
    ] = None,
    rate: Rate = None,
    night: Night = None,
    size: Size = 1000,
    batch: Batch = 100,
    reads: Reads = 1.0,
    read_bytes: ReadSize = 8192,
    old_reads: OldReads = 0.0,
    archive_days: ArchiveDays = None,
    in_index: InIndex = None,
    packed_bytes: PackedSize = None,
    groups: Groups = 100,
    series_per_request: SeriesPerRequest = None,
    seconds_per_request: SecondsPerRequest = 1.0,
    as_json: AsJson = False,
) -> None:
    """Price a workload line by line, and against one provisioned and one on-demand table.

    --rate is the number of incoming events per second. If the configuration cannot take the load, the command names the
    first wall instead of a price, and its exit code is 1.
    """
    try:
        if file.is_dir():
            configured = read_config(file / "tidetable.toml")
            workload = replace(read_workload(file, configured), batch=batch, archive_days=archive_days)
        elif rate is None:
            fail(f"add --rate, the events per second, such as: cost {file} --rate 50 --bytes 500 --batch 100", USAGE)
        else:
            configured = read_config(file)
            policy, hours = choose_stream(configured, stream), spread_by_hour(rate, night)
            workload = Workload(hours, size, reads, read_bytes, old_reads, policy, batch, archive_days)
            workload = replace(workload, by_key=configured.api.by_key, keeping=configured.find_keeping(policy.name))
        shares = read_shares(workload.stream, in_index or [])
        workload = replace(workload, index_shares=shares, groups=groups)
        workload = workload.shape_requests(series_per_request, seconds_per_request)
        if packed_bytes is not None:
            workload = replace(workload, packed_bytes=packed_bytes)
    except ConfigError as error:
        fail(f"{file}: {error}")
    except (OSError, TypeError, ValueError) as error:
        fail(f"{file}: {error}", USAGE if isinstance(error, ValueError) else 1)
    bill = compute_whole_bill(workload, configured)
    if bill.is_impossible:
        refuse_load(workload, bill, as_json=as_json)
    if as_json:
        print_json(bill.document())
    else:
        print_bills(workload, bill)


def _has_on_demand(stream: Stream) -> bool:
    return any(stream.capacity.on_demand(step) for step in stream.capacity.ladder)
