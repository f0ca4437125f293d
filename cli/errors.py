"""The error that ends a command with its message."""

from __future__ import annotations

# sysexits.h: the command was used wrongly. Typer's own code for this is 2, with which `plan` reports pending actions.
USAGE = 64


class CommandError(Exception):
    """An error that ends a command with its message, and with the exit code ``code``."""

    code = 1
