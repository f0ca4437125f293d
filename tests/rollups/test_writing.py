"""How the refresher writes cells: guarded, packed, and never twice."""

import random
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes.refresher import expect_failures
from tests.worlds.rolled import MINUTES, QUERIES, START, begin_rollups, reading, show_edges
from tidetable.catalog import State
from tidetable.layout import Packing
from tidetable.packs import open_item
from tidetable.times import to_text
from tidetable.values import count_item_bytes


@pytest.mark.parametrize("state", [State.ARCHIVING, State.ARCHIVED, State.DELETED])
def test_cells_are_not_written_to_a_table_that_is_archived(state: State) -> None:
    world = begin_rollups((MINUTES,))
    world.write(reading(45, 1))
    world.refresh()
    world.write(reading(46, 5))
    world.sleep(400)
    world.set_state("s-m", START, state)
    before = dict(world.store.tables["tidetable-t.s-m.2026-03-02"])
    report = world.refresh()
    assert report is not None
    assert "restore it by bin/tidetable restore s-m 2026-03-02" in report.blocked[0]
    assert len(world.rollups.marks) == 1
    assert world.store.tables["tidetable-t.s-m.2026-03-02"] == before


def test_a_table_that_closed_takes_cells_only_while_the_catalog_says_so() -> None:
    """The table is archived between the look at the catalog and the write."""
    world = begin_rollups((MINUTES,))
    world.write(reading(45, 1))
    world.refresh()
    world.write(reading(46, 5))
    world.sleep(400)
    world.set_state("s-m", START, State.CLOSED)
    world.store.between = lambda: world.set_state("s-m", START, State.ARCHIVING)
    before = dict(world.store.tables["tidetable-t.s-m.2026-03-02"])
    report = world.refresh()
    assert report is not None
    assert report.resealed == 0
    assert len(world.rollups.marks) == 1
    assert world.store.tables["tidetable-t.s-m.2026-03-02"] == before


def test_later_cells_win_though_the_clock_went_back() -> None:
    """A group's cell is written by a clock that is ahead, and again by one that is behind."""
    world = begin_rollups((MINUTES,))
    world.write(reading(45, 1))
    world.refresh(error=5)
    # The mark is old: the writer's clock does not matter here.
    world.put(world.entry("s", START), [reading(46, 5)], 1)
    world.rollups.marks = {("s", START + timedelta(minutes=40), MINUTES.every): 0}
    report = world.refresh(error=-5)
    assert report is not None
    assert report.resealed == 1
    assert not world.rollups.marks
    assert [row["sum"] for row in world.ask(step="10m", stat="sum", field="mag").rows] == [6]
    assert world.check(QUERIES) > 0


def test_later_cells_win_over_the_newest_of_several_packs_though_the_clock_went_back() -> None:
    """The bucket has two packs: one of both groups, and a later one of the group that changed."""
    world = begin_rollups((MINUTES,))
    world.write(reading(45, 1, kind="x"), reading(45, 10, kind="y", id="q"))
    world.refresh()
    for minute, mag, error in ((46, 5, 5), (47, 50, -5)):
        world.put(world.entry("s", START), [reading(minute, mag, kind="x")], 1)
        world.rollups.marks, world.rollups.resealed = {("s", START + timedelta(minutes=40), MINUTES.every): 0}, {}
        report = world.refresh(error=error)
        assert report is not None
        assert (report.resealed, report.failed) == (1, [])
    answer = world.ask(step="10m", by="kind", stat="sum", field="mag")
    assert [row["sum"] for row in answer.rows] == [56, 10]
    assert {scan.entry.stream for scan in answer.sources if scan.start < START + timedelta(hours=1)} >= {"s-m"}
    assert world.check(QUERIES) > 0


def test_a_group_that_has_no_events_any_more_is_gone() -> None:
    """An event is overwritten with data of another group."""
    world = begin_rollups()
    world.write(reading(62, 1, kind="x", id="p"))
    world.sleep(10_000)
    world.refresh()
    world.write(reading(62, 1, kind="y", id="p"))
    world.sleep(400)
    world.refresh()
    assert not world.rollups.marks
    for step in ("10m", "1h"):
        rows = world.ask(step=step, by="kind", **{"from": to_text(START + timedelta(hours=1))}).rows
        assert [(row["group"]["kind"], row["count"]) for row in rows] == [("y", 1)]


