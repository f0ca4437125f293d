"""The examples: each pipeline is simulated, and every request of its README gets the answer that follows from its events."""

import csv
import io
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from importlib import import_module
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import pyarrow as pa
import pytest

from tests.api.gateway import Gateway, serving
from tests.fakes.stage import STALE_SECONDS
from tests.worlds.configs import ROOT
from tests.worlds.examples import NOW, Example
from tidetable.exact_json import decode_json

NAMES = ("orders", "scores", "jobs", "telemetry", "weblogs", "follows")


@pytest.fixture(scope="module", params=NAMES)
def served(request: pytest.FixtureRequest) -> Iterator[tuple[str, Example, Gateway]]:
    """Each example behind a gateway."""
    example = Example(request.param)
    for gateway in serving(example.stage, example.config):
        yield request.param, example, gateway


def answer(gateway: Gateway, request: str) -> Any:
    """The body of an answer at ``NOW``, decoded; CSV and Arrow as their rows."""
    _, body = fetch(gateway, request)
    if "format=arrow" in request:
        return pa.ipc.open_stream(body).read_all().to_pylist()
    if "format=csv" in request:
        return list(csv.DictReader(io.StringIO(body.decode())))
    if "format=ndjson" in request:
        return [decode_json(line) for line in body.splitlines()]
    return decode_json(body)


def fetch(gateway: Gateway, request: str) -> tuple[dict[str, str], bytes]:
    """The headers and the body of an answer at ``NOW``."""
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
    body = b"".join(gateway(environ, start))
    assert received["status"].startswith("200"), body
    return received["headers"], body


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
    hour, bad, latest, filled, percentiles, consistent, quiet = answers
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
    # Seven devices have sent three readings per hour for a day; the third was silent after 23:21.
    found = [(row["group"]["series"], row["last_at"], row["count"]) for row in quiet["aggregates"]]
    assert found[0] == ("d3", "2026-03-30T23:21:00.000000Z", 41)
    assert found[1:] == [(series, "2026-03-31T09:41:00.000000Z", 72) for series in ("d0", "d1")]
    assert {source.get("rollup") for source in quiet["sources"]} == {"telemetry-hours", None}


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


def check_follows(example: Example, answers: list[Any]) -> None:
    mine, newest, edge, counts, weeks, most, plan = answers
    edges = example.since(days=90)
    assert ids(mine["events"]) == [event["id"] for event in edges if event["series"] == "ada"]
    assert {source["from"] for source in mine["sources"]} == {"table"}
    graces = [event for event in edges if event["data"]["follows"] == "grace"]
    followers = [event["series"] for event in graces if event["data"]["type"] == "follow"]
    assert [row["series"] for row in newest["events"]] == followers[:20]
    assert {source["from"] for source in newest["sources"]} == {"index"}
    (last,) = edge["events"]
    of_edge = next(event for event in graces if event["series"] == "u7")
    assert (last["series"], last["id"], last["data"]["type"]) == ("u7", "grace", of_edge["data"]["type"])
    by_type = {row["group"]["type"]: row["count"] for row in counts["aggregates"]}
    assert by_type == Counter(event["data"]["type"] for event in graces)
    # Replayed edge by edge: nobody follows twice, so the difference is the number of followers now.
    now: set[str] = set()
    for event in reversed(graces):
        (now.add if event["data"]["type"] == "follow" else now.remove)(event["series"])
    assert by_type["follow"] - by_type["unfollow"] == len(now)
    assert {"rollup": "follows-days", "from": "table", "period": "2026-02"} in counts["sources"]
    late = [event for event in example.since(days=28) if event["data"]["type"] == "follow"]
    assert sum(row["count"] for row in weeks["aggregates"]) == sum(
        event["data"]["follows"] == "grace" for event in late
    )
    won = Counter(event["data"]["follows"] for event in late)
    assert [row["count"] for row in most["aggregates"]] == [count for _, count in won.most_common(3)]
    assert all(won[row["group"]["follows"]] == row["count"] for row in most["aggregates"])
    assert {(stage["index"], stage["ranges"]) for stage in plan["stages"]} == {("followers", 2)}


CHECKS: dict[str, Callable[[Example, list[Any]], None]] = {
    "orders": check_orders,
    "scores": check_scores,
    "jobs": check_jobs,
    "telemetry": check_telemetry,
    "weblogs": check_weblogs,
    "follows": check_follows,
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


@pytest.mark.parametrize("served", ["follows"], indirect=True)
def test_the_units_of_the_readme_are_those_of_its_requests(served: tuple[str, Example, Gateway]) -> None:
    _, example, gateway = served
    text = (ROOT / "examples" / "follows" / "README.md").read_text()
    published = re.findall(r"^\| [^|]+ \| ([\d.]+) \| ", text, re.MULTILINE)
    read = [fetch(gateway, request)[0]["Tidetable-Read-Units"] for request in example.requests[:-1]]
    assert read == published == ["1.5", "3.5", "4", "88", "29", "83"]
    count = example.requests[3]
    assert fetch(gateway, f"{count}&rollups=false")[0]["Tidetable-Read-Units"] == "3.5"
    assert answer(gateway, f"{count}&rollups=false")["aggregates"] == answer(gateway, count)["aggregates"]


@pytest.mark.parametrize("served", ["weblogs"], indirect=True)
@pytest.mark.parametrize("limit", ["10000", "100"])
def test_the_program_of_the_cookbook_reads_every_page_into_one_table(
    served: tuple[str, Example, Gateway], monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    _, example, gateway = served
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "use" / "cookbook.md").read_text(), re.DOTALL)

    class Response(NamedTuple):
        headers: dict[str, str]
        content: bytes

        def raise_for_status(self) -> None: ...

    def get(url: str, params: dict[str, str], headers: dict[str, str], timeout: float) -> Response:
        assert (headers, timeout) == ({"x-api-key": "k"}, 30)
        return Response(*fetch(gateway, f"{url}?{urlencode(params)}"))

    monkeypatch.setattr("requests.get", get)
    monkeypatch.setenv("URL", "")
    monkeypatch.setenv("KEY", "k")
    names: dict[str, Any] = {}
    exec(program.replace("10000", limit), names)  # noqa: S102 - our own program
    assert names["table"]["id"].to_pylist() == ids(example.since(days=1))
    assert len(names["pages"]) == (1 if limit == "10000" else -(-names["table"].num_rows // 100))


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
