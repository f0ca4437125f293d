"""The contract of the event store, on every engine."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from tests.contract.conftest import ENGINES, LEAN, build
from tests.contract.engines import Engine
from tests.fakes.items import read_event
from tidetable.catalog import Entry, State
from tidetable.catalog_steps import read_entry
from tidetable.errors import TableMissing
from tidetable.events import Event, Item
from tidetable.forms.field_columns import DATA, KINDS, FieldColumns, spread_data
from tidetable.layout import Index, Key, Layout
from tidetable.periods import Kind, find_containing
from tidetable.ports import FieldPage, Guarded, KeyRange, Page, Put, RangeRead, Transacted, Written
from tidetable.segmentation import Segmentation, SegmentMarks

START = datetime(2026, 2, 28, tzinfo=UTC)
LAYOUT = Layout("series", shards=1, shard_by="id")
LOW, HIGH = "2026-02-28", "2026-03-01"


@pytest.fixture(params=[*ENGINES, *LEAN])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Every engine; and every engine with HTTP again, called by the lean client."""
    return build(request.param, request)


def events(count: int, series: str = "a#1") -> list[Event]:
    data = {"n": Decimal("12345678901234567890.123456789012345678"), "deep": [{"x": None}, True, "é"], "empty": {}}
    return [Event(series, START + timedelta(minutes=i), f"id%{i}", data) for i in range(count)]


def puts(table: str, count: int, series: str = "a#1") -> list[Put]:
    return [Put(table, LAYOUT.make_item(event)) for event in events(count, series)]


def read_page(engine: Engine, keys: KeyRange, limit: int, *, ascending: bool = True, consistent: bool = False) -> Page:
    (page,) = engine.store.query_many([RangeRead(keys, limit)], ascending=ascending, consistent=consistent)
    assert page is not None
    return page


def ids(engine: Engine, keys: KeyRange, limit: int, *, ascending: bool = True) -> tuple[list[str], bool]:
    page = read_page(engine, keys, limit, ascending=ascending)
    return [read_event(LAYOUT, item).id for item in page.items], page.more


def test_events_come_back_exactly_as_they_were_written(engine: Engine) -> None:
    table = engine.create_table()
    written = engine.store.write(puts(table, 60))
    assert (written.unwritten, written.units) == ([], 60.0)
    pk = puts(table, 1)[0].key.pk
    page = read_page(engine, KeyRange(table, pk, LOW, HIGH), 1000, consistent=True)
    assert [read_event(LAYOUT, item) for item in page.items] == events(60)
    assert not page.more


def test_packs_are_in_the_order_of_time_between_plain_items_and_keep_their_bytes(engine: Engine) -> None:
    """The key's bytes decide the order: "!" is before the separator, a letter is after it. Every byte comes back."""
    table = engine.create_table()
    at = "2026-02-28T00:01:00.000000Z"
    body = bytes(range(256)) * 8
    pack = {"pk": "b#0", "sk": f"{at}##-_aZ09", "at": 5, "n": 2, "oldest": at, "format": 1, "pack": body}
    keys = [f"{at}#!#a", f"{at}#a#a", "2026-02-28T00:00:59.999999Z#a#a", "2026-02-28T00:01:00.000001Z##hash"]
    items = [{"pk": "b#0", "sk": sk, "at": 1, "data": {}} for sk in keys]
    written = engine.store.write([Put(table, item) for item in [*items, pack]])
    assert written.unwritten == []
    page = read_page(engine, KeyRange(table, "b#0", LOW, HIGH), 9, consistent=True)
    assert [item["sk"] for item in page.items] == [keys[2], keys[0], pack["sk"], keys[1], keys[3]]
    assert page.items[2] == pack
    held = engine.store.get(table, Key("b#0", f"{at}##-_aZ09"))
    assert held is not None
    assert bytes(held["pack"]) == body


