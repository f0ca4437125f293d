"""The columns of tables as other programs see them, when types and declarations change."""

from collections.abc import Mapping

from msgspec.structs import replace

from tests.worlds.lakes import DAY, FIRST, SECOND, LakeWorld, Row, make_rows
from tidetable.catalog import State
from tidetable.lake.lake_tables import LakePeriod
from tidetable.lake.reconcile import find_columns


def test_a_decimal_is_widened_and_a_changed_column_is_told(world: LakeWorld) -> None:
    world.configure("day", 'columns = { mag = "decimal(5,1)", n = "integer" }')
    world.archive(FIRST, [Row(0, "a", "1", {"mag": 3, "n": 4})])
    world.reconcile()
    world.configure("day", 'columns = { mag = "decimal(20, 1)", n = "double" }')
    world.archive(SECOND, [Row(DAY, "b", "2", {"mag": 5, "n": 6})])
    number = world.find_number("mag")
    assert world.reconcile() == (1, 0, 2, True, {"n": ("n integer", "n double")}, [])
    assert world.reconcile().changed is False
    # Earlier states of the table still find the column by its number.
    assert world.find_number("mag") == number
    rows = world.read_by_pyiceberg()
    assert sorted((row["series"], str(row["mag"])) for row in rows) == [("a", "3.0"), ("b", "5.0")]
    assert "n" not in rows[0]
    # The column comes back as soon as all files agree.
    world.change(FIRST, state=State.RESTORING)
    assert world.reconcile().refused == {}
    assert [(row["series"], row["n"]) for row in world.read_by_pyiceberg()] == [("b", 6.0)]


def test_an_undeclared_field_is_hidden_until_it_is_declared(world: LakeWorld) -> None:
    world.configure("day", "")
    world.archive(FIRST, [Row(0, "a", "1", {"place": "x", "n": 4})])
    world.reconcile()
    (row,) = world.read_by_pyiceberg()
    assert not {"place", "n"} & row.keys()
    world.configure("day", 'columns = { place = "string", n = "integer" }')
    # The file has numbers that were not declared as doubles.
    assert world.reconcile().refused == {"n": ("n integer", "n double")}
    (row,) = world.read_by_pyiceberg()
    assert (row["place"], "n" in row) == ("x", False)


def test_a_declared_column_is_refused_if_nobody_noted_which_columns_older_files_have(world: LakeWorld) -> None:
    world.archive(FIRST, [Row(0, "a", "1", {"mag": 1})])
    key = f"stream=quakes/period={FIRST}/_manifest.json"
    world.bucket.archiving = True
    world.bucket.put(key, world.bucket.get(key).replace(b'"columns": {}', b'"columns": null'))
    world.bucket.archiving = False
    world.configure("day", 'columns = { mag = "integer", later = "string" }')
    assert world.reconcile().refused == {"later": ("later string", "later of an unknown type")}
    assert [row["mag"] for row in world.read_by_pyiceberg()] == [1]


def test_columns_of_the_pipeline_are_never_of_an_unknown_type(world: LakeWorld) -> None:
    first = LakePeriod(label=FIRST, at=world.clock.now(), columns={"time": "timestamp"}, inferred=None, files=())
    second = replace(first, columns={"time": "timestamp", "version": "int", "pk_x": "string", "mag": "integer"})
    joined = find_columns(world.stream, [first, second])
    assert (joined.columns["version"], joined.columns["pk_x"]) == ("int", "string")
    assert joined.refused == {"mag": ("mag integer", "mag of an unknown type")}


def test_the_newest_columns_of_all_periods_are_those_of_the_table(world: LakeWorld) -> None:
    columns: Mapping[str, str] = {"mag": "integer", "z": "boolean"}
    world.archive(FIRST, make_rows(0, "a"), columns=columns)
    world.reconcile()
    found = world.make_tables().open("quakes").list_columns()
    assert found == {
        "time": "timestamp",
        "series": "string",
        "id": "string",
        "id_hex": "binary",
        "shard": "int",
        "accepted_at": "timestamp",
        "data": "string",
        "attributes": "string",
        "period": "string",
        "mag": "integer",
        "z": "boolean",
    }
