"""Modules of source trees that a side of a benchmark measures: they have other names in older trees."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def import_first(*names: str) -> Any:
    """Import the first of these modules that the tree has."""
    for name in names[:-1]:
        try:
            return import_module(name)
        except ModuleNotFoundError:
            continue
    return import_module(names[-1])
