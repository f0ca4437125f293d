"""A reader in another Region: the product's own bootstrap and handlers, on copies of the strict service that lag behind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

import settings
import wiring
from aws import clients
from aws.dynamodb.catalog import LeanCatalog
from aws.dynamodb.store import LeanStore
from aws.dynamodb.tables import DynamoTables
from strict.client import StrictClient
from strict.regions import WRITES
from tests.api.gateway import Context
from tests.fakes.bucket import FakeBucketReader
from tests.fakes.serial import Serial
from tests.fakes.stage import CATALOG, STAGE, Stage
from tests.fakes.transport import StrictTransport
from tests.worlds.copied import IRELAND, made, run, send, table_of, text
from tests.worlds.entries import change_entry
from tidetable.catalog import ArchiveFacts, State
from tidetable.copies.reader import Copies
from wiring_upkeep import Upkeep

HOME = "us-east-1"
TODAY = "2026-03-15"
EVENTS = "/v1/streams/{stream}/events"
ROLLUP = """
[[streams.s.rollup]]
name = "hourly"
every = "1h"
by = ["series"]
fields = ["mag"]
stats = ["count", "sum"]
retention = "30d"
"""


class Answer(NamedTuple):
    status: int
    body: Any

    @property
    def ids(self) -> list[str]:
        return sorted(event["id"] for event in self.body["events"])

    @property
    def problem(self) -> tuple[int, str]:
        return self.status, self.body["code"]


class World:
    """A stage, and its reader in Ireland."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        transport: Any = StrictTransport(stage.others[IRELAND])
        client: Any = StrictClient(stage.others[IRELAND])
        self.reader = Upkeep(
            config=stage.config,
            stage=STAGE,
            clock=stage.clock,
            pools=Serial,
            store=LeanStore(transport, CATALOG),
            catalog_reader=LeanCatalog(transport, CATALOG),
            values=stage.values,
            archive_reader=FakeBucketReader(stage.bucket),
            table_reader=DynamoTables(client),
            copies=Copies(IRELAND, HOME),
        )

    def ask(self, region: str = IRELAND, route: str = EVENTS, ref: str = "", **parameters: str) -> Answer:
        """A request to the reader, or to the stage itself."""
        from handlers import query

        names = {name.replace("_", ":"): [value] for name, value in parameters.items()}
        path = {"stream": "s", "field": "mag", "ref": ref}
        event = {
            "resource": route,
            "httpMethod": "GET",
            "headers": {},
            "pathParameters": {name: value for name, value in path.items() if f"{{{name}}}" in route},
            "multiValueQueryStringParameters": names,
            "requestContext": {"requestId": "test"},
        }
        with wiring.serve_pipeline(self.reader if region == IRELAND else self.stage.pipeline):
            context: Any = Context()
            answer = query.handler(event, context)
        return Answer(answer["statusCode"], json.loads(answer["body"]))

    def series(self, region: str = IRELAND, **parameters: str) -> Answer:
        return self.ask(
            region, **{"series": "a", "from": "2026-03-01T00:00:00Z", "to": "2026-04-01T00:00:00Z"} | parameters
        )


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("TIDETABLE_STAGE", STAGE)
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "test")
    monkeypatch.setattr(settings, "CONFIG_FILE", tmp_path / "tidetable.toml")
    for read in (settings.read_settings, settings.read_config, settings.find_copies):
        read.cache_clear()
    yield tmp_path
    for read in (settings.read_settings, settings.read_config, settings.find_copies):
        read.cache_clear()


def world(folder: Path, *, copied: bool = True, more: str = "", tail: str = "") -> World:
    """A stage whose tables have copies, unless they are yet to be made."""
    stage = made(IRELAND, more=more)
    if tail:
        stage = Stage(stage.clock.now(), text(IRELAND, more=more) + tail, regions=[IRELAND])
        stage.catalog.mark_deployed()
    (folder / "tidetable.toml").write_text(text(IRELAND, more=more) + tail)
    run(stage, 6 if copied else 2)
    return World(stage)


def test_what_the_origin_took_is_read_at_the_reader_after_the_lag_and_not_before(environment: Path) -> None:
    here = world(environment)
    send(here.stage, "a", "b")
    assert here.series().ids == []
    here.stage.clock.sleep(10)
    answer = here.series()
    assert answer.ids == here.series(HOME).ids == ["a", "b"]
    assert [gap for gap in answer.body["gaps"] if gap["reason"] == "no copy"] == []


def test_a_cursor_goes_on_in_the_other_region(environment: Path) -> None:
    here = world(environment)
    send(here.stage, *"abcd")
    here.stage.clock.sleep(10)
    for first, second in ((HOME, IRELAND), (IRELAND, HOME)):
        page = here.series(first, limit="3")
        rest = here.ask(second, cursor=page.body["next"])
        assert (page.status, rest.status) == (200, 200)
        assert sorted(page.ids + rest.ids) == ["a", "b", "c", "d"]
        assert rest.body["next"] is None


