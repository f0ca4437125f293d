"""The contract of indexes that are sorted by several fields, and of local indexes, on every engine."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.contract.conftest import ENGINES, LEAN, build
from tests.contract.engines import Engine, pages
from tidetable.catalog import Entry, State
from tidetable.conditions import Condition
from tidetable.events import Event, Item
from tidetable.layout import Index, Layout
from tidetable.periods import Kind, find_containing
from tidetable.ports import KeyRange, Put

START = datetime(2026, 2, 28, tzinfo=UTC)
INDEXES = (
    Index("places", "*", 1, levels=("country", "region")),
    Index("near", local=True, levels=("country", "region")),
    Index("brief", local=True, levels=("country",), project=("n",)),
    Index("bare", local=True, sort_by="n", project=()),
    Index("best", local=True, sort_by="n"),
)
LAYOUT = Layout("series", 1, "id", indexes=INDEXES)
# Characters that sort before the usual separators, the joined key's own control characters, and texts that begin with
# another.
COUNTRIES = ["US", "US!", "US ", "U", "US\x01", "US\x02", "US#", "USA", "é", "\U0001f600", "", 5, True]


@pytest.fixture(params=[*ENGINES, *LEAN])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Every engine; and every engine with HTTP again, called by the lean client."""
    return build(request.param, request)


def make_table(engine: Engine, datas: list[dict[str, Any]]) -> str:
    """Make a table with one event for each of the data objects."""
    spec = replace(engine.spec(), indexes=INDEXES)
    assert engine.tables.create(spec)
    engine.settled(spec.name)
    many = [Event("a", START + timedelta(minutes=n), f"e{n:03d}", data) for n, data in enumerate(datas)]
    assert engine.store.write([Put(spec.name, LAYOUT.make_item(event, at=1)) for event in many]).unwritten == []
    return spec.name


def ids(items: list[Item]) -> list[str]:
    return [item["sk"].rpartition("#")[2] for item in items]


@pytest.mark.parametrize("index", INDEXES[:2], ids=["global", "local"])
def test_a_level_is_found_whole_and_a_prefix_by_its_beginning(engine: Engine, index: Index) -> None:
    table = make_table(engine, [{"country": country, "region": "r"} for country in COUNTRIES])
    pk = "*#0" if not index.local else "a#0"
    everything = KeyRange(table, pk, None, None, index=index)
    # The order of UTF-8: first the empty text, then the number and the boolean. Each of these three has its own mark.
    order = [10, 11, 12, 3, 0, 4, 5, 2, 1, 6, 7, 8, 9]
    for limit in (3, 100):
        assert ids(pages(engine, everything, limit=limit)) == [f"e{number:03d}" for number in order]
    down = pages(engine, everything, ascending=False, limit=4)
    assert ids(down) == [f"e{number:03d}" for number in reversed(order)]
    for prefix, found in (
        ("US\x01", [0]),
        ("US\x01r\x01", [0]),
        ("US", [0, 4, 5, 2, 1, 6, 7]),
        ("U\x01", [3]),
        ("US\x02\x05\x01", [4]),
        ("\x02\x035\x01", [11]),
        ("none", []),
    ):
        keys = replace(everything, prefix=prefix)
        for limit in (2, 100):
            assert ids(pages(engine, keys, limit=limit)) == [f"e{number:03d}" for number in found], prefix


def test_times_within_a_head_are_a_range(engine: Engine) -> None:
    table = make_table(engine, [{"country": "US", "region": "CA" if n % 2 else "NV"} for n in range(10)])
    head = "US\x01CA\x01"
    for index, pk in ((INDEXES[0], "*#0"), (INDEXES[1], "a#0")):
        keys = KeyRange(table, pk, f"{head}2026-02-28T00:02", f"{head}2026-02-28T00:08", index=index)
        assert ids(pages(engine, keys)) == ["e003", "e005", "e007"]
        after = replace(keys, after=f"{head}2026-02-28T00:05:00.000000Z#a#e005")
        assert ids(pages(engine, after)) == ["e007"]
        assert ids(pages(engine, after, ascending=False)) == ["e003"]


def test_a_local_index_is_read_consistently_and_filtered(engine: Engine) -> None:
    table = make_table(engine, [{"country": "US", "n": n, "long": "x" * 50} for n in range(8)] + [{"n": 9}])
    near, brief, bare, best = INDEXES[1:]
    keys = KeyRange(table, "a#0", None, None, index=near, prefix="US\x01")
    assert ids(pages(engine, keys, consistent=True)) == [f"e{n:03d}" for n in range(8)]
    some = replace(keys, conditions=(Condition("n", "ge", ("6",)),), times=("2026-02-28T00:01", "2026-02-28T00:06:59"))
    assert ids(pages(engine, some, consistent=True)) == ["e006"]
    (item,) = pages(engine, some, fields=("n",))
    assert (item["data"], item["pk"], item["sk_near"][:3]) == ({"n": 6}, "a#0", "US\x01")
    held = pages(engine, replace(keys, index=brief, conditions=(Condition("n", "eq", ("3",)),)), fields=("n",))
    assert [item["in_brief"] for item in held] == [{"n": 3}]
    assert all(
        "data" not in item and "in_brief" not in item for item in pages(engine, replace(keys, index=bare, prefix=""))
    )
    ranked = KeyRange(table, "a#0", 5, None, index=best)  # type: ignore[arg-type]
    for limit in (1, 100):
        numbers = [item["sk_best"] for item in pages(engine, ranked, ascending=False, limit=limit, consistent=True)]
        assert numbers == [9, 7, 6, 5]


def test_a_local_index_has_no_units_of_its_own(engine: Engine) -> None:
    spec = replace(engine.spec(write=5, read=6), indexes=INDEXES)
    assert engine.tables.create(spec)
    table = engine.settled(spec.name)
    assert table.index_units == {"places": (5, 6)}
    engine.tables.set_capacity(spec.name, 7, 6, indexes={"places": (7, 6)})
    table = engine.settled(spec.name)
    assert (table.write, table.index_units) == (7, {"places": (7, 6)})


def test_the_catalog_keeps_levels_and_what_is_local(engine: Engine) -> None:
    period = find_containing(START, Kind.DAY)
    entry = Entry(engine.stream, period, "t", LAYOUT, State.OPEN, START)
    assert engine.catalog.add(entry)
    (stored,) = engine.catalog.entries(engine.stream, consistent=True)
    assert stored.layout == LAYOUT
