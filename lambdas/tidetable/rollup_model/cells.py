"""Cells: the state of each group of a bucket, as events of the rollup's own stream.

A cell's time is the start of its bucket. Its series is the series of its events if the rollup groups by series,
otherwise "*". Its id holds the definition's key and the other values of its group. States can be merged: a merged state
has exactly the statistics of all events together.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal, localcontext
from hashlib import sha256
from typing import Any

from tidetable.batch import pick_values
from tidetable.events import Event, JsonObject
from tidetable.exact_json import EXACT
from tidetable.forms.field_columns import KINDS, FieldColumns, join_columns, spread_data
from tidetable.packs.numbers import settle_text
from tidetable.ports import Sketches
from tidetable.rollup_model.definition import SERIES, Definition
from tidetable.rollup_model.group_values import (
    Group,
    find_groups,
    make_group_value,
    measure_group,
    shorten_name,
)
from tidetable.rollup_model.numbers import Number, Numbers, Times, read_numbers
from tidetable.statistics import PERCENTILES, TIMES

ALL_SERIES, FIELDS_ID = "*", "fields"
MAX_NAMES = 1_000  # of fields, of one bucket
# The most characters of the texts of all groups of a bucket. With characters of four bytes they take 1,030 MB while the
# bucket is computed anew and written (measured); the refresher has 1,769.
MAX_TEXTS = 40_000_000
# AWS: a sort key has at most 1,024 bytes. A cell's id is only one piece of a sort key.
_MAX_ID_BYTES, _HASH_BYTES = 200, 16
# The most events that wait to be grouped, and the most numbers that wait to be folded: a Decimal takes 104 bytes.
_MOST_JOINED, _MOST_WAITING = 60_000, 200_000
_NUMBERS, _ENDS = frozenset({int, Decimal}), frozenset({"first", "last"})


@dataclass(slots=True)
class GroupState(Times):
    """The state of one group: the count of its events, and the numbers of each field that at least one event has."""

    count: int = 0
    fields: dict[str, Numbers] = field(default_factory=dict)


@dataclass(slots=True)
class Cell:
    """A cell that was read: the start of its bucket, the values of its group by their names, and its state."""

    time: datetime
    by: JsonObject
    state: GroupState

    def select_group(self, names: Iterable[str]) -> Group:
        """Return the cell's group with only the values of ``names``."""
        return tuple([make_group_value(self.by.get(name)) for name in names])

    @property
    def data(self) -> JsonObject:
        """The values of the cell's group at their paths, in the form of an event's data."""
        data: JsonObject = {}
        for path, value in self.by.items():
            if path == SERIES or value is None:
                continue
            *tops, name = path.split(".")
            inner = data
            for top in tops:
                if not isinstance(inner.get(top), dict):
                    inner[top] = {}
                inner = inner[top]
            inner.setdefault(name, value)
        return data


