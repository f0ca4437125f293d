"""Start the command line.

It imports only the module of the called command, because all modules would take twice as long.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer

from cli.common import app, out
from tidetable.version import VERSION

# The module of each command, and of each group of commands.
MODULES = {
    **dict.fromkeys(("plan", "apply", "archive", "backfill", "sweep"), "act"),
    "restore": "restore",
    **dict.fromkeys(("check", "cost"), "estimate"),
    **dict.fromkeys(("tail", "query"), "reading"),
    "advise": "advise",
    "console": "console",
    "doctor": "doctor",
    "import": "importing",
    "keys": "credentials",
    "replay": "replay",
    "rollup": "rollup",
    "status": "show",
}


def print_version(wanted: bool) -> None:
    """Print the version and end the program, if this is wanted."""
    if wanted:
        out.print(f"tidetable {VERSION}", highlight=False)
        raise typer.Exit


# Without a callback, Typer takes the only command of an app for the app itself, and the command loses its name.
@app.callback()
def read_options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=print_version, is_eager=True)
    ] = False,
) -> None:
    """Read the options that stand before a command."""


def load_app(words: Sequence[str]) -> typer.Typer:
    """Load the app with the command that the first word names.

    For any other word, such as ``--help``, load all commands.
    """
    words = _find_typed_words() or words
    import_module(f"cli.{MODULES.get(words[0], 'app') if words else 'app'}")
    return app


def _find_typed_words() -> list[str]:
    """Find the words after the program's name in a line that a shell completes; empty unless the command is typed."""
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    words = line.split(" ")[1:] if "_TIDETABLE_COMPLETE" in os.environ else []
    return words if len(words) > 1 else []