def test_packs_whose_oldest_event_lies_within_times_are_left_out_but_count_as_read(engine: Engine) -> None:
    """Both edges belong to the times. A plain item has no oldest event, and a pack may say anything of its oldest."""
    table = engine.create_table()
    minutes = [f"2026-02-28T00:0{minute}:00.000000Z" for minute in range(6)]
    packs = [
        {"pk": "b#0", "sk": f"{minutes[5]}##{name}", "at": 5, "n": 1, "format": 1, "pack": b"body"} | oldest
        for name, oldest in {
            "before": {"oldest": minutes[1]},
            "low": {"oldest": minutes[2]},
            "within": {"oldest": minutes[3]},
            "high": {"oldest": minutes[4]},
            "later": {"oldest": minutes[5]},
            "none": {},
            "odd": {"oldest": "no time"},
        }.items()
    ]
    plain = {"pk": "b#0", "sk": f"{minutes[3]}#a#a", "at": 1, "data": {}}
    assert engine.store.write([Put(table, item) for item in [*packs, plain]]).unwritten == []
    keys = KeyRange(table, "b#0", LOW, HIGH, skip_oldest=(minutes[2], minutes[4]))
    page = read_page(engine, keys, 9, consistent=True)
    names = [item["sk"].rpartition("#")[2] for item in page.items]
    assert (names, page.read, page.more) == (["a", "before", "later", "none", "odd"], 8, False)


@pytest.mark.parametrize("at, held", [(4, 1), (5, 0), (6, 0)])
def test_a_pack_that_waited_does_not_replace_itself_as_it_was_accepted_later(
    engine: Engine, at: int, held: int
) -> None:
    table = engine.create_table()
    pack: dict[str, Any] = {
        "pk": "b#0",
        "sk": "2026-02-28T00:01:00.000000Z##hash",
        "n": 1,
        "format": 1,
        "pack": b"body",
    }
    engine.store.write([Put(table, {**pack, "at": 5})])
    written = engine.store.write_each([Put(table, {**pack, "at": at})], "newer")
    assert (len(written.conflicts), written.unwritten) == (held, [])
    item = engine.store.get(table, Key("b#0", pack["sk"]))
    assert item is not None
    assert item["at"] == max(at, 5)


def test_writing_again_changes_nothing(engine: Engine) -> None:
    table = engine.create_table()
    for _ in range(2):
        engine.store.write(puts(table, 3))
    assert ids(engine, KeyRange(table, "a%231#0", LOW, HIGH), 10) == (["id%0", "id%1", "id%2"], False)


def test_pages_follow_one_another_in_both_directions(engine: Engine) -> None:
    table = engine.create_table()
    engine.store.write(puts(table, 5))
    first, third = puts(table, 5)[1].key.sk, puts(table, 5)[3].key.sk
    assert ids(engine, KeyRange(table, "a%231#0", LOW, HIGH), 2) == (["id%0", "id%1"], True)
    assert ids(engine, KeyRange(table, "a%231#0", LOW, HIGH, after=first), 2) == (["id%2", "id%3"], True)
    assert ids(engine, KeyRange(table, "a%231#0", LOW, HIGH, after=third), 2) == (["id%4"], False)
    down = ids(engine, KeyRange(table, "a%231#0", LOW, HIGH, after=third), 2, ascending=False)
    assert down == (["id%2", "id%1"], True)


def test_a_page_may_begin_after_a_key_that_no_item_has(engine: Engine) -> None:
    table = engine.create_table()
    engine.store.write(puts(table, 5))
    between = "2026-02-28T00:02:30.000000Z"
    assert ids(engine, KeyRange(table, "a%231#0", LOW, HIGH, after=between), 9)[0] == ["id%3", "id%4"]
    assert ids(engine, KeyRange(table, "a%231#0", LOW, HIGH, after=between), 9, ascending=False)[0][0] == "id%2"


def test_a_range_of_bare_times_includes_its_start_and_excludes_its_end(engine: Engine) -> None:
    table = engine.create_table()
    engine.store.write(puts(table, 5))
    keys = KeyRange(table, "a%231#0", "2026-02-28T00:01:00.000000Z", "2026-02-28T00:03:00.000000Z")
    assert ids(engine, keys, 9) == (["id%1", "id%2"], False)


def test_a_missing_table_leaves_only_its_own_puts_unwritten(engine: Engine) -> None:
    table, missing = engine.create_table(), engine.no_table()
    lost = puts(missing, 30)
    written = engine.store.write([*lost, *puts(table, 30, "b")])
    assert sorted(put.key for put in written.unwritten) == sorted(put.key for put in lost)
    assert written.missing_tables == {missing}
    assert len(ids(engine, KeyRange(table, "b#0", LOW, HIGH), 100)[0]) == 30


