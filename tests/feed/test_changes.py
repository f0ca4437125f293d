"""Changes: what the records of a table's stream say of events."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aws.zstd import Zstd
from tests.fakes import FakeStore, FakeValues, unpacker
from tests.fakes.catalog import FakeCatalog
from tests.worlds.packing import make_packs
from tidetable.catalog import Entry, State
from tidetable.conditions import Condition
from tidetable.errors import ValueMissing
from tidetable.events import Event
from tidetable.feed import ChangeReader, StreamRecord
from tidetable.layout import Key, Layout, Packing, Ref
from tidetable.periods import Kind, find_containing
from tidetable.ports import Blob

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
TABLE = "tidetable-t.s.2026-03-01"
PLAIN = Layout("time", 2, "id", 3_600)
SERIES = Layout("series", 2, "id")
PACKED = Layout("time", 2, "id", 3_600, pack=Packing(60, 65_536))
BY_SUFFIX = Layout("time", 2, "series", 3_600, pack=Packing(60, 65_536))
KEPT = Layout("time", 2, "id", 3_600, versioned=True)


def entry(layout: Layout) -> Entry:
    return Entry("s", find_containing(NOW, Kind.DAY), TABLE, layout, State.OPEN, NOW)


def event(n: int, series: str = "a") -> Event:
    return Event(series, NOW + timedelta(seconds=n), f"e{n}", {"n": n, "kind": "even" if n % 2 == 0 else "odd"})


def reader(**options: Any) -> ChangeReader:
    return ChangeReader(unpacker(FakeStore(FakeCatalog()), FakeValues()), **options)


def record(item: Any, kind: Any = "insert") -> StreamRecord:
    return StreamRecord("42", kind, TABLE, item, NOW, 1_772_323_200_000)


@pytest.mark.parametrize("layout", [PLAIN, SERIES])
@pytest.mark.parametrize("kind", ["insert", "replace"])
def test_an_item_is_a_change_of_its_event(layout: Layout, kind: str) -> None:
    (change,) = reader().read(record(layout.make_item(event(1, "b#c"), at=17), kind), entry(layout))
    assert change.document() | {"ref": ""} == {
        "kind": kind,
        "stream": "s",
        "series": "b#c",
        "time": "2026-03-01T12:00:01.000000Z",
        "id": "e1",
        "at": 17,
        "data": {"n": 1, "kind": "odd"},
        "ref": "",
        "sequence": "001772323200000" + "0" * 38 + "42",
    }
    assert Ref.decode(change.ref).key == layout.make_key(event(1, "b#c"))


@pytest.mark.parametrize("layout", [PACKED, BY_SUFFIX])
def test_a_pack_is_a_change_of_each_of_its_events_in_their_order(layout: Layout) -> None:
    items = [layout.make_item(event(n), at=17) for n in (2, 1, 3)]
    (pack,) = make_packs(items, layout, Zstd()).packs
    changes = reader().read(record(pack.item), entry(layout))
    assert [(change.id, change.at, change.data) for change in changes] == [
        ("e1", 17, {"n": 1, "kind": "odd"}),
        ("e2", 17, {"n": 2, "kind": "even"}),
        ("e3", 17, {"n": 3, "kind": "odd"}),
    ]
    assert {Ref.decode(change.ref).key.pk for change in changes} == {pack.address}


def test_the_packs_of_a_request_by_series_are_changes_of_their_own_series() -> None:
    """The series "a" has suffix 0 of 2, and "#" suffix 1: each event comes once, with the address of its pack."""
    items = [BY_SUFFIX.make_item(event(n, series), at=17) for n in (2, 1) for series in "a#"]
    packs = make_packs(items, BY_SUFFIX, Zstd()).packs
    changes = [change for pack in packs for change in reader().read(record(pack.item), entry(BY_SUFFIX))]
    found = [(Ref.decode(change.ref).key.pk.split("#")[1][0], change.series, change.id) for change in changes]
    assert sorted(found) == [("0", "a", "e1"), ("0", "a", "e2"), ("1", "#", "e1"), ("1", "#", "e2")]


def test_a_pack_with_the_moment_of_each_event_says_it() -> None:
    items = [PACKED.make_item(event(n), at=10 * n) for n in (1, 2)]
    (pack,) = make_packs(items, PACKED, Zstd()).packs
    assert [change.at for change in reader().read(record(pack.item), entry(PACKED))] == [10, 20]


def test_an_event_too_large_for_a_pack_is_a_change_like_any() -> None:
    (change,) = reader().read(record(PACKED.make_item(event(1), at=17)), entry(PACKED))
    assert (change.id, change.data) == ("e1", {"n": 1, "kind": "odd"})


def test_a_damaged_pack_is_an_error_and_no_silence() -> None:
    (pack,) = make_packs([PACKED.make_item(event(1), at=17)], PACKED, Zstd()).packs
    with pytest.raises(ValueMissing, match="damaged"):
        reader().read(record({**pack.item, "pack": b"x"}), entry(PACKED))


@pytest.mark.parametrize(
    ("kinds", "kind", "count"),
    [
        ({"insert"}, "insert", 1),
        ({"insert"}, "replace", 0),
        ({"insert", "replace"}, "replace", 1),
        ({"replace"}, None, 0),
    ],
)
def test_only_the_kinds_that_are_wanted_are_changes(kinds: Any, kind: Any, count: int) -> None:
    item = PLAIN.make_item(event(1), at=17)
    assert len(reader(kinds=frozenset(kinds)).read(record(item, kind), entry(PLAIN))) == count


def test_a_deletion_is_no_change() -> None:
    assert reader().read(record(None, None), entry(PLAIN)) == []
    assert reader().read(record(None, "insert"), entry(PLAIN)) == []


def test_only_events_that_meet_all_conditions_are_changes() -> None:
    conditions = (Condition("n", "ge", ("2",)), Condition("kind", "eq", ("odd",)))
    (pack,) = make_packs([PACKED.make_item(event(n), at=17) for n in range(6)], PACKED, Zstd()).packs
    changes = reader(conditions=conditions).read(record(pack.item), entry(PACKED))
    assert [change.id for change in changes] == ["e3", "e5"]
    assert reader(conditions=conditions).read(record(PLAIN.make_item(event(1), at=1)), entry(PLAIN)) == []


def test_of_the_versions_of_an_event_only_the_newest_is_a_change() -> None:
    item = KEPT.make_item(event(1), at=17)
    earlier = {**item, "sk": item["sk"].replace("v0#", "v1#")}
    (change,) = reader().read(record({**item, "version": 2}), entry(KEPT))
    assert (change.series, change.time, change.id) == ("a", "2026-03-01T12:00:01.000000Z", "e1")
    assert reader().read(record(earlier), entry(KEPT)) == []


def test_data_that_is_compressed_is_made_whole() -> None:
    item = PLAIN.make_item(event(1), at=17)
    packed = {name: value for name, value in item.items() if name != "data"}
    packed["z"] = Zstd().compress(b'{"n":1,"text":"long"}')
    (change,) = reader().read(record(packed), entry(PLAIN))
    assert change.data == {"n": 1, "text": "long"}


def test_data_that_is_kept_elsewhere_is_fetched() -> None:
    values = FakeValues()
    body = b'{"n":1,"text":"in the bucket"}'
    values.put(Blob("large/x", Zstd().compress(body), Key("a", "b")))
    item = {**PLAIN.make_item(event(1), at=17), "out": {"o": "large/x", "b": len(body)}}
    del item["data"]
    whole = ChangeReader(unpacker(FakeStore(FakeCatalog()), values))
    (change,) = whole.read(record(item), entry(PLAIN))
    assert change.data == {"n": 1, "text": "in the bucket"}


def test_data_that_is_gone_is_told_by_its_absence_and_passes_every_condition() -> None:
    """Whether it would meet a condition, nobody can say: the target decides, by the ref."""
    item = {**PLAIN.make_item(event(1), at=17), "out": {"o": "large/gone", "b": 10}}
    del item["data"]
    conditions = (Condition("n", "ge", ("2",)),)
    (change,) = reader(conditions=conditions).read(record(item), entry(PLAIN))
    assert (change.id, change.data) == ("e1", None)


def test_characters_that_a_queue_refuses_are_escaped() -> None:
    """SQS: InvalidMessageContents for U+FFFE and U+FFFF."""
    item = PLAIN.make_item(Event("a", NOW, "x", {"text": "\ufffe\uffff"}), at=17)
    (change,) = reader().read(record(item), entry(PLAIN))
    body = change.encode(10_000).decode()
    assert not {"\ufffe", "\uffff"} & set(body)
    assert json.loads(body)["data"] == {"text": "\ufffe\uffff"}


def test_a_change_of_exactly_the_bytes_that_a_target_takes_keeps_its_data() -> None:
    (change,) = reader().read(record(PLAIN.make_item(event(1), at=17)), entry(PLAIN))
    whole = len(change.encode(10_000))
    assert json.loads(change.encode(whole))["data"] == {"n": 1, "kind": "odd"}
    assert json.loads(change.encode(whole - 1))["data"] is None


def test_a_change_has_the_fields_that_are_kept_outside_of_the_item() -> None:
    values = FakeValues()
    body = b'{"text":"in the bucket"}'
    values.put(Blob("large/cold", Zstd().compress(body), Key("a", "b")))
    item = {**PLAIN.make_item(event(1), at=17), "cold": {"o": "large/cold", "b": len(body)}}
    whole = ChangeReader(unpacker(FakeStore(FakeCatalog()), values))
    (change,) = whole.read(record(item), entry(PLAIN))
    assert change.data == {"n": 1, "kind": "odd", "text": "in the bucket"}


def test_data_of_another_length_than_its_event_says_is_damaged() -> None:
    values = FakeValues()
    values.put(Blob("large/x", Zstd().compress(b'{"n":1}'), Key("a", "b")))
    item = {**PLAIN.make_item(event(1), at=17), "out": {"o": "large/x", "b": 8}}
    del item["data"]
    whole = unpacker(FakeStore(FakeCatalog()), values).complete_items([item], TABLE, cold=True)
    assert list(whole.missing) == [0]
    assert whole.missing[0].endswith("is damaged: another length")
