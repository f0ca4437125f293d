"""The examples: each pipeline is simulated, and every request of its README gets the answer that follows from its events."""

import csv
import io
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib import import_module
from itertools import groupby
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.api.gateway import Gateway, serving
from tests.fakes.stage import STALE_SECONDS, Stage
from tests.infra.synth import ROOT
from tidetable.exact import decode_json

NOW = datetime(2026, 3, 31, 10, tzinfo=UTC)
NAMES = ("orders", "scores", "jobs", "telemetry", "weblogs")
# An event as it was sent, with its time as an instant.
Sent = dict[str, Any]


class Example:
    """An example's pipeline after the simulation, and all sent events."""

    def __init__(self, name: str) -> None:
        folder = ROOT / "examples" / name
        data = import_module(f"examples.{name}.data")
        self.config = folder / "tidetable.toml"
        # As the event is after a round trip through JSON.
        sent = [decode_json(json.dumps(event)) for event in data.events(NOW)]
        self.sent: list[Sent] = [{**event, "at": datetime.fromisoformat(event["time"])} for event in sent]
        self.stage = self._lived(data.STREAM)
        self.requests = re.findall(r'^    curl .* "\$URL(/[^"]*)"$', (folder / "README.md").read_text(), re.MULTILINE)

    def _lived(self, stream: str) -> Stage:
        start = self.sent[0]["at"] - timedelta(hours=1)
        stage = Stage(start, self.config.read_text())
        for _, hour in groupby(self.sent, key=lambda event: event["at"].replace(minute=0, second=0)):
            many = list(hour)
            while stage.run_lifecycle().count("done"):
                stage.clock.sleep(60)
            stage.clock.time = max(stage.clock.now(), many[-1]["at"])
            bare = [{name: value for name, value in event.items() if name != "at"} for event in many]
            outcome = stage.send(stream, json.dumps(bare, default=float).encode())
            assert (outcome.accepted, outcome.queued) == (len(many), 0)
        stage.clock.time = NOW
        while stage.run_lifecycle().count("done"):
            stage.clock.sleep(1)
        stage.clock.time = NOW
        return stage

    def since(self, **ago: float) -> list[Sent]:
        """The sent events since an instant, the newest first."""
        events = [event for event in self.sent if NOW - timedelta(**ago) <= event["at"] < NOW + timedelta(minutes=5)]
        return sorted(events, key=lambda event: (event["at"], event["series"], event["id"]), reverse=True)


@pytest.fixture(scope="module", params=NAMES)
def served(request: pytest.FixtureRequest) -> Iterator[tuple[str, Example, Gateway]]:
    """Each example behind a gateway."""
    example = Example(request.param)
    for gateway in serving(example.stage, example.config):
        yield request.param, example, gateway


def answer(gateway: Gateway, request: str) -> Any:
    """The body of an answer at ``NOW``, decoded; CSV as its rows."""
    # The gateway waits this long before it reads.
    gateway.stage.clock.time = NOW - timedelta(seconds=STALE_SECONDS)
    parts = urlsplit(request)
    received: dict[str, Any] = {}

    def start(status: str, headers: Sequence[tuple[str, str]]) -> None:
        received.update(status=status, headers=dict(headers))

    environ = {
        "PATH_INFO": parts.path,
        "QUERY_STRING": parts.query,
        "REQUEST_METHOD": "GET",
        "wsgi.input": io.BytesIO(),
    }
    body = b"".join(gateway(environ, start)).decode()
    assert received["status"].startswith("200"), body
    if "format=csv" in request:
        return list(csv.DictReader(io.StringIO(body)))
    if "format=ndjson" in request:
        return [decode_json(line) for line in body.splitlines()]
    return decode_json(body)


