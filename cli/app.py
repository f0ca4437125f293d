"""The commands. Each prints tables for people, or JSON for programs with ``--json``."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table as Grid

from cli.account import Account, AccountError, connect
from cli.bill import bills, read
from cli.status import rows
from cli.timeline import simulate as simulated
from cli.timeline import svg as timeline_svg
from tidetable.config import Config, load
from tidetable.errors import ConfigError, TidetableError
from tidetable.times import to_text

app = typer.Typer(
    help="Looks after a Tidetable stage: its period tables, their capacity, their archive.", no_args_is_help=True
)
out, err = Console(), Console(stderr=True)

# Something is to be done: `plan` says so to scripts.
PENDING = 2

Stage = Annotated[str, typer.Option(help="The deployed stage.", envvar="TIDETABLE_STAGE")]
ConfigFile = Annotated[Path, typer.Option("--config", help="The configuration.", exists=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Endpoint = Annotated[
    str | None,
    typer.Option("--endpoint-url", envvar="AWS_ENDPOINT_URL", help="An emulator's address, such as the demo's."),
]
Profile = Annotated[str | None, typer.Option(help="The profile of the AWS configuration.", envvar="AWS_PROFILE")]
Region = Annotated[str | None, typer.Option(help="The AWS Region.", envvar="AWS_REGION")]
DEFAULT = Path("tidetable.toml")


@app.command()
def status(
    stage: Stage = "dev",
    config: ConfigFile = DEFAULT,
    stream: Annotated[str | None, typer.Option(help="One stream only.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Deleted periods too.")] = False,
    as_json: AsJson = False,
    endpoint: Endpoint = None,
    profile: Profile = None,
    region: Region = None,
) -> None:
    """Show every stream's tables: state, age, capacity, size, and what each costs a month."""
    account, policies = _account(stage, endpoint, profile, region), _config(config).streams
    if stream is not None and stream not in policies:
        _fail(f"there is no stream {stream!r}; there are {', '.join(policies)}")
    now = datetime.now(UTC)
    found = [
        row
        for name, policy in policies.items()
        if stream in (None, name)
        for row in rows(policy, account.catalog, account.tables, now, all_periods=every)
    ]
    if as_json:
        _json([row.document() for row in found])
        return
    grid = Grid(title=f"stage {stage}, {to_text(now)[:16]}Z")
    for heading in (
        "stream",
        "period",
        "state",
        "age",
        "write",
        "read",
        "class",
        "items",
        "MB",
        "archived",
        "$ a month",
    ):
        grid.add_column(heading, justify="left" if heading in ("stream", "period", "state", "class") else "right")
    colours = {"open": "green", "creating": "yellow", "LOST": "bold red", "archiving": "yellow", "deleted": "dim"}
    for row in found:
        units = [_plain(units, "on demand" if row.table_class else "") for units in (row.write, row.read)]
        size = "" if row.bytes is None else f"{row.bytes / 1e6:,.1f}"
        grid.add_row(
            *(row.stream, row.period, row.state, str(row.age), *units, row.table_class or "", _plain(row.items), size),
            *(_plain(row.archived_events), f"{row.dollars:.2f}"),
            style=colours.get(row.state),
        )
    out.print(grid)
    out.print(f"{len(found)} periods, ${sum(row.dollars for row in found):,.2f} a month as they stand")


@app.command()
def plan(
    stage: Stage = "dev",
    at: Annotated[str | None, typer.Option(help="As at another time, such as 2026-12-01T00:00:00Z.")] = None,
    as_json: AsJson = False,
    endpoint: Endpoint = None,
    profile: Profile = None,
    region: Region = None,
) -> None:
    """Show what the next run would do and why. Exit code 2 if there is something to do."""
    payload = {"dry_run": True, **({"at": at} if at is not None else {})}
    report = _working("asking", lambda: _account(stage, endpoint, profile, region).run_lifecycle(**payload))
    _report(report, as_json=as_json)
    if report["actions"] or report.get("troubles"):
        raise typer.Exit(PENDING)


@app.command()
def apply(
    stage: Stage = "dev",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
    endpoint: Endpoint = None,
    profile: Profile = None,
    region: Region = None,
) -> None:
    """Run the lifecycle now, as the schedule would. Exit code 1 if something failed."""
    account = _account(stage, endpoint, profile, region)
    if not yes:
        pending = _working("planning", lambda: account.run_lifecycle(dry_run=True))
        _report(pending, as_json=False)
        if not pending["actions"]:
            return
        typer.confirm("Do this?", abort=True)
    report = _working("running", lambda: account.run_lifecycle())
    _report(report, as_json=as_json)
    if not report["healthy"]:
        raise typer.Exit(1)


@app.command()
def archive(
    stream: Annotated[str, typer.Argument(help="The stream.")],
    period: Annotated[str, typer.Argument(help="The period's label, such as 2026-01-31.")],
    stage: Stage = "dev",
    as_json: AsJson = False,
    endpoint: Endpoint = None,
    profile: Profile = None,
    region: Region = None,
) -> None:
    """Archive a closed period now, before it expires. Its table stays until the lifecycle deletes it."""
    account = _account(stage, endpoint, profile, region)
    answer = _working(f"archiving {stream} {period}", lambda: account.archive(stream, period))
    while answer["state"] == "archiving":
        so_far = f"archiving {stream} {period}: {answer['events']:,} events are archived and verified"
        answer = _working(so_far, lambda: account.archive(stream, period))
    _json(answer) if as_json else out.print(f"{answer['stream']} {answer['period']} is {answer['state']}")


