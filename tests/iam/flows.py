"""What users and the schedule have the stage do, each in the role of the function that does it."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from local import Deployed
from local.http import Api, invoke_lifecycle
from tests.e2e.clock import NOW
from tests.e2e.conftest import eventually
from tests.fakes.noise import noise
from tests.iam.conftest import CHANGES

DAY = timedelta(days=1)
# Of an event beyond DynamoDB's 400 KB and a message's 1 MiB, in characters that do not compress to less.
_LARGE = 1_300_000


def send(api: Api, stream: str, *events: dict[str, Any]) -> Any:
    answer = api.send(stream, json.dumps(events).encode())
    assert answer.status == 200, answer.body
    assert answer.body["accepted"] == len(events)
    return answer.body


def find_data(api: Api, stream: str, series: str, **more: Any) -> dict[str, Any]:
    """The data of a series' events, by id."""
    given = {"start": (NOW - 7 * DAY).isoformat(), "to": (NOW + DAY).isoformat(), "series": series, **more}
    return {event["id"]: event["data"] for event in api.walk_events(stream, **given)}


def run_lifecycle(deployed: Deployed, **payload: Any) -> dict[str, Any]:
    """Run the lifecycle, which the schedule may be running at the moment; its report is healthy."""

    def tried() -> dict[str, Any]:
        try:
            return invoke_lifecycle(deployed, **payload)
        except RuntimeError as error:
            if "try again in a moment" not in str(error):
                raise
            return {"skipped": str(error)}

    report = eventually(tried, lambda report: report["skipped"] is None)
    assert report["healthy"], report
    return report


def write_and_read(api: Api, series: str) -> None:
    """Ingest and query: small events, and rankings, aggregates, the latest, and an event by its ref."""
    data = [{"mag": n + 0.5, "status": "new", "place": "x"} for n in range(3)]
    events = [
        {"series": series, "id": f"{series}-{n}", "time": NOW.isoformat(), "data": one} for n, one in enumerate(data)
    ]
    refs = send(api, "quakes", *events)["refs"]
    send(api, "stations", *events)
    assert (
        find_data(api, "quakes", series)
        == find_data(api, "stations", series)
        == {event["id"]: event["data"] for event in events}
    )
    assert api.get("quakes", refs[1]).body["data"] == events[1]["data"]
    found_by_index = find_data(api, "stations", series, **{"where.status": "new"})
    assert found_by_index.keys() == {event["id"] for event in events}
    top = api.query("stations", "top", start="-1d", index="strongest", limit=100).body["top"]
    assert 2.5 in [row["value"] for row in top]
    answer = api.query("quakes", "aggregate", start="-1d", series=series, field="mag", stat="count,max")
    assert [(row["count"], row["max"]) for row in answer.body["aggregates"]] == [(3, 2.5)]
    (latest,) = api.query("stations", "latest", series=series).body["latest"]
    assert latest["event"]["series"] == series
    assert api.query("quakes", "periods").status == 200


def write_through_a_door(api: Api, series: str) -> None:
    """A line of InfluxDB's protocol, by the function of the doors."""
    line = f"{series} n=1 {int(NOW.timestamp())}"
    assert api.call("/write?db=quakes&precision=s", line.encode()).status == 204
    assert [data["n"] for data in find_data(api, "quakes", series).values()] == [1]


def keep_versions(api: Api, series: str) -> None:
    """Two versions of an event in chunks and with a cold field, in a table that was made to keep all of that."""
    first = {"n": 1, "text": noise(_LARGE), "raw": "cold " * 300}
    _send_versions(api, series, first)
    span = {"start": (NOW - 7 * DAY).isoformat(), "to": (NOW + DAY).isoformat()}
    kept = list(api.walk_events("reports", **span, series=series, versions="all", fields="*"))
    assert [event["data"] for event in kept] == [{"n": 2}, first]


def write_where_versions_are_kept(api: Api, series: str) -> None:
    """Two versions of an event in such a table, though the configuration has no versions any more."""
    _send_versions(api, series, {"n": 1})
    assert find_data(api, "reports", series) == {"v": {"n": 2}}


def _send_versions(api: Api, series: str, first: dict[str, Any]) -> None:
    for data in (first, {"n": 2}):
        send(api, "reports", {"series": series, "id": "v", "time": NOW.isoformat(), "data": data})


