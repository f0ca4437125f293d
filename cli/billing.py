"""Print the bill of a workload, or the walls that it meets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, repeat
from typing import Any, NoReturn

import typer
from rich.table import Table as Grid

from bill.prices import MONTH, REGION, describe_prices
from bill.workload import Workload
from bill.workload_bill import WholeBill
from cli.common import out, print_json

# A smaller saving is not worth a change.
_LEAST_SAVING = 1.0


def refuse_load(workload: Workload, bill: WholeBill, *, as_json: bool) -> NoReturn:
    """Name the walls that the load meets, the lowest first, and end the command."""
    met = [wall for wall in bill.walls if wall.met]
    if as_json:
        print_json({"walls": [wall.document() for wall in met], "prices": describe_prices()})
        raise typer.Exit(1)
    peak = max(workload.events_per_second)
    out.print(
        f"no price: stream {workload.stream.name} cannot take {peak:,.0f} events per second",
        style="red",
        soft_wrap=True,
    )
    for wall, word in zip(met, chain(["first wall"], repeat("then")), strict=False):
        out.print(f"{word}: {wall.text}", markup=False, soft_wrap=True)
    raise typer.Exit(1)


def print_bills(workload: Workload, bill: WholeBill) -> None:
    events = workload.events_per_day
    out.print(
        f"stream {workload.stream.name}: {events / 1e6:,.2f} M events per day of {workload.event_bytes} bytes, "
        f"{workload.batch} per request; {workload.queries_per_second:g} queries per second",
        soft_wrap=True,
    )
    grid = Grid(title="the bill, in dollars per month")
    grid.add_column("")
    grid.add_column("$", justify="right")
    grid.add_column("how", overflow="fold")
    for line in bill.lines:
        grid.add_row(line.name, f"{line.dollars:,.2f}", line.how)
    grid.add_section()
    grid.add_row("the stream", f"{bill.dollars:,.2f}", "")
    grid.add_section()
    for line in bill.fixed:
        grid.add_row(line.name, f"{line.dollars:,.2f}", line.how)
    grid.add_section()
    grid.add_row(
        "in all", f"{bill.dollars + bill.fixed_dollars:,.2f}", "metrics and alarms are for all streams of the stage"
    )
    out.print(grid)
    grid = Grid(title="DynamoDB's share, in dollars per month")
    transfer = ["transfer"] if workload.stream.replicas else []
    for heading in ("", "writes", "reads", "storage", *transfer, "in all"):
        grid.add_column(heading, justify="left" if not heading else "right")
    for name, plan in bill.plans.items():
        amounts = plan.document()
        if not transfer:
            del amounts["transfer"]
        grid.add_row(name, *(f"{dollars:,.2f}" for dollars in (*amounts.values(), plan.total)))
    out.print(grid)
    out.print(describe_date(), soft_wrap=True)
    if bill.wall is not None:
        out.print(f"first wall: {bill.wall.text}", markup=False, soft_wrap=True)
    for line in bill.discounts:
        out.print(
            f"discount: {line.name} may save ${line.dollars:,.2f} per month: {line.how}", markup=False, soft_wrap=True
        )
    for text in bill.unpriced:
        out.print(f"not priced: {text}", soft_wrap=True)
    for text in bill.advice:
        out.print(text, style="yellow", markup=False, soft_wrap=True)


def print_alternatives(found: Sequence[Mapping[str, Any]], refused: Sequence[Mapping[str, str]]) -> None:
    """Print the price of other settings, and the lines of tidetable.toml of those that save money."""
    grid = Grid(title="other settings, in dollars per month")
    for heading in ("", "$", "saves", "why"):
        grid.add_column(heading, justify="right" if heading in ("$", "saves") else "left", overflow="fold")
    for alternative in found:
        amounts = f"{alternative['dollars']:,.2f}", f"{alternative['saving']:,.2f}"
        grid.add_row(alternative["name"], *amounts, alternative["why"])
    if found:
        out.print(grid)
    for alternative in found:
        if alternative["saving"] >= _LEAST_SAVING:
            out.print(
                f"{alternative['name']}: saves ${alternative['saving']:,.2f} per month with these lines", style="green"
            )
            for line in alternative["toml"].splitlines():
                out.print(f"    {line}", markup=False, highlight=False, soft_wrap=True)
    for alternative in refused:
        out.print(f"not possible: {alternative['name']}: {alternative['reason']}", markup=False, soft_wrap=True)


def print_comparison(compared: Mapping[str, Any], *, as_json: bool) -> None:
    """Print the bills without and with a change, line by line. If one of them meets a wall, the exit code is 1."""
    plans = [compared["before"], compared["after"]]
    walls = [plan["wall"] for plan in plans if plan["wall"]["met"]]
    if as_json:
        print_json(compared)
    elif walls:
        text = "{name} takes {events_per_second:,.0f} events per second: {how}".format_map(walls[-1])
        out.print(f"no price: {text}", markup=False, soft_wrap=True)
    else:
        grid = Grid(title=f"stream {compared['stream']}, in dollars per month")
        for heading in ("", "before", "after", "saves"):
            grid.add_column(heading, justify="right" if heading else "left")
        amounts = [{line["name"]: line["dollars"] for line in plan["lines"] + plan["fixed"]["lines"]} for plan in plans]
        for name in dict.fromkeys(chain(*amounts)):
            before, after = (own.get(name, 0.0) for own in amounts)
            grid.add_row(name, f"{before:,.2f}", f"{after:,.2f}", f"{before - after:,.2f}")
        grid.add_section()
        sums = [sum(own.values()) for own in amounts]
        grid.add_row("in all", *(f"{amount:,.2f}" for amount in (*sums, compared["saving"])))
        out.print(grid)
        out.print(describe_date(), soft_wrap=True)
    if walls:
        raise typer.Exit(1)


def describe_date() -> str:
    """Describe in one line where and when the prices were taken."""
    return f"prices: AWS's list of {REGION}, {MONTH}"