def test_reading_a_missing_table_says_so(engine: Engine) -> None:
    missing = engine.no_table()
    assert engine.store.query_many([RangeRead(KeyRange(missing, "a#0", LOW, HIGH), 1)], ascending=True) == [None]
    with pytest.raises(TableMissing, match=missing):
        engine.store.get(missing, Key("a#0", LOW))


def test_one_item_is_got_by_its_key(engine: Engine) -> None:
    table = engine.create_table()
    put = puts(table, 1)[0]
    assert engine.store.get(table, put.key) is None
    engine.store.write([put])
    item = engine.store.get(table, put.key)
    assert item is not None
    assert read_event(LAYOUT, item) == events(1)[0]


def test_an_index_holds_the_events_that_have_its_field_in_order_of_time(engine: Engine) -> None:
    index = Index("by_status", "status", 1)
    layout = Layout("series", 4, "id", indexes=(index,))
    spec = replace(engine.spec(), indexes=(index,))
    assert engine.tables.create(spec)
    engine.settled(spec.name)
    with_field = [
        Event(f"s{n % 3}", START + timedelta(minutes=n), f"e{n}", {"status": "new" if n % 2 else "old"})
        for n in range(8)
    ]
    without = [Event("s1", START, "none", {}), Event("s1", START, "list", {"status": ["new"]})]
    engine.store.write([Put(spec.name, layout.make_item(event)) for event in with_field + without])

    def page(after: str | None, limit: int, *, ascending: bool = True) -> tuple[list[str], bool]:
        keys = KeyRange(spec.name, index.make_partition_key("new", 0), LOW, HIGH, after, index)
        page = read_page(engine, keys, limit, ascending=ascending)
        return [read_event(layout, item).id for item in page.items], page.more

    assert page(None, 10) == (["e1", "e3", "e5", "e7"], False)
    assert page(None, 2) == (["e1", "e3"], True)
    third = with_field[3]
    place = layout.make_item(third)[index.sk]
    assert page(place, 2)[0] == ["e5", "e7"]
    assert page(place, 9, ascending=False)[0] == ["e1"]
    assert page("2026-02-28T00:04:00.000000Z", 9)[0] == ["e5", "e7"], "a place that no item has"


def test_a_fenced_write_lands_only_while_the_catalog_allows_it(engine: Engine) -> None:
    table = engine.create_table()
    entry = Entry(engine.stream, find_containing(START, Kind.DAY), table, LAYOUT, State.CLOSED, START)
    engine.catalog.add(entry)
    first, second = puts(table, 2)
    assert engine.store.transact([Guarded(first, "newer")], entry) is Transacted.DONE
    engine.catalog.move(entry, State.ARCHIVING, expected=[State.CLOSED])
    assert engine.store.transact([Guarded(second, "newer")], entry) is Transacted.FENCED
    assert engine.store.get(table, first.key) is not None
    assert engine.store.get(table, second.key) is None


