"""DynamoDB's monthly bill of a workload: period tables with and without packs, a provisioned table, an on-demand table.

It draws docs/design/cost.svg. lambdas/bill has the prices and the rules.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "lambdas")]

from bench.results import note_ratios
from bill.amounts import Bill
from bill.table_bill import PLANS, price_rolling
from bill.workload import Workload
from cli.workload import choose_stream, read_workload
from tidetable.config import load

EXAMPLE = ROOT / "bench" / "workload"
PACKED = "rolling tables with packs"


def render_table(bills_by_plan: Mapping[str, Bill]) -> str:
    """Write the bills as a table in Markdown."""
    rows = ["| | writes | reads | storage | per month |", "|---|---|---|---|---|"]
    for name, bill in bills_by_plan.items():
        cost = bill.whole
        rows.append(
            f"| {name} | ${cost.writes:,.0f} | ${cost.reads:,.0f} | ${cost.storage:,.0f} | **${bill.total:,.0f}** |"
        )
    return "\n".join(rows)


def draw_bills(bills_by_plan: Mapping[str, Bill]) -> str:
    """Draw the bills as bars."""
    height = 46 + 48 * len(bills_by_plan)
    scale = 520 / max(bill.total for bill in bills_by_plan.values())
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {height}" font-family="sans-serif" font-size="14">',
        "<title>Monthly bill by kind of table</title>",
        f'<rect width="760" height="{height}" fill="#fff"/>',
    ]
    colours = {"writes": "#1f6f8b", "reads": "#99c1d1", "storage": "#e6b34d"}
    for row, (name, bill) in enumerate(bills_by_plan.items()):
        top, left = 14 + 48 * row, 20.0
        parts.append(f'<text x="20" y="{top + 12}" fill="#222">{name}</text>')
        for kind, colour in colours.items():
            width = getattr(bill.whole, kind) * scale
            parts.append(f'<rect x="{left:.1f}" y="{top + 18}" width="{width:.1f}" height="18" fill="{colour}"/>')
            left += width
        parts.append(f'<text x="{left + 8:.1f}" y="{top + 32}" fill="#222">${bill.total:,.0f} per month</text>')
    for column, (kind, colour) in enumerate(colours.items()):
        parts.append(f'<rect x="{20 + 110 * column}" y="{height - 24}" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{38 + 110 * column}" y="{height - 13}" fill="#222">{kind}</text>')
    return "\n".join([*parts, "</svg>", ""])


def read_packed_workload(folder: Path) -> Workload | None:
    """The same workload with the folder's packed.toml as configuration; None without this file."""
    file = folder / "packed.toml"
    return replace(read_workload(folder), stream=choose_stream(load(file), None)) if file.exists() else None


def compute_bills(folder: Path) -> dict[str, Bill]:
    """The bill of each plan; the bill with packs comes first."""
    in_packs = read_packed_workload(folder)
    workload = read_workload(folder)
    plans = {name: price(workload) for name, price in PLANS.items()}
    return plans if in_packs is None else {PACKED: price_rolling(in_packs)} | plans


def main() -> None:
    """Print the table and the ratios; draw docs/design/cost.svg if the workload is the documented one."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else EXAMPLE
    bills_by_plan = compute_bills(folder)
    ours, provisioned, on_demand = (bills_by_plan[name].total for name in PLANS)
    print(f"DynamoDB's monthly bill of {folder.name}")
    print(render_table(bills_by_plan))
    print(f"bill_one_provisioned_over_rolling {provisioned / ours:.2f}")
    print(f"bill_one_on_demand_over_rolling {on_demand / ours:.2f}")
    if len(sys.argv) == 1:
        note_ratios(bill_packed_over_on_demand=bills_by_plan[PACKED].total / on_demand)
        (ROOT / "docs" / "design" / "cost.svg").write_text(draw_bills(bills_by_plan))


if __name__ == "__main__":
    main()
