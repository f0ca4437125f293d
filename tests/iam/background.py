"""Work in the background: parts of a long bucket, and a rebuild, by messages of the stage's queues."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from local import Deployed
from local.http import Api, invoke_refresher
from tests.e2e.clock import NOW
from tests.e2e.conftest import eventually
from tests.iam.conftest import Stage
from tests.iam.flows import DAY, send

_MIDNIGHT = NOW.replace(hour=0, minute=0, second=0, microsecond=0)
# Sealed days: one has late events and becomes long, the other is rebuilt.
LONG, REBUILT = _MIDNIGHT - DAY, _MIDNIGHT - 3 * DAY
_DENIAL = {
    "Effect": "Deny",
    "Action": "dynamodb:Query",
    "Resource": "arn:aws:dynamodb:*:*:table/tidetable-local.quakes.*",
}
# What a worker logs of a message.
_WORKED = re.compile(r'"message":"rollups refreshed",[^\n]*"kind":"(\w+)"')


@contextmanager
def take_right_away(deployed: Deployed) -> Iterator[None]:
    """Take away the refresher's right to read the events of the quakes."""
    iam, name = deployed.make_client("iam"), deployed.outputs["RefresherFunction"]
    role = deployed.make_client("lambda").get_function_configuration(FunctionName=name)["Role"].rpartition("/")[2]
    document = json.dumps({"Version": "2012-10-17", "Statement": [_DENIAL]})
    iam.put_role_policy(RoleName=role, PolicyName="taken-away", PolicyDocument=document)
    yield
    iam.delete_role_policy(RoleName=role, PolicyName="taken-away")


def list_items(deployed: Deployed, kind: str) -> list[dict[str, str]]:
    """The records of a kind of work."""
    found = deployed.make_client("dynamodb").query(
        TableName=deployed.outputs["CatalogTable"],
        KeyConditionExpression="pk = :pk",
        ExpressionAttributeValues={":pk": {"S": f"work#{kind}"}},
        ConsistentRead=True,
    )
    return [{name: next(iter(value.values())) for name, value in item.items()} for item in found["Items"]]


def schedule(deployed: Deployed) -> dict[str, list[dict[str, str]]]:
    """Let the scheduler send messages, beside its runs of each minute; return the parts and what is left of rebuilds."""
    invoke_refresher(deployed, source="schedule")
    return {kind: list_items(deployed, kind) for kind in ("part", "rebuild")}


def await_sealed(deployed: Deployed) -> None:
    """Wait until all days before today are sealed."""

    def look() -> datetime:
        schedule(deployed)
        return datetime.fromisoformat(invoke_refresher(deployed, status="quakes")["rollups"][0]["sealed"])

    eventually(look, lambda sealed: sealed == _MIDNIGHT)


def remember_long_bucket(deployed: Deployed) -> None:
    """Let the record of the stream say that its last bucket had 400,000 events: the next one is divided into four parts."""
    eventually(lambda: [item for item in list_items(deployed, "seal") if "until" in item], lambda busy: not busy)
    deployed.make_client("dynamodb").update_item(
        TableName=deployed.outputs["CatalogTable"],
        Key={"pk": {"S": "work#seal"}, "sk": {"S": "quakes"}},
        UpdateExpression="SET memo = :memo",
        ConditionExpression="attribute_not_exists(#until)",
        ExpressionAttributeNames={"#until": "until"},
        ExpressionAttributeValues={":memo": {"S": '{"hours":400000}'}},
    )


def count_messages(deployed: Deployed) -> int:
    """Count the messages of the workers' queues, and their dead letters."""
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    queues, outputs = deployed.make_client("sqs"), deployed.outputs
    urls = [outputs[name] for name in ("LightQueueUrl", "FilesQueueUrl", "WorkDeadLetterQueueUrl")]
    found = [queues.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"] for url in urls]
    return sum(int(attributes[name]) for attributes in found for name in names)


def find_cells(api: Api, day: datetime, **more: str) -> tuple[list[Any], list[Any]]:
    """The events of a day's network ``work``, as an aggregate, and from where they came."""
    span = {"start": day.isoformat(), "to": (day + DAY).isoformat()}
    asked = {"step": "1d", "by": "net", "field": "mag", "stat": "count,sum,min,max", **more}
    body = api.query("quakes", "aggregate", **span, **asked).body
    (row,) = [row for row in body["aggregates"] if row["group"]["net"] == "work"]
    return [row[stat] for stat in asked["stat"].split(",")], [source.get("rollup") for source in body["sources"]]


def be_divided_and_rebuilt(stage: Stage, api: Api, tidetable: Any) -> None:
    """A long day is computed anew in parts, and another one is rebuilt, each by messages of its own kind.

    At first the workers lack a right: their items fail, and stay. Then one message comes from the dead letters, as an
    operator sends it, and the others from the scheduler.
    """
    deployed, before = stage.deployed, len(stage.log())
    await_sealed(deployed)
    hours = [timedelta(hours=hour) for hour in (3, 9, 15, 21)]
    late = [
        {"series": "w", "id": f"w{n}", "time": (LONG + hour).isoformat(), "data": {"mag": n, "net": "work"}}
        for n, hour in enumerate(hours)
    ]
    send(api, "quakes", *late, {**late[0], "time": (REBUILT + DAY / 2).isoformat()})
    # The event comes again: it cannot be added to the cells, so its day is read again.
    send(api, "quakes", {**late[0], "data": {"mag": 11, "net": "work"}})
    remember_long_bucket(deployed)
    with take_right_away(deployed):
        span = {"from": REBUILT.isoformat(), "to": (REBUILT + DAY).isoformat()}
        ordered = invoke_refresher(deployed, rebuild={"stream": "quakes", "rollup": "hours", **span})
        assert (ordered["marked"], ordered["rebuild"]["left"]) == (1, 1), ordered
        # Then no query reads the state from before the day was marked.
        stage.pass_time(timedelta(minutes=5))
        failed = eventually(
            lambda: schedule(deployed),
            lambda items: all(any("problem" in item for item in items[kind]) for kind in items),
        )
        assert [len(failed[kind]) for kind in ("part", "rebuild")] == [4, 2], failed
        assert not any("done" in item for items in failed.values() for item in items)
        problems = {item["problem"] for items in failed.values() for item in items if "problem" in item}
        assert all("AccessDenied" in problem for problem in problems), problems
        assert "RollupsFailing" in tidetable("status", "--no-metrics")
    denied = stage.denials()
    assert {(action, resource[-17:-10]) for action, resource, _ in denied} == {("dynamodb:Query", "quakes.")}, denied
    message = json.dumps({"kind": "part", "name": failed["part"][-1]["sk"]}, separators=(",", ":"))
    queues = deployed.make_client("sqs")
    queues.send_message(QueueUrl=deployed.outputs["WorkDeadLetterQueueUrl"], MessageBody=message)
    assert "1 messages are sent to workers again" in tidetable("replay", "--work", "--yes")
    eventually(lambda: schedule(deployed), lambda items: not any(items.values()))
    assert {"seal", "part", "rebuild"} <= set(_WORKED.findall(stage.log()[before:]))
    assert eventually(lambda: find_cells(api, LONG), lambda found: found[1] == ["quakes-hours"])[0] == [4, 17, 1, 11]
    assert find_cells(api, REBUILT) == ([1, 0, 0, 0], ["quakes-hours"])
    assert find_cells(api, LONG, rollups="false")[0] == [4, 17, 1, 11]
    assert eventually(lambda: count_messages(deployed), lambda count: count == 0) == 0
