"""Start the command line.

It imports only the module of the called command, because all modules would take twice as long.
"""

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
    """Keep the name of a single command: without a callback, Typer takes the only command of an app for the app itself."""


def load_app(words: Sequence[str]) -> typer.Typer:
    """Load the app with the command that the first word names.

    For any other word, such as ``--help``, load all commands.
    """
    import_module(f"cli.{MODULES.get(words[0], 'app') if words else 'app'}")
    return app
