"""The dashboard in docs/grafana: every request that Grafana makes of it is answered, in one page, with the columns it shows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from io import BytesIO
from typing import Any

import pytest
import yaml

from tests.api.gateway import NOON, Gateway, serving
from tests.worlds.grafana import DASHBOARD, FOLDER, SOURCE, Span, queries, request_of, rows_of, targets
from tests.worlds.rolled_stage import Rolled

README = (FOLDER / "README.md").read_text()
(ROLLUP,) = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
CONFIG = f"""
[streams.quakes]
period = "day"
late = "2d"
retention = 40
key = {{ partition_by = "time", bucket = "6h" }}
[streams.by_series]
period = "day"
late = "2d"
retention = 9
key = {{ partition_by = "series" }}
{ROLLUP}
"""
SPANS = [timedelta(minutes=5), timedelta(hours=1), timedelta(hours=6), timedelta(days=2), timedelta(days=30)]
EVENTS = 600


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Two days of readings of three series: two readings per series and step of the rollup, and more."""
    file = tmp_path_factory.mktemp("grafana") / "tidetable.toml"
    file.write_text(CONFIG)
    stage = Rolled(NOON, CONFIG)
    while stage.run_lifecycle().done:
        pass
    stage.refresh()
    stage.clock.sleep(7_200)
    now = stage.clock.now()
    events = [
        {
            "series": f"s{number % 3}",
            "id": str(number),
            "time": (now - number * timedelta(seconds=280)).isoformat(),
            "data": {"mag": number % 50, "note": "x", "place": {"state": "CA"}},
        }
        for number in range(EVENTS)
    ]
    assert stage.send("quakes", json.dumps(events).encode()).status == 200
    stage.clock.sleep(600)
    stage.refresh()
    yield from serving(stage, file)


def get(app: Gateway, request: str) -> Any:
    found: list[Any] = []
    path, _, query = request.partition("?")
    environ = {"PATH_INFO": path, "REQUEST_METHOD": "GET", "QUERY_STRING": query, "wsgi.input": BytesIO(b"")}
    body = b"".join(app(environ, lambda status, headers: found.extend([status, dict(headers)])))
    assert found[0].startswith("200"), f"{request}: {body.decode()}"
    return json.loads(body)


def choose(app: Gateway, variables: dict[str, str]) -> dict[str, list[str]]:
    """The choices of each variable; the first is chosen, as Grafana does, before the next is looked up."""
    choices: dict[str, list[str]] = {}
    for name, target in queries().items():
        body = get(app, request_of(target, variables))
        assert body.get("next") is None, "the choices fit into one page"
        choices[name] = [next(iter(row.values())) for row in rows_of(target, body, variables)]
        variables[name] = min(choices[name])
    return choices


def span_of(app: Gateway, length: timedelta) -> Span:
    now: datetime = app.stage.clock.now()
    return Span(now - length, now)


def test_the_variables_are_what_the_stage_has(app: Gateway) -> None:
    choices = choose(app, span_of(app, timedelta(days=2)).variables)
    assert choices["stream"] == ["quakes", "quakes-grafana"], "streams that are partitioned by series need other panels"
    assert choices["series"] == ["s0", "s1", "s2"]
    assert choices["field"] == ["mag"], "only fields that have numbers"


@pytest.mark.parametrize("length", SPANS, ids=str)
def test_every_panel_is_answered_in_one_page_with_its_columns(app: Gateway, length: timedelta) -> None:
    span = span_of(app, length)
    variables = {**span.variables, "stream": "quakes", "series": "s1", "field": "mag"}
    for panel, target in targets():
        body = get(app, request_of(target, variables | {"__interval": span.step(panel)}))
        rows = rows_of(target, body, variables)
        assert rows or (length < timedelta(minutes=15) and panel["id"] != 6), panel["title"]
        for column in target["columns"]:
            name = column["text"] or column["selector"]
            assert any(row[name] is not None for row in rows) or name in ("write units", "archived") or not rows, name
            kind = int | float if column["type"] == "number" else str
            assert all(isinstance(row[name], kind) for row in rows if row[name] is not None)
        if "events" not in target["url"]:
            assert body["next"] is None, f"{panel['title']} over {length}: the plugin shows the first page only"


@pytest.mark.parametrize(
    ("length", "most", "step"),
    [(5, 300, "10s"), (60, 300, "10s"), (360, 300, "1m"), (2880, 300, "10m"), (43_200, 300, "2h"), (10, 20_000, "10s")],
)
def test_a_step_is_what_grafana_calculates(length: int, most: int, step: str) -> None:
    """The figures are those of rangeUtil.calculateInterval in npm's @grafana/data."""
    span = Span(NOON - timedelta(minutes=length), NOON)
    assert span.step({"maxDataPoints": most, "interval": "10s"}) == step


def test_the_panels_say_what_the_events_say(app: Gateway) -> None:
    span = span_of(app, timedelta(days=2))
    variables = {**span.variables, "stream": "quakes", "series": "s1", "field": "mag"}
    shown = {}
    for panel, target in targets():
        body = get(app, request_of(target, variables | {"__interval": span.step(panel)}))
        shown[panel["id"]] = rows_of(target, body, variables)
    assert sum(row["events"] for row in shown[1]) == EVENTS
    assert (max(row["max"] for row in shown[2]), min(row["min"] for row in shown[2])) == (49, 0)
    assert {row["series"]: row["events"] for row in shown[4]} == {"s0": 200, "s1": 200, "s2": 200}
    newest = shown[5][0]
    assert (newest["id"], newest["data.mag"], newest["data.place.state"]) == ("1", 1, "CA")
    assert len(shown[5]) == 50
    assert {row["state"] for row in shown[6]} == {"open"}


def test_the_data_source_sends_the_key_as_the_api_takes_it() -> None:
    assert SOURCE["url"] == "$TIDETABLE_URL"
    data = SOURCE["jsonData"]
    assert (data["auth_method"], data["apiKeyType"], data["apiKeyKey"]) == ("apiKey", "header", "x-api-key")
    assert SOURCE["secureJsonData"] == {"apiKeyValue": "$TIDETABLE_KEY"}, "no key is in a file"
    assert data["allowedHosts"] == ["$TIDETABLE_URL"]
    assert data["customHealthCheckUrl"] == "$TIDETABLE_URL/v1/streams"


def test_the_parts_name_each_other() -> None:
    (provider,) = yaml.safe_load((FOLDER / "provisioning/dashboards/tidetable.yaml").read_text())["providers"]
    assert f"docs/grafana/dashboards:{provider['options']['path']}" in README
    assert "docs/grafana/provisioning:/etc/grafana/provisioning" in README
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"]) == 6
    assert all(panel["datasource"]["uid"] == SOURCE["uid"] for panel in DASHBOARD["panels"])
    assert all(
        panel.keys() >= {"interval", "maxDataPoints"}
        for panel, target in targets()
        if "__interval" in json.dumps(target)
    )
