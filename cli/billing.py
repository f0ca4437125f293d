"""Print the bill of a workload, or the walls that it meets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, repeat
from typing import Any, NoReturn

import typer

from bill.prices import MONTH, REGION, describe_prices
from bill.workload import Workload
from bill.workload_bill import WholeBill
from cli.common import make_grid, out, print_json, say

# A smaller saving is not worth a change.
_LEAST_SAVING = 1.0


def refuse_load(workload: Workload, bill: WholeBill, *, as_json: bool) -> NoReturn:
    """Name the walls that the load meets, the lowest first, and end the command."""
    met = [wall for wall in bill.walls if wall.met]
    if as_json:
        print_json({"walls": [wall.document() for wall in met], "prices": describe_prices()})
        raise typer.Exit(1)
    peak = max(workload.events_per_second)
    say(f"no price: stream {workload.stream.name} cannot take {peak:,.0f} events per second", "red")
    for wall, word in zip(met, chain(["first wall"], repeat("then")), strict=False):
        say(f"{word}: {wall.text}")
    raise typer.Exit(1)


def print_bills(workload: Workload, bill: WholeBill) -> None:
    events = workload.events_per_day
    requests = f"{workload.batch} per request; {workload.queries_per_second:g} queries per second"
    size = f"{events / 1e6:,.2f} M events per day of {workload.event_bytes} bytes"
    say(f"stream {workload.stream.name}: {size}, {requests}")
    grid = make_grid("", "$", "how", title="the bill, in dollars per month", right="$")
    for line in bill.lines:
        grid.add_row(line.name, f"{line.dollars:,.2f}", line.how)
    grid.add_section()
    grid.add_row("the stream", f"{bill.dollars:,.2f}", "")
    grid.add_section()
    for line in bill.fixed:
        grid.add_row(line.name, f"{line.dollars:,.2f}", line.how)
    grid.add_section()
    total = f"{bill.dollars + bill.fixed_dollars:,.2f}"
    grid.add_row("in all", total, "metrics and alarms are for all streams of the stage")
    out.print(grid)
    transfer = ["transfer"] if workload.stream.replicas else []
    shares = "writes", "reads", "storage", *transfer, "in all"
    grid = make_grid("", *shares, title="DynamoDB's share, in dollars per month", right=shares)
    for name, plan in bill.plans.items():
        amounts = plan.document()
        if not transfer:
            del amounts["transfer"]
        grid.add_row(name, *(f"{dollars:,.2f}" for dollars in (*amounts.values(), plan.total)))
    out.print(grid)
    say(describe_date())
    if bill.wall is not None:
        say(f"first wall: {bill.wall.text}")
    for line in bill.discounts:
        say(f"discount: {line.name} may save ${line.dollars:,.2f} per month: {line.how}")
    for text in bill.unpriced:
        say(f"not priced: {text}")
    for text in bill.advice:
        say(text, "yellow")


def print_alternatives(found: Sequence[Mapping[str, Any]], refused: Sequence[Mapping[str, str]]) -> None:
    """Print the price of other settings, and the lines of tidetable.toml of those that save money."""
    grid = make_grid("", "$", "saves", "why", title="other settings, in dollars per month", right=("$", "saves"))
    for alternative in found:
        amounts = f"{alternative['dollars']:,.2f}", f"{alternative['saving']:,.2f}"
        grid.add_row(alternative["name"], *amounts, alternative["why"])
    if found:
        out.print(grid)
    for alternative in found:
        if alternative["saving"] >= _LEAST_SAVING:
            say(f"{alternative['name']}: saves ${alternative['saving']:,.2f} per month with these lines", "green")
            for line in alternative["toml"].splitlines():
                out.print(f"    {line}", markup=False, highlight=False, soft_wrap=True)
    for alternative in refused:
        say(f"not possible: {alternative['name']}: {alternative['reason']}")


def print_comparison(compared: Mapping[str, Any], *, as_json: bool) -> None:
    """Print the bills without and with a change, line by line. If one of them meets a wall, the exit code is 1."""
    plans = [compared["before"], compared["after"]]
    walls = [plan["wall"] for plan in plans if plan["wall"]["met"]]
    if as_json:
        print_json(compared)
    elif walls:
        text = "{name} takes {events_per_second:,.0f} events per second: {how}".format_map(walls[-1])
        say(f"no price: {text}")
    else:
        columns = "before", "after", "saves"
        grid = make_grid("", *columns, title=f"stream {compared['stream']}, in dollars per month", right=columns)
        amounts = [{line["name"]: line["dollars"] for line in plan["lines"] + plan["fixed"]["lines"]} for plan in plans]
        for name in dict.fromkeys(chain(*amounts)):
            before, after = (own.get(name, 0.0) for own in amounts)
            grid.add_row(name, f"{before:,.2f}", f"{after:,.2f}", f"{before - after:,.2f}")
        grid.add_section()
        sums = [sum(own.values()) for own in amounts]
        grid.add_row("in all", *(f"{amount:,.2f}" for amount in (*sums, compared["saving"])))
        out.print(grid)
        say(describe_date())
    if walls:
        raise typer.Exit(1)


def describe_date() -> str:
    """Describe in one line where and when the prices were taken."""
    return f"prices: AWS's list of {REGION}, {MONTH}"
