"""The command line, with every command registered."""

from cli import act, advise, console, estimate, importing, keys, reading, replay, rollup, show
from cli.common import app

__all__ = ["act", "advise", "app", "console", "estimate", "importing", "keys", "reading", "replay", "rollup", "show"]
