"""A missing table: acknowledged events wait in the queue, and are written when the table is back."""

import json

from local import Deployed
from local.http import Api
from tests.e2e.clock import TODAY
from tests.e2e.conftest import eventually, run_lifecycle


def test_events_for_a_vanished_table_are_queued_and_drained_when_it_is_back(api: Api, deployed: Deployed) -> None:
    client = deployed.make_client("dynamodb")
    name = f"tidetable-local.quakes.{TODAY}"
    facts = client.describe_table(TableName=name)["Table"]
    tags = client.list_tags_of_resource(ResourceArn=facts["TableArn"])["Tags"]
    items = client.scan(TableName=name)["Items"]
    client.delete_table(TableName=name)

    mappings = deployed.make_client("lambda")
    overflow = deployed.outputs["OverflowQueueUrl"].rpartition("/")[2]
    (uuid,) = (
        mapping["UUID"]
        for mapping in mappings.list_event_source_mappings()["EventSourceMappings"]
        if mapping["EventSourceArn"].endswith(f":{overflow}")
    )
    # After a failed try a message is delivered again in six minutes. That is too long for a test, so the drain is
    # switched off.
    mappings.update_event_source_mapping(UUID=uuid, Enabled=False)
    answer = api.send("quakes", json.dumps([{"series": "lost", "id": str(number)} for number in range(3)]).encode())
    assert (answer.status, answer.body["accepted"], answer.body["queued"]) == (202, 0, 3)
    read = api.query("quakes", start="-1h")
    assert read.status == 200, read.body
    assert "table missing" in [gap["reason"] for gap in read.body["gaps"]]
    report = run_lifecycle(deployed)
    assert [(action["action"], action["outcome"]) for action in report["actions"]] == [("lost", "lost")]
    assert not report["healthy"]

    client.create_table(
        TableName=name,
        KeySchema=facts["KeySchema"],
        AttributeDefinitions=facts["AttributeDefinitions"],
        BillingMode="PROVISIONED",
        ProvisionedThroughput={"ReadCapacityUnits": 5, "WriteCapacityUnits": 5},
        Tags=tags,
    )
    for item in items:
        client.put_item(TableName=name, Item=item)
    mappings.update_event_source_mapping(UUID=uuid, Enabled=True)
    written = lambda: api.query("quakes", start="-1h", series="lost").body["events"]  # noqa: E731
    eventually(written, lambda events: len(events) == 3)
