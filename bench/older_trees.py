"""What differs between the source trees that the sides of a benchmark measure."""

from __future__ import annotations

import gc
from importlib import import_module
from pathlib import Path
from typing import Any


def import_first(*names: str) -> Any:
    """Import the first of these modules that the tree has."""
    for name in names[:-1]:
        try:
            return import_module(name)
        except ModuleNotFoundError:
            continue
    return import_module(names[-1])


def pause_collector(tree: Path, handler: str) -> None:
    """Let the garbage collector stand still from here on, if it does so while this function of the tree works."""
    if "@pause_collector" in (tree / "lambdas" / "handlers" / f"{handler}.py").read_text():
        gc.freeze()
        gc.disable()
