"""A server in memory with faults, and a clock that a test moves."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pyarrow as pa

from tidetable_client import Clock

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
WINDOW = {"oldest": "2026-03-08T12:00:00.000000Z", "newest": "2026-03-15T12:05:00.000000Z"}


class ManualClock(Clock):
    """Moves when somebody waits, and by hand."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.waits: list[float] = []

    def read(self) -> float:
        return self.seconds

    def read_date(self) -> datetime:
        return NOON + timedelta(seconds=self.seconds - 1000)

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.seconds += seconds

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        """Time passes only for a thread that has a time; all others wait for a notification."""
        if seconds is None:
            condition.wait()
            return
        self.seconds += seconds
        condition.notify_all()
        condition.wait(0.001)

    async def wait_for(self, event: asyncio.Event, seconds: float | None) -> None:
        if seconds is None:
            await event.wait()
            return
        await asyncio.sleep(0)
        if not event.is_set():
            self.seconds += seconds

    async def sleep_async(self, seconds: float) -> None:
        self.sleep(seconds)
        await asyncio.sleep(0)


# What a fault does with a request: an answer of its own, or an exception. None: the request is served.
Fault = Callable[[httpx.Request], httpx.Response | None]


class Server:
    """Keeps events by stream, series, time and id, as Tidetable does, and counts how often each was written.

    Events of the series ``bad`` are refused as invalid, those of ``old`` as too_old. ``faults`` meet the next requests,
    one each. ``lost`` are faults after which the request was stored all the same.
    """

    def __init__(self) -> None:
        self.events: dict[tuple[str, str, Any, Any], Any] = {}
        self.bodies: list[bytes] = []
        self.requests: list[httpx.Request] = []
        self.faults: list[Fault] = []
        self.most_events = 1000

    @property
    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self.serve)

    def serve(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        self.bodies.append(request.content)
        if self.faults:
            answer = self.faults.pop(0)(request)
            if answer is not None:
                return answer
        return self.store(request)

    def store(self, request: httpx.Request) -> httpx.Response:
        lines = gzip.decompress(request.content).split(b"\n")
        if len(lines) > self.most_events:
            return problem(413, "too_many_events")
        events = [json.loads(line) for line in lines]
        stream = request.url.path.split("/")[3]
        errors = [
            {"index": place, "id": event.get("id"), "code": REFUSALS[event["series"]], "detail": "of this event"}
            for place, event in enumerate(events)
            if event["series"] in REFUSALS
        ]
        if len(errors) == len(events):
            document = {"code": "all_refused", "detail": "every event was refused", "errors": errors[:100]}
            return httpx.Response(422, json=document)
        for event in events:
            if event["series"] not in REFUSALS:
                self.events[stream, event["series"], event["time"], event.get("id")] = event["data"]
        body = {
            "accepted": len(events) - len(errors),
            "queued": 0,
            "rejected": len(errors),
            "refs": [],
            "window": WINDOW,
        }
        return httpx.Response(200, json=body | ({"errors": errors} if errors else {}))

    def values(self) -> list[Any]:
        """The stored values, in order."""
        return sorted(data["n"] for data in self.events.values())

    # Faults

    def dies_before(self, request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    def dies_after(self, request: httpx.Request) -> httpx.Response:
        self.store(request)
        raise httpx.ReadError("connection reset", request=request)

    def answers_half(self, request: httpx.Request) -> httpx.Response:
        """A complete HTTP answer whose document is cut."""
        whole = self.store(request)
        return httpx.Response(200, content=whole.content[: len(whole.content) // 2])

    def answers_nothing(self, request: httpx.Request) -> httpx.Response:
        self.store(request)
        return httpx.Response(200)

    def serves(self, request: httpx.Request) -> None:
        return None


ROWS = [
    {"series": "s", "time": f"2026-03-15T12:00:0{number}.000000Z", "id": f"e{number}", "data": {"n": number}}
    for number in range(7)
]


class Reader:
    """A server with seven events, whose cursors are numbers."""

    def __init__(self) -> None:
        self.requests: list[dict[str, list[str]]] = []
        self.addresses: list[str] = []
        self.faults: list[Any] = []
        self.gaps: list[dict[str, str]] = []
        self.arrow = False

    @property
    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self.serve)

    def serve(self, request: httpx.Request) -> httpx.Response:
        parameters = {name: request.url.params.get_list(name) for name in request.url.params}
        self.requests.append(parameters)
        self.addresses.append(request.url.raw_path.decode())
        if self.faults:
            fault: httpx.Response = self.faults.pop(0)(request)
            return fault
        route = request.url.path.rpartition("/")[2]
        if route == "latest":
            latest = [{"series": name, "event": None if name == "none" else ROWS[0]} for name in parameters["series"]]
            return httpx.Response(200, json={"latest": latest, "searched_back_to": None})
        if route == "streams":
            return httpx.Response(200, json={"streams": [{"stream": "quakes"}]})
        start = int(parameters.get("cursor", ["0"])[0])
        end = start + int(parameters["limit"][0])
        following = str(end) if end < len(ROWS) else None
        rows: Any = ROWS[start:end]
        if parameters.get("format") == ["arrow"]:
            return self._answer_arrow(rows, following)
        name = {"aggregate": "aggregates"}.get(route, route)
        if parameters.get("format") == ["columns"]:
            name = "columns"
            rows = make_columns([{**row, "data.n": row["data"]["n"]} for row in rows])
            del rows["data"]
        document = {name: rows, "next": following, "gaps": self.gaps if start == 0 else [], "sources": []}
        return httpx.Response(200, json=document, headers={"Tidetable-Read-Units": "1.5"})

    def _answer_arrow(self, rows: list[dict[str, Any]], following: str | None) -> httpx.Response:
        if not self.arrow:
            return problem(400, "bad_parameter", "format must be json, ndjson or csv")
        times = [datetime.fromisoformat(row["time"]) for row in rows]
        columns = {"series": [row["series"] for row in rows], "time": pa.array(times, pa.timestamp("us", "UTC"))}
        table = pa.table(columns | {"id": [row["id"] for row in rows], "n": [row["data"]["n"] for row in rows]})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        headers = {"Content-Type": "application/vnd.apache.arrow.stream"}
        if following:
            headers["Tidetable-Next"] = following
        return httpx.Response(200, content=sink.getvalue().to_pybytes(), headers=headers)


def make_columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """The columns of flat rows, as ``format=columns`` answers them."""
    return {name: [row.get(name) for row in rows] for row in rows for name in row}


REFUSALS = {"bad": "invalid", "old": "too_old"}


def problem(status: int, code: str, detail: str = "no", **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return httpx.Response(status, json={"status": status, "code": code, "detail": detail}, headers=named)


def answer(status: int, code: str = "unavailable", **headers: str) -> Fault:
    """A fault that answers a problem."""
    return lambda _: problem(status, code, **headers)


def event(number: int, series: str = "s", **fields: Any) -> dict[str, Any]:
    return {"series": series, "data": {"n": number}, **fields}
