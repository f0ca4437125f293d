"""The stage in memory, for every test of the commands."""

from tests.worlds.commands import functions, stage
from tests.worlds.estimates import file

__all__ = ["file", "functions", "stage"]
