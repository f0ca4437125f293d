"""What several modules of the API's tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.worlds.keyed import EVENTS, SECRET, TENANT, Door, open_door
from tests.worlds.tenant_cases import Both
from tests.worlds.tenants import Tenants
from tidetable.access import SCOPES


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """The API with a key per scope, per stream and per prefix, and three events in each stream."""
    for opened in open_door(tmp_path_factory.mktemp("keyed")):
        for scope in SCOPES:
            opened.make(f"tt_{scope:0<10}_{SECRET}", "quakes", can=(scope,))
        opened.make(f"tt_elsewhere0_{SECRET}", "packed", can=("write", "read", "operate"))
        opened.make(f"tt_everything_{SECRET}", can=("write", "read", "operate"))
        opened.make(TENANT, series_prefix="a/")
        for stream in ("quakes", "packed", "devices"):
            events = [
                {"series": series, "id": series, "data": {"t": number, "of": f"OF-{series}"}}
                for number, series in enumerate(["a/1", "a/2", "b/1"])
            ]
            sent = opened.call("POST", EVENTS, f"tt_everything_{SECRET}", events, stream=stream)
            assert (sent.status, sent.body["accepted"]) == (200, 3)
        yield opened


@pytest.fixture(scope="session")
def stages() -> tuple[Tenants, Tenants]:
    """The stage of one tenant, and the stage of several tenants. Each test leaves them equal in the tenant's events."""
    return Tenants(shared=False), Tenants(shared=True)


@pytest.fixture
def both(stages: tuple[Tenants, Tenants], tmp_path: Path) -> Both:
    return Both(stages, tmp_path)
