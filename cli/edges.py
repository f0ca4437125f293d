"""The times of a command line: the same forms in each command, and the same as in a request to the API."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from typer.core import TyperCommand

from cli import clock
from cli.common import USAGE, fail
from tidetable.errors import InvalidTime
from tidetable.times import parse_point, to_text

# An age such as -30d. No command has an option that begins with a digit.
_AGE = re.compile(r"-\d")


class WithAges(TyperCommand):
    """A command with times as arguments: ``-30d`` is an age, and not an option that the command does not know."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # Only if there is an age: otherwise a misspelt option would be read as an argument.
        ctx.ignore_unknown_options = any(_AGE.match(arg) for arg in args)
        return super().parse_args(ctx, args)


def read_edge(name: str, text: str) -> datetime:
    """Read a time; end the command with the ``name`` of the time and the reason if it is none.

    The present and ages are whole minutes: no period and no bucket of a rollup is shorter, and the functions' clocks may be
    a little behind.
    """
    try:
        return parse_point(text, clock.read_clock().replace(second=0, microsecond=0))
    except InvalidTime as error:
        fail(f"{name}: {error}", USAGE)


def read_past_edge(name: str, text: str, purpose: str) -> str:
    """Read a time that is not in the future, as the text for a function; ``purpose`` is the reason for an error."""
    edge = read_edge(name, text)
    if edge > clock.read_clock():
        fail(f"{name}: {to_text(edge)} is in the future: {purpose}; write now", USAGE)
    return to_text(edge)
