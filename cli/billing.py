"""Print the bill of a workload, or the walls that it meets."""

from __future__ import annotations

from itertools import chain, repeat
from typing import NoReturn

import typer
from rich.table import Table as Grid

from bill.prices import MONTH, REGION, describe_prices
from bill.workload import Workload
from bill.workload_bill import WholeBill
from cli.common import out, print_json


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


def describe_date() -> str:
    """Describe in one line where and when the prices were taken."""
    return f"prices: AWS's list of {REGION}, {MONTH}"
