"""The contract of the control plane, on every engine."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.contract.conftest import ENGINES, STRICT, build
from tests.contract.engines import TAGS, Engine
from tidetable.catalog import SeenTable
from tidetable.config import TableClass
from tidetable.errors import TableMissing, TableRefused
from tidetable.layout import Index


def test_a_table_is_created_once_and_settles_as_asked(engine: Engine) -> None:
    spec = engine.spec(write=3, read=4)
    assert engine.tables.create(spec)
    assert not engine.tables.create(spec)
    table = engine.settled(spec.name)
    assert (table.name, table.status, table.write, table.read) == (spec.name, "ACTIVE", 3, 4)
    assert table.decreases_today == 0


def test_what_does_not_exist_is_none_or_missing(engine: Engine) -> None:
    missing = engine.no_table()
    assert engine.tables.describe(missing) is None
    with pytest.raises(TableMissing, match=missing):
        engine.tables.tags(missing)
    with pytest.raises(TableMissing, match=missing):
        engine.tables.set_capacity(missing, 1, 1)
    with pytest.raises(TableMissing, match=missing):
        engine.tables.set_class(missing, TableClass.INFREQUENT)
    engine.tables.delete(missing)


def test_units_and_billing_mode_change(engine: Engine) -> None:
    spec = engine.spec(write=3, read=4)
    engine.tables.create(spec)
    engine.settled(spec.name)
    for write, read in ((5, 6), (2, 6), (None, None), (7, 8)):
        engine.tables.set_capacity(spec.name, write, read)
        table = engine.settled(spec.name)
        assert (table.write, table.read, table.on_demand) == (write, read, write is None)


def test_the_units_of_indexes_change_with_the_tables_or_alone(engine: Engine) -> None:
    spec = replace(engine.spec(write=3, read=4), indexes=(Index("one", "a"), Index("two", "b")))
    engine.tables.create(spec)
    changes: list[tuple[Any, ...]] = [
        (5, 6, True, {"one": (5, 6), "two": (5, 6)}, {"one": (5, 6), "two": (5, 6)}),
        (5, 6, False, {"two": (7, 8)}, {"one": (5, 6), "two": (7, 8)}),
        (None, None, True, {}, {}),
        (2, 2, True, {"one": (2, 2), "two": (9, 9)}, {"one": (2, 2), "two": (9, 9)}),
    ]
    table = engine.settled(spec.name)
    assert table.index_units == {"one": (3, 4), "two": (3, 4)}
    for write, read, itself, indexes, expected in changes:
        engine.tables.set_capacity(spec.name, write, read, itself=itself, indexes=indexes)
        table = engine.settled(spec.name)
        assert table.index_units == expected
        assert (table.write, table.read) == (write, read)


def test_an_index_may_begin_with_units_of_its_own(engine: Engine) -> None:
    indexes = (Index("one", "a"), Index("two", "b"))
    spec = replace(engine.spec(write=3, read=4), indexes=indexes, index_units={"two": (1, 9)})
    engine.tables.create(spec)
    table = engine.settled(spec.name)
    assert table.index_units == {"one": (3, 4), "two": (1, 9)}
    assert table.seen == SeenTable(3, 4, TableClass.STANDARD, (("one", (3, 4)), ("two", (1, 9))))


def test_warm_throughput_maxima_encryption_and_stream_are_taken(engine: Engine) -> None:
    """Not every engine shows these settings, but none may refuse them."""
    spec = replace(
        engine.spec(), warm=(5000, 13_000), most=(6000, 14_000), encryption="aws-managed", stream="new-and-old-images"
    )
    assert engine.tables.create(spec)
    table = engine.settled(spec.name)
    assert table.on_demand


@pytest.mark.parametrize("name", ["fake", "strict memory"])
def test_maxima_are_shown_dropped_by_a_switch_set_again_and_lifted(name: str, request: pytest.FixtureRequest) -> None:
    engine = build(name, request)
    spec = replace(engine.spec(), most=(600, 1400), indexes=(Index("one", "a"),))
    engine.tables.create(spec)

    def shown() -> tuple[Any, Any]:
        table = engine.settled(spec.name)
        return table.most, table.index_most

    assert shown() == ((600, 1400), {"one": (600, 1400)})
    engine.tables.set_capacity(spec.name, 5, 5, indexes={"one": (5, 5)})
    assert shown() == (None, {"one": None})
    engine.tables.set_capacity(spec.name, None, None, most=(700, 1500))
    assert shown() == ((700, 1500), {"one": None})
    engine.tables.set_maxima(spec.name, (700, 1500), ["one"])
    assert shown() == ((700, 1500), {"one": (700, 1500)})
    engine.tables.set_maxima(spec.name, None, ["one"])
    assert shown() == (None, {"one": None})


@pytest.mark.parametrize("name", ["emulator", "strict emulator", "strict local"])
def test_maxima_are_refused_by_no_engine(name: str, request: pytest.FixtureRequest) -> None:
    engine = build(name, request)
    spec = replace(engine.spec(write=3, read=4), indexes=(Index("one", "a"),))
    engine.tables.create(spec)
    engine.settled(spec.name)
    engine.tables.set_capacity(spec.name, None, None, most=(700, 1500))
    table = engine.settled(spec.name)
    assert table.on_demand
    engine.tables.set_maxima(spec.name, (800, 1600), ["one"])
    engine.settled(spec.name)


def test_a_table_is_deleted_once(engine: Engine) -> None:
    name = engine.create_table()
    engine.tables.delete(name)
    assert engine.gone(name)
    engine.tables.delete(name)
    assert engine.tables.describe(name) is None


@pytest.mark.parametrize("name", [engine for engine in ENGINES if engine != "local"])
def test_a_protected_table_is_deleted_only_after_its_protection_is_lifted(
    name: str, request: pytest.FixtureRequest
) -> None:
    engine = build(name, request)
    spec = replace(engine.spec(), protected=True)
    engine.tables.create(spec)
    table = engine.settled(spec.name)
    assert table.protected
    engine.recoverable(spec.name)
    engine.tables.enable_recovery(spec.name)
    with pytest.raises(TableRefused):
        engine.tables.delete(spec.name)
    engine.tables.set_protection(spec.name, protected=False)
    table = engine.settled(spec.name)
    assert not table.protected
    engine.tables.delete(spec.name)
    assert engine.gone(spec.name)


# DynamoDB Local by itself forgets class and tags. Behind the rules of AWS it keeps them.
@pytest.mark.parametrize("name", [engine for engine in ENGINES if engine != "local"])
def test_class_and_tags_are_kept(name: str, request: pytest.FixtureRequest) -> None:
    engine = build(name, request)
    spec = replace(engine.spec(), table_class=TableClass.INFREQUENT)
    engine.tables.create(spec)
    table = engine.settled(spec.name)
    assert table.table_class is TableClass.INFREQUENT
    assert engine.tagged(spec.name) == TAGS
    engine.tables.set_class(spec.name, TableClass.STANDARD)
    table = engine.settled(spec.name)
    assert table.table_class is TableClass.STANDARD


@pytest.mark.parametrize("name", ["fake", *STRICT])
def test_a_table_that_changes_refuses_for_a_while(name: str, request: pytest.FixtureRequest) -> None:
    engine = build(name, request)
    spec = engine.spec(write=3, read=4)
    engine.tables.create(spec)
    with pytest.raises(TableRefused) as refused:
        engine.tables.set_capacity(spec.name, 5, 5)
    assert refused.value.transient
    engine.settled(spec.name)
    engine.tables.set_capacity(spec.name, 5, 5)
    described = engine.tables.describe(spec.name)
    assert described is not None
    assert (described.status, described.write) == ("UPDATING", 3), "the old figures, until the change is over"


@pytest.mark.parametrize("shows", ["new-image", "new-and-old-images", "keys-only"])
def test_a_change_stream_is_turned_on_and_described(engine: Engine, shows: str) -> None:
    name = engine.create_table()
    table = engine.settled(name)
    assert (table.stream_arn, table.has_images) == ("", False)
    engine.tables.set_stream(name, shows)
    table = engine.settled(name)
    assert f":table/{name}/stream/" in table.stream_arn
    assert table.has_images is (shows != "keys-only")


def test_a_table_may_begin_with_its_change_stream(engine: Engine) -> None:
    spec = replace(engine.spec(), stream="new-image")
    assert engine.tables.create(spec)
    table = engine.settled(spec.name)
    assert f":table/{spec.name}/stream/" in table.stream_arn
    assert table.has_images


@pytest.mark.parametrize("engine_name", [name for name in ENGINES if name != "emulator"])
def test_a_change_stream_is_turned_on_once(engine_name: str, request: pytest.FixtureRequest) -> None:
    """AWS: "You receive a ValidationException if you try to enable a stream on a table that already has a stream".

    The emulator by itself turns the stream on again, so it is left out.
    """
    engine = build(engine_name, request)
    name = engine.create_table()
    engine.tables.set_stream(name, "new-image")
    arn = engine.settled(name).stream_arn
    with pytest.raises(TableRefused, match="already has an enabled stream") as refused:
        engine.tables.set_stream(name, "new-image")
    assert not refused.value.transient
    assert engine.settled(name).stream_arn == arn


def test_a_missing_table_has_no_change_stream(engine: Engine) -> None:
    missing = engine.no_table()
    with pytest.raises(TableMissing, match=missing):
        engine.tables.set_stream(missing, "new-image")