def keep_in_the_bucket(api: Api, series: str) -> None:
    """An event that is kept in the bucket, beside the table."""
    event = {"series": series, "id": "large", "data": {"text": noise(_LARGE)}}
    send(api, "quakes", event)
    assert find_data(api, "quakes", series) == {"large": event["data"]}


def wait_without_a_table(api: Api, deployed: Deployed, series: str, *, large: bool, stopped: bool = False) -> None:
    """A table that is missing for a while: the overflow queue, the bucket beside it, and the drain. If the drain has
    ``stopped``, the request and the lifecycle save the events.
    """
    tables, mappings = deployed.make_client("dynamodb"), deployed.make_client("lambda")
    name = f"tidetable-local.quakes.{(NOW - DAY).date()}"
    facts = tables.describe_table(TableName=name)["Table"]
    tags = tables.list_tags_of_resource(ResourceArn=facts["TableArn"])["Tags"]
    items = tables.scan(TableName=name)["Items"]
    tables.delete_table(TableName=name)
    sources = mappings.list_event_source_mappings()["EventSourceMappings"]
    overflow = deployed.outputs["OverflowQueueUrl"].rpartition("/")[2]
    (mapping,) = (mapping for mapping in sources if mapping["EventSourceArn"].endswith(f":{overflow}"))
    # A message that was tried in vain comes again in six minutes, longer than a test waits: the drain sleeps meanwhile.
    mappings.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
    events = [{"series": series, "id": "small", "time": (NOW - DAY).isoformat(), "data": {"n": 1}}]
    events += [{**events[0], "id": "large", "data": {"text": noise(_LARGE)}}] if large else []
    if stopped:
        _forget_the_drain(deployed)
    answer = api.send("quakes", json.dumps(events).encode())
    assert (answer.status, answer.body["queued"]) == (202, len(events)), answer.body
    if stopped:
        events.append({**events[0], "id": "queued"})
        _save_by_the_lifecycle(deployed, events[-1])
    encryption = {"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": facts["SSEDescription"]["KMSMasterKeyArn"]}
    tables.create_table(
        TableName=name,
        KeySchema=facts["KeySchema"],
        AttributeDefinitions=facts["AttributeDefinitions"],
        BillingMode="PAY_PER_REQUEST",
        SSESpecification=encryption,
        Tags=tags,
    )
    for item in items:
        tables.put_item(TableName=name, Item=item)
    mappings.update_event_source_mapping(UUID=mapping["UUID"], Enabled=True)
    if stopped:
        mappings.invoke(FunctionName=_find_function(deployed, "drain"), Payload=b'{"source": "schedule"}')
    written = eventually(lambda: find_data(api, "quakes", series), lambda data: len(data) == len(events))
    assert written == {event["id"]: event["data"] for event in events}


def _forget_the_drain(deployed: Deployed) -> None:
    """Let the last beat be two days old."""
    at = str(int((NOW - 2 * DAY).timestamp() * 1000))
    beat = {"pk": {"S": "#beat"}, "sk": {"S": "overflow"}, "at": {"N": at}}
    deployed.make_client("dynamodb").put_item(TableName="tidetable-local-rollups", Item=beat)


def _save_by_the_lifecycle(deployed: Deployed, event: dict[str, Any]) -> None:
    """Queue an event; then the bucket has it, and the events of the request before."""
    row = event["series"], event["time"], event["id"], event["data"]
    body = json.dumps({"version": 2, "stream": "quakes", "at": 0, "events": [row]})
    deployed.make_client("sqs").send_message(QueueUrl=deployed.outputs["OverflowQueueUrl"], MessageBody=body)
    lifecycle = deployed.outputs["LifecycleFunction"]
    answer = deployed.make_client("lambda").invoke(FunctionName=lifecycle, Payload=b'{"source": "schedule"}')
    assert "FunctionError" not in answer, answer["Payload"].read()
    bucket, objects = deployed.outputs["ArchiveBucket"], deployed.make_client("s3")

    def list_saved() -> list[str]:
        saved = objects.list_objects_v2(Bucket=bucket, Prefix="saved/stream=quakes/").get("Contents", [])
        return [found["Key"].split("/")[3] for found in saved]

    # A run of the schedule may have received the message.
    assert eventually(list_saved, lambda saved: len(saved) == 2) == ["events=2", "events=1"]


