"""Checks of a stream's rollups."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from itertools import pairwise

from tidetable.config.bounds import MAX_OPEN_TABLES, MAX_RETENTION, check_bounds, find_repeated
from tidetable.config.derive import derive_late, derive_name
from tidetable.config.model import Stream
from tidetable.config.stream import MAX_CELLS, RollupPolicy
from tidetable.names import STREAM
from tidetable.periods import LONGEST
from tidetable.statistics import DEFAULT_KEPT, KEPT

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,30}", re.ASCII)
_DAY = timedelta(days=1)
# Each bucket is read and written by itself: with buckets shorter than a minute, that would cost more than the events.
_LEAST = timedelta(minutes=1)
MAX_ROLLUPS = 5
MAX_BY = 4
MAX_FIELDS = 64


def check_rollups(stream: Stream, streams: Mapping[str, Stream]) -> Iterator[str]:
    """Yield the problems of ``[[streams.NAME.rollup]]``, each with its fix."""
    rollups = stream.rollup
    if not rollups:
        return
    if len(rollups) > MAX_ROLLUPS:
        yield f".rollup: {len(rollups)} rollups; choose at most {MAX_ROLLUPS}, as each reads the stream or a finer rollup"
    names = [rollup.name for rollup in rollups]
    for name in find_repeated(names):
        yield f'.rollup: two rollups are named "{name}"; rename one of them'
    for rollup in rollups:
        problems = [*_check_name(stream, rollup, streams), *_check_every(rollup), *_check_groups(stream, rollup)]
        problems += _check_tables(stream, rollup)
        yield from (f".rollup.{rollup.name}{problem}" for problem in problems)
    yield from _check_multiples(rollups)


def _check_name(stream: Stream, rollup: RollupPolicy, streams: Mapping[str, Stream]) -> Iterator[str]:
    name = derive_name(stream.name, rollup)
    if not _NAME.fullmatch(rollup.name):
        yield ".name: a name is 1 to 31 of a-z, 0-9, _ and -, and begins with a letter; rename it"
    elif not STREAM.fullmatch(name):
        yield f".name: the rollup is the stream {name}, and a stream's name has 63 characters at the most; shorten it"
    elif name in streams and streams[name].source != stream.name:
        yield f".name: the rollup is the stream {name}, and there is another stream of that name; rename one of them"


def _check_every(rollup: RollupPolicy) -> Iterator[str]:
    if rollup.every < _LEAST or _DAY % rollup.every:
        yield f'.every: {rollup.every} is not within 1m to 1d, or does not divide a day; choose such as "1m", "1h" or "1d"'


def _check_multiples(rollups: tuple[RollupPolicy, ...]) -> Iterator[str]:
    """Check that each step is a multiple of the finer steps.

    Marks are buckets of the finest rollup, and a coarser rollup is made of the cells of a finer rollup.
    """
    ordered = sorted((rollup for rollup in rollups if rollup.every > timedelta(0)), key=lambda rollup: rollup.every)
    for finer, coarser in pairwise(ordered):
        if coarser.every % finer.every:
            yield (
                f".rollup.{coarser.name}.every: {coarser.every} is not a multiple of the {finer.every} of {finer.name}; choose"
                ' such as "1m", "1h" and "1d"'
            )


def _check_groups(stream: Stream, rollup: RollupPolicy) -> Iterator[str]:
    yield from _check_paths(".by", rollup.by, MAX_BY, '"series" and fields', stream)
    yield from _check_paths(".fields", rollup.fields, MAX_FIELDS, "fields", stream)
    if "series" in rollup.fields:
        yield '.fields: "series" can only group events; name it in by'
    if not rollup.stats or find_repeated(rollup.stats):
        yield '.stats: name each statistic once, such as ["count", "sum"]'
    # The statistics of the default are not refused: a rollup that only counts events need not name its stats.
    of_fields = [stat for stat in rollup.stats if KEPT[stat].needs_field and stat not in DEFAULT_KEPT]
    if of_fields and not rollup.fields:
        yield f'.fields: missing; "{of_fields[0]}" needs fields of data that hold numbers, such as ["mag"]'
    if rollup.max_groups is not None:
        detail = f", {MAX_CELLS} divided by the number of fields"
        yield from check_bounds(".max_groups", rollup.max_groups, 1, rollup.groups_that_fit, detail)


def _check_paths(at: str, paths: tuple[str, ...], most: int, what: str, stream: Stream) -> Iterator[str]:
    if len(paths) > most or find_repeated(paths):
        yield f"{at}: name at most {most} {what} of data, each once"
    for path in paths:
        if "," in path or not all(path.split(".")):
            yield (
                f'{at}: "{path}" cannot be named in a query; name a field of data without commas,'
                ' such as "mag" or "place.depth"'
            )
        elif path.partition(".")[0] in stream.cold:
            yield f'{at}: "{path}" is a cold field, which is shown and not searched; remove it here or from cold'


def _check_tables(stream: Stream, rollup: RollupPolicy) -> Iterator[str]:
    length, late = LONGEST[rollup.kind], derive_late(stream)
    if rollup.every > length:
        yield f'.period: a table of an {rollup.kind} does not hold a step of {rollup.every}; choose "day" or longer'
    if not late <= rollup.retention <= MAX_RETENTION:
        yield (
            f".retention: {rollup.retention} is not within {late} (until then late events change the rollup) to"
            f' {MAX_RETENTION}; choose such as "730d"'
        )
    if late // length + 4 > MAX_OPEN_TABLES:
        yield f".period: with late = {stream.late} more than {MAX_OPEN_TABLES} tables would be open; choose a longer period"
