"""The doors' function on fakes: requests in the gateway's form, and an HTTP server that calls the same handler."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from msgspec.structs import replace

import wiring
from tests.api.gateway import Context
from tests.fakes import FakeClock
from tests.ingest.streams import CONFIG, NOW
from tests.worlds.intake import World
from tidetable.catalog import Entry, State
from tidetable.config import Config
from tidetable.config.model import Stream
from tidetable.config.stage import DoorsPolicy
from tidetable.durations import Duration
from tidetable.ingest.circuit import Circuit
from tidetable.layout import unescape
from tidetable.periods import Kind, find_containing

DOORS = DoorsPolicy(influx=True, otlp=True, cloudevents=True, firehose=True, otlp_metrics="quakes", otlp_logs="quakes")
STREAM = "/v1/streams/quakes"


class Reply(NamedTuple):
    """An answer of the function: its status, its headers by their names in lower case, and its body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)


def config(api: Mapping[str, Any] | None = None, **policy: Any) -> Config:
    """The configuration of the tests, with all doors open. ``api`` and ``policy`` change keys of API and stream."""
    limits = {"max_events": 50, "max_body": 100_000} | dict(api or {})
    streams = {"quakes": replace(CONFIG.streams["quakes"], **policy)}
    return replace(CONFIG, api=replace(CONFIG.api, **limits), doors=DOORS, streams=streams)


class Doors(World):
    """The doors' function on fakes. ``caller`` is the context that the authorizer passes on about the caller."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.caller: dict[str, str] | None = None
        # True if the last answer was in Base64, which the gateway decodes.
        self.encoded = False

    def call(
        self,
        method: str,
        route: str,
        body: bytes | str = b"",
        *,
        query: str = "",
        stream: str = "",
        seconds: float = 28,
        **headers: Any,
    ) -> Reply:
        """Send a request. ``content_type=...`` stands for the header ``Content-Type``."""
        from handlers import doors

        content = body.encode() if isinstance(body, str) else body
        event = {
            "httpMethod": method,
            "resource": route,
            "path": route.replace("{stream}", stream),
            "headers": {name.replace("_", "-").title(): value for name, value in headers.items()},
            "pathParameters": {"stream": stream} if stream else None,
            "queryStringParameters": None,
            "multiValueQueryStringParameters": parse_qs(query, keep_blank_values=True) or None,
            "requestContext": {"requestId": "r1", **({"authorizer": self.caller} if self.caller else {})},
            "body": base64.b64encode(content).decode(),
            "isBase64Encoded": True,
        }
        context: Any = _Timed(self.clock, seconds)
        with wiring.serve_pipeline(self.pipeline()):
            answer = doors.handler(event, context)
        text, self.encoded = answer["body"], answer["isBase64Encoded"]
        raw = base64.b64decode(text) if self.encoded else text.encode()
        return Reply(answer["statusCode"], {k.lower(): v for k, v in answer["headers"].items()}, raw)

    def events(self) -> list[dict[str, Any]]:
        """Every stored event, in the order of time, series and id. The stream must be partitioned by time."""
        items = [item for table in self.store.tables.values() for item in table.values()]
        return [
            {"time": time, "series": unescape(series), "id": unescape(id), "data": item.get("data", {})}
            for item in sorted(items, key=lambda item: item["sk"])
            for time, series, id in [item["sk"].split("#")]
        ]


class _Timed(Context):
    def __init__(self, clock: FakeClock, seconds: float) -> None:
        self._clock, self._end = clock, clock.now() + timedelta(seconds=seconds)

    def get_remaining_time_in_millis(self) -> int:
        return int((self._end - self._clock.now()).total_seconds() * 1000)


class LiveDoors(Doors):
    """The doors' function at this machine's time, because real clients set the times of their points themselves.

    It has tables from yesterday to tomorrow.
    """

    def __init__(self, config: Config) -> None:
        wide = replace(config.streams["quakes"], ahead=Duration(days=1), late=Duration(days=1))
        super().__init__(replace(config, streams={"quakes": wide}))
        self.clock = FakeClock(datetime.now(UTC))
        self.circuit = Circuit(self.clock)
        for days in (-1, 0, 1):
            period = find_containing(self.clock.now() + timedelta(days=days), Kind.DAY)
            table = f"tidetable-t.quakes.{period.label}"
            self.catalog.add(Entry("quakes", period, table, wide.layout, State.OPEN, self.clock.now()))
            self.store.tables[table] = {}


_ROUTES = {
    "otlp/v1/metrics": "/v1/streams/{stream}/otlp/v1/metrics",
    "otlp/v1/logs": "/v1/streams/{stream}/otlp/v1/logs",
    "cloudevents": "/v1/streams/{stream}/cloudevents",
    "firehose": "/v1/streams/{stream}/firehose",
}


class Server:
    """An HTTP server that calls a world's function. ``outage`` decides about each request by its number, from 1.

    ``outage`` returns None to serve the request, a status to refuse it, or "lost" to serve it and then to close the
    connection without an answer.
    """

    def __init__(self, world: Doors) -> None:
        self.world = world
        self.outage: Callable[[int], int | str | None] = lambda _: None
        self.requests: list[tuple[str, str, bytes]] = []
        self.url = ""
        self._lock = threading.Lock()

    def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply | None:
        """The answer to a request; None if the request gets no answer."""
        with self._lock:
            self.requests.append((method, target, body))
            fate = self.outage(len(self.requests))
            if isinstance(fate, int):
                return Reply(fate, {"retry-after": "0"}, b"{}")
            parts = urlsplit(target)
            route, stream = parts.path, ""
            if route.startswith("/v1/streams/"):
                stream, _, rest = route.removeprefix("/v1/streams/").partition("/")
                route = _ROUTES[rest]
            named: dict[str, Any] = {name.lower().replace("-", "_"): value for name, value in headers.items()}
            reply = self.world.call(method, route, body, query=parts.query, stream=stream, **named)
            return None if fate == "lost" else reply

    @contextmanager
    def serving(self) -> Iterator[Server]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                body = self._read_body()
                reply = server.answer(self.command, self.path, dict(self.headers.items()), body)
                if reply is None:
                    self.close_connection = True
                    return
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body)

            def _read_body(self) -> bytes:
                if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                    return self.rfile.read(int(self.headers.get("Content-Length") or 0))
                # The gateway joins the chunks (RFC 9112, section 7.1).
                chunks = []
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    chunks.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                return b"".join(chunks)

            do_GET = do_POST = do_HEAD = do_OPTIONS = _serve  # noqa: N815 - the names of the library

            def log_message(self, *_: Any) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
            http.daemon_threads = True
            thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            self.url = f"http://127.0.0.1:{http.server_port}"
            try:
                yield self
            finally:
                http.shutdown()
                thread.join()


def nanos(seconds: float = 0.0) -> int:
    """The instant ``seconds`` before the worlds' present time, in nanoseconds since 1970."""
    return int((NOW.timestamp() - seconds) * 1_000_000) * 1000


__all__ = ["DOORS", "STREAM", "Doors", "LiveDoors", "Reply", "Server", "Stream", "config", "nanos"]
