"""The picture of bench/suffix_kinds.py: four panels of bars. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bench.suffix_kinds import Costs, Kind

WIDTH, _PANEL, _LEFT, _RIGHT, _ROW, _TOP = 760, 170, 180, 90, 22, 34
# The picture paints its own background, light or dark: a page may show the picture on another background than its text
# expects. The contrast of text to background is 15 (light) and 13 (dark).
_STYLE = """<style>
.ground { fill: #ffffff } text { fill: #1f2328 } .one { fill: #6e7781 } .random { fill: #bc4c00 } .calculated { fill: #0969da }
@media (prefers-color-scheme: dark) {
.ground { fill: #0d1117 } text { fill: #e6edf3 } .one { fill: #8b949e } .random { fill: #f0883e } .calculated { fill: #58a6ff }
}
</style>"""
_PANELS = (
    ("Events per second before the first throttle", "writes", "more is better"),
    ("Requests to find one event by its id", "get_requests", "fewer are better"),
    ("Read units of the newest 100 events", "page_units", "fewer are better"),
    ("Events stored after 1,000 were sent twice", "stored", "1,000 is right"),
)


def draw_costs(costs: Mapping[Kind, Costs]) -> str:
    """Draw the costs as bars, in panels one below the other."""
    height = len(_PANELS) * _PANEL + 8
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="13">',
        "<title>One key, random suffixes and calculated suffixes</title>",
        _STYLE,
        f'<rect class="ground" width="{WIDTH}" height="{height}"/>',
    ]
    for number, panel in enumerate(_PANELS):
        lines += _draw_panel(costs, number * _PANEL, *panel)
    return "\n".join([*lines, "</svg>", ""])


def _draw_panel(costs: Mapping[Kind, Costs], top: int, title: str, name: str, better: str) -> Iterator[str]:
    yield f'<text x="16" y="{top + 24}" font-weight="bold">{title} <tspan font-weight="normal">({better})</tspan></text>'
    figures = {kind: float(getattr(own, name)) for kind, own in costs.items()}
    scale = (WIDTH - _LEFT - _RIGHT) / max(figures.values())
    for row, (kind, figure) in enumerate(figures.items()):
        at = top + _TOP + row * _ROW
        colour = "one" if kind.suffixes == 1 else "calculated" if kind.calculated else "random"
        yield f'<text x="{_LEFT - 8}" y="{at + 14}" text-anchor="end">{kind.title}</text>'
        yield f'<rect class="{colour}" x="{_LEFT}" y="{at + 2}" width="{max(figure * scale, 1):.1f}" height="16"/>'
        yield f'<text x="{_LEFT + max(figure * scale, 1) + 6:.1f}" y="{at + 14}">{figure:,g}</text>'
