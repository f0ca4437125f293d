"""The start of the command line: only the module of the called command is imported, as all of them double the start's time."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

import typer

from cli.common import app

# The module of each command, and of each group of commands.
MODULES = {
    **dict.fromkeys(("plan", "apply", "archive", "restore", "backfill", "sweep"), "act"),
    **dict.fromkeys(("check", "simulate", "cost"), "estimate"),
    **dict.fromkeys(("tail", "query"), "reading"),
    "advise": "advise",
    "console": "console",
    "import": "importing",
    "keys": "keys",
    "replay": "replay",
    "rollup": "rollup",
    "status": "show",
}


@app.callback()
def keep_names() -> None:
    """Typer takes the only command of an app for the app itself, unless the app has a callback."""


def load_app(words: Sequence[str]) -> typer.Typer:
    """The app with the command that the line's first word names; with every command if it names none, as ``--help`` does."""
    import_module(f"cli.{MODULES.get(words[0], 'app') if words else 'app'}")
    return app
