"""The stage in memory, for every test of the commands."""

from tests.worlds.commands import functions, stage

__all__ = ["functions", "stage"]
