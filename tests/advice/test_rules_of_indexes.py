"""The rules about indexes at their edges: the last figures that are no reason, and the first that are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from cli.advising.history import History, Hour, Resource, Use
from cli.advising.indexes import advise_hot, advise_missing, advise_unused
from cli.advising.measured import Measured
from tests.advice.hand_made import END, PER_UNIT, PROVISIONED, M, history, hour, read, set_prices, use
from tests.worlds.advised import BY_KIND, stream

HOURLY = 'partition_by = "time"\nbucket = "1h"'
OWN_UNITS = (
    "{ age = 0, write = 9, read = 9, index = { own_a = { write = 2, read = 2 }, own_b = { write = 3, read = 3 } } }"
)
TWO_INDEXES = "\n".join(f'[[streams.s.index]]\nname = "own_{name}"\npartition_by = "of_{name}"' for name in "ab")


def read_by_import(own: History) -> History:
    """The history with a table to which a backfill wrote, and whose first index was read."""
    table = Resource(own.resources[0].period, "own_a", 1, (Hour(END, read=1.0),), imported=True)
    return replace(own, resources=(*own.resources, table))


@pytest.mark.parametrize(
    ("written", "then", "days", "is_read", "confidence"),
    [
        (1.0, 95, 28, False, "high"),
        (1.0, 95, 27, False, "medium"),
        (1.0, 95.01, 28, False, None),
        (0.0, 1, 28, False, None),
        (1.0, 1, 28, True, None),
    ],
)
def test_an_index_is_unused_that_is_written_and_that_no_table_read(
    written: float, then: float, days: int, is_read: bool, confidence: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads of a table to which a backfill wrote are reads, too."""
    seen: Any = []
    set_prices(monkeypatch, 100, lambda policy: seen.append(policy) or then)
    used = {"own_a": hour(END, written), "own_b": hour(END, 1, 1)}
    own = history(stream(capacity=OWN_UNITS, tail=TWO_INDEXES), 1, days=days, indexes=used)
    found = list(advise_unused(Measured(read_by_import(own) if is_read else own)))
    assert [finding.confidence for finding in found] == ([confidence] if confidence else [])
    if confidence:
        assert read(found[0]) == {"index": [{"name": "own_b", "partition_by": "of_b"}]}
        assert [list(step.index) for step in seen[0].capacity.ladder] == [["own_b"]]


def index_of(*fields: str) -> list[dict[str, str]]:
    return [{"name": f"by_{field}", "partition_by": field} for field in fields]


ONE = "customer:eq"
BY_CUSTOMER_OF_KIND = '[[streams.s.index]]\nname = "by_order"\nkind = "type"\npartition_by = { order = "customer" }'


@pytest.mark.parametrize(
    ("text", "uses", "indexes", "saving"),
    [
        # Half of 100 million units are for what is shown, and the index costs three dollars.
        (stream(), [use(0.1, 0.1, 1000, 0.5, ONE)], [["customer"]], (50 - 0.05) * M * PER_UNIT - 3),
        (stream(), [use(0.1, 0.1, 1000, 0.5, "series:eq", "id:eq", "customer:in", "size:ge")], [["customer"]], None),
        (stream(), [use(0.1, 0.1, 1000, 0.51, ONE)], [], None),
        (stream(), [use(0.1, 0.1, 1000, 0.5, ONE)._replace(route="aggregate")], [], None),
        (stream(tail='[streams.s.pack]\nspan = "1m"'), [use(0.1, 0.1, 1000, 0.5, ONE)], [], None),
        (stream(tail=BY_CUSTOMER_OF_KIND), [use(0.1, 0.1, 1000, 0.5, ONE)], [], None),
        (stream(capacity=PROVISIONED), [use(0.1, 0.1, 1000, 0.5, ONE)], [], None),
        # Each query, and each period that it meets, takes half a unit of the index.
        (stream(), [use(90, 90, 1.11, 0.5, ONE)], [], None),
        (stream(), [use(1, 80, 1.25, 0.5, ONE)], [], None),
        (
            stream(f"{HOURLY}\nshards = 2"),
            [use(1, 80, 1.25, 0.5, ONE)],
            [["customer"]],
            (50 - 0.5 * 1 / 0.6) * M * PER_UNIT - 3,
        ),
        (stream(), [Use("events", (ONE,), 100, refused=True)], [["customer"]], -3),
        (stream(), [Use("events", (ONE,), 99, refused=True)], [], None),
        (stream(), [Use("events", (ONE,), 100, refused=True), use(10, 10, 0.1, 0.1, ONE)], [["customer"]], -3),
        # The best field first, and then those that help other queries.
        (
            stream(),
            [
                use(0.1, 0.1, 1000, 0.1, ONE, "shop:eq"),
                use(0.1, 0.1, 1000, 0.1, "shop:eq"),
                use(0.1, 0.1, 1000, 0.1, "till:eq"),
            ],
            [["shop"], ["till"]],
            None,
        ),
    ],
)
def test_a_new_index_is_for_queries_that_show_half_of_what_they_read_or_less(
    text: str, uses: Sequence[Use], indexes: list[list[str]], saving: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_prices(monkeypatch, 100, lambda policy: 100.0 + 3 * len(policy.index))
    found = list(advise_missing(Measured(history(text, 1, uses=tuple(uses)))))
    assert [read(finding)["index"] for finding in found] == [index_of(*fields) for fields in indexes]
    if saving is not None:
        assert found[0].saving == pytest.approx(saving, abs=0.01)


def test_an_index_by_a_field_is_named_by_it_and_stands_beside_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    set_prices(monkeypatch, 100, lambda policy: 100.0 + 3 * len(policy.index))
    fields = ["Place.State", "x" * 70]
    uses = tuple(Use("events", (f"{field}:eq",), 100, refused=True) for field in fields)
    findings = list(advise_missing(Measured(history(stream(tail=BY_KIND), 1, uses=uses))))
    found, saving = [read(finding)["index"] for finding in findings], findings[0].saving
    assert [[index["name"] for index in some] for some in found] == [
        ["by_kind", "by_place_state"],
        ["by_kind", "by_" + "x" * 60],
    ]
    assert saving == -6


def test_a_hot_index_has_twice_its_shards_if_tables_with_so_many_are_throttled() -> None:
    """Late events throttle it, too; the other index stays, and so do tables that have fewer shards."""
    tail = TWO_INDEXES.replace('"of_a"', '"of_a"\nshards = 3')
    own = history(stream(tail=tail), 1, indexes={"own_b": hour(END, 1)})
    period = own.resources[0].period
    hours = tuple(replace(hour(END), throttles={("Write", "KeyRangeThroughput"): 50.0}) for _ in range(3))
    fewer = Resource(period, "own_a", 2, hours)
    assert not list(advise_hot(Measured(replace(own, resources=(*own.resources, fewer)))))
    (finding,) = advise_hot(Measured(replace(own, resources=(*own.resources, replace(fewer, shards=3)))))
    assert read(finding) == {
        "index": [
            {"name": "own_a", "partition_by": "of_a", "shards": 6},
            {"name": "own_b", "partition_by": "of_b"},
        ]
    }
