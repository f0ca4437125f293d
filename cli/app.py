"""The command line, with every command registered."""

from cli import act, advise, console, doctor, estimate, importing, keys, reading, replay, rollup, show
from cli.common import app

__all__ = [
    "act",
    "advise",
    "app",
    "console",
    "doctor",
    "estimate",
    "importing",
    "keys",
    "reading",
    "replay",
    "rollup",
    "show",
]
