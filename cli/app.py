"""The command line, with every command registered."""

from cli import act, console, estimate, importing, keys, reading, replay, rollup, show
from cli.common import app

__all__ = ["act", "app", "console", "estimate", "importing", "keys", "reading", "replay", "rollup", "show"]