@expect_failures("written by another run")
@pytest.mark.parametrize("state", [State.OPEN, State.CLOSED])
def test_cells_that_another_run_wrote_later_are_left_as_they_are(state: State) -> None:
    """They were written between this run's look at the table and its write."""
    world = begin_rollups((MINUTES,))
    world.write(reading(45, 1, kind="x"))
    world.refresh()
    table = world.store.tables["tidetable-t.s-m.2026-03-02"]
    world.write(reading(46, 5, kind="x"))
    world.sleep(400)
    world.set_state("s-m", START, state)

    name = "write_each" if state is State.OPEN else "transact"
    inner = getattr(world.store, name)

    def write(puts: Any, other: Any) -> Any:
        # The same group of the same bucket has the same key: the pack is of the other run's.
        for put in [getattr(put, "put", put) for put in puts]:
            table[put.key] = {**put.item, "at": put.item["at"] + 60_000, "n": 0}
        return inner(puts, other)

    setattr(world.store, name, write)
    report = world.refresh()
    assert report is not None
    assert report.failed == ["s: cells of s-m were written by another run"]
    assert (report.resealed, report.marks) == (0, 1)
    assert [item["n"] for item in table.values()].count(0) == 1


def test_cells_of_a_table_that_is_gone_are_not_sealed() -> None:
    """It goes between the look at its cells and the write."""
    world = begin_rollups((MINUTES,))
    world.write(reading(45, 1, kind="x"))
    write_each = world.store.write_each

    def write(puts: Any, guard: Any) -> Any:
        del world.store.tables["tidetable-t.s-m.2026-03-02"]
        return write_each(puts, guard)

    world.store.write_each = write  # type: ignore[method-assign]
    report = world.refresh()
    assert report is not None
    assert report.blocked == ["s-m: table tidetable-t.s-m.2026-03-02 does not exist"]
    assert show_edges(world, "m") == ["00:10-00:40"]


@pytest.mark.parametrize("count", [25, 26, 130])
def test_a_bucket_of_a_closed_table_is_written_in_transactions_that_aws_takes(count: int) -> None:
    """AWS: 100 actions, of 4 MB together. Its cells are too long for a few packs."""
    world = begin_rollups((MINUTES,))
    layout = world.entry("s-m", START).layout
    plain = replace(layout, pack=None)
    entry = world.entry("s-m", START)
    world.catalog.items["s-m", entry.period] = replace(entry, layout=plain, state=State.CLOSED)
    world.write(*[reading(45, n, f"s{n}") for n in range(count)])
    sizes: list[int] = []
    transact = world.store.transact

    def count_actions(puts: Any, entry: Any = None, total: Any = None) -> Any:
        sizes.append(len(puts))
        return transact(puts, entry, total)

    world.store.transact = count_actions  # type: ignore[method-assign]
    report = world.refresh()
    assert report is not None
    assert (report.failed, report.blocked, max(sizes)) == ([], [], 25)
    assert sum(sizes) == count + 1
    assert world.check(QUERIES) > 0