@app.command()
def restore(
    stream: Annotated[str, typer.Argument(help="The stream.")],
    period: Annotated[str, typer.Argument(help="The period's label, such as 2026-01-31.")],
    stage: Stage = "dev",
    keep: Annotated[int, typer.Option(help="Days to keep the table; then it is archived again.", min=1, max=3650)] = 7,
    as_json: AsJson = False,
    endpoint: Endpoint = None,
    profile: Profile = None,
    region: Region = None,
) -> None:
    """Make an archived period a table again. It is read from its archive until the table is whole and compared."""
    account = _account(stage, endpoint, profile, region)
    answer: dict[str, Any] = {"next": {}}
    while (start := answer["next"]) is not None:
        done = f"{start['part']} of {answer['parts']} parts written" if start else "beginning"
        answer = _working(
            f"restoring {stream} {period}: {done}",
            lambda start=start: account.restore(stream, period, keep_days=keep, start=start),
        )
    _json(answer) if as_json else out.print(f"{answer['stream']} {answer['period']} is {answer['state']}")


@app.command()
def simulate(
    config: ConfigFile = DEFAULT,
    days: Annotated[int, typer.Option(help="How many days.", min=1, max=3660)] = 90,
    every: Annotated[int, typer.Option(help="Show every n-th day.", min=1)] = 7,
    svg: Annotated[Path | None, typer.Option(help="Draw each stream into this folder.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what the configuration does over time: tables, units and their price, from an empty start."""
    start = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
    lives = {name: list(simulated(stream, start, days)) for name, stream in _config(config).streams.items()}
    if svg is not None:
        svg.mkdir(parents=True, exist_ok=True)
        for name, life in lives.items():
            (svg / f"{name}.svg").write_text(timeline_svg(name, life))
    if as_json:
        fields = ("ahead", "open", "closed", "write", "read", "infrequent", "dollars")
        _json(
            {name: [{field: getattr(day, field) for field in fields} for day in life] for name, life in lives.items()}
        )
        return
    for name, life in lives.items():
        grid = Grid(title=name)
        for heading in (
            "day",
            "tables",
            "ahead",
            "open",
            "closed",
            "write units",
            "read units",
            "infrequent",
            "$ a day",
        ):
            grid.add_column(heading, justify="right")
        for number, day in enumerate(life):
            if number % every == 0 or number == days:
                cells = (number, day.tables, day.ahead, day.open, day.closed, day.write, day.read, day.infrequent)
                grid.add_row(*map(str, cells), f"{day.dollars:.2f}")
        out.print(grid)
    out.print("provisioned capacity only: what events and storage cost is `cost`'s to say")


@app.command()
def cost(
    folder: Annotated[Path, typer.Argument(help="A folder with workload.toml and tidetable.toml, as bench/workload.")],
    as_json: AsJson = False,
) -> None:
    """Price a workload under rolling tables, under one provisioned table and under one on-demand table."""
    try:
        found = bills(read(folder))
    except (OSError, TypeError, ValueError, TidetableError) as error:
        _fail(f"{folder}: {error}")
    if as_json:
        _json({name: {"writes": one.writes, "reads": one.reads, "storage": one.storage} for name, one in found.items()})
        return
    grid = Grid(title="dollars a month")
    for heading in ("", "writes", "reads", "storage", "in all"):
        grid.add_column(heading, justify="left" if not heading else "right")
    for name, one in found.items():
        grid.add_row(name, *(f"{dollars:,.0f}" for dollars in (one.writes, one.reads, one.storage, one.total)))
    out.print(grid)


def _account(stage: str, endpoint: str | None, profile: str | None, region: str | None) -> Account:
    try:
        return connect(stage, endpoint=endpoint, profile=profile, region=region)
    except AccountError as error:
        _fail(str(error))


def _config(path: Path) -> Config:
    try:
        return load(path)
    except ConfigError as error:
        _fail(str(error))


def _working(what: str, act: Any) -> Any:
    """Do something that may take minutes, with a sign of life."""
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=err, transient=True) as progress:
        progress.add_task(what)
        try:
            return act()
        except AccountError as error:
            progress.stop()
            _fail(str(error))


def _report(report: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        _json(report)
        return
    for trouble in report.get("troubles", []):
        out.print(f"[red]{trouble}")
    if report["skipped"]:
        out.print(f"nothing was done: {report['skipped']}")
    elif not report["actions"]:
        out.print(f"nothing to do: {report['tables']} tables are as they should be")
    else:
        grid = Grid()
        for heading in ("action", "stream", "period", "outcome", "why"):
            grid.add_column(heading, overflow="fold")
        colours = {"failed": "red", "lost": "bold red", "deferred": "yellow", "done": "green"}
        for one in report["actions"]:
            why = f"{one['reason']}: {one['detail']}" if one["detail"] not in ("", one["reason"]) else one["reason"]
            cells = one["action"], one["stream"], one["period"], one["outcome"], why
            grid.add_row(*cells, style=colours.get(one["outcome"]))
        out.print(grid)


def _plain(number: int | None, absent: str = "") -> str:
    return absent if number is None else f"{number:,}"


def _json(document: Any) -> None:
    typer.echo(json.dumps(document, indent=2))


def _fail(message: str) -> NoReturn:
    # Not wrapped: a path or a name broken in two can be neither searched nor copied.
    err.print(message, style="red", markup=False, soft_wrap=True)
    raise typer.Exit(1)
