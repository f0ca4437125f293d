"""No route and no run reads more of a catalog of ten years of hours than it needs.

Each row is a route of the API, or a call of a function by its schedule, its queue or by hand, with the most read units of
the catalog that it may take. The whole catalog of a stream takes 4,680 units, and 9,360 if it is read consistently. The
real handlers run over the strict service, which counts.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any
from urllib.parse import parse_qs

import msgspec
import pytest

from aws.dynamodb.catalog_items import make_far_key
from bill import accounts
from bill.current_tables import observe_periods
from strict.expressions import make_sortable
from strict.metering import Meter
from tests.api.gateway import DESCRIPTION, Context, serving
from tests.fakes.serial import Serial
from tests.fakes.stage import CATALOG, Stage
from tests.worlds.configs import ROOT
from tests.worlds.entries import change_entry
from tests.worlds.long_catalogs import END, LongCatalog, make_entry
from tidetable.catalog import Entry, State
from tidetable.errors import TidetableError
from tidetable.events import Event
from tidetable.ingest.overflow import encode_message
from tidetable.large import sweep
from tidetable.layout import Layout
from tidetable.query import explain, periods, plan, sections
from tidetable.query.aggregates import aggregate_run
from tidetable.query.rankings import ranking_reads
from tidetable.times import to_text

CONFIG = """
[lifecycle]
delete_expired = true
delete_grace = "0s"
[streams.s]
period = "hour"
late = "1h"
retention = 2
large = { beyond = "s3" }
archive = { expire_after = "3000d" }
key = { partition_by = "series" }
[[streams.s.index]]
name = "best"
partition_by = "kind"
sort_by = "score"
[[streams.s.rollup]]
name = "m"
every = "5m"
by = ["series", "kind"]
fields = ["score"]
period = "hour"
retention = "30h"
"""
HOURS, HOUR = 87_600, timedelta(hours=1)
YEARS = "from=2016-03-10"
OLD = "2020-02-03T04"
STREAM = "/v1/streams/{stream}"
EVENTS = [{"series": "a", "id": "2", "data": {}}, {"series": "a", "id": "3", "time": f"{OLD}:00:00Z", "data": {}}]
REQUEST = json.dumps(
    {
        "resource": f"{STREAM}/events", "path": "/v1/streams/s/events", "httpMethod": "POST", "headers": {},
        "pathParameters": {"stream": "s"}, "requestContext": {"requestId": "r"}, "body": json.dumps(EVENTS),
        "isBase64Encoded": False,
    }
)  # fmt: skip
NOW = END + 27 * HOUR
QUEUED = [Event("a", NOW, "4", {}), Event("a", datetime(2020, 2, 3, 4, tzinfo=UTC), "5", {})]
MESSAGE = json.dumps(
    {
        "Records": [
            {
                "messageId": "m", "body": encode_message("s", QUEUED, 1), "eventSource": "aws:sqs",
                "attributes": {"SentTimestamp": str(int(NOW.timestamp() * 1000))},
            }
        ]
    }
)  # fmt: skip
# Of a route or a function: what it is asked, and the most read units of the catalog.
Rows = list[tuple[str, str, float]]
ROUTES: Rows = [
    ("/v1/health", "", 0),
    ("/v1/streams", "", 0),
    ("/v1/plan", "", 20),
    ("/v1/alarms", "", 0),
    ("/v1/activity", "", 10),
    # A page of the bill looks at the limit of entries.
    ("/v1/cost", "", 120),
    ("/v1/cost", "stream=s", 90),
    ("/v1/cost", "stream=s&before=2020-01-01", 90),
    ("/v1/cost", "stream=s&rate=1", 0),
    (f"{STREAM}/periods", "", 10),
    (f"{STREAM}/periods", "to=2020-01-01&limit=500", 40),
    # A search for a rare state looks at the limit of entries.
    (f"{STREAM}/periods", "state=restoring", 70),
    (f"{STREAM}/events", "series=a", 5),
    (f"{STREAM}/events", f"series=a&{YEARS}&limit=1", 5),
    # So do an explanation, which also looks for indexes, and a page without events.
    (f"{STREAM}/events", f"series=a&{YEARS}&explain=true", 160),
    (f"{STREAM}/events", f"series=a&{YEARS}&order=asc", 70),
    (f"{STREAM}/latest", "series=a", 5),
    (f"{STREAM}/latest", "series=nobody", 10),
    (f"{STREAM}/top", "value=x", 5),
    (f"{STREAM}/top", f"value=x&{YEARS}", 90),
    (f"{STREAM}/aggregate", "", 10),
    (f"{STREAM}/aggregate", "step=1h&from=-3h", 10),
    # A page with a step looks at the limit of entries, also at those of the rollup.
    (f"{STREAM}/aggregate", f"step=1d&{YEARS}", 120),
    (f"{STREAM}/aggregate", f"step=1d&rollups=false&{YEARS}", 120),
    (f"{STREAM}/aggregate", f"step=1d&{YEARS}&explain=true", 190),
    (f"{STREAM}/series", "", 10),
    (f"{STREAM}/series", "from=-3h", 10),
    (f"{STREAM}/fields", "", 10),
    (f"{STREAM}/fields/{{field}}/values", "", 10),
    (f"{STREAM}/events/{{ref}}", "", 5),
]
RUNS: Rows = [
    # A request and a message have an event of the present, and one of six years ago.
    ("ingest", REQUEST, 10),
    ("drain", MESSAGE, 10),
    ("refresher", '{"Records": [{"messageId": "m", "body": "{\\"kind\\": \\"seal\\", \\"name\\": \\"s\\"}"}]}', 20),
    (
        "sweeper",
        '{"Records": [{"messageId": "m", "body": "{\\"kind\\": \\"sweep\\", \\"name\\": \\"objects\\"}"}]}',
        350,
    ),
    ("lifecycle", '{"source": "schedule"}', 40),
    ("lifecycle", '{"dry_run": true}', 40),
    ("lifecycle", '{"backfill": {"stream": "s", "from": "2020-02-03T04:00:00Z", "to": "2020-02-03T05:00:00Z"}}', 120),
    ("lifecycle", '{"end_backfill": "s"}', 120),
    ("refresher", '{"source": "schedule"}', 40),
    ("refresher", "{}", 40),
    ("refresher", '{"status": "*"}', 20),
    ("refresher", '{"status": "s"}', 20),
    # The sweep looks at the limit of entries of two streams, consistently.
    ("sweeper", '{"source": "schedule"}', 5),
    ("sweeper", "{}", 350),
    ("drain", '{"source": "schedule"}', 5),
    ("archiver", f'{{"stream": "s", "period": "{OLD}"}}', 10),
    ("restorer", '{"source": "schedule"}', 5),
    ("restorer", f'{{"restore": {{"stream": "s", "first": "{OLD}", "last": "{OLD}"}}}}', 20),
    ("restorer", '{"status": "s"}', 10),
    ("feed", '{"Records": []}', 5),
    ("deployment", '{"RequestType": "Update", "PhysicalResourceId": "t"}', 60),
    ("deployment", '{"RequestType": "Delete", "PhysicalResourceId": "t"}', 60),
]
# These functions have no event of their own here: they are asked by other functions, or do not use the catalog. That of the
# Iceberg tables reads all entries of a stream once a day (tests/lake).
ELSEWHERE = {"archive_reader", "authorizer", "console", "doors", "lake", "operations", "query"}


# The entries that an answer or a run may look at: 1,000 here, as the catalog has 87,600.
LIMITS = [
    (accounts, "MAX_ENTRIES"), (ranking_reads, "MAX_PERIODS"), (aggregate_run, "MAX_LOOKED"), (sweep, "_LOOKED"),
    *((module, "MAX_LOOKED") for module in (explain, periods, plan, sections)),
]  # fmt: skip


def make_deleted(stream: str, start: Any, state: State, layout: Layout) -> Entry:
    """Make the entry of an hour whose table is deleted, and whose archive has expired."""
    entry = make_entry(stream, start, State.ARCHIVED, layout)
    assert entry.archive is not None
    archive = msgspec.structs.replace(entry.archive, expired_at=start + timedelta(days=400))
    return change_entry(entry, state=state, deleted_at=start + timedelta(days=2), archive=archive)


class Items(dict[Any, Any]):
    """The items of a partition by their positions. Those of the long catalog are made when they are read."""

    def __init__(self, items: dict[Any, Any], long: LongCatalog, numbers: dict[Any, int]) -> None:
        super().__init__(items)
        self._long, self._numbers = long, numbers

    def __contains__(self, position: object) -> bool:
        return super().__contains__(position) or position in self._numbers

    def get(self, position: Any, default: Any = None) -> Any:
        if position in self:
            return self[position]
        return default

    def __missing__(self, position: Any) -> Any:
        return json.loads(self._long.make_item(self._numbers[position]))


def add_years(stage: Stage, stream: str) -> None:
    """Add ten years of hours before those of a stage to the catalog."""
    (newest,) = stage.catalog.entries(stream, stage.clock.now(), stage.clock.now())
    long = LongCatalog(stream, lambda _: State.DELETED, newest.layout, HOURS, make_deleted)
    partitions: Any = stage.dynamo.account.engine._tables[CATALOG].main._partitions  # type: ignore[attr-defined]
    partition = make_sortable({"S": f"stream#{stream}"})
    order, items = partitions[partition]
    positions = [(make_sortable({"S": key}),) for key in long.keys]
    assert positions[-1] < order[0]
    numbers = {position: number for number, position in enumerate(positions)}
    partitions[partition] = [*positions, *order], Items(items, long, numbers)
    stage.catalog.set_horizon(stream, END)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A stage of some hours, which has lived through ten years before."""
    stage = Stage(END + 26 * HOUR, CONFIG, stale_seconds=0.0)
    for _ in range(3):
        while stage.run_lifecycle().count("done"):
            stage.clock.sleep(60)
        event = {"series": "a", "id": "1", "time": to_text(stage.clock.now()), "data": {"kind": "x", "score": 1}}
        assert stage.send("s", json.dumps([event]).encode()).status == 200
        stage.clock.sleep(1_800)
        stage.refresh()
    for stream in ("s", "s-m"):
        add_years(stage, stream)
    file = tmp_path_factory.mktemp("years") / "tidetable.toml"
    file.write_text(CONFIG)
    for _ in serving(stage, file):
        yield stage