def test_large_cells_of_a_closed_table_are_written_in_transactions_of_few_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Cells of 2,100 characters, with a bound of 20,000 bytes instead of 4 MB."""
    monkeypatch.setattr("tidetable.rollups.writing._TRANSACTED_BYTES", 20_000)
    world = begin_rollups((MINUTES,))
    entry = world.entry("s-m", START)
    plain = replace(entry.layout, pack=None)
    world.catalog.items["s-m", entry.period] = replace(entry, layout=plain, state=State.CLOSED)
    world.write(*[reading(45, n, kind=f"{n:02d}" + "x" * 2_050, id=str(n)) for n in range(12)])
    sizes: list[int] = []
    transact = world.store.transact

    def measure(puts: Any, entry: Any = None, total: Any = None) -> Any:
        sizes.append(sum(count_item_bytes(guarded.put.item) for guarded in puts))
        return transact(puts, entry, total)

    world.store.transact = measure  # type: ignore[method-assign]
    report = world.refresh()
    assert report is not None
    assert (report.failed, report.over, len(sizes)) == ([], [], 2)
    assert max(sizes) < 20_000


def test_a_cell_that_is_too_large_for_a_pack_is_an_item_of_its_own() -> None:
    world = begin_rollups((MINUTES,))
    entry = world.entry("s-m", START)
    small = replace(entry.layout, pack=Packing(600, 1_024))
    world.catalog.items["s-m", entry.period] = replace(entry, layout=small)
    # A field's name is its text's length of noise: nothing compresses it.
    chance = random.Random(7)
    names = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=60)) for _ in range(60)]
    data: dict[str, Any] = dict.fromkeys(names, 1)
    world.write(reading(45, 1, kind="x", **data))
    world.refresh()
    items = world.store.tables[entry.table].values()
    assert sorted("pack" in item for item in items) == [False, True]
    assert [sorted(item["data"]["names"]) for item in items if "data" in item] == [sorted([*names, "kind", "mag"])]


def test_cells_that_fill_several_pages_are_all_seen() -> None:
    """A bucket of 300 cells that are items of their own, of which one group changes."""
    world = begin_rollups((MINUTES,))
    entry = world.entry("s-m", START)
    world.catalog.items["s-m", entry.period] = replace(entry, layout=replace(entry.layout, pack=None))
    world.write(*[reading(45, n, f"s{n:03d}", id="p") for n in range(300)])
    world.refresh()
    table = world.store.tables[entry.table]
    before = dict(table)
    query_many, pages = world.store.query_many, iter(range(100))

    def count_pages(*reads: Any, **options: Any) -> Any:
        assert next(pages, None) is not None, "the same page is read for ever"
        return query_many(*reads, **options)

    world.store.query_many = count_pages  # type: ignore[method-assign]
    world.write(reading(45, 7, "s290", id="p"), reading(45, 8, "new"))
    world.sleep(400)
    report = world.refresh()
    assert report is not None
    assert report.resealed == 1
    changed = sorted(key.sk.split("#")[1] for key, item in table.items() if before.get(key) != item)
    assert changed == ["new", "s290"]


def test_a_removed_group_is_written_as_removed_once() -> None:
    world = begin_rollups((MINUTES,))
    world.write(reading(45, 1, kind="x", id="p"))
    world.refresh()
    world.write(reading(45, 1, kind="y", id="p"))
    world.sleep(400)
    world.refresh()
    table = world.store.tables["tidetable-t.s-m.2026-03-02"]
    before = dict(table)
    world.rollups.marks, world.rollups.resealed = {("s", START + timedelta(minutes=40), MINUTES.every): 0}, {}
    report = world.refresh()
    assert report is not None
    assert report.resealed == 1
    assert table == before


def test_an_unchanged_bucket_is_not_written_again() -> None:
    world = begin_rollups((MINUTES,))
    world.write(reading(45, 1, place={"lon": 1}))
    world.refresh()
    table = world.store.tables["tidetable-t.s-m.2026-03-02"]
    before = dict(table)
    world.rollups.marks = {("s", START + timedelta(minutes=40), MINUTES.every): 0}
    report = world.refresh()
    assert report is not None
    assert report.resealed == 1
    assert table == before


def test_cells_are_packed_and_the_same_whoever_makes_them() -> None:
    worlds = [begin_rollups((MINUTES,)) for _ in range(2)]
    for world in worlds:
        world.write(*[reading(45, n, f"s{n}", kind="x") for n in range(50)])
        world.refresh()
    tables = [world.store.tables["tidetable-t.s-m.2026-03-02"] for world in worlds]
    assert tables[0] == tables[1]
    (item,) = tables[0].values()
    assert item["n"] == 51
    assert open_item(item, worlds[0].entry("s-m", START).layout, worlds[0].reader.unpacker.compressor).problem is None


def test_a_bucket_with_a_cell_that_dynamodb_would_refuse_is_read_from_the_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sketches of many fields may take more than an item. Here, an item holds 2,000 bytes, and a pack 1,024."""
    world = begin_rollups((MINUTES,))
    entry = world.entry("s-m", START)
    world.catalog.items["s-m", entry.period] = replace(entry, layout=replace(entry.layout, pack=Packing(600, 1_024)))
    monkeypatch.setattr("tidetable.rollups.writing.MAX_ITEM_BYTES", 2_000)
    text = "".join(random.Random(7).choices("abcdefghijklmnopqrstuvwxyz0123456789", k=2_000))
    world.write(reading(45, 1, kind="x"), reading(46, 2, kind=text), reading(55, 3, kind="x"))
    report = world.refresh()
    assert report is not None
    assert report.failed == []
    assert report.over == [
        "s-m 2026-03-02T00:40:00.000000Z: a cell takes 2437 bytes as an item; DynamoDB holds at most 2000"
    ]
    assert show_edges(world, "m") == ["00:10-01:10"]
    assert world.rollups.over == {("s", "m", START + timedelta(minutes=40)): 2}
    table = world.store.tables["tidetable-t.s-m.2026-03-02"]
    assert {key.sk[:16] for key in table} == {"2026-03-02T00:50"}
    assert world.check(QUERIES) == len(QUERIES)
