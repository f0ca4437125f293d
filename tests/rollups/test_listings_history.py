"""On random histories a listing is that of the events that were sent, whatever happened to them since."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.worlds.listings import BY_HOUR, ask_listing, walk_listing
from tests.worlds.rebuilt import order
from tests.worlds.rolled import MINUTES, PACKED, PLAIN, START, World
from tidetable.catalog import State
from tidetable.events import Event
from tidetable.query.listings import kept
from tidetable.times import from_text, to_text

LENGTHS = {
    "0s": timedelta(0),
    "10m": timedelta(minutes=10),
    "20m": timedelta(minutes=20),
    "1h": timedelta(hours=1),
    "1d": timedelta(days=1),
}


@dataclass
class Sent:
    """What was stored: by series, time and id the data that was sent last."""

    events: dict[tuple[str, datetime, str], Mapping[str, Any]] = field(default_factory=dict)

    def note(self, event: Event) -> None:
        self.events[event.series, event.time, event.id] = event.data

    def seen(self, what: str, start: datetime, end: datetime) -> dict[Any, list[tuple[datetime, Any]]]:
        """Of each name or value its times, each with the value of a field."""
        found: dict[Any, list[tuple[datetime, Any]]] = {}
        for (series, time, _), data in self.events.items():
            if start <= time < end:
                values = {"series": {series: None}, "fields": data}.get(what, {data.get(what): None})
                for name, value in values.items():
                    if name is not None:
                        found.setdefault(name, []).append((time, value))
        return found


AGES = st.sampled_from([0, 60, 121, 300, 1_800, 7_200])
DRAWN = st.tuples(
    AGES, st.sampled_from(["a", "b", "ba", "b#", "é"]), st.sampled_from([None, "x", "y"]), st.sampled_from([1, "n", None]),
    st.sampled_from("pq"),
)  # fmt: skip
ACTIONS = st.one_of(
    st.tuples(st.just("write"), st.lists(DRAWN, min_size=1, max_size=4)),
    st.tuples(st.just("sleep"), st.sampled_from([30, 600, 3_600])),
    st.tuples(st.just("refresh"), st.none()),
    st.tuples(st.just("archive"), st.sampled_from(["s", "s-m"])),
    st.tuples(st.just("restore"), st.sampled_from(["s", "s-m"])),
    st.tuples(
        st.just("define"),
        st.sampled_from([MINUTES, replace(MINUTES, by=("kind",)), replace(MINUTES, every=timedelta(minutes=20))]),
    ),
    st.tuples(st.just("rebuild"), st.integers(0, 6)),
)
RANGES = st.tuples(st.integers(0, 30), st.integers(1, 30)).map(
    lambda drawn: (drawn[0] * 17, (drawn[0] + drawn[1]) * 17)
)
ASKED = st.tuples(
    st.sampled_from(["series", "fields", "kind"]),
    RANGES,
    st.sampled_from(["", "b", "m"]),
    st.integers(1, 4),
    st.sampled_from(["false", "true"]),
)
TYPES = {int: "number", str: "string", type(None): "null"}


def act(world: World, sent: Sent, action: tuple[Any, ...]) -> None:  # noqa: C901 - a table of actions
    kind, drawn = action
    match kind:
        case "write":
            for age, series, group, mag, id in drawn:
                world.sleep(1)
                minutes = max(int(((world.time - START).total_seconds() - age) / 60) // 5 * 5, 0)
                data = {"mag": mag} | ({} if group is None else {"kind": group})
                event = Event(series, START + timedelta(minutes=minutes), id, data)
                if world.entry("s", event.time).state is State.OPEN:
                    sent.note(event)
                world.write(event)
        case "sleep":
            world.sleep(drawn)
        case "refresh":
            world.refresh(owner=f"run {world.time}")
        case "archive":
            if world.entry(drawn, START).state is State.OPEN and world.time > START + timedelta(days=1):
                world.move_to_archive(drawn, START)
        case "restore":
            if world.entry(drawn, START).state is State.DELETED:
                world.restore(drawn, START)
        case "define":
            world.definitions["s"] = [drawn, BY_HOUR]
        case "rebuild":
            begin = START + timedelta(minutes=20 * drawn)
            order(world, world.definitions["s"][0], begin, begin + timedelta(hours=2))


def check(world: World, sent: Sent, drawn: tuple[str, tuple[int, int], str, int, str]) -> set[str]:
    """A listing is what was sent, page by page; returns the streams that were read."""
    what, (low, high), prefix, limit, consistent = drawn
    start, end = START + timedelta(minutes=low), START + timedelta(minutes=high)
    parameters = {"from": to_text(start), "to": to_text(end), "consistent": consistent}
    parameters |= {"prefix": prefix} if prefix else {}
    rows = walk_listing(world, what, limit=str(limit), **parameters)
    wanted = {name: times for name, times in sent.seen(what, start, end).items() if name.startswith(prefix)}
    assert [next(iter(row.values())) for row in rows] == sorted(wanted)
    for row, (_, seen) in zip(rows, sorted(wanted.items()), strict=True):
        times = [time for time, _ in seen]
        first, last = from_text(row["first"]), from_text(row["last"])
        assert first <= min(times) <= first + LENGTHS[row["first_within"]]
        assert last - LENGTHS[row["last_within"]] <= max(times) <= last
        if what == "fields":
            assert row["types"] == sorted({TYPES[type(value)] for _, value in seen})
    return {scan.entry.stream for scan in ask_listing(world, what, **parameters).sources}


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from([PLAIN, PACKED]),
    st.lists(ACTIONS, min_size=4, max_size=20),
    st.lists(ASKED, min_size=1, max_size=4),
)
def test_a_listing_is_the_set_of_what_was_sent(layout: Any, actions: list[Any], asked: list[Any]) -> None:
    """Late, overwritten, archived, restored and rebuilt: at every moment, in pages of any length, with any prefix.

    Consistent pages read their range, the others the names that the first page has kept.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept, "_WORTH", 0)
        patch.setattr(kept, "_FRAME", 2)
        check_history(layout, actions, asked)


def check_history(layout: Any, actions: list[Any], asked: list[Any]) -> None:
    """Check listings after each action of a history."""
    world, sent = World((MINUTES, BY_HOUR), layout), Sent()
    world.refresh()
    world.sleep(5_000)
    for action in actions:
        act(world, sent, action)
        if action[0] != "write":
            for one in asked:
                check(world, sent, one)
    world.sleep(90_000)
    world.refresh(owner="last")
    for what in ("series", "fields", "kind"):
        check(world, sent, (what, (10, 510), "", 2, "false"))
