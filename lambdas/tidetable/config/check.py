"""Check a well-formed configuration, so that mistakes are found before the first event comes."""

from __future__ import annotations

from collections.abc import Iterator

from tidetable.config.check_stage import check_stage
from tidetable.config.check_stream import check_stream
from tidetable.config.demand import describe_tables, list_demands
from tidetable.config.model import Config


def check(config: Config) -> list[str]:
    """Return the problems of a configuration whose types are right, one line each; no lines if it can be deployed."""
    problems = list(check_stage(config))
    for stream in config.streams.values():
        # The stream of a rollup follows from the rollup. A user can change only the rollup's keys, which are checked there.
        if not stream.source:
            problems += [f"streams.{stream.name}{problem}" for problem in check_stream(config, stream)]
    # The quota is checked last: a sum of numbers that are out of bounds would have no meaning.
    return problems or list(_check_quota(config))


def _check_quota(config: Config) -> Iterator[str]:
    needed, quota = list_demands(config), config.lifecycle.table_quota
    if sum(need.tables for need in needed) > quota:
        most = max(needed, key=lambda need: need.tables)
        yield (
            f"lifecycle.table_quota: {describe_tables(config)}; lower retention or choose a longer period, first of"
            f" {most.stream}, or have AWS raise the quota (Service Quotas, DynamoDB) and write it here"
        )
