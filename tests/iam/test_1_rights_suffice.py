"""Every flow with nothing but the rights of the roles: first with all features on, then with those off whose tables live on.

Not looked at by the emulator: PassRole, the rights with which event sources are polled, keys of buckets and queues.
"""

import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from local.emulator import ROOT, can_move_clock, clean_environment
from local.http import Api, invoke_refresher
from tests.e2e.clock import NOW, TODAY
from tests.e2e.conftest import eventually
from tests.iam import background, flows
from tests.iam.conftest import PLAIN, Stage

pytestmark = pytest.mark.skipif(not can_move_clock(), reason="periods expire here by a moved clock")


@pytest.fixture
def tidetable(stage: Stage) -> Any:
    environment = clean_environment() | stage.emulator.time_environment | stage.deployed.environment

    def run(*arguments: str) -> str:
        command = [str(ROOT / "bin" / "tidetable"), *arguments]
        done = subprocess.run(  # noqa: S603 - our own command
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture(autouse=True)
def _nothing_is_denied(stage: Stage) -> Iterator[None]:
    yield
    assert stage.denials() == []


def test_a_feed_delivers_to_its_targets(stage: Stage, api: Api) -> None:
    flows.deliver_changes(api, stage.deployed, "fed", stage.log)


def test_history_is_imported_into_the_archive_and_listed_as_iceberg(
    stage: Stage, api: Api, tidetable: Any, tmp_path: Path
) -> None:
    flows.import_history(api, tidetable, tmp_path)
    flows.be_listed_as_iceberg(stage.deployed, "stations")


def test_with_every_feature_on(stage: Stage, api: Api, tidetable: Any) -> None:
    flows.write_and_read(api, "on")
    flows.write_through_a_door(api, "on-door")
    flows.keep_in_the_bucket(api, "on-large")
    flows.keep_versions(api, "on")
    flows.wait_without_a_table(api, stage.deployed, "on-lost", large=True, stopped=True)
    flows.be_laid_aside(stage.deployed, tidetable)
    flows.live_through_a_past_day(api, stage.deployed, 300, large=True, pass_time=stage.pass_time)
    flows.be_swept(stage.deployed)
    flows.be_woken_by_a_dead_letter(stage.deployed, tidetable)
    flows.run_lifecycle(stage.deployed)
    assert "SCALING PutScalingPolicy table/tidetable-local.quakes" in stage.log()


def test_parts_and_pieces_are_computed_by_messages(stage: Stage, api: Api, tidetable: Any) -> None:
    background.be_divided_and_rebuilt(stage, api, tidetable)


def test_with_features_off_whose_tables_live_on(stage: Stage, api: Api) -> None:
    tables = stage.deployed.make_client("dynamodb")

    def make_key(period: str) -> str:
        described = tables.describe_table(TableName=f"tidetable-local.quakes.{period}")["Table"]
        return str(described["SSEDescription"]["KMSMasterKeyArn"])

    assert make_key(TODAY) == stage.keys["first"]
    stage.reconfigure(PLAIN)
    flows.write_and_read(api, "off")
    flows.write_where_versions_are_kept(api, "off")
    flows.wait_without_a_table(api, stage.deployed, "off-lost", large=False)
    flows.live_through_a_past_day(api, stage.deployed, 200, large=False, pass_time=stage.pass_time)
    flows.be_swept(stage.deployed)
    # A day that was written under the first key is read from its archive after the key was changed.
    stage.pass_time(timedelta(days=31))
    later = (NOW + timedelta(days=31)).date()

    def states() -> dict[str, str]:
        flows.run_lifecycle(stage.deployed)
        return {
            period["period"]: period["state"] for period in api.query("quakes", "periods", limit=100).body["periods"]
        }

    eventually(states, lambda found: found.get(TODAY) == "deleted" and str(later) in found)
    assert make_key(str(later)) == stage.keys["second"]

    def sealed() -> str | None:
        rollup = invoke_refresher(stage.deployed, status="quakes")["rollups"][0]
        return None if rollup["sealed"] is None else str(rollup["sealed"])[:10]

    # By its schedule the refresher seals each day, those of deleted tables, too.
    assert eventually(sealed, lambda day: day == str(later)) == str(later)
    assert f"SCALING DeregisterScalableTarget table/tidetable-local.quakes.{TODAY}" in stage.log()
    for series in ("on", "off"):
        assert len(flows.find_data(api, "quakes", series)) == 3
    assert "text" in flows.find_data(api, "quakes", "on-large")["large"]
