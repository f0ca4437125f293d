"""The ``sequence`` of a change: of two states of an event, the state that queries show has the greater one."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import permutations
from random import Random
from typing import Any

import pytest

from aws.zstd import Zstd
from tests.fakes import FakeStore, FakeValues, unpacker
from tests.fakes.catalog import FakeCatalog
from tests.fakes.stage import Stage
from tests.worlds.large import NOON, ask, built, event, send
from tests.worlds.packing import make_packs
from tidetable.catalog import Entry, State
from tidetable.events import Event, Item
from tidetable.feed import Change, ChangeReader, StreamRecord
from tidetable.layout import Layout, Packing
from tidetable.packs import open_item
from tidetable.packs.walk import Walk
from tidetable.periods import Kind, find_containing
from tidetable.ports import Guarded, Put

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
TABLE = "tidetable-t.s.2026-03-01"
PLAIN = Layout("time", 2, "id", 3_600)
PACKED = Layout("time", 1, "id", 3_600, pack=Packing(60, 65_536))
BY_SUFFIX = Layout("time", 3, "series", 3_600, pack=Packing(60, 65_536))
BEGUN = 1_772_323_200_000


def read(item: Item, sequence: int, layout: Layout, begun: int = BEGUN) -> Sequence[Change]:
    entry = Entry("s", find_containing(NOW, Kind.DAY), TABLE, layout, State.OPEN, NOW)
    reader = ChangeReader(unpacker(FakeStore(FakeCatalog()), FakeValues()))
    return reader.read(StreamRecord(str(sequence), "replace", TABLE, item, NOW, begun), entry)


def choose_newest(changes: Sequence[Change]) -> Any:
    """Choose a state as a target does that keeps the greatest sequence. Its messages are JSON, so texts are compared."""
    states = [json.loads(change.encode(10_000)) for change in changes]
    assert len({len(state["sequence"]) for state in states}) == 1
    assert all(state["sequence"].isdigit() for state in states)
    return max(states, key=lambda state: str(state["sequence"]))["data"]


@pytest.mark.parametrize(
    "ats", [(7, 7), (9, 7), (7, 9)], ids=["in one millisecond", "a clock that is ahead", "clocks that agree"]
)
@pytest.mark.parametrize("numbers", [(1, 2), (9, 10), (999, 1_000), (8 * 10**37, 4 * 10**39)])
def test_of_two_states_of_an_item_the_one_that_was_written_last_counts(
    ats: tuple[int, int], numbers: tuple[int, int]
) -> None:
    """Queries show the item as it is: whatever the clocks of the functions said, the last write remains."""
    written = [PLAIN.make_item(Event("a", NOW, "e", {"n": n}), at=at) for n, at in enumerate(ats)]
    changes = [read(item, number, PLAIN)[0] for item, number in zip(written, numbers, strict=True)]
    for order in permutations(changes):
        assert choose_newest(order) == {"n": 1}


def test_a_period_that_is_made_anew_has_later_states_although_its_sequence_numbers_begin_anew() -> None:
    """A backfill after the table was deleted: the new table has a change stream of its own."""
    first = PLAIN.make_item(Event("a", NOW, "e", {"n": 0}), at=1)
    second = PLAIN.make_item(Event("a", NOW, "e", {"n": 1}), at=2)
    changes = [*read(first, 10**30, PLAIN), *read(second, 5, PLAIN, BEGUN + 86_400_000)]
    assert choose_newest(changes) == {"n": 1}


@pytest.mark.parametrize("layout", [PACKED, BY_SUFFIX], ids=["by content", "by series"])
@pytest.mark.parametrize("seed", range(30))
def test_of_the_copies_in_several_packs_the_one_counts_that_queries_show(seed: int, layout: Layout) -> None:
    """Copies of one millisecond, packs of the drain with an instant per event, and a state too large for a pack."""
    random = Random(seed)
    walk = Walk(span=60, ascending=False)
    changes: list[Change] = []
    items: list[Item] = []
    for n in range(5):
        wanted = Event("a", NOW, "e", {"n": n})
        other = Event("a", NOW + timedelta(seconds=random.randrange(3)), f"other {n}", {"n": n})
        at = random.choice([100, 100, 101])
        plain = [layout.make_item(wanted, at=at), layout.make_item(other, at=at + random.choice([0, 1]))]
        (pack,) = make_packs(plain, layout, Zstd()).packs
        items.append(pack.item)
    for number in random.sample(range(5), 5):
        changes += [change for change in read(items[number], 10 + number, layout) if change.id == "e"]
    for item in sorted(items, key=lambda item: str(item["sk"]), reverse=True):
        walk.add_item(open_item(item, layout, Zstd()))
    walk.settle_all()
    run = walk.pop_settled()
    (settled,) = [
        json.loads(str(copy.value))
        for place, copy in zip(run.places, run.copies, strict=True)
        if place.endswith("#a#e")
    ]
    random.shuffle(changes)
    assert choose_newest(changes) == settled


class Journal:
    """The changes of a table's newest versions, as its change stream has them: numbered in the order of the writes."""

    def __init__(self, stage: Stage) -> None:
        self.items: list[tuple[str, Item]] = []
        engine = stage.store
        write_each, transact = engine.write_each, engine.transact

        def keep(puts: Sequence[Put]) -> None:
            self.items += [(put.table, put.item) for put in puts]

        def observe_each(puts: Sequence[Put], guard: Any) -> Any:
            written = write_each(puts, guard)
            left = [id(put) for put in written.unwritten] + [id(put) for put, _ in written.conflicts]
            keep([put for put in puts if id(put) not in left])
            return written

        def observe(puts: Sequence[Guarded], entry: Any = None, total: Any = None) -> Any:
            done = transact(puts, entry, total)
            if done.name == "DONE":
                keep([put for put, _ in puts])
            return done

        engine.write_each, engine.transact = observe_each, observe  # type: ignore[method-assign, assignment]


def test_of_two_versions_in_one_request_the_newer_has_the_greater_sequence() -> None:
    """Both were accepted in the same millisecond, so ``at`` is equal."""
    stage = built()
    journal = Journal(stage)
    send(stage, "kept", event(0, {"n": "old"}), event(0, {"n": "new"}))
    send(stage, "kept", event(0, {"n": "newest"}))
    entries = stage.catalog.entries("kept", NOON, NOON)
    reader = ChangeReader(unpacker(FakeStore(FakeCatalog()), FakeValues()))
    changes = [
        change
        for number, (table, item) in enumerate(journal.items)
        for change in reader.read(StreamRecord(str(number), "replace", table, item, NOON, BEGUN), entries[0])
    ]
    assert [(change.data or {})["n"] for change in changes] == ["old", "new", "newest"]
    assert len({change.at for change in changes}) == 1
    for order in permutations(changes):
        assert choose_newest(order)["n"] == "newest"
    assert [row["data"]["n"] for row in ask(stage, "kept")] == ["newest"]