def _find_function(deployed: Deployed, handler: str) -> str:
    functions = deployed.make_client("lambda").list_functions(MaxItems=100)["Functions"]
    return str(
        next(found["FunctionName"] for found in functions if found.get("Handler") == f"handlers.{handler}.handler")
    )


def be_laid_aside(deployed: Deployed, tidetable: Any) -> None:
    """A message that nobody can read: the drain lays it aside, the operator sends it back, and it is laid aside again."""
    queues = deployed.make_client("sqs")
    queues.send_message(QueueUrl=deployed.outputs["OverflowQueueUrl"], MessageBody="no message of ours")

    def dead() -> Any:
        return json.loads(tidetable("replay", "--dry-run", "--json"))["dead"]

    # A slow answer of the queue is taken for none: a message may be laid aside twice.
    assert [row["stream"] for row in eventually(dead, bool)] == ["?"]
    assert "sent to the overflow again" in tidetable("replay", "--yes")
    assert [row["stream"] for row in eventually(dead, bool)] == ["?"]
    queues.purge_queue(QueueUrl=deployed.outputs["DeadLetterQueueUrl"])


def live_through_a_past_day(
    api: Api, deployed: Deployed, ago: int, *, large: bool, pass_time: Callable[[timedelta], None]
) -> None:
    """A backfill of a day long ago; then its archive, its table's deletion, queries of the archive, and its restoration."""
    day = (NOW - ago * DAY).date()
    span = {"stream": "quakes", "from": str(day), "to": str(day + DAY)}
    time = f"{day}T12:00:00Z"
    opened = run_lifecycle(deployed, backfill={**span, "hours": 1})
    assert ("create", "done") in [(action["action"], action["outcome"]) for action in opened["actions"]], opened
    events = [
        {"series": "past", "id": f"p{n}", "time": time, "data": {"mag": n / 2, "place": f"place {n}"}} for n in range(5)
    ]
    events += [{**events[0], "id": "large", "data": {"text": noise(_LARGE)}}] if large else []
    send(api, "quakes", *events)
    asked = {"series": "past", "start": f"{day}T00:00:00Z", "to": f"{day + DAY}T00:00:00Z"}
    expected = {event["id"]: event["data"] for event in events}
    assert find_data(api, "quakes", **asked) == expected
    run_lifecycle(deployed, end_backfill=span)
    # No table expires within a quarter of an hour of its closing, as a write may still be under way.
    pass_time(timedelta(minutes=20))

    def state() -> str:
        run_lifecycle(deployed)
        periods = api.call(f"/v1/streams/quakes/periods?to={day + DAY}T00:00:00Z&limit=1").body["periods"]
        states: dict[str, str] = {period["period"]: period["state"] for period in periods}
        return states[str(day)]

    assert eventually(state, lambda now: now == "deleted") == "deleted"
    assert find_data(api, "quakes", **asked) == expected
    request = {"stream": "quakes", "first": str(day), "last": str(day), "keep_days": 2}
    payload = json.dumps({"restore": request}).encode()
    answer = deployed.make_client("lambda").invoke(FunctionName=deployed.outputs["RestorerFunction"], Payload=payload)
    assert [period["refusal"] for period in json.loads(answer["Payload"].read())["periods"]] == [None]
    assert eventually(state, lambda now: now == "closed") == "closed"
    assert find_data(api, "quakes", **asked) == expected


def import_history(api: Api, tidetable: Callable[..., str], folder: Path) -> None:
    """An import straight into the archive, of a period that the catalog does not know."""
    file = folder / "history.ndjson"
    file.write_text('{"series": "past", "time": "2025-06-05T00:00:00Z", "id": "one", "mag": 1}\n')
    words = ("import", str(file), "--to", "archive", "--stream", "stations", "--state", str(folder / "import"))
    assert "1 of 1 periods are imported" in tidetable(*words)
    asked = {"series": "past", "start": "2025-06-01T00:00:00Z", "to": "2025-06-30T00:00:00Z"}
    assert find_data(api, "stations", **asked) == {"one": {"mag": 1}}


