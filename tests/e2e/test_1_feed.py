"""A feed in the deployed stage: the changes of a stream reach a queue, from tables whose streams the lifecycle mapped."""

import json
from datetime import timedelta
from functools import partial
from typing import Any

from local import Deployed
from local.http import Api
from tests.e2e.clock import NOW
from tests.e2e.conftest import eventually, run_lifecycle
from tests.e2e.feeds import mapped_tables, receive_changes


def test_every_open_table_of_the_stream_is_mapped_and_no_other(api: Api, deployed: Deployed) -> None:
    periods = api.call("/v1/streams/stations/periods").body["periods"]
    tables = {f"tidetable-local.stations.{entry['period']}" for entry in periods if entry["state"] == "open"}
    assert len(tables) >= 3
    assert eventually(partial(mapped_tables, deployed), lambda mapped: mapped >= tables) == tables


def test_an_event_and_its_correction_reach_the_queue_in_their_order(api: Api, deployed: Deployed) -> None:
    # A week ago is another table.
    times = [(NOW - timedelta(days=days)).isoformat() for days in (0, 6)]
    sent = [
        {"series": "feed", "id": f"f{number}", "time": time, "data": {"n": number, "big": 12345678901234567890}}
        for number, time in enumerate(times)
    ]
    refs = api.send("stations", json.dumps(sent).encode()).body["refs"]
    corrected = {**sent[0], "data": {"n": "corrected"}}
    assert api.send("stations", json.dumps([corrected]).encode()).status == 200
    found: list[dict[str, Any]] = []

    def mine() -> list[dict[str, Any]]:
        return [change for change in receive_changes(deployed, found) if change["series"] == "feed"]

    changes = eventually(mine, lambda changes: len(changes) >= 3)
    first = [change for change in changes if change["id"] == "f0"]
    (second,) = (change for change in changes if change["id"] == "f1")
    assert [(change["kind"], change["data"]) for change in first] == [
        ("insert", sent[0]["data"]),
        ("replace", {"n": "corrected"}),
    ]
    assert first[0]["at"] <= first[1]["at"]
    assert (second["kind"], second["stream"], second["data"]) == ("insert", "stations", sent[1]["data"])
    assert [first[0]["ref"], second["ref"]] == refs
    assert api.get("stations", first[1]["ref"]).body["data"] == {"n": "corrected"}


def test_a_mapping_that_was_deleted_is_made_again(deployed: Deployed) -> None:
    client = deployed.make_client("lambda")
    before = mapped_tables(deployed)
    # No run of the schedule is under way after this one, so the next one makes the mapping.
    run_lifecycle(deployed)
    mappings = client.list_event_source_mappings(FunctionName=deployed.outputs["FeedFunction"])["EventSourceMappings"]
    client.delete_event_source_mapping(UUID=mappings[0]["UUID"])
    table = mappings[0]["EventSourceArn"].split("/")[1]
    report = run_lifecycle(deployed)
    assert [(step["action"], step["table"], step["outcome"]) for step in report["feeds"]] == [("map", table, "done")]
    assert mapped_tables(deployed) == before
