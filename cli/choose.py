"""Find the periods that a command names, and the reason why a period cannot be archived yet.

Only the catalog is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice

from cli.errors import USAGE, CommandError
from tidetable.catalog import Entry, State, find_entry
from tidetable.config import Config
from tidetable.errors import InvalidName
from tidetable.expiry import compute_closing, compute_settling
from tidetable.periods import Kind, Period, find_containing, parse_label
from tidetable.ports import Catalog
from tidetable.problems import describe_unknown_stream
from tidetable.times import to_text

_EXAMPLE = datetime(2026, 10, 5, 13, tzinfo=UTC)
DONE = frozenset({State.ARCHIVED, State.DELETED})


class NoChoice(CommandError):
    """A command names a stream or a period that does not exist; the message says which exist."""


class UnknownStream(NoChoice):
    """The stage has no stream of this name."""

    code = USAGE


def check_stream(catalog: Catalog, stream: str) -> None:
    """Raise UnknownStream, with the names that exist, if the stage never had a stream or rollup of this name."""
    known = sorted(policy.stream for policy in catalog.list_policies())
    if stream not in known:
        raise UnknownStream(describe_unknown_stream(stream, known))


def find_entries(catalog: Catalog, stream: str, first: str, last: str | None) -> list[Entry]:
    """Find the entries from the period ``first`` to the period ``last``, both included.

    NoChoice if a name is wrong or no period matches.
    """
    ends = [*islice(catalog.walk(stream, ascending=True), 1), *islice(catalog.walk(stream), 1)]
    if not ends:
        check_stream(catalog, stream)
        raise NoChoice(f"{stream} has no periods yet")
    start, end = (_read_label(catalog, stream, label, ends).start for label in (first, last or first))
    if end < start:
        raise NoChoice(f"{last} is before {first}: write the older period first")
    named_entries = [entry for entry in catalog.entries(stream, start, end) if start <= entry.period.start <= end]
    if not named_entries or (last is None and named_entries[0].period.label != first):
        labels = list(dict.fromkeys(entry.period.label for entry in ends))
        range_name = first if last is None else f"from {first} to {last}"
        raise NoChoice(f"{stream} has no period {range_name}; it has {' to '.join(labels)}")
    return named_entries


def explain_open_period(entry: Entry, config: Config | None, now: datetime) -> str:
    """Explain why a period cannot be archived yet, and when it can be archived; empty if it can be archived now."""
    name = f"{entry.stream} {entry.period.label}"
    if entry.is_open(now) and entry.opened is not None:
        until = to_text(entry.opened.until)[:16]
        return f"{name} is open for a backfill until {until}Z: close it with `backfill {entry.stream} --end`, or wait"
    if entry.state is State.RESTORING:
        return f"{name} is being restored: `restore` continues it"
    policy = config.streams.get(entry.stream) if config is not None else None
    if entry.state not in (State.OPEN, State.CREATING):
        settled = compute_settling(entry, policy.late if policy is not None else timedelta())
        if entry.state is State.CLOSED and now <= settled:
            return f"{name} has just closed, and writes may still land: archive it after {to_text(settled)[:16]}Z"
        return ""
    if policy is None:
        return f"{name} is open: it closes `late` after its end, {to_text(entry.period.end)[:16]}Z, and can be archived then"
    closes = compute_closing(entry.period, policy)
    if closes < now:
        return f"{name} has ended and is closed by the next run of the lifecycle: run `apply`, then archive it"
    return f"{name} is open: it closes at {to_text(closes)[:16]}Z, `late` after its end, and can be archived then"


def _read_label(catalog: Catalog, stream: str, label: str, ends: Sequence[Entry]) -> Period:
    """Read a label. ``ends`` are the oldest and the newest entry; periods between them may be of other kinds."""
    kinds = list(dict.fromkeys(entry.period.kind for entry in ends))
    try:
        period = parse_label(label)
    except InvalidName as error:
        raise NoChoice(f"{label!r} is not a period of {stream}: {_describe_forms(kinds)}") from error
    if period.kind not in kinds and find_entry(catalog.entries(stream, period.start, period.start), period) is None:
        raise NoChoice(f"{stream} has no period {label!r}: {_describe_forms(kinds)}")
    return period


def _describe_forms(kinds: Sequence[Kind]) -> str:
    """Describe the form of labels of these kinds of periods, with examples."""
    forms = [
        f"{'an' if kind is Kind.HOUR else 'a'} {kind.value} here: {find_containing(_EXAMPLE, kind).label}"
        for kind in kinds
    ]
    return f"a period is {', or '.join(forms)}"
