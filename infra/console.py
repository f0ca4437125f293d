"""The console: a static page that the API itself serves, by a function without rights."""

from __future__ import annotations

import shutil
from pathlib import Path

# What the page consists of, beside the pinned library for charts.
_PAGE = ("index.html", "icon.svg", "style.css")
_CHARTS = {"uPlot.iife.min.js": "uplot.js", "uPlot.min.css": "uplot.css"}


def collect_files(root: Path, target: Path) -> None:
    """Copy everything that the console serves into a folder; ``root`` is the project with its ``node_modules``."""
    target.mkdir(parents=True, exist_ok=True)
    for name in _PAGE:
        shutil.copy(root / "console" / name, target / name)
    shutil.copytree(root / "console" / "js", target / "js", ignore=shutil.ignore_patterns("*.d.ts"), dirs_exist_ok=True)
    library = root / "node_modules" / "uplot"
    if not library.exists():
        raise FileNotFoundError(f"{library} is missing: run `make setup`")
    for name, served in _CHARTS.items():
        shutil.copy(library / "dist" / name, target / served)
    # uPlot's licence (MIT) wants its text beside every copy.
    shutil.copy(library / "LICENSE", target / "uplot-license.txt")
