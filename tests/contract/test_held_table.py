"""The fake's table that knows the order of its keys reads the pages that a plain dictionary of items gives."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any

from tests.fakes.held_table import HeldTable
from tests.fakes.store import find_page
from tidetable.layout import Key
from tidetable.ports import KeyRange


def draw_edge(chance: Random) -> str | None:
    return chance.choice([None, str(chance.randrange(30)).zfill(2)])


def test_pages_are_those_of_a_dictionary_whatever_was_put_and_deleted() -> None:
    for seed in range(60):
        chance, table = Random(seed), HeldTable()
        items: dict[Key, Any] = {}
        for _ in range(60):
            key = Key(chance.choice("pq"), str(chance.randrange(30)).zfill(2))
            if key in table and chance.random() < 0.3:
                del table[key], items[key]
            else:
                table[key] = items[key] = {"pk": key.pk, "sk": key.sk}
            if chance.random() < 0.05:
                table = deepcopy(table)
            start = chance.choice([None, {"pk": "p", "sk": str(chance.randrange(30)).zfill(2)}])
            keys = KeyRange(
                "t",
                "p",
                draw_edge(chance),
                draw_edge(chance),
                draw_edge(chance),
                start=start,
                prefix=chance.choice(["", "1"]),
            )
            for ascending in (True, False):
                limit = chance.choice([1, 2, 3, 100])
                found = table.read_page(keys, limit, ascending=ascending)
                assert found == find_page(items, keys, ("sk", "pk"), limit, ascending=ascending), (seed, keys, limit)
