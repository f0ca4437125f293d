"""The sweeper's handler: its payload, its metrics, and its failures."""

import importlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

import settings
import wiring
from tests.api.gateway import Context
from tests.fakes.stage import Stage
from tests.worlds.large import CONFIG, orphan, read_entry
from tidetable.catalog import State
from tidetable.errors import BadInvocation
from tidetable.ports import Blob

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)


@pytest.fixture
def sweeper(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The handler's module, which reads the environment when it is imported."""
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "test")
    monkeypatch.setenv("TIDETABLE_STAGE", "lapse")
    settings.read_settings.cache_clear()
    yield importlib.import_module("handlers.sweeper")
    settings.read_settings.cache_clear()


@pytest.fixture
def stage() -> Iterator[Stage]:
    """A stage with three objects of two days ago that no item refers to."""
    stage = Stage(NOON, CONFIG)
    while stage.run_lifecycle().done:
        pass
    for number in range(3):
        stage.values.put(orphan(stage, "stored", number))
    stage.clock.sleep(2 * 86_400)
    with wiring.serve_pipeline(stage.pipeline):
        yield stage


@pytest.fixture
def counted(sweeper: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """The metrics that were added."""
    values_by_name: dict[str, float] = {}
    monkeypatch.setattr(
        "handlers._observe.metrics.add_metric", lambda name, _, value: values_by_name.update({name: value})
    )
    return values_by_name


def invoke(sweeper: Any, **event: Any) -> Any:
    return sweeper.handler(event, Context())


def test_a_sweep_by_hand_counts(stage: Stage, sweeper: Any, counted: dict[str, float]) -> None:
    report = invoke(sweeper)
    assert (report["orphans"], report["dry_run"], report["finished"]) == (3, False, True)
    assert stage.values.blobs == {}
    assert (counted["ObjectsSwept"], counted["BytesSwept"]) == (3, 3)


def test_a_dry_run_removes_nothing_and_counts_nothing(stage: Stage, sweeper: Any, counted: dict[str, float]) -> None:
    report = invoke(sweeper, dry_run=True)
    assert (report["orphans"], report["dry_run"]) == (3, True)
    assert len(stage.values.blobs) == 3
    assert "ObjectsSwept" not in counted


def test_a_dry_run_goes_on_at_its_position(stage: Stage, sweeper: Any) -> None:
    """All objects have been counted: those of the last stream, too."""
    position = {"at": {"stream": "zz", "key": "", "looked": {}}, "counted": True}
    assert invoke(sweeper, dry_run=True, position=position)["seen"] == 0
    with pytest.raises(BadInvocation, match="position must be that of an unfinished dry run"):
        invoke(sweeper, dry_run=True, position={"counted": 1})
    assert len(stage.values.blobs) == 3


@pytest.mark.parametrize("event", [{"dry_run": "true"}, {"dry_run": None}, {"dryrun": True}, {"dry_run": 1}])
def test_a_payload_that_is_not_understood_sweeps_nothing(
    stage: Stage, sweeper: Any, counted: dict[str, float], event: dict[str, Any]
) -> None:
    with pytest.raises(BadInvocation, match="the payload may have dry_run, true or false"):
        invoke(sweeper, **event)
    assert len(stage.values.blobs) == 3


def test_a_sweep_that_could_not_look_at_everything_says_so_and_the_rest_is_swept(
    stage: Stage, sweeper: Any, counted: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(keys: Any) -> None:
        raise TimeoutError(f"{len(keys)} later")

    monkeypatch.setattr(stage.values, "delete", broken)
    report = invoke(sweeper, dry_run=False)
    assert report["failures"]
    assert "TimeoutError" in report["failures"][0]
    assert counted["ObjectsSwept"] == 3


def test_objects_of_deleted_periods_count_as_swept_and_bytes_as_bytes(
    stage: Stage, sweeper: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    added: list[tuple[str, str, float]] = []
    monkeypatch.setattr(
        "handlers._observe.metrics.add_metric", lambda name, unit, value: added.append((name, unit.value, value))
    )
    lost = orphan(stage, "stored", 0)
    stage.values.put(Blob(lost.key, b"x" * 100, lost.owner))
    stage.clock.sleep(86_400)
    entry = read_entry(stage)
    stage.catalog.move(entry, State.DELETED, expected=(entry.state,))
    report = invoke(sweeper)
    assert (report["expired"], report["orphans"]) == (3, 0)
    assert added == [("ObjectsSwept", "Count", 3), ("BytesSwept", "Bytes", 102)]