def test_an_event_is_found_by_the_ref_of_the_other_region(environment: Path) -> None:
    here = world(environment)
    send(here.stage, "a")
    here.stage.clock.sleep(10)
    (event,) = here.series(HOME).body["events"]
    assert here.ask(route=f"{EVENTS}/{{ref}}", ref=event["ref"]).body == event
    assert here.ask(route="/v1/streams/{stream}/latest", series="a").body["latest"][0]["event"] == event


def test_a_period_without_a_copy_is_said_and_never_left_out(environment: Path) -> None:
    here = world(environment)
    send(here.stage, "a")
    here.stage.clock.sleep(10)
    (event,) = here.series().body["events"]
    client: Any = StrictClient(here.stage.others[IRELAND])
    entry = next(entry for entry in here.stage.catalog.entries("s", consistent=True) if entry.period.label == TODAY)
    # As it is before the copy is made, and after it was given up. The copy itself is still there: the catalog decides.
    here.stage.catalog.mark_copies(entry, [])
    here.stage.clock.sleep(10)
    assert client.describe_table(TableName=table_of(TODAY))["Table"]["TableStatus"] == "ACTIVE"
    answer = here.series()
    assert answer.ids == []
    assert {
        "from": "2026-03-15T00:00:00.000000Z",
        "to": "2026-03-16T00:00:00.000000Z",
        "reason": "no copy",
    } in answer.body["gaps"]
    aggregate = here.series(route="/v1/streams/{stream}/aggregate", stat="count")
    assert "no copy" in {gap["reason"] for gap in aggregate.body["gaps"]}
    for missed in (
        here.ask(route=f"{EVENTS}/{{ref}}", ref=event["ref"]),
        here.ask(route="/v1/streams/{stream}/latest", series="a"),
    ):
        assert missed.problem == (503, "no_copy")
        assert (missed.body["periods"], missed.body["origin"]) == ([TODAY], HOME)
    # The stage itself reads on.
    assert here.series(HOME).ids == ["a"]
    assert here.ask(HOME, "/v1/streams/{stream}/latest", series="a").status == 200


def test_a_copy_that_is_gone_though_the_catalog_names_it_is_no_missing_event(environment: Path) -> None:
    here = world(environment)
    send(here.stage, "a")
    here.stage.clock.sleep(10)
    (event,) = here.series().body["events"]
    home: Any = here.stage.client
    home.update_table(TableName=table_of(TODAY), ReplicaUpdates=[{"Delete": {"RegionName": IRELAND}}])
    here.stage.clock.sleep(600)
    assert here.ask(route=f"{EVENTS}/{{ref}}", ref=event["ref"]).problem == (503, "no_copy")
    assert here.ask(route="/v1/streams/{stream}/latest", series="a").problem == (503, "no_copy")
    assert "table missing" in {gap["reason"] for gap in here.series().body["gaps"]}


def test_an_archived_period_is_read_from_the_origins_bucket(environment: Path) -> None:
    here = world(environment)
    send(here.stage, "a", "b")
    while (
        next(entry for entry in here.stage.catalog.entries("s") if entry.period.label == TODAY).state
        is not State.DELETED
    ):
        run(here.stage, minutes=60)
        assert here.stage.clock.now() < here.stage.clock.now().replace(month=4), "it is never archived"
        answer = here.series()
        # At each moment of the way there: both events, or a gap.
        gaps = [gap for gap in answer.body["gaps"] if gap["from"].startswith(TODAY)]
        assert answer.ids == ["a", "b"] or gaps
        if next(entry for entry in here.stage.catalog.entries("s") if entry.period.label == TODAY).archive is not None:
            break
    here.stage.clock.sleep(10)
    run(here.stage, 12)
    answer = here.series()
    assert answer.ids == ["a", "b"]
    assert {"period": TODAY, "from": "archive"} in answer.body["sources"]


def test_nothing_that_a_reader_does_writes(environment: Path) -> None:
    here = world(environment)
    send(here.stage, "a")
    here.stage.clock.sleep(10)
    away = here.stage.others[IRELAND]
    before = dict(away.calls)
    ref = here.series().body["events"][0]["ref"]
    for route in ("/v1/health", "/v1/streams", "/v1/streams/{stream}/periods"):
        assert here.ask(route=route).status == 200
    for route in (EVENTS, "/v1/streams/{stream}/aggregate", "/v1/streams/{stream}/latest", f"{EVENTS}/{{ref}}"):
        more = {} if "{ref}" in route else {"series": "a"}
        assert here.ask(route=route, ref=ref, **more, **({"stat": "count"} if "aggr" in route else {})).status == 200
    called = {name for name, count in away.calls.items() if count > before.get(name, 0)}
    assert called, "the calls are counted"
    assert called <= {"Query", "GetItem", "BatchGetItem", "DescribeTable"}
    assert not called & WRITES


