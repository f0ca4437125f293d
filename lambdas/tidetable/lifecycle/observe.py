"""What there is: the catalog's entries and the tables behind them. What cannot be seen is said, and hides nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from itertools import takewhile

from tidetable.catalog import Entry, State
from tidetable.config import Config, Stream
from tidetable.ports import Catalog, Table, Tables
from tidetable.times import EPOCH

CONCURRENCY = 8


@dataclass(frozen=True, slots=True)
class Observed:
    """A stream as it is: the catalog's entries, oldest first, and the tables that there are, by name.

    ``unseen`` holds the tables that could not be described, with the reason.
    """

    entries: Sequence[Entry]
    tables: Mapping[str, Table]
    unseen: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Observation:
    """All streams that could be observed; ``troubles`` says which could not, and why."""

    streams: dict[str, Observed] = field(default_factory=dict)
    troubles: list[str] = field(default_factory=list)


def observe(config: Config, catalog: Catalog, tables: Tables, now: datetime) -> Observation:
    """Look at every stream, from the oldest period whose table is not gone."""
    observation = Observation()
    entries: dict[str, Sequence[Entry]] = {}
    for name, stream in config.streams.items():
        try:
            entries[name] = catalog.entries(name, _oldest_of_interest(stream, catalog, now), consistent=True)
        except Exception as error:  # one stream's trouble must not keep the next table of another from being made
            observation.troubles.append(f"the catalog could not be read for {name}: {said(error)}")
    with ThreadPoolExecutor(CONCURRENCY) as pool:
        for name, found in entries.items():
            wanted = [one.table for one in found if one.state is not State.DELETED]
            seen = dict(zip(wanted, pool.map(_attempted(tables.describe), wanted), strict=True))
            observation.streams[name] = Observed(
                found,
                {name: table for name, table in seen.items() if isinstance(table, Table)},
                {name: table for name, table in seen.items() if isinstance(table, str)},
            )
    return observation


def remember_horizons(catalog: Catalog, observation: Observation) -> None:
    """Note how far everything is deleted, as it was at the beginning of the run."""
    for name, observed in observation.streams.items():
        deleted = list(takewhile(lambda entry: entry.state is State.DELETED, observed.entries))
        if not deleted:
            continue
        try:
            if deleted[-1].period.end > (catalog.horizon(name) or EPOCH):
                catalog.set_horizon(name, deleted[-1].period.end)
        except Exception as error:  # the next run notes it
            observation.troubles.append(f"the horizon of {name} could not be noted: {said(error)}")


def said(error: Exception) -> str:
    """An error that nobody foresaw, as a report names it."""
    return f"{type(error).__name__}: {error}"


def _oldest_of_interest(stream: Stream, catalog: Catalog, now: datetime) -> datetime | None:
    """Where to begin to look: entries of deleted tables stay for ever, but those in the writable window still claim time."""
    horizon = catalog.horizon(stream.name)
    return None if horizon is None else min(horizon, now - stream.late)


def _attempted(describe: Callable[[str], Table | None]) -> Callable[[str], Table | str | None]:
    def attempt(name: str) -> Table | str | None:
        try:
            return describe(name)
        except Exception as error:  # whatever it was, this table is not known to be missing
            return said(error)

    return attempt
