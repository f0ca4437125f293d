"""The commands that need no account: they check and price a configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bill.compare import Proposal, compare_change, price_alternatives
from bill.prices import REGION, describe_prices
from bill.workload_bill import compute_whole_bill
from cli import clock
from cli.advice import describe_stream, warn_about
from cli.billing import print_alternatives, print_bills, print_comparison, refuse_load
from cli.common import USAGE, app, choose_streams, fail, print_json, say
from cli.completion import complete_stream_of_file
from cli.options import DEFAULT, AsJson, Region
from cli.timeline import list_lives, show_days
from cli.workload import Load
from tidetable.config import Config, load
from tidetable.config.check_copies import check_own_region, check_regions
from tidetable.config.demand import describe_tables, list_demands
from tidetable.config.regions import advise_offer, check_offer
from tidetable.errors import ConfigError
from tidetable.problems import ProblemError

Change = Annotated[
    str | None,
    typer.Option(help="Lines of tidetable.toml for this stream, such as 'pack = { span = \"1h\" }': prices them, too."),
]
Days = Annotated[
    int | None,
    typer.Option(
        help="Also show the tables of so many days from an empty start. Without --rate: of all streams, priced by their"
        " provisioned units.",
        min=1,
        max=3660,
    ),
]
Every = Annotated[int, typer.Option(help="With --days, print every n-th day.", min=1)]
Picture = Annotated[Path | None, typer.Option(help="With --days, draw each stream into this folder.")]


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="The configuration.", envvar="TIDETABLE_CONFIG")] = DEFAULT,
    region: Region = None,
    as_json: AsJson = False,
) -> None:
    """Check a configuration: its mistakes (exit code 1), or its streams, the tables that they need, and warnings.

    With a Region it also checks what that Region does not offer.
    """
    config = load(file)
    if region:
        _check_region(config, region)
    tables = {demanded.stream: demanded.tables for demanded in list_demands(config)}
    warnings = [*warn_about(config), *(advise_offer(config, region) if region else ())]
    if as_json:
        print_json({"configuration": str(file), "tables": tables, "warnings": warnings})
        return
    say(f"configuration: {file}, streams: {', '.join(config.streams)}")
    for name, stream in config.streams.items():
        say(f"  {name}: {describe_stream(stream)}; up to {tables[name]:,} tables")
    say(describe_tables(config))
    for warning in warnings:
        say(f"warning: {warning}", "yellow")


def _check_region(config: Config, region: str) -> None:
    """End the command if the Region does not offer what the configuration needs."""
    if unknown := list(check_regions("--region", [region])):
        fail(unknown[0], USAGE)
    if problems := [*check_offer(config, region), *check_own_region(config, region)]:
        fail(str(ConfigError(problems)))


@app.command()
def cost(
    given: Load,
    file: Annotated[
        Path,
        typer.Argument(
            help="A configuration, or a folder with tidetable.toml and workload.toml, as bench/workload.",
            envvar="TIDETABLE_CONFIG",
        ),
    ] = DEFAULT,
    stream: Annotated[
        str | None, typer.Option(help="The stream, if there are several.", autocompletion=complete_stream_of_file)
    ] = None,
    change: Change = None,
    days: Days = None,
    every: Every = 7,
    svg: Picture = None,
    as_json: AsJson = False,
) -> None:
    """Price a workload line by line, against one provisioned and one on-demand table, and with other settings.

    --rate is the number of incoming events per second. If the configuration cannot take the load, the command names the
    first wall instead of a price, and its exit code is 1. Once the stage runs, `advise` judges what was measured.
    """
    _check_options(change, days, svg)
    if given.rate is None and not file.is_dir():
        _show_streams(file, stream, days, every, svg, as_json=as_json)
        return
    configured = load(file / "tidetable.toml" if file.is_dir() else file)
    try:
        workload = given.make_workload(configured, stream, file if file.is_dir() else None)
    except (OSError, TypeError, ValueError) as error:
        fail(f"{file}: {error}", USAGE if isinstance(error, ValueError) else 1)
    if change is not None:
        print_comparison(_compare_change(configured, Proposal(workload, change)), as_json=as_json)
        return
    bill = compute_whole_bill(workload, configured)
    if bill.is_impossible:
        refuse_load(workload, bill, as_json=as_json)
    found, refused = price_alternatives(configured, workload, bill.dollars + bill.fixed_dollars)
    document = bill.document() | {"alternatives": found, "refused": refused} if as_json else None
    if document is None:
        print_bills(workload, bill)
        print_alternatives(found, refused)
    if days is not None:
        lives = list_lives({workload.stream.name: workload.stream}, workload, clock.read_clock(), days)
        show_days(lives, every, svg, document)
    elif document is not None:
        print_json(document)


def _check_options(change: str | None, days: int | None, svg: Path | None) -> None:
    """End the command if an option would have no effect."""
    if change is not None and days is not None:
        fail("--change compares two bills, which have no days: leave out --days", USAGE)
    if days is None and svg is not None:
        fail("--svg draws the days: add --days 90", USAGE)


def _compare_change(config: Config, proposal: Proposal) -> dict[str, Any]:
    try:
        return compare_change(config, proposal, clock.read_clock(), REGION)
    except ProblemError as error:
        fail(error.problem.detail, USAGE)


def _show_streams(
    file: Path, stream: str | None, days: int | None, every: int, svg: Path | None, *, as_json: bool
) -> None:
    """Show the days of all streams, or of one, without events."""
    if days is None:
        text = f"add --rate, the events per second, such as: cost {file} --rate 50 --bytes 500 --batch 100"
        fail(f"{text}; or --days 90, for the tables without events", USAGE)
    lives = list_lives(choose_streams(load(file).streams, stream), None, clock.read_clock(), days)
    show_days(lives, every, svg, {"prices": describe_prices()} if as_json else None)
