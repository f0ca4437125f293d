"""Draw the ladder over time."""

from __future__ import annotations

from bill.timeline import Day


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
