"""The price of another configuration of a stream: the bill before and after, and changes that are worth a look."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import accumulate
from math import ceil
from typing import Any, NamedTuple

from bill.alternatives import PACKS, SHARED_PACKS, list_alternatives
from bill.current_bill import describe_workload
from bill.fixed import price_fixed
from bill.measured import BATCH, READ_BYTES
from bill.prices import describe_prices
from bill.table_bill import list_existing_periods, price_rolling
from bill.timeline import Day, list_days
from bill.walls import find_met_wall
from bill.workload import Workload
from bill.workload_bill import compute_whole_bill, price_lines
from tidetable.access import forbid_stream
from tidetable.config import Config, Stream
from tidetable.config.load import change_stream
from tidetable.errors import ConfigError
from tidetable.problems import refuse_parameter, refuse_unknown_stream

# A longer address does not pass the gateway (AWS: 10,240 bytes of request line and headers).
MAX_CHANGE = 3_000
# About so many days are shown, of at most so many.
_SHOWN, _LONGEST = 12, 400
# With more tables, no days are computed, because a caller would wait too long: a day of 500 tables takes 0.3 s on a
# whole processor. The bill takes a fraction of that time. More tables than `table_quota` (2,500) are refused.
_MOST_TABLES = 500
# For each parameter: its default (None: it is required), its least and its greatest value. Counts are whole numbers.
_NUMBERS: Mapping[str, tuple[float | None, float, float]] = {
    "rate": (None, 0, 1e7),
    "reads": (1.0, 0, 1e6),
    "old_reads": (0.0, 0, 1e6),
    "packed_bytes": (0.0, 0, 400_000),
    "seconds_per_request": (1.0, 0, 86_400),
    "late_share": (0.0, 0, 1),
    "latest": (0.0, 0, 1e6),
}
_COUNTS: Mapping[str, tuple[int, int, int]] = {
    "bytes": (1000, 1, 400_000),
    "batch": (BATCH, 1, 10_000),
    "read_bytes": (READ_BYTES, 1, 10_000_000),
    "archive_days": (365, 1, 36_500),
    "groups": (100, 1, 100_000),
    # 0: each event of a request is of another series.
    "series_per_request": (0, 0, 10_000),
}
_COUNT = re.compile(r"[0-9]{1,9}")
# A share of events, as it is written by hand or by a program.
_SHARE = re.compile(r"[0-9]+(\.[0-9]+)?(e-[0-9]+)?")
# Python's TOML parser calls itself once per level of nesting. A configuration has four levels.
_BRACKETS, _MOST_LEVELS = {"[": 1, "{": 1, "]": -1, "}": -1}, 20
KNOWN = ("stream", "change", "in_index", *_NUMBERS, *_COUNTS)


class Proposal(NamedTuple):
    """A workload to price, and the proposed lines of tidetable.toml."""

    workload: Workload
    change: str


def parse_proposal(config: Config, parameters: Mapping[str, Sequence[str]], sees: Callable[[str], bool]) -> Proposal:
    """Read the query string; ProblemError says what to change."""
    for name, values in parameters.items():
        if name not in KNOWN:
            raise refuse_parameter(f"{name[:64]} is not a parameter of this route; it has {', '.join(KNOWN)}")
        if len(values) > 1 and name != "in_index":
            raise refuse_parameter(f"{name} must be there once")
    single = {name: values[0] for name, values in parameters.items()}
    stream = _choose_stream(config, single.get("stream", ""), sees)
    numbers = {name: _read_number(single, name, *bounds) for name, bounds in _NUMBERS.items()}
    counts = {name: int(_read_number(single, name, *bounds, whole=True)) for name, bounds in _COUNTS.items()}
    change = single.get("change", "").strip()
    if len(change) > MAX_CHANGE:
        raise refuse_parameter(
            f"change has {len(change):,} characters, and may have {MAX_CHANGE:,}; use `bin/tidetable cost`"
        )
    workload = Workload(
        [numbers["rate"]] * 24,
        counts["bytes"],
        numbers["reads"],
        counts["read_bytes"],
        numbers["old_reads"],
        stream,
        counts["batch"],
        counts["archive_days"] if "archive_days" in single else None,
        _read_shares(stream, parameters.get("in_index", ())),
        numbers["packed_bytes"] or None,
        config.api.by_key,
        counts["groups"],
        counts["series_per_request"] or None,
        numbers["seconds_per_request"],
        config.find_keeping(stream.name),
        numbers["late_share"],
        numbers["latest"],
    )
    return Proposal(workload, change)


def compare_change(config: Config, proposal: Proposal, now: datetime, region: str) -> dict[str, Any]:
    """Return the bills of the present and the proposed configuration as JSON; without a proposal, priced
    alternatives.
    """
    workload, change = proposal
    before = _describe_plan(config, workload, now)
    after = _describe_plan(*_apply_change(config, workload, change), now) if change else None
    alternatives, refused = ([], []) if change else price_alternatives(config, workload, _sum_plan(before))
    return {
        "stream": workload.stream.name,
        "workload": describe_workload(workload)
        | {name: getattr(workload, name) for name in ("groups", "late_share", "latest")}
        | {"archive_days": workload.kept_archive_days},
        "before": before,
        "after": after,
        "saving": None if after is None else _subtract(_sum_plan(before), _sum_plan(after)),
        "alternatives": alternatives,
        "refused": refused,
        "change": change,
        "prices": describe_prices(region),
    }


def parse_change(text: str, stream: str) -> dict[str, Any]:
    """Parse a stream's keys from proposed lines of TOML, with or without [streams.NAME] above; ProblemError 400 for
    other lines.
    """
    # The greatest number of brackets that are open at once. A bracket inside a quoted text counts, too.
    if max(accumulate(_BRACKETS.get(character, 0) for character in text), default=0) > _MOST_LEVELS:
        raise refuse_parameter("change is nested too deeply")
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise refuse_parameter(f"change is not TOML: {error}") from error
    if "streams" not in document:
        return document
    streams = document.pop("streams")
    if document or not isinstance(streams, dict) or set(streams) != {stream} or not isinstance(streams[stream], dict):
        raise refuse_parameter(f"change: write only keys of [streams.{stream}], in the form of tidetable.toml")
    keys: dict[str, Any] = streams[stream]
    return keys


def _sum_plan(plan: Mapping[str, Any]) -> float | None:
    """Sum the stream's own and the stage's fixed dollars of a plan; None if the plan cannot take the load."""
    return None if plan["dollars"] is None else plan["dollars"] + plan["fixed"]["dollars"]


def _subtract(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else before - after


def price_alternatives(
    config: Config, workload: Workload, before: float | None
) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """Return the alternatives that the configuration allows, with the greatest saving first, and the others with the
    reasons.

    ``before`` are the dollars of the present configuration with the fixed costs; None if it cannot take the load.
    """
    priced, refused = [], []
    for alternative in list_alternatives(workload):
        try:
            changed, other = _change_workload(config, workload, alternative.toml)
        except ConfigError as error:
            refused.append({"name": alternative.name, "reason": error.problems[0]})
            continue
        # By series, packs save nothing if the events of a request are of different series; packs of many series save
        # nothing beside packs of a series each.
        if alternative.name in (PACKS, SHARED_PACKS) and other.event_units >= workload.event_units:
            continue
        wall = find_met_wall(other, changed)
        if wall is not None:
            refused.append({"name": alternative.name, "reason": wall.text})
            continue
        dollars = sum(line.dollars for line in price_lines(other, price_rolling(other)))
        fixed = sum(line.dollars for line in price_fixed(changed, busy=other.is_busy))
        saving = _subtract(before, dollars + fixed)
        priced.append({**alternative._asdict(), "dollars": dollars, "saving": saving, "whole": dollars + fixed})
    priced.sort(key=lambda alternative: alternative.pop("whole"))
    return priced, refused


def _describe_plan(config: Config, workload: Workload, now: datetime) -> dict[str, Any]:
    """Return the bill, and the tables day by day from an empty start until their number stays the same.

    A load that the configuration cannot take has no price: only the wall that it meets.
    """
    bill = compute_whole_bill(workload, config)
    if bill.is_impossible:
        return {"dollars": None, **bill.document(), "lines": [], "discounts": [], "advice": [], "days": []}
    return {
        "dollars": bill.dollars,
        **bill.document(),
        "days": [
            {"day": (day.at - start).days, "tables": day.tables, **day.document()}
            for start, day in _list_days(workload, now)
        ],
    }


def _list_days(workload: Workload, now: datetime) -> Iterator[tuple[datetime, Day]]:
    """Yield the tables day by day from an empty start until their number stays the same; no days if there are too many
    tables.
    """
    days = min(ceil(workload.kept_days + workload.stream.late.total_seconds() / 86_400) + 2, _LONGEST)
    start = now.replace(hour=12, minute=0, second=0, microsecond=0)
    if sum(1 for _ in list_existing_periods(workload.stream, start)) > _MOST_TABLES:
        return
    for day in list_days(workload.stream, start, days, workload, every=ceil(days / _SHOWN)):
        yield start, day


def _change_workload(config: Config, workload: Workload, change: str) -> tuple[Config, Workload]:
    """Return the changed configuration and the workload for its stream; ConfigError if the change is not allowed."""
    name = workload.stream.name
    changed = change_stream(config, name, parse_change(change, name))
    return changed, replace(workload, stream=changed.streams[name], keeping=changed.find_keeping(name))


def _apply_change(config: Config, workload: Workload, change: str) -> tuple[Config, Workload]:
    """Do the same as ``_change_workload``, but with ProblemError instead of ConfigError."""
    try:
        return _change_workload(config, workload, change)
    except ConfigError as error:
        problems = "; ".join(f"{problem}{_find_line(problem, change)}" for problem in error.problems[:5])
        raise refuse_parameter(f"change: {problems}") from error


def _find_line(problem: str, change: str) -> str:
    """Return the number of the line that has the wrong key, as text; an empty text if no line has it."""
    key = re.split(r"[.\[\]]+", problem.partition(":")[0].rstrip("]"))[-1]
    for number, line in enumerate(change.splitlines(), 1):
        if re.search(rf"(^|[\s.\[{{,]){re.escape(key)}\s*(=|\])", line):
            return f" (line {number})"
    return ""


def _choose_stream(config: Config, name: str, sees: Callable[[str], bool]) -> Stream:
    written = {stream.name: None for stream in config.streams.values() if not stream.source and sees(stream.name)}
    if not name:
        raise refuse_parameter(f"stream: missing; name one of {', '.join(written)}")
    if not sees(name):
        raise forbid_stream(name, "operate")
    stream = config.streams.get(name)
    if stream is None:
        raise refuse_unknown_stream(name, written)
    if stream.source:
        raise refuse_parameter(
            f"stream: {name} is a rollup of {stream.source}, and the bill of {stream.source} has its price; price that stream"
        )
    return stream


def _read_number(
    values: Mapping[str, str], name: str, default: float | None, least: float, most: float, *, whole: bool = False
) -> float:
    if name not in values:
        if default is None:
            raise refuse_parameter(
                f"{name}: missing; add events per second, such as rate=50. GET /v1/cost answers the measured rate"
            )
        return default
    try:
        number = float(values[name])
    except ValueError:
        number = float("nan")
    if not least <= number <= most or (whole and not _COUNT.fullmatch(values[name])):
        kind = "a whole number" if whole else "a number"
        raise refuse_parameter(f"{name} must be {kind} from {least:,.0f} to {most:,.0f}")
    return number


def _read_shares(stream: Stream, words: Sequence[str]) -> dict[str, float]:
    names = [index.name for index in stream.index]
    shares = {}
    for word in words:
        name, _, text = word.rpartition(":")
        if name not in names or not _SHARE.fullmatch(text) or float(text) > 1:
            raise refuse_parameter(
                f"in_index={word[:64]}: write an index and the share of events in it, such as by_error:0.01; "
                f"the indexes are {', '.join(names) or 'none'}"
            )
        shares[name] = float(text)
    return shares
