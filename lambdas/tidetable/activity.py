"""The present activity of a stage: what each stream's tables were written in the last minutes, and what lags behind.

The figures come from metrics that CloudWatch has anyway, so they add no write and no metric. DynamoDB counts write units
by table; the functions count events for the whole stage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, NamedTuple, Protocol

from tidetable.catalog import Entry, State
from tidetable.config import Config, Stream
from tidetable.periods import find_containing
from tidetable.ports import CatalogReader, Pools, Rollups
from tidetable.rollup_model.definition import Definition
from tidetable.rollups.due import measure_lag
from tidetable.times import to_text
from tidetable.work.claim import WorkRecords
from tidetable.work.standing import WorkStanding, list_standings

MINUTE = timedelta(minutes=1)
# The minutes of the answer, and of these the last minutes whose mean is the present rate.
SHOWN, MEASURED = 30, 5
# AWS: DynamoDB's metrics of a minute arrive one to three minutes later. The newest minutes would seem quiet.
SETTLED = 2
# A catalog's page and the state of rollups take about 10 ms each.
_CONCURRENCY = 16

# Values by the start of their minute. A minute in which nothing was counted is missing.
Series = Mapping[datetime, float]


class Counted(NamedTuple):
    """What was counted per minute: the write units of tables, and events, lags and waiting times of the whole stage.

    ``events`` were accepted, ``queued`` are those of them that were queued. All other series are in seconds: ``arrival``
    is the mean age of a request's newest event, ``waiting`` the longest time that a drained message had waited, and
    ``sealing`` the greatest lag of a rollup.
    """

    units: Mapping[str, Series]
    events: Series
    queued: Series
    arrival: Series
    waiting: Series
    sealing: Series


class Gauges(Protocol):
    """The counters of a stage by the minute."""

    def count_minutes(self, tables: Sequence[str], start: datetime, end: datetime) -> Counted:
        """Read the minutes of ``[start, end)``; StoreUnavailable if they cannot be read."""


class ActivitySources(NamedTuple):
    """The sources of the figures. ``definitions`` has the rollups by the name of their stream."""

    catalog: CatalogReader
    gauges: Gauges
    rollups: Callable[[], Rollups]
    definitions: Mapping[str, Sequence[Definition]]
    work: Callable[[], WorkRecords]
    pools: Pools


def describe_activity(
    config: Config, sources: ActivitySources, now: datetime, sees: Callable[[str], bool], *, whole: bool
) -> dict[str, Any]:
    """Return the activity as JSON: of the stage if the caller sees it ``whole``, and of each stream that it ``sees``.

    Per stream this takes one read of the catalog, two metrics, and one read of the rollups' state if it has rollups. The
    work in the background takes a read per kind, and one more.
    """
    # A rollup is a stream, too. Its row would say what the lag of its stream says already.
    streams = [stream for stream in config.streams.values() if sees(stream.name) and not stream.source]
    with sources.pools(_CONCURRENCY) as pool:
        tables = list(pool.map(partial(_find_tables, sources.catalog, now), streams))
        lags = list(pool.map(partial(_find_lag, sources, now), streams))
    standings = list_standings(sources.work(), now)
    end = now.replace(second=0, microsecond=0)
    settled = end - SETTLED * MINUTE
    first = settled - SHOWN * MINUTE
    counted = sources.gauges.count_minutes([name for names in tables for name in names], first, end + MINUTE)
    measured = [settled - back * MINUTE for back in range(MEASURED, 0, -1)]
    return {
        "at": to_text(now),
        "from": to_text(measured[0]),
        "to": to_text(settled),
        "stage": _describe_stage(counted, measured) if whole else None,
        "streams": [
            _describe_stream(stream, [counted.units.get(name, {}) for name in names], first)
            | {"rollup_lag_seconds": lag}
            for stream, names, lag in zip(streams, tables, lags, strict=True)
        ],
        "work": [
            _describe_work(standing)
            for standing in standings
            if (whole if standing.stream is None else sees(standing.stream))
        ],
    }


def _describe_work(standing: WorkStanding) -> dict[str, Any]:
    oldest = int(standing.oldest.total_seconds())
    return {name: value for name, value in standing._asdict().items() if name != "oldest"} | {"oldest_seconds": oldest}


def _find_tables(catalog: CatalogReader, now: datetime, stream: Stream) -> list[str]:
    """Find the tables of the present period and of the period before, as far as they exist.

    Most events are written to the first, and around its start to the second. A stream whose events may come weeks late
    has more open tables, and each would be a metric more.
    """
    present = find_containing(now, stream.period)
    entries: Sequence[Entry] = catalog.entries(stream.name, present.shift(-1).start, now)
    return [entry.table for entry in entries if entry.period.start <= now and entry.state is not State.DELETED]


def _find_lag(sources: ActivitySources, now: datetime, stream: Stream) -> int | None:
    """Measure for how many seconds the next bucket of the slowest rollup could have been sealed.

    None without rollups, and if their state cannot be read: the rows of the other streams are shown.
    """
    definitions = sources.definitions.get(stream.name)
    if not definitions:
        return None
    # The edges are enough. A busy stream may have thousands of marks, of which this span has the newest only.
    state = sources.rollups().read_state(stream.name, (now, now + MINUTE))
    try:
        return int(max(measure_lag(definition, state, now) for definition in definitions).total_seconds())
    except ValueError:  # of an edge of a newer version
        return None


def _describe_stream(stream: Stream, tables: Sequence[Series], first: datetime) -> dict[str, Any]:
    minutes = [sum(units.get(first + number * MINUTE, 0.0) for units in tables) for number in range(SHOWN)]
    written = [minute for units in tables for minute, value in units.items() if value > 0]
    return {
        "stream": stream.name,
        "write_units_per_second": sum(minutes[-MEASURED:]) / (MEASURED * 60),
        "write_units": minutes,
        "written": to_text(max(written)) if written else None,
    }


def _describe_stage(counted: Counted, measured: Sequence[datetime]) -> dict[str, Any]:
    seconds = MEASURED * 60
    arrivals = [counted.arrival[minute] for minute in measured if minute in counted.arrival]
    return {
        "events_per_second": sum(counted.events.get(minute, 0.0) for minute in measured) / seconds,
        "queued_per_second": sum(counted.queued.get(minute, 0.0) for minute in measured) / seconds,
        "arrival_seconds": sum(arrivals) / len(arrivals) if arrivals else None,
        "queue_seconds": _find_most(counted.waiting, measured),
        "rollup_lag_seconds": _find_most(counted.sealing, measured),
    }


def _find_most(series: Series, minutes: Sequence[datetime]) -> float | None:
    return max((series[minute] for minute in minutes if minute in series), default=None)
