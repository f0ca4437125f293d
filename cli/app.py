"""The command line, with every command registered."""

from cli import act, estimate, keys, rollup, show
from cli.common import app

__all__ = ["act", "app", "estimate", "keys", "rollup", "show"]