def deliver_changes(api: Api, deployed: Deployed, series: str, log: Callable[[], str]) -> None:
    """A change on its way to both targets of the feed of the stations: a queue, and a function that prints it."""
    send(api, "stations", {"series": series, "id": "changed", "time": NOW.isoformat(), "data": {"mag": 1.5}})
    queues, received = deployed.make_client("sqs"), list[dict[str, Any]]()
    url = queues.get_queue_url(QueueName=CHANGES)["QueueUrl"]

    def receive() -> list[dict[str, Any]]:
        for message in queues.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", []):
            received.append(json.loads(message["Body"]))
            queues.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return [change for change in received if (change["series"], change["id"]) == (series, "changed")]

    (change, *_) = eventually(receive, bool)
    assert (change["kind"], change["stream"], change["data"]) == ("insert", "stations", {"mag": 1.5})
    eventually(log, lambda text: f"CHANGE {series} changed" in text)


def find_sweep(deployed: Deployed) -> Any:
    """The record of the sweep."""
    key = {"pk": {"S": "work#sweep"}, "sk": {"S": "objects"}}
    found = deployed.make_client("dynamodb").get_item(TableName=deployed.outputs["CatalogTable"], Key=key)
    return found.get("Item", {})


def await_sweep(deployed: Deployed) -> Any:
    """The record, once a worker has given its claim back, and the memo says when the sweep is due again."""
    return eventually(
        lambda: find_sweep(deployed),
        lambda item: bool(item.get("memo", {}).get("S")) and not {"until", "sent"} & {*item},
    )


def be_swept(deployed: Deployed) -> None:
    """The sweep of large values: the schedule wakes a worker by a message, and the operator sweeps by hand."""
    functions, sweeper = deployed.make_client("lambda"), deployed.outputs["SweeperFunction"]
    functions.invoke(FunctionName=sweeper, Payload=b'{"source": "schedule"}')
    record = await_sweep(deployed)
    assert "problem" not in record
    answer = deployed.make_client("lambda").invoke(FunctionName=deployed.outputs["SweeperFunction"], Payload=b"{}")
    swept = json.loads(answer["Payload"].read())
    assert swept["finished"] is True, swept


def be_listed_as_iceberg(deployed: Deployed, stream: str) -> None:
    """The function of the Iceberg tables finds the archive in the catalog, and lists its files in Glue."""
    functions, lake = deployed.make_client("lambda"), deployed.outputs["LakeFunction"]
    answer = functions.invoke(FunctionName=lake, Payload=b'{"source": "schedule"}')
    assert json.loads(answer["Payload"].read())["due"] > 1

    def reconcile() -> Any:
        called = functions.invoke(FunctionName=lake, Payload=json.dumps({"stream": stream}).encode())
        return json.loads(called["Payload"].read())

    report = eventually(reconcile, lambda report: report.get("state") == "current" and not report["changed"])
    assert report["files"] > 0
    database = deployed.outputs["ArchiveDatabase"]
    table = deployed.make_client("glue").get_table(DatabaseName=database, Name=stream)["Table"]
    assert table["Parameters"]["table_type"] == "ICEBERG"


def be_woken_by_a_dead_letter(deployed: Deployed, tidetable: Any) -> None:
    """A message whose workers died waits as a dead letter; the operator sends it again, and a worker does the work."""
    before = await_sweep(deployed)
    catalog, queues = deployed.outputs["CatalogTable"], deployed.make_client("sqs")
    # The sweep is due again.
    deployed.make_client("dynamodb").update_item(
        TableName=catalog, Key={name: before[name] for name in ("pk", "sk")}, UpdateExpression="REMOVE memo"
    )
    letters = deployed.outputs["WorkDeadLetterQueueUrl"]
    queues.send_message(QueueUrl=letters, MessageBody='{"kind":"sweep","name":"objects"}')
    status = eventually(lambda: tidetable("status", "--no-metrics"), lambda text: "of workers are dead letters" in text)
    assert "tidetable replay --work; see the runbook, WorkDeadLetters" in status
    assert "1 messages are sent to workers again" in tidetable("replay", "--work", "--yes")
    after = await_sweep(deployed)
    assert int(after["generation"]["N"]) == int(before["generation"]["N"]) + 1
    assert "0 dead messages" in tidetable("replay", "--work", "--dry-run")
