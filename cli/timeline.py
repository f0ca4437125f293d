"""Show the ladder over time: the days of streams as tables, as pictures, and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.table import Table as Grid

from bill.rolled import list_rollups
from bill.timeline import Day, list_days
from bill.workload import Workload
from cli.billing import describe_date
from cli.common import make_grid, out, print_json, say
from tidetable.config import Stream

_HEADINGS = (
    "day", "tables", "ahead", "open", "late", "closed", "write units", "read units", "infrequent", "$ a day",
)  # fmt: skip


def list_lives(
    streams: Mapping[str, Stream], workload: Workload | None, now: datetime, days: int
) -> dict[str, list[Day]]:
    """List the days of each stream from an empty start at noon on; with a workload, also those of its rollups.

    Without a workload the days are priced by provisioned units alone.
    """
    start = now.replace(hour=12, minute=0, second=0, microsecond=0)
    loads: dict[str, tuple[Stream, Workload | None]] = {name: (stream, workload) for name, stream in streams.items()}
    if workload is not None:
        loads |= {rollup.name: (rollup.workload.stream, rollup.workload) for rollup in list_rollups(workload)}
    return {name: list(list_days(stream, start, days, load)) for name, (stream, load) in loads.items()}


def show_days(
    lives: Mapping[str, list[Day]], every: int, folder: Path | None, document: Mapping[str, Any] | None
) -> None:
    """Print every n-th day of each stream or, with a document, this document and all days as JSON; draw the streams."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, life in lives.items():
            (folder / f"{name}.svg").write_text(draw_timeline(name, life))
    if document is not None:
        print_json({**document, "days": {name: [day.document() for day in life] for name, life in lives.items()}})
        return
    for name, life in lives.items():
        out.print(draw_days(name, life, every))
    say("a day has DynamoDB's part of the bill; without --rate only provisioned units are priced")
    say(describe_date())


def draw_days(title: str, life: list[Day], every: int) -> Grid:
    """Draw a table of every n-th day of a stream, and of the last day."""
    grid = make_grid(*_HEADINGS, title=title, right=_HEADINGS)
    for number, day in enumerate(life):
        if number % every == 0 or number == len(life) - 1:
            cells = (number, day.tables, day.ahead, day.open, day.late, day.closed, day.write, day.read, day.infrequent)
            grid.add_row(*map(str, cells), f"{day.dollars:.2f}")
    return grid


def draw_timeline(name: str, days: list[Day]) -> str:
    """Draw the provisioned write units by day as bars, and the number of tables as a line."""
    width, height = 760, 220
    units, tables = max(max(day.write for day in days), 1), max(day.tables for day in days)
    step = (width - 60) / len(days)
    elements = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f"<title>{name}: write units and tables by day</title>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for number, day in enumerate(days):
        bar = 150 * day.write / units
        left, top = 30 + number * step, 180 - bar
        elements.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{step * 0.8:.1f}" height="{bar:.1f}" fill="#1f6f8b"/>'
        )
    points = " ".join(
        f"{30 + (number + 0.4) * step:.1f},{180 - 150 * day.tables / max(tables, 1):.1f}"
        for number, day in enumerate(days)
    )
    elements += [
        f'<polyline points="{points}" fill="none" stroke="#e6b34d" stroke-width="2"/>',
        f'<text x="30" y="204" fill="#1f6f8b">{name}: write units, up to {units}</text>',
        f'<text x="400" y="204" fill="#b8860b">tables, up to {tables}</text>',
        "</svg>",
        "",
    ]
    return "\n".join(elements)
