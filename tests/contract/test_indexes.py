"""The contract of reads by conditions and by indexes, on every engine."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import product
from typing import Any

import pytest
from msgspec.structs import replace

from tests.contract.conftest import ENGINES, LEAN, build
from tests.contract.engines import Engine, pages
from tidetable.conditions import OPERATORS, Condition, Operator
from tidetable.events import Event, Item
from tidetable.exact_json import decode_json
from tidetable.layout import WHOLE, Index, Layout
from tidetable.ports import KeyRange, Put
from tidetable.values import count_item_bytes

START = datetime(2026, 2, 28, tzinfo=UTC)
LOW, HIGH = "2026-02-28", "2026-03-01"
# A value of every type that a field may have, and similar values of other types.
VALUES: list[Any] = [
    "new", "old", "", "10", "9", "true", 10, 9, Decimal("9.50"), -3, True, False, None, [1], {"x": 1},
]  # fmt: skip
ASKED = ["new", "10", "9.5", "9.50", "1e1", "-3", "true", "n", "zzz"]
CONDITIONS: list[tuple[Operator, tuple[str, ...]]] = [
    *((operator, (text,)) for operator, text in product(OPERATORS, ASKED) if operator not in ("in", "prefix")),
    ("in", ("new", "9.5", "true")),
]
INDEXES = (
    Index("ranking", "game", 2, "score"),
    Index("sparse", "status", project=()),
    Index("narrow", "status", project=("score", "place")),
    Index("whole", WHOLE, 3),
    Index("shared", kind="type", kinds=(("order", "customer"), ("refund", "order"))),
    Index("replica", replica=True),
)
LAYOUT = Layout("series", 1, "id", indexes=INDEXES)


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
    written = engine.store.write([Put(spec.name, LAYOUT.make_item(event, at=1)) for event in many])
    assert written.unwritten == []
    return spec.name


def test_the_service_leaves_out_what_does_not_meet_a_condition(engine: Engine) -> None:
    datas: list[dict[str, Any]] = [{"f": {"v": value}} for value in VALUES]
    table = make_table(engine, [*datas, {}, {"f": "text"}])
    everything = KeyRange(table, "a#0", LOW, HIGH)
    many = pages(engine, everything)
    for operator, texts in CONDITIONS:
        condition = Condition("f.v", operator, texts)
        items = pages(engine, replace(everything, conditions=(condition,)), limit=9)
        wanted = [item["sk"] for item in many if condition.holds(item["data"])]
        assert [item["sk"] for item in items] == wanted, condition


@pytest.mark.parametrize("name", [engine for engine in (*ENGINES, *LEAN) if "emulator" not in engine])
def test_other_values_than_text_have_no_prefix(name: str, request: pytest.FixtureRequest) -> None:
    """ministack refuses a query that meets such a value, but the official engine continues: ministack is left out."""
    engine = build(name, request)
    table = make_table(engine, [{"f": value} for value in VALUES])
    for prefix, count in (("n", 1), ("1", 1), ("true", 1), ("old", 1), ("z", 0)):
        condition = Condition("f", "prefix", (prefix,))
        assert len(pages(engine, KeyRange(table, "a#0", LOW, HIGH, conditions=(condition,)))) == count


def test_a_prefix_is_told_by_the_service(engine: Engine) -> None:
    table = make_table(engine, [{"f": value} for value in ("new", "newer", "old", "n")])
    condition = Condition("f", "prefix", ("new",))
    items = pages(engine, KeyRange(table, "a#0", LOW, HIGH, conditions=(condition,)))
    assert [item["data"]["f"] for item in items] == ["new", "newer"]


def test_several_conditions_hold_together(engine: Engine) -> None:
    table = make_table(engine, [{"a": n, "b": str(n % 3)} for n in range(20)])
    both = (Condition("a", "ge", ("5",)), Condition("b", "eq", ("1",)))
    items = pages(engine, KeyRange(table, "a#0", LOW, HIGH, conditions=both))
    assert [item["data"]["a"] for item in items] == [7, 10, 13, 16, 19]


def test_what_has_its_data_elsewhere_is_left_for_whoever_can_look(engine: Engine) -> None:
    table = make_table(engine, [])
    items: list[Item] = [
        {"pk": "a#0", "sk": "2026-02-28T1", "z": b"x"},
        {"pk": "a#0", "sk": "2026-02-28T2", "out": {"o": "key", "b": 9}},
        {"pk": "a#0", "sk": "2026-02-28T3", "data": {"a": "no"}},
    ]
    engine.store.write([Put(table, item) for item in items])
    found = pages(engine, KeyRange(table, "a#0", LOW, HIGH, conditions=(Condition("a", "eq", ("yes",)),)))
    assert [item["sk"][-1] for item in found] == ["1", "2"]


def test_only_the_fields_asked_for_are_fetched(engine: Engine) -> None:
    table = make_table(engine, [{"a": 1, "b": {"c": 2, "d": 3}, "e": "x"}, {"e": "y"}])
    items = pages(engine, KeyRange(table, "a#0", LOW, HIGH), fields=("a", "b.c"))
    assert [item.get("data", {}) for item in items] == [{"a": 1, "b": {"c": 2, "d": 3}}, {}]
    narrow = make_table(engine, [{"status": "new", "score": 7, "place": "x", "long": "y"}])
    keys = KeyRange(narrow, "new#0", LOW, HIGH, None, INDEXES[2])
    assert pages(engine, keys, fields=("score",))[0][INDEXES[2].copy] == {"score": 7}


@pytest.mark.parametrize("ascending", [True, False])
def test_a_ranking_is_in_the_order_of_numbers_and_goes_on_behind_any_item(engine: Engine, ascending: bool) -> None:
    scores: list[Any] = [5, Decimal("-1.5"), 100, 20, 20, 20, 3, "7", None, True]
    table = make_table(engine, [{"game": "chess", "score": score} for score in scores] + [{"game": "go", "score": 1}])
    numbers = []
    for suffix in range(2):
        keys = KeyRange(table, INDEXES[0].make_partition_key("chess", suffix), None, None, index=INDEXES[0])
        for limit in (1, 2, 100):
            page_numbers = [item[INDEXES[0].sk] for item in pages(engine, keys, ascending=ascending, limit=limit)]
            assert page_numbers == sorted(page_numbers, reverse=not ascending)
        numbers += page_numbers
    assert sorted(numbers) == [Decimal("-1.5"), 3, 5, 20, 20, 20, 100]


def test_a_ranking_may_be_cut_by_number_and_by_time(engine: Engine) -> None:
    table = make_table(engine, [{"game": "chess", "score": n} for n in range(40)])

    def find_numbers(low: Decimal | None, high: Decimal | None, times: tuple[str, str] | None = None) -> list[int]:
        ranges = [
            KeyRange(table, INDEXES[0].make_partition_key("chess", n), low, high, None, INDEXES[0], times=times)
            for n in range(2)
        ]
        return sorted(int(item[INDEXES[0].sk]) for keys in ranges for item in pages(engine, keys))

    assert find_numbers(Decimal(35), None) == list(range(35, 40))
    assert find_numbers(None, Decimal("2.5")) == [0, 1, 2]
    assert find_numbers(Decimal(-1), Decimal(1)) == [0, 1]
    assert find_numbers(None, None, ("2026-02-28T00:10", "2026-02-28T00:12:59")) == [10, 11, 12]


def test_indexes_hold_what_they_project(engine: Engine) -> None:
    table = make_table(engine, [{"status": "new", "score": 7, "place": "x", "long": "y" * 100}])
    for index, data, copy in (
        (INDEXES[1], None, None),
        (INDEXES[2], None, {"score": 7, "place": "x"}),
    ):
        (item,) = pages(engine, KeyRange(table, "new#0", LOW, HIGH, None, index))
        assert (item.get("data"), item.get(index.copy)) == (data, copy)
        assert item["pk"] == "a#0"
        condition = (Condition("score", "gt", ("6",)),)
        if copy is not None:
            assert len(pages(engine, KeyRange(table, "new#0", LOW, HIGH, None, index, condition))) == 1


def test_an_index_may_hold_all_events_several_kinds_or_the_table_once_more(engine: Engine) -> None:
    datas: list[dict[str, Any]] = [
        {"type": "order", "customer": "c1"},
        {"type": "refund", "order": "o1", "customer": "c1"},
        {"type": "visit", "customer": "c1"},
        {"customer": "c1"},
    ]
    table = make_table(engine, datas)
    whole, shared, replica = INDEXES[3:]
    ranges = [KeyRange(table, whole.make_partition_key("", suffix), LOW, HIGH, None, whole) for suffix in range(3)]
    assert sum(len(pages(engine, keys)) for keys in ranges) == 4
    for kind, value, number in (("order", "c1", 0), ("refund", "o1", 1)):
        (item,) = pages(engine, KeyRange(table, shared.make_partition_key(value, 0, kind), LOW, HIGH, None, shared))
        assert item["data"] == datas[number]
    assert pages(engine, KeyRange(table, shared.make_partition_key("c1", 0, "visit"), LOW, HIGH, None, shared)) == []
    keys = KeyRange(table, "a#0", LOW, HIGH, None, replica)
    assert pages(engine, keys) == pages(engine, replace(keys, index=None))
    second = pages(engine, keys)[1]["sk"]
    assert len(pages(engine, replace(keys, after=second))) == 2


@pytest.mark.parametrize("number", ["1e63", "-1.5E+120", "1E-130", "1" + "0" * 60, "9" * 38 + "0" * 20])
def test_numbers_of_few_digits_may_be_great(engine: Engine, number: str) -> None:
    """Some engines write all digits of a number. Every engine must store, compare, rank and measure these numbers."""
    value = decode_json(number)
    table = make_table(engine, [{"game": "chess", "score": value, "status": "new"}])
    (item,) = pages(engine, KeyRange(table, "a#0", LOW, HIGH, conditions=(Condition("score", "eq", (number,)),)))
    assert item["data"]["score"] == value
    assert count_item_bytes(item) > 0
    items = [
        page
        for suffix in range(2)
        for page in pages(
            engine, KeyRange(table, INDEXES[0].make_partition_key("chess", suffix), value, None, None, INDEXES[0])
        )
    ]
    assert [item[INDEXES[0].sk] for item in items] == [value]
