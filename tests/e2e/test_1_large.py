"""Large events, cold fields and versions on the deployed stack, with the real functions and their rights."""

import json
from typing import Any

from local import Deployed
from local.http import Api
from tests.e2e.clock import NOW
from tests.fakes.noise import noise


def send(api: Api, stream: str, *events: dict[str, Any]) -> Any:
    answer = api.send(stream, json.dumps(events).encode())
    assert answer.status == 200, answer.body
    return answer.body


def ask(api: Api, stream: str, series: str, **more: str) -> list[dict[str, Any]]:
    return list(api.walk_events(stream, start="-1h", series=series, **more))


def test_an_event_of_a_megabyte_is_kept_in_the_bucket_and_comes_back_whole(api: Api, deployed: Deployed) -> None:
    event = {"series": "large", "id": "s3", "data": {"text": noise(1_000_000), "n": 1.5}}
    ref = send(api, "quakes", event)["refs"][0]
    (row,) = ask(api, "quakes", "large")
    assert row["data"] == event["data"]
    assert api.get("quakes", ref).body["data"] == event["data"]
    s3 = deployed.make_client("s3")
    (stored,) = s3.list_objects_v2(Bucket=deployed.outputs["ArchiveBucket"], Prefix="large/stream=quakes/")["Contents"]
    metadata = s3.head_object(Bucket=deployed.outputs["ArchiveBucket"], Key=stored["Key"])["Metadata"]
    assert metadata["owner"]


def test_an_event_of_a_megabyte_is_kept_in_chunks_and_its_cold_field_apart(api: Api) -> None:
    event: dict[str, Any] = {
        "series": "large",
        "id": "chunks",
        "data": {"title": "a", "text": noise(1_000_000), "raw": "cold " * 300},
    }
    small: dict[str, Any] = {"series": "small", "id": "cold", "data": {"title": "b", "raw": "cold " * 300}}
    send(api, "reports", event, small)
    (row,) = ask(api, "reports", "large", fields="*")
    assert row["data"] == event["data"]
    assert ask(api, "reports", "large")[0]["data"].keys() == {"title", "text"}
    assert ask(api, "reports", "small")[0]["data"] == {"title": "b"}
    assert ask(api, "reports", "small", fields="raw")[0]["data"] == {"raw": small["data"]["raw"]}


def test_every_version_is_kept_and_a_repeat_is_none(api: Api) -> None:
    time = NOW.isoformat()
    for text in ("first", "second", "second", "third"):
        send(api, "reports", {"series": "versions", "id": "v", "time": time, "data": {"text": text}})
    (newest,) = ask(api, "reports", "versions")
    assert newest["data"] == {"text": "third"}
    versions = ask(api, "reports", "versions", versions="all")
    assert [(event["data"]["text"], event["version"], event["newest"]) for event in versions] == [
        ("third", 3, True),
        ("second", 2, False),
        ("first", 1, False),
    ]
    shown = api.call(f"/v1/streams/reports/events/{newest['ref']}?versions=all").body
    assert [event["data"]["text"] for event in shown["versions"]] == ["second", "first"]


def test_the_sweep_finds_nothing_young(deployed: Deployed) -> None:
    answer = deployed.make_client("lambda").invoke(
        FunctionName=deployed.outputs["SweeperFunction"], Payload=b'{"dry_run": true}'
    )
    report = json.loads(answer["Payload"].read())
    assert "FunctionError" not in answer, report
    assert (report["orphans"], report["expired"], report["finished"]) == (0, 0, True)


def test_the_latest_of_each_series_is_found_without_a_range(api: Api) -> None:
    send(
        api, "reports", *({"series": f"latest-{n}", "id": str(k), "data": {"k": k}} for n in range(3) for k in range(2))
    )
    query_string = "&".join(f"series=latest-{n}" for n in (2, 0, 9))
    answer = api.call(f"/v1/streams/reports/latest?{query_string}")
    assert answer.status == 200, answer.body
    assert [row["series"] for row in answer.body["latest"]] == ["latest-2", "latest-0", "latest-9"]
    assert [row["event"] and row["event"]["data"] for row in answer.body["latest"]] == [{"k": 1}, {"k": 1}, None]
    assert api.call("/v1/streams/quakes/latest?series=a").status == 400