def test_a_write_into_a_retained_table_marks_its_segments_and_a_writer_that_knows_others_is_refused(
    engine: Engine,
) -> None:
    table, layout = engine.create_table(), Layout("time", 1, "id", 21_600)
    closed = Entry(engine.stream, find_containing(START, Kind.DAY), table, layout, State.CLOSED, START)
    engine.catalog.add(closed)
    first = Segmentation(24, 2, "0000000000001", "0000000000001")
    retained = engine.catalog.begin_segments(closed, State.RETAINED, first)
    assert retained is not None
    assert retained == read_entry(engine.catalog, engine.stream, closed.period)

    def put(id: str, hour: int, **more: Any) -> Guarded:
        return Guarded(
            Put(table, layout.make_item(Event("a", START + timedelta(hours=hour), id, {}), 5) | more), "newer"
        )

    def marks() -> SegmentMarks:
        found = read_entry(engine.catalog, engine.stream, closed.period)
        assert found is not None
        return found.marks

    transact = engine.store.transact
    # This writer read the entry before the table was retained, that one when the table had other segments.
    other = replace(retained, segments=replace(first, count=23))
    for stale in (closed, other, replace(retained, segments=replace(first, slices=3))):
        assert transact([put("stale", 1)], stale) is Transacted.FENCED
    assert engine.store.get(table, put("stale", 1).put.key) is None
    assert marks() == SegmentMarks()
    assert transact([put("a", 1), put("b", 1), put("c", 23)], retained) is Transacted.DONE
    assert marks() == SegmentMarks((1, 23), 1)
    # A condition of an item fails: nothing is written, so nothing is marked.
    assert transact([put("d", 5), Guarded(put("a", 1).put, "absent")], retained) is Transacted.CONFLICT
    assert marks() == SegmentMarks((1, 23), 1)
    pack = {"oldest": "2026-02-28T09:59:59.999999Z", "n": 2}
    assert transact([put("p", 10, **pack)], retained) is Transacted.DONE
    assert marks() == SegmentMarks((1, 9, 10, 23), 2)
    # The marks that a run has read are removed with the begin of their segments; not if there is a later mark.
    later = replace(first, made="0000000000002")
    assert engine.catalog.begin_segments(retained, State.RETAINED, later) is None
    read = replace(retained, marks=marks())
    begun = engine.catalog.begin_segments(read, State.RETAINED, later)
    assert begun is not None
    assert (begun.segments, begun.marks) == (later, SegmentMarks((), 2))
    assert begun == read_entry(engine.catalog, engine.stream, closed.period)
    assert transact([put("e", 2)], retained) is Transacted.DONE, "the segments are the same, begun again"
    assert marks() == SegmentMarks((2,), 3)
    archiving = engine.catalog.move(begun, State.ARCHIVING, expected=[State.RETAINED])
    assert engine.catalog.begin_segments(begun, State.RETAINED, first) is None
    for stale in (retained, archiving):
        assert transact([put("f", 3)], stale) is Transacted.FENCED


def dated(table: str, at: int, **more: Any) -> Put:
    return Put(table, {**LAYOUT.make_item(events(1)[0], at=at), **more})


def test_a_put_on_condition_tells_what_is_there_instead(engine: Engine) -> None:
    table = engine.create_table()
    first = engine.store.write_each([dated(table, 5)], "absent")
    assert (first.unwritten, first.conflicts, first.units) == ([], [], 1.0)
    second = engine.store.write_each([dated(table, 6, note="later")], "absent")
    assert second.unwritten == []
    ((put, held),) = second.conflicts
    assert (put.item["note"], held["at"]) == ("later", 5)
    assert "note" not in held


@pytest.mark.parametrize("before, after, wins", [(5, 6, True), (5, 5, True), (6, 5, False)])
def test_what_was_accepted_later_stays(engine: Engine, before: int, after: int, wins: bool) -> None:
    table = engine.create_table()
    engine.store.write_each([dated(table, before, note="first")], "newer")
    written = engine.store.write_each([dated(table, after, note="second")], "newer")
    assert written.unwritten == []
    item = engine.store.get(table, dated(table, 0).key)
    assert item is not None
    assert item["note"] == ("second" if wins else "first")
    # An item without a time of acceptance counts as older than any other item.
    engine.store.write([Put(table, {name: value for name, value in item.items() if name != "at"})])
    assert engine.store.write_each([dated(table, 0)], "newer").conflicts == []


def test_puts_on_condition_fail_one_by_one(engine: Engine) -> None:
    table, missing = engine.create_table(), engine.no_table()
    many = puts(table, 20)
    engine.store.write(many[:5])
    written = engine.store.write_each([*many, *puts(missing, 2)], "absent")
    assert sorted(put.key for put, _ in written.conflicts) == sorted(put.key for put in many[:5])
    assert (len(written.unwritten), written.missing_tables) == (2, {missing})
    assert len(engine.store.get_many(table, [put.key for put in many])) == 20


def test_a_transaction_is_done_whole_or_not_at_all(engine: Engine) -> None:
    table = engine.create_table()
    first, second = puts(table, 2)
    engine.store.write([Put(table, {**first.item, "version": 3})])
    stale = [Guarded(Put(table, {**first.item, "version": 9}), 2), Guarded(second)]
    assert engine.store.transact(stale) is Transacted.CONFLICT
    assert engine.store.get(table, second.key) is None
    right = [Guarded(Put(table, {**first.item, "version": 4}), 3), Guarded(second)]
    total = Written(units=0.5)
    assert engine.store.transact(right, total=total) is Transacted.DONE
    assert total.units == 4.5, "each item costs twice its unit"
    assert engine.store.transact([Guarded(second, "absent")], total=total) is Transacted.CONFLICT
    assert total.units == 4.5
    with pytest.raises(TableMissing):
        engine.store.transact([Guarded(puts(engine.no_table(), 1)[0])])