def test_what_only_the_origin_can_answer(environment: Path) -> None:
    here = world(environment, tail=ROLLUP)
    send(here.stage, "a")
    here.stage.clock.sleep(10)
    for route in (EVENTS, "/v1/streams/{stream}/aggregate", "/v1/streams/{stream}/latest"):
        assert here.ask(route=route, series="a", consistent="true").problem == (400, "only_at_origin")
    cursor = here.series(HOME, limit="1", consistent="true").body["next"]
    assert cursor is None
    send(here.stage, "b")
    cursor = here.series(HOME, limit="1", consistent="true").body["next"]
    refused = here.ask(cursor=cursor)
    assert refused.problem == (400, "only_at_origin")
    assert "consistent=true is answered by us-east-1 alone" in refused.body["detail"]
    for route in ("series", "fields"):
        listing = here.ask(route=f"/v1/streams/{{stream}}/{route}")
        assert listing.problem == (400, "only_at_origin")
        assert "rollups, whose state is in us-east-1 alone" in listing.body["detail"]


def test_an_aggregate_of_a_reader_reads_no_rollup_however_its_state_arrives(environment: Path) -> None:
    here = world(environment, tail=ROLLUP)
    here.stage.refresh()
    here.stage.clock.sleep(3 * 3600)
    run(here.stage)
    send(here.stage, "a", "b", at=here.stage.clock.now())
    here.stage.clock.sleep(2 * 3600)
    run(here.stage, 2)
    for _ in range(3):
        here.stage.refresh()
        here.stage.clock.sleep(60)
    parameters = {
        "series": "a",
        "from": "2026-03-15T00:00:00Z",
        "to": "2026-03-15T17:00:00Z",
        "step": "1h",
        "stat": "count",
    }
    route = "/v1/streams/{stream}/aggregate"
    home, away = (here.ask(region, route, **parameters) for region in (HOME, IRELAND))
    assert home.body["aggregates"] == away.body["aggregates"]
    # The stage reads by its rollups; the reader has none to read by.
    assert (here.stage.pipeline.rolled is None, here.reader.rolled is None) == (False, True)
    assert {source.get("rollup") for source in away.body["sources"]} == {None}
    explained = here.ask(route=route, explain="true", **parameters)
    assert explained.status == 200
    without = {name: value for name, value in parameters.items() if name != "series"}
    refused = here.ask(route=route, **without)
    assert refused.problem == (400, "needs_series")
    assert "a reader has neither its rollups" in refused.body["detail"]


def test_a_stream_without_copies_in_the_region_is_refused_with_the_setting(environment: Path) -> None:
    here = world(environment)
    vars(here.reader)["copies"] = Copies("ap-northeast-1", HOME)
    for route in (EVENTS, "/v1/streams/{stream}/periods", "/v1/streams/{stream}/latest"):
        refused = here.ask(route=route, series="a")
        assert refused.problem == (404, "stream_not_copied")
        assert "add ap-northeast-1 to [streams.s] replicas" in refused.body["detail"]
    assert here.ask(route="/v1/streams").body["streams"] == []


def test_the_list_of_streams_says_where_to_write(environment: Path) -> None:
    here = world(environment)
    listed = here.ask(route="/v1/streams").body
    assert [stream["stream"] for stream in listed["streams"]] == ["s"]
    assert (listed["can"], listed["reader"]) == (["read"], {"region": IRELAND, "origin": HOME})
    assert "reader" not in here.ask(HOME, "/v1/streams").body


def test_a_restored_period_is_not_read_from_its_archive(environment: Path) -> None:
    """The table at the origin may hold what its archive does not."""
    here = world(environment)
    entry = next(entry for entry in here.reader.catalog_reader.entries("s") if entry.period.label == TODAY)
    facts = ArchiveFacts("manifest.json", 1, 1, entry.created_at)
    restored = change_entry(entry, state=State.CLOSED, archive=facts, active=())
    seen = Copies(IRELAND, HOME).show_entry(restored)
    assert (seen.live, seen.archived, seen.absence) == (False, None, "no copy")
    archived = replace(restored, state=State.ARCHIVED)
    assert Copies(IRELAND, HOME).show_entry(archived) == archived


def test_the_clients_of_a_reader_are_of_the_origins_bucket(environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDETABLE_ORIGIN", HOME)
    monkeypatch.setenv("AWS_REGION", IRELAND)
    monkeypatch.setenv("TIDETABLE_ARCHIVE_BUCKET", "b")
    made_of: list[tuple[str, str | None]] = []

    def make(service: str, region: str | None = None, **_: Any) -> Any:
        made_of.append((service, region))

    monkeypatch.setattr(clients, "_make_client", make)
    clients.find_values_client.cache_clear()
    clients.find_s3_client.cache_clear()
    reader = Upkeep()
    assert reader.copies == Copies(IRELAND, HOME)
    values: Any = reader.values
    objects: Any = reader.objects
    assert (values._client, objects._client) == (None, None)
    assert made_of == [("s3", HOME), ("s3", HOME)]
    clients.find_values_client.cache_clear()
    clients.find_s3_client.cache_clear()