@pytest.fixture
def count(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Callable[[], float]:
    """Return the catalog's read units since the last call."""
    units, take = [0.0], Meter.take_charges
    for module, name in LIMITS:
        monkeypatch.setattr(module, name, 1_000)

    def take_charges(self: Meter, table: Any, charges: Any) -> None:
        some = list(charges)
        if table.name == CATALOG:
            units[0] += sum(charge.units for charge in some if charge.side == "Read")
        take(self, table, some)

    monkeypatch.setattr(Meter, "take_charges", take_charges)

    def read() -> float:
        taken, units[0] = units[0], 0.0
        stage.clock.sleep(5)
        return taken

    return read


def ask(route: str, query: str) -> Any:
    """Send a request to the function of a route."""
    from handlers import operations
    from handlers import query as queries

    event: dict[str, Any] = {
        "httpMethod": "GET", "path": route, "resource": route, "headers": {}, "multiValueHeaders": {},
        "pathParameters": {"stream": "s", "field": "kind", "ref": query}, "requestContext": {"requestId": "r"},
        "multiValueQueryStringParameters": None if "{ref}" in route else parse_qs(query) or None,
    }  # fmt: skip
    handler: Any = operations.handler if route in operations.ROUTES else queries.handler
    answer = handler(event, Context())
    body = answer["body"]
    return answer["statusCode"], base64.b64decode(body).decode() if answer["isBase64Encoded"] else body


def test_no_route_reads_more_of_the_catalog_than_it_needs(stage: Stage, count: Callable[[], float]) -> None:
    status, body = ask(f"{STREAM}/events", "series=a&limit=1")
    ref = json.loads(body)["events"][0]["ref"]
    count()
    breaches = list[Any]()
    for route, query, most in ROUTES:
        status, body = ask(route, ref if "{ref}" in route else query)
        units = count()
        refused = status == 422 and route.endswith("/top") and "more than 1,000 periods" in body
        if (status != 200 and not refused) or units > most:
            breaches.append((route, query, status, units, body[:300] if status != 200 else ""))
    assert breaches == []
    assert {route for route, *_ in ROUTES} == {
        path for path, methods in DESCRIPTION["paths"].items() if "get" in methods
    }


def test_no_function_reads_more_of_the_catalog_than_it_needs(stage: Stage, count: Callable[[], float]) -> None:
    breaches = list[Any]()
    for name, event, most in RUNS:
        handler: Any = import_module(f"handlers.{name}").handler
        count()
        try:
            outcome = handler(json.loads(event), Context())
        except TidetableError as error:
            outcome = error
        units = count()
        refused = name == "archiver" or "backfill" in event
        if units > most or (isinstance(outcome, Exception) and not refused):
            breaches.append((name, event, units, str(outcome)[:300]))
    assert breaches == []
    functions = {file.stem for file in (ROOT / "lambdas" / "handlers").glob("[a-z]*.py")}
    assert {name for name, *_ in RUNS} | ELSEWHERE == functions


def test_a_restored_period_of_ten_years_ago_costs_each_run_little(stage: Stage, count: Callable[[], float]) -> None:
    """Wherever a table of the past is, and also if a former version has moved the horizon back for it."""
    first = END - HOURS * HOUR
    (oldest,) = stage.catalog.entries("s", first, first)
    runs = [
        ("lifecycle", '{"source": "schedule"}'), ("lifecycle", '{"dry_run": true}'), ("refresher", '{"source": "schedule"}'),
        ("deployment", '{"RequestType": "Delete", "PhysicalResourceId": "t"}'),
    ]  # fmt: skip

    def measure() -> list[float]:
        units = []
        for name, event in runs:
            count()
            import_module(f"handlers.{name}").handler(json.loads(event), Context())
            units.append(count())
        return units

    measure()
    alone = measure()
    restoring = stage.catalog.move(oldest, State.RESTORING, expected=[State.DELETED])
    assert all(units <= before + 5 for units, before in zip(measure(), alone, strict=True))
    stream = stage.config.streams["s"]
    count()
    shown, _ = observe_periods(stream, stage.catalog, stage.tables, Serial, all_periods=False)
    assert (shown[-1].entry.period, count() <= 40) == (oldest.period, True)
    # A former version has no records of far periods. The first run reads what lies between, the next does not.
    later = END - 3_000 * HOUR
    (restored,) = stage.catalog.entries("s", later, later)
    stage.catalog.move(restoring, State.DELETED, expected=[State.RESTORING])
    restored = stage.catalog.move(restored, State.RESTORING, expected=[State.DELETED])
    stage.catalog._delete(make_far_key("s", restored.period))
    others = stage.catalog.read_horizon("s").far
    assert all(period.start > END for period in others), (
        "those that were recorded after their end, when the stage began"
    )
    stage.catalog.set_horizon("s", later - timedelta(days=31))
    assert measure()[0] > 300
    assert stage.catalog.read_horizon("s").far == (restored.period, *others)
    assert all(units <= before + 5 for units, before in zip(measure(), alone, strict=True))
