"""Values that a declared column does not hold are counted: in each part, in the manifest and in the catalog."""

import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from aws.archive.part_writer import ParquetWriter
from tests.worlds.archives import LAYOUT, START, World
from tests.worlds.codec import to_wire
from tidetable.events import Event

DECLARED = {"ms": "integer", "price": "decimal(5,2)", "mag": "double", "ok": "boolean", "name": "string"}


def count(rows: list[dict[str, Any]]) -> dict[str, int]:
    events = [Event("s", START + timedelta(seconds=number), str(number), row) for number, row in enumerate(rows)]
    writer = ParquetWriter(LAYOUT, DECLARED)
    writer.add(json.dumps([to_wire(LAYOUT.make_item(event)) for event in events]).encode())
    writer.finish()
    return dict(writer.untyped)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"ms": Decimal("20.2")}, {"ms": 1}),
        ({"ms": 2**63}, {"ms": 1}),
        ({"ms": "20"}, {"ms": 1}),
        ({"ms": True}, {"ms": 1}),
        ({"ms": [1]}, {"ms": 1}),
        ({"ms": {"ms": 1}}, {"ms": 1}),
        ({"price": Decimal("1.555"), "mag": "strong", "ok": 1, "name": 5}, {"price": 1, "mag": 1, "ok": 1, "name": 1}),
        # The column holds these, or there is no value.
        ({"ms": 20, "price": Decimal("1.50"), "mag": Decimal("0.5"), "ok": False, "name": ""}, {}),
        ({"ms": Decimal("5.0"), "mag": Decimal("0.12345678901234567890123456789012345678")}, {}),
        ({"ms": None, "name": None}, {}),
        ({}, {}),
        # A field of this name deeper in the data is another field, and so is a text that looks like it.
        ({"deep": {"ms": Decimal("0.5")}, "text": '"ms":{"N":"0.5"}', "undeclared": "x"}, {}),
    ],
)
def test_a_value_that_its_column_does_not_hold_is_counted(row: dict[str, Any], expected: dict[str, int]) -> None:
    assert count([row]) == expected
    assert count([{"ms": 1, "mag": 1, "name": "a"}, row, row]) == dict.fromkeys(expected, 2)


def test_a_column_that_nobody_declared_may_have_other_values() -> None:
    """Its type was chosen by its values, so no query relies on it."""
    assert count([{"note": "x"}, {"note": "y"}, {"note": 5}, {"n": 1, "note": "z"}]) == {}


def test_rows_of_many_shapes_are_counted_too() -> None:
    """Items with sets or with many names are read one by one."""
    rows = [{f"field{number}": 1, "ms": Decimal("0.5") if number % 2 else "x"} for number in range(500)]
    assert count(rows) == {"ms": 500}


def test_the_manifest_and_the_catalog_have_the_sum_of_all_parts() -> None:
    events = [
        Event(
            "s", START + timedelta(minutes=number), str(number), {"ms": Decimal("0.5") if number % 4 == 0 else number}
        )
        for number in range(100)
    ]
    world = World(events)
    world.policy = 'archive = { columns = { ms = "integer", mag = "double" } }'
    facts = world.archive().archive
    assert facts is not None
    manifest = world.manifest(facts.manifest)
    assert (facts.untyped, manifest.untyped) == ({"ms": 25}, {"ms": 25})
    assert len(manifest.parts) > 1
    assert sum(part.untyped.get("ms", 0) for part in manifest.parts) == 25
    # A manifest of an earlier release has no such counts.
    document = json.loads(manifest.encode())
    del document["untyped"]
    assert type(manifest).decode(json.dumps(document).encode()).untyped == {}


def test_an_archive_that_was_interrupted_counts_each_value_once() -> None:
    events = [
        Event("s", START + timedelta(minutes=number), str(number), {"ms": Decimal("0.5")}) for number in range(100)
    ]
    world = World(events)
    world.policy = 'archive = { columns = { ms = "integer" } }'
    for calls in (3, 9, 15):
        world.calls = calls
        with pytest.raises(KeyboardInterrupt):
            world.archive()
    world.calls = 10**9
    facts = world.archive().archive
    assert facts is not None
    assert facts.untyped == {"ms": 100}