def ids(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return [row["id"] for row in rows]


def best(example: Example, game: str, *, days: int = 99, worst: bool = False, level: int = 0) -> list[tuple[int, str]]:
    """Scores of a game and their ids, the best first."""
    rows = [
        (event["data"]["score"], event["at"], event["series"], event["id"])
        for event in example.since(days=days)
        if event["data"]["game"] == game and event["data"]["level"] >= level
    ]
    return [(row[0], row[-1]) for row in sorted(rows, reverse=not worst)]


def ranked(rows: Sequence[Mapping[str, Any]]) -> list[tuple[int, str]]:
    return [(row["value"], row["id"]) for row in rows]


def check_orders(example: Example, answers: list[Any]) -> None:
    for days, page in zip((1, 7, 30, 90), answers, strict=False):
        assert ids(page["events"]) == ids(example.since(days=days))
        assert (page["next"], page["gaps"]) == (None, [])
    assert {source["from"] for source in answers[3]["sources"]} == {"table", "archive"}
    newest, oldest, customer, refunds, large, weeks = answers[4:]
    assert ids(newest["events"]) == ids(example.since(days=90))[:100]
    assert ids(oldest["events"]) == ids(example.since(days=90))[:-101:-1]
    assert newest["next"]
    mine = [event for event in example.since(days=30) if event["data"].get("customer") == "c7"]
    assert [row["data"] for row in customer["events"]] == [{"total": event["data"]["total"]} for event in mine]
    assert {source["from"] for source in customer["sources"]} == {"index"}
    back = [event for event in example.since(days=60) if event["data"].get("order") == "o214"]
    assert ids(refunds["events"]) == ids(back)
    assert back
    dear = [
        event for event in example.since(days=30) if event["data"]["type"] == "order" and event["data"]["total"] >= 350
    ]
    assert [(row["id"], Decimal(row["data.total"])) for row in large] == [
        (event["id"], event["data"]["total"]) for event in dear
    ]
    sums: defaultdict[tuple[str, str], list[Decimal]] = defaultdict(list)
    for event in example.since(days=60):
        monday = (event["at"] - timedelta(days=event["at"].weekday())).replace(
            hour=0, minute=0, second=0, microsecond=0
        )
        first = max(monday, NOW - timedelta(days=60))
        sums[first.isoformat()[:19], event["data"]["type"]].append(event["data"]["total"])
    rows = {(row["start"][:19], row["group"]["type"]): row for row in weeks["aggregates"]}
    assert {key: (row["count"], row["sum"], row["max"]) for key, row in rows.items()} == {
        key: (len(some), sum(some), max(some)) for key, some in sums.items()
    }


def check_scores(example: Example, answers: list[Any]) -> None:
    ten, fifty, low, skilled, player, games, latest = answers
    assert ranked(ten["top"]) == best(example, "chess")[:10]
    assert ranked(fifty["top"]) == best(example, "chess")[:50]
    assert set(fifty["top"][0]["data"]) == {"score"}
    assert ranked(low["top"]) == best(example, "go", days=7, worst=True)[:5]
    assert [(row["value"], row["data.level"] >= 7) for row in skilled["top"]] == [
        (score, True) for score, _ in best(example, "chess", level=7)[:10]
    ]
    assert ids(player["events"]) == ids([event for event in example.since(days=7) if event["series"] == "p7"])
    mine = Counter(event["data"]["game"] for event in example.since(days=21) if event["series"] == "p7")
    assert {row["group"]["game"]: row["count"] for row in games["aggregates"]} == mine
    last = {row["series"]: row["event"] and row["event"]["id"] for row in latest["latest"]}
    assert last == {
        "p7": next(event["id"] for event in example.since(days=99) if event["series"] == "p7"),
        "p8": next(event["id"] for event in example.since(days=99) if event["series"] == "p8"),
        "nobody": None,
    }


def check_jobs(example: Example, answers: list[Any]) -> None:
    failed, tests, logs, owned, steps, plan = answers
    wanted = [event for event in example.since(days=1) if event["data"]["status"] == "failed"]
    assert ids(failed["events"]) == ids(wanted)
    assert {row["data"]["status"] for row in failed["events"]} == {"failed"}
    of_tests = [
        event
        for event in example.since(days=3)
        if event["data"]["status"] in ("failed", "cancelled") and event["data"]["queue"] == "test"
    ]
    assert ids(tests["events"]) == ids(of_tests)
    assert ids(logs["events"]) == ids(wanted)[:20]
    assert all(row["data"] == {"log": "x" * 300} for row in logs["events"])
    adas = [event for event in example.since(days=3) if event["data"].get("owner") == "ada"]
    assert [row["data"] for row in owned["events"]] == [event["data"] for event in adas]
    every = Counter(
        (f"{event['at']:%Y-%m-%d} {event['at'].hour // 6}", event["data"]["queue"])
        for event in example.since(days=3)
        if event["data"]["status"] == "failed"
    )
    counts = {
        (f"{row['start'][:10]} {int(row['start'][11:13]) // 6}", row["group"]["queue"]): row["count"]
        for row in steps["aggregates"]
    }
    assert {key: count for key, count in counts.items() if count} == every
    assert steps["approximate"] == {"p95": {"relative_error": Decimal("0.01")}}
    assert {(stage["index"], stage["ranges"], stage["fetches"]) for stage in plan["stages"]} == {("by_status", 4, True)}


def check_telemetry(example: Example, answers: list[Any]) -> None:
    hour, bad, latest, filled, percentiles, consistent = answers
    mine = [event for event in example.since(days=2) if event["series"] == "d2"]
    assert ids(hour["events"]) == ids(mine)[:3]
    assert consistent["events"] == hour["events"]
    wrong = [event for event in mine if not event["data"]["ok"] and event["at"] >= NOW - timedelta(days=1)]
    assert [row["data"] for row in bad["events"]] == [{"temp": event["data"]["temp"]} for event in reversed(wrong)]
    silent = next(event for event in example.since(days=2) if event["series"] == "d3")
    events = {row["series"]: row["event"] for row in latest["latest"]}
    assert (events["d3"]["id"], events["d9"]) == (silent["id"], None)
    rows = filled["aggregates"]
    assert [row["count"] > 0 for row in rows] == [True] * 7 + [False] * (len(rows) - 7)
    assert {(row["avg"], row["last"]) for row in rows[6:]} == {(rows[6]["avg"], rows[6]["last"])}
    assert {source["from"] for source in percentiles["sources"]} == {"replica"}
    for row in percentiles["aggregates"]:
        held = sorted(
            float(event["data"]["temp"]) for event in mine if row["start"] <= event["at"].isoformat() < row["end"]
        )
        exact = held[round(0.5 * (len(held) - 1))]
        assert float(row["p50"]) == pytest.approx(exact, rel=0.03)


def check_weblogs(example: Example, answers: list[Any]) -> None:
    quarter, errors, slow, percentiles, customer, days, cells, plan = answers
    assert ids(quarter["events"]) == ids(example.since(minutes=15))
    assert len(quarter["events"]) == 13
    failed = [event for event in example.since(days=7) if "error" in event["data"]]
    today = [event for event in failed if event["at"] >= NOW.replace(hour=0)]
    assert ids(errors["events"]) == ids(today)
    assert {source["from"] for source in errors["sources"]} == {"index"}
    slowest = sorted(
        (event["data"]["slow_ms"] for event in example.since(days=7) if "slow_ms" in event["data"]), reverse=True
    )
    assert [row["value"] for row in slow["top"]] == slowest[:20]
    counts = Counter(
        (f"{event['at']:%H}", event["data"]["path"]) for event in example.since(hours=6) if event["at"] < NOW
    )
    assert {(row["start"][11:13], row["group"]["path"]): row["count"] for row in percentiles["aggregates"]} == counts
    mine = [event for event in example.since(days=17) if event["data"].get("customer") == "c7"]
    assert ids(customer["events"]) == ids(mine)
    assert {source["from"] for source in customer["sources"]} == {"table", "archive"}
    assert (len(mine), customer["next"], customer["gaps"]) == (17, None, [])
    each = Counter(
        (f"{event['at']:%Y-%m-%d}", event["data"]["status"]) for event in example.since(days=7) if event["at"] < NOW
    )
    assert {(row["start"][:10], row["group"]["status"]): row["count"] for row in days["aggregates"]} == each
    assert [row["id"] for row in cells] == ids(failed)
    assert {(stage["index"], stage["ranges"]) for stage in plan["stages"]} == {("by_error", 2)}


CHECKS: dict[str, Callable[[Example, list[Any]], None]] = {
    "orders": check_orders,
    "scores": check_scores,
    "jobs": check_jobs,
    "telemetry": check_telemetry,
    "weblogs": check_weblogs,
}


def test_every_request_of_the_readme_is_answered_as_the_events_say(served: tuple[str, Example, Gateway]) -> None:
    name, example, gateway = served
    assert len(example.requests) >= 6
    CHECKS[name](example, [answer(gateway, request) for request in example.requests])


def test_every_request_of_the_cookbook_and_of_the_first_page_is_answered_with_something(
    served: tuple[str, Example, Gateway],
) -> None:
    name, _, gateway = served
    stream = import_module(f"examples.{name}.data").STREAM
    pages = ("docs/use/cookbook.md", "docs/start/get-started.md")
    text = "\n".join((ROOT / page).read_text() for page in pages)
    requests = re.findall(rf'^    curl .* "\$URL(/v1/streams/{stream}/[^"]*)"$', text, re.MULTILINE)
    assert requests
    for request in requests:
        document = answer(gateway, request)
        rows = document if isinstance(document, list) else next(iter(document.values()))
        assert rows, request


def test_no_request_of_the_cookbook_is_passed_over() -> None:
    text = (ROOT / "docs" / "use" / "cookbook.md").read_text()
    streams = {import_module(f"examples.{name}.data").STREAM for name in NAMES}
    assert set(re.findall(r'^    curl .* "\$URL/v1/streams/(\w+)/[^"]*"$', text, re.MULTILINE)) == streams
    assert len(re.findall(r'"\$URL/v1/streams/\w+/[^"]*"$', text, re.MULTILINE)) == text.count("curl -H")


def test_the_event_of_the_readme_is_taken(served: tuple[str, Example, Gateway]) -> None:
    """This test comes last, because it adds an event."""
    name, _, gateway = served
    (stream, body), *others = re.findall(
        r"/streams/(\w+)/events\" \\\n      -d '(.*)'$",
        (ROOT / "examples" / name / "README.md").read_text(),
        re.MULTILINE,
    )
    assert (stream, others) == (import_module(f"examples.{name}.data").STREAM, [])
    assert gateway.stage.send(stream, body.encode()).accepted == 1
