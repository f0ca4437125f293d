"""The stack's custom resources, as CloudFormation calls them."""

from collections.abc import Iterator

import pytest

from tests.fakes.queue import FakeBus
from tests.lifecycle.calls import call
from tests.lifecycle.world import World
from tests.worlds.standing import CATALOG, deployed
from tidetable.config import TableClass
from tidetable.ports import TableSpec

# What is made at noon of the fifteenth: a day of lateness, the day itself and the next two.
FIRST = {f"tidetable-t.s.2026-03-{day}" for day in (14, 15, 16, 17)}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    for name, value in {
        "TIDETABLE_STAGE": "t",
        "TIDETABLE_CATALOG_TABLE": CATALOG,
        "POWERTOOLS_METRICS_NAMESPACE": "Tidetable",
        "POWERTOOLS_SERVICE_NAME": "deployment",
    }.items():
        monkeypatch.setenv(name, value)
    import settings
    import wiring

    settings.read_settings.cache_clear()
    world = World()
    world.tables.create(TableSpec(CATALOG, None, None, TableClass.STANDARD, {}))
    world.clock.sleep(10)
    with wiring.serve_pipeline(world.pipeline(event_bus=FakeBus())):
        yield world
    settings.read_settings.cache_clear()


def test_a_first_deployment_that_fails_leaves_no_table(world: World) -> None:
    world.tables.fails = {"tidetable-t.s.2026-03-15"}
    with pytest.raises(Exception, match=r"s\.2026-03-15"):
        call("Create")
    assert world.tables.names == {CATALOG}
    world.tables.fails = set()
    call("Create")
    assert len(world.tables.names) == 5


def test_a_first_deployment_that_fails_later_leaves_no_table_either(world: World) -> None:
    call("Create")
    assert len(world.tables.names) == 5
    call("Delete")
    assert world.tables.names == {CATALOG}


def test_an_update_that_fails_takes_nothing_back(world: World) -> None:
    call("Create")
    world.tables.fails = {"tidetable-t.s.2026-03-18"}
    world.clock.sleep(3 * 86_400)
    with pytest.raises(Exception, match="2026-03-18"):
        call("Update", configuration="another")
    assert world.tables.names >= FIRST


@pytest.mark.parametrize("fails", [True, False])
def test_a_stage_of_a_version_without_the_mark_stands_from_the_beginning_of_its_update(
    world: World, *, fails: bool
) -> None:
    """Its update may get stuck before its end, and then the stack is deleted."""
    call("Create")
    world.clock.sleep(3 * 86_400)
    if fails:
        world.tables.fails = {"tidetable-t.s.2026-03-18"}
        with pytest.raises(Exception, match="2026-03-18"):
            call("Update", configuration="another")
        world.tables.fails = set()
    else:
        call("Update", configuration="another")
    assert world.catalog.is_deployed()
    before = world.tables.names
    call("Delete")
    assert world.tables.names == before
    assert before >= FIRST


def test_destroying_a_stage_that_stands_keeps_what_its_streams_keep(world: World) -> None:
    call("Create")
    call("Create", "Custom::TidetableStanding", protected="true")
    call("Delete", "Custom::TidetableStanding", protected="true")
    call("Delete")
    assert len(world.tables.names) == 5
    catalog = world.tables.describe(CATALOG)
    assert catalog is not None
    assert catalog.protected


def test_a_catalog_that_is_to_go_is_no_longer_protected_when_it_does(world: World) -> None:
    call("Create")
    call("Create", "Custom::TidetableStanding", protected="true")
    world.clock.sleep(60)
    call("Delete", "Custom::TidetableStanding", protected="false")
    catalog = world.tables.describe(CATALOG)
    assert catalog is not None
    assert not catalog.protected


def test_an_update_changes_the_protection_of_the_catalog(world: World) -> None:
    call("Create")
    for request, protected in (("Create", "true"), ("Update", "false")):
        answer = call(request, "Custom::TidetableStanding", protected=protected)
        assert answer == {"PhysicalResourceId": "tidetable-t-standing"}
        world.clock.sleep(60)
        catalog = world.tables.describe(CATALOG)
        assert catalog is not None
        assert catalog.protected is (protected == "true")


def test_a_stage_that_takes_its_catalog_back_and_fails_keeps_its_tables(world: World) -> None:
    call("Create")
    call("Create", "Custom::TidetableStanding", protected="true")
    call("Delete")
    world.tables.fails = {"tidetable-t.s.2026-03-18"}
    world.clock.sleep(3 * 86_400)
    with pytest.raises(Exception, match="2026-03-18"):
        call("Create", configuration="another")
    assert world.tables.names >= FIRST


def test_the_world_of_these_tests_is_that_of_a_deployment() -> None:
    assert len(deployed().tables.names) == 5