class Bucket:
    """The groups of one bucket of a rollup, and the names and kinds of the fields that its events have.

    Events and numbers wait, and are added many at a time, as a call per event would cost more than the event. Whoever
    reads the groups folds them first.
    """

    def __init__(self, definition: Definition, sketches: Sketches) -> None:
        self.definition = definition
        self._sketches = sketches
        self._sketched = sketches if PERCENTILES in definition.kept_statistics else None
        self._timed = not definition.kept_statistics.isdisjoint(TIMES)
        self._has_ends = not definition.kept_statistics.isdisjoint(_ENDS)
        self._waiting: dict[str, dict[Group, list[Number]]] = {path: {} for path in definition.fields}
        self._added: list[FieldColumns] = []
        self._count = self._folded = 0
        self.groups: dict[Group, GroupState] = {}
        self.names: dict[str, set[str]] = {}
        # ``over`` are the groups of a part that has too many of them.
        self.texts = self.over = 0

    @property
    def is_over(self) -> bool:
        """True if there are more groups, or longer texts of groups, than the rollup may have."""
        return max(len(self.groups), self.over) > self.definition.max_groups or self.texts > MAX_TEXTS

    def count_events(self) -> int:
        """Count the events of all groups."""
        return sum(state.count for state in self.groups.values())

    def describe_over(self) -> str:
        """Say why the bucket is over."""
        if self.texts > MAX_TEXTS:
            return f"the values of by have more than {MAX_TEXTS} characters together"
        return f"more than {self.definition.max_groups} groups"

    def add(self, columns: FieldColumns) -> None:
        """Add events, which are in the order of time, with the columns of the definition or of their whole data."""
        if not columns.times:
            return
        self._added.append(spread_data(columns, self.definition.columns))
        self._count += len(columns)
        # The order of time ends with the columns, so they are not joined if it decides the first and the last event.
        if self._timed or self._has_ends or self._count >= _MOST_JOINED:
            self._group_events()
        if self._folded > _MOST_WAITING:
            self.fold()

    def _group_events(self) -> None:
        """Divide the added events into groups."""
        definition, added = self.definition, self._added
        columns = added[0] if len(added) == 1 else join_columns(added)
        self._added, self._count = [], 0
        named = [columns.series if name == SERIES else columns.values[name] for name in definition.by]
        keys, groups = find_groups(named, len(columns))
        members: defaultdict[Any, list[int]] = defaultdict(list)
        for number, key in enumerate(keys):
            members[key].append(number)
        for key, numbers in members.items():
            state = self._find_state(groups[key])
            state.count += len(numbers)
            if self._timed:
                state.widen(columns.times[numbers[0]], columns.times[numbers[-1]])
        for path in definition.fields:
            self._add_numbers(path, [(groups[key], numbers) for key, numbers in members.items()], columns)
        self._note_kinds({pair for kinds in set(columns.values[KINDS]) for pair in kinds})

    def _add_numbers(self, path: str, members: Iterable[tuple[Group, Sequence[int]]], columns: FieldColumns) -> None:
        """Let the numbers of a field wait, and add what depends on their places and times.

        ``members`` are the groups, each with the places of its events.
        """
        values, waiting = columns.values[path], self._waiting[path]
        all_numbers = set(map(type, values)) <= _NUMBERS
        for group, places in members:
            if not all_numbers:
                places = [place for place in places if type(values[place]) in _NUMBERS]
            if not places:
                continue
            waiting.setdefault(group, []).extend(pick_values(values, places))
            self._folded += len(places)
            if self._timed or self._has_ends:
                ends = places[0], places[-1]
                state = self.groups[group].fields.setdefault(path, Numbers())
            if self._timed:
                state.widen(*[columns.times[end] for end in ends])
            if self._has_ends:
                state.add_ends(*[(columns.make_place(end), values[end]) for end in ends])

    def fold(self) -> None:
        """Add all events and numbers that wait to the groups."""
        if self._added:
            self._group_events()
        with localcontext(EXACT):
            for path, waiting in self._waiting.items():
                for group, numbers in waiting.items():
                    self.groups[group].fields.setdefault(path, Numbers()).add_all(numbers, self._sketched)
                waiting.clear()
        self._folded = 0

    def _note_kinds(self, kinds: Iterable[tuple[str, str]]) -> None:
        """Note the names and kinds of fields."""
        for name, kind in kinds:
            self.names.setdefault(shorten_name(name), set()).add(kind)
        self._limit_names()

    def merge(self, cell: Cell) -> None:
        """Add a cell of a finer rollup to its group."""
        state = self._find_state(cell.select_group(self.definition.by))
        state.count += cell.state.count
        state.widen(cell.state.first_at, cell.state.last_at)
        for path in self.definition.fields:
            if path in cell.state.fields:
                state.fields.setdefault(path, Numbers()).merge(cell.state.fields[path], self._sketches)

    def merge_names(self, names: Mapping[str, Iterable[str]]) -> None:
        """Add the names and kinds of the fields of a finer bucket."""
        self._note_kinds((name, kind) for name, kinds in names.items() for kind in kinds)

    def _find_state(self, group: Group) -> GroupState:
        state = self.groups.get(group)
        if state is None:
            state = self.groups[group] = GroupState()
            self.texts += measure_group(group)
        return state

    def _limit_names(self) -> None:
        """Keep only the first names in alphabetical order, so that the same events give the same names."""
        if len(self.names) > 2 * MAX_NAMES:
            self.names = {name: self.names[name] for name in sorted(self.names)[:MAX_NAMES]}

    def make_events(self, start: datetime) -> list[Event]:
        """Make events of the bucket's cells, and one event with the names of its fields."""
        self.fold()
        definition = self.definition
        events = []
        for group, state in self.groups.items():
            by = {name: value for name, (_, value) in zip(definition.by, group, strict=True)}
            series = by.pop(SERIES, ALL_SERIES)
            fields = {path: numbers.document(definition.kept_statistics) for path, numbers in state.fields.items()}
            id = make_id(definition, list(by.values()))
            times = state.show_times(definition.kept_statistics)
            events.append(Event(series, start, id, {"by": by, "count": state.count, **times, "fields": fields}))
        if self.names:
            names = {name: sorted(self.names[name]) for name in sorted(self.names)[:MAX_NAMES]}
            events.append(Event(ALL_SERIES, start, FIELDS_ID, {"names": names}))
        return events


def make_id(definition: Definition, values: Sequence[Any]) -> str:
    """Make the id of a group's cell: the definition's key, then the group's values as JSON, or the hash of long ones."""
    text = f"[{','.join(map(settle_text, values))}]"
    if len(text.encode()) > _MAX_ID_BYTES:
        text = f"~{urlsafe_b64encode(sha256(text.encode()).digest()[:_HASH_BYTES]).decode().rstrip('=')}"
    return definition.key + text


def make_removed_cell(event: Event) -> Event:
    """Make the empty event that replaces the cell of a group without events, or a list of names without a name."""
    if event.id == FIELDS_ID:
        return Event(event.series, event.time, event.id, {"names": {}})
    return Event(event.series, event.time, event.id, {"by": event.data.get("by", {}), "count": 0, "fields": {}})


def is_removed(event: Event) -> bool:
    """True if an event is an empty event from ``make_removed_cell``."""
    return not event.data.get("names", event.data.get("count"))


def parse_cell(definition: Definition, event: Event, sketches: Sketches, fields: Iterable[str]) -> Cell | None:
    """Read the cell in an event of the rollup's stream, with the numbers of ``fields``.

    None if the event is not a cell of this definition, or is an empty cell.
    """
    data = event.data
    if not event.id.startswith(definition.key) or not data.get("count"):
        return None
    by = dict(data["by"])
    if SERIES in definition.by:
        by[SERIES] = event.series
    states = data["fields"]
    numbers = {path: read_numbers(states[path], sketches) for path in fields if path in states}
    times = {name: data.get(name, "") for name in TIMES}
    return Cell(event.time, by, GroupState(data["count"], numbers, **times))


def parse_names(definition: Definition, event: Event) -> Mapping[str, Sequence[str]]:
    """Read the names and kinds of fields that an event of the rollup's stream holds for a bucket of the definition.

    A list of names does not contain a definition's key. An earlier definition with shorter buckets may have left lists
    inside a bucket, so only the list at the start of the bucket counts.
    """
    if event.id != FIELDS_ID or definition.floor(event.time) != event.time:
        return {}
    names: Mapping[str, Sequence[str]] = event.data.get("names", {})
    return names
