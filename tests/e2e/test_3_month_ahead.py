"""The whole stage a month later: tables were made, lowered, archived and deleted, and every event is still found."""

import json
from datetime import timedelta
from typing import Any

from pyiceberg.table import StaticTable

from examples.earthquakes.data import make_earthquakes
from local import Deployed, Emulator
from local.emulator import can_move_clock
from local.http import Api, invoke_lifecycle
from tests.e2e.clock import NOW, OFFSET
from tests.e2e.conftest import eventually
from tests.e2e.feeds import mapped_tables
from tests.e2e.rollups import Hour


def test_a_month_later_every_event_still_answers_by_range_and_by_ref(
    stage: tuple[Emulator, Deployed], api: Api, hour: Hour | None
) -> None:
    emulator, deployed = stage
    now = NOW
    rolled = hour.aggregate(api) if hour is not None else None
    sent = make_earthquakes(now)[-400:]
    for event in sent:
        event["series"] = f"month-{event['series']}"
    assert api.send("quakes", json.dumps(sent).encode()).status == 200
    # To the end of the day, because the earlier tests have sent events until now.
    start, end = (now - timedelta(days=7)).isoformat(), f"{now + timedelta(days=1):%Y-%m-%d}T00:00:00Z"

    def whole() -> list[dict[str, object]]:
        return list(api.walk_events("quakes", start=start, to=end, order="asc", limit=300))

    before = whole()
    later = now + timedelta(days=31)
    if can_move_clock():
        # The refresher would seal 800 empty hours meanwhile, which the time-lapse does, and nothing here looks at them.
        stop_refresher(deployed)
        emulator.move_clock(OFFSET + timedelta(days=31))
        # The schedule runs every five minutes, so it does the work without a call.
        eventually(
            lambda: api.call("/v1/streams/quakes/periods").body["periods"],
            lambda periods: later.strftime("%Y-%m-%d") in [entry["period"] for entry in periods],
        )
        payload: dict[str, object] = {}
    else:
        payload = {"at": later.isoformat()}

    def settled() -> None:
        """Run the lifecycle until it has nothing to do."""
        report = eventually(
            lambda: invoke_lifecycle(deployed, **payload),
            lambda report: report["healthy"] and not report["actions"],
        )
        assert report["skipped"] is None

    settled()
    if can_move_clock():
        # Archived tables stay for a day of grace.
        emulator.move_clock(OFFSET + timedelta(days=33))
        settled()

    answer = eventually(lambda: api.call("/v1/streams/quakes/periods"), lambda answer: answer.status == 200)
    periods = answer.body["periods"]
    states = {entry["period"]: entry["state"] for entry in periods}
    mine = [entry for entry in periods if entry["period"] == now.strftime("%Y-%m-%d")]
    assert states[now.strftime("%Y-%m-%d")] == "deleted", (mine, invoke_lifecycle(deployed, dry_run=True, **payload))
    assert states[later.strftime("%Y-%m-%d")] == "open"
    assert all(entry["archive"] for entry in periods if entry["state"] == "deleted")
    tables = deployed.make_client("dynamodb").list_tables()["TableNames"]
    assert f"tidetable-local.quakes.{now.strftime('%Y-%m-%d')}" not in tables

    # The mappings of the feed have followed the tables of its stream.
    weeks = {entry["period"]: entry["state"] for entry in api.call("/v1/streams/stations/periods").body["periods"]}
    there = {f"tidetable-local.stations.{week}" for week, state in weeks.items() if state != "deleted"}
    mapped = mapped_tables(deployed)
    assert {f"tidetable-local.stations.{week}" for week, state in weeks.items() if state == "open"} <= mapped <= there

    assert count_rows_in_iceberg(deployed, now.strftime("%Y-%m-%d")) == sum(
        str(event["time"])[:10] == now.strftime("%Y-%m-%d") for event in before
    )

    if hour is not None and rolled is not None:
        # The events of the hour are archived. The cells are where they were, and say the same.
        assert states[f"{hour.start:%Y-%m-%d}"] == "deleted"
        assert hour.aggregate(api) == rolled
        assert rolled[0] == hour.expected()
        assert [source["from"] for source in rolled[1]] == ["table"]
        assert {source["from"] for source in hour.aggregate(api, rollups="false")[1]} == {"archive"}

    day = now.strftime("%Y-%m-%d")
    request = {"stream": "quakes", "first": day, "last": day, "keep_days": 2}
    restored = deployed.make_client("lambda").invoke(
        FunctionName=deployed.outputs["RestorerFunction"], Payload=json.dumps({"restore": request}).encode()
    )
    assert [period["refusal"] for period in json.loads(restored["Payload"].read())["periods"]] == [None]

    def find_state() -> str:
        periods = api.call("/v1/streams/quakes/periods").body["periods"]
        return str({entry["period"]: entry["state"] for entry in periods}[day])

    assert eventually(find_state, lambda state: state == "closed") == "closed"

    assert whole() == before
    for event in before[::97]:
        assert api.get("quakes", str(event["ref"])).body == event


def stop_refresher(deployed: Deployed) -> None:
    """Delete the schedule of the refresher of rollups."""
    schedules = deployed.make_client("scheduler")
    function = deployed.outputs["RefresherFunction"]
    named = [(one["GroupName"], one["Name"]) for one in schedules.list_schedules()["Schedules"]]
    targets = {name: schedules.get_schedule(GroupName=name[0], Name=name[1])["Target"]["Arn"] for name in named}
    ((group, name),) = (name for name, arn in targets.items() if arn.endswith(f":{function}"))
    schedules.delete_schedule(GroupName=group, Name=name)


def count_rows_in_iceberg(deployed: Deployed, period: str) -> int:
    """The number of rows that pyiceberg finds in a period, in the stage's table, after the table has followed the archive."""
    database, functions = deployed.outputs["ArchiveDatabase"], deployed.make_client("lambda")

    def reconcile() -> Any:
        answer = functions.invoke(FunctionName=deployed.outputs["LakeFunction"], Payload=b'{"stream": "quakes"}')
        return json.loads(answer["Payload"].read())

    eventually(reconcile, lambda report: report.get("state") == "current")
    table = deployed.make_client("glue").get_table(DatabaseName=database, Name="quakes")["Table"]
    properties = {"s3.endpoint": deployed.endpoint, "s3.region": "us-east-1"}
    properties |= {"s3.access-key-id": "test", "s3.secret-access-key": "test"}
    found = StaticTable.from_metadata(table["Parameters"]["metadata_location"], properties)
    return int(found.scan(row_filter=f"period = '{period}'", selected_fields=("series", "period")).to_arrow().num_rows)
