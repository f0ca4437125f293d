"""The command line, with every command registered."""

from cli import act, advise, console, credentials, doctor, estimate, importing, reading, replay, restore, rollup, show
from cli.common import app

__all__ = [
    "act", "advise", "app", "console", "credentials", "doctor",
    "estimate", "importing", "reading", "replay", "restore", "rollup", "show",
]  # fmt: skip