def test_many_items_are_got_at_once(engine: Engine) -> None:
    table = engine.create_table()
    many = puts(table, 130)
    engine.store.write(many)
    keys = [put.key for put in many]
    items = engine.store.get_many(table, [*keys, Key("nobody", "2026")])
    assert items.keys() == set(keys)
    assert read_event(LAYOUT, items[keys[7]]) == events(130)[7]
    with pytest.raises(TableMissing):
        engine.store.get_many(engine.no_table(), keys[:1])


def test_columns_come_with_the_kinds_of_all_fields(engine: Engine) -> None:
    """A page may also have the whole data of its events. An item whose data is elsewhere is beside the columns."""
    table = engine.create_table()
    datas: list[dict[str, Any]] = [
        {"n": Decimal("1.50"), "kind": "x", "ok": True},
        {"n": Decimal(2), "kind": None, "deep": {"a": "y"}, "list": [1]},
        {},
    ]
    items = [LAYOUT.make_item(Event("a", START + timedelta(minutes=n), "i", data)) for n, data in enumerate(datas)]
    packed = {"pk": items[0]["pk"], "sk": f"{LOW}T00:09:00.000000Z#i", "at": 1, "z": b"zip"}
    engine.store.write([Put(table, item) for item in [*items, packed]])
    keys = KeyRange(table, items[0]["pk"], LOW, HIGH)
    fields = ("n", "deep.a", KINDS)
    pages = engine.store.query_fields([RangeRead(keys, 3), RangeRead(replace(keys, low=packed["sk"]), 9)], fields)
    assert [page and (page.more, page.read) for page in pages] == [(True, 3), (False, 1)]
    columns, others = zip(*[_show_columns(page, fields) for page in pages], strict=True)
    assert columns[0] == [
        [Decimal("1.50"), Decimal(2), None],
        [None, "y", None],
        [
            {("n", "number"), ("kind", "string"), ("ok", "boolean")},
            {("n", "number"), ("kind", "null"), ("deep", "object"), ("list", "array")},
            set(),
        ],
    ]
    assert [item["sk"] for item in others[1]] == [packed["sk"]]
    assert engine.store.query_fields([RangeRead(KeyRange(engine.no_table(), "a", LOW, HIGH), 1)], fields) == [None]


def _show_columns(page: FieldPage | Page | None, fields: Sequence[str]) -> tuple[list[Any], Sequence[Item]]:
    """The columns of a page, and its items that are not in them."""
    assert page is not None
    if isinstance(page, FieldPage):
        return [list(column) for column in page.values], page.others
    if not page.columns.are_text and any("z" in item for item in page.items):
        return [], page.items
    datas = page.columns.contents if page.columns.are_text else [item.get("data", {}) for item in page.items]
    whole = FieldColumns(page.columns.sks, page.columns.pks, {DATA: datas}, list)
    return list(map(list, spread_data(whole, fields).values.values())), []


def test_parts_are_written_and_got_by_their_partition_key_alone(engine: Engine) -> None:
    spec = replace(engine.spec(), sorted=False)
    assert engine.tables.create(spec)
    engine.settled(spec.name)
    bodies = {f"a#{n}": bytes([n]) * 50_000 for n in range(9)}
    written = engine.store.write([Put(spec.name, {"pk": key, "b": body}) for key, body in bodies.items()])
    assert written.unwritten == []
    assert engine.store.get_chunks(spec.name, [*bodies, "a#99"]) == bodies
    assert engine.store.get_chunks(spec.name, [*bodies, *bodies]) == bodies, "a key may be repeated"
    with pytest.raises(TableMissing):
        engine.store.get_chunks(engine.no_table(), ["a"])


def test_all_partition_keys_are_found_though_their_items_are_not_read(engine: Engine) -> None:
    table = engine.create_table()
    for number in range(40):
        assert not engine.store.write(puts(table, 30 if number == 7 else 1, f"s{number}")).unwritten
    found = {key for keys, _ in engine.store.scan_partitions(table) for key in keys}
    assert found == {f"s{number}#0" for number in range(40)}
    with pytest.raises(TableMissing):
        list(engine.store.scan_partitions(engine.no_table()))
