"""The functions' handlers behind an HTTP server, which can refuse requests before they reach a handler."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest

from tests.api.gateway import NOON, Gateway, serving
from tests.fakes.stage import Stage

# A stream with packs, and a stream without packs that is partitioned by series. Both are on demand, so all events are
# stored at once, and none are queued.
CONFIG = """
[streams.quakes]
period = "day"
late = "7d"
retention = 30
[streams.quakes.key]
partition_by = "time"
bucket = "6h"
[streams.quakes.pack]
span = "1m"
[streams.quakes.capacity]
mode = "on-demand"
[streams.stations]
period = "day"
late = "7d"
retention = 30
[streams.stations.key]
partition_by = "series"
[streams.stations.capacity]
mode = "on-demand"
[[streams.stations.rollup]]
name = "days"
every = "1d"
retention = "730d"
"""

# An answer of the server to the next request: status, headers, and whether a handler serves the request nevertheless.
Trouble = tuple[int, dict[str, str], bool]


class Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the tests report errors."""


class Served:
    """A gateway behind HTTP. Each of ``troubles`` answers one of the next requests; later requests are served."""

    def __init__(self, application: Gateway) -> None:
        self.application = application
        self.stage = application.stage
        self.troubles: list[Trouble] = []
        self.requests: list[str] = []
        self.url = ""

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Any:
        self.requests.append(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}?{environ.get('QUERY_STRING', '')}")
        if self.troubles:
            status, headers, stores = self.troubles.pop(0)
            if stores:
                self.application(environ, lambda *_: None)
            start(f"{status} trouble", list(headers.items()))
            return [b"{}"]
        return self.application(environ, start)


def serve(folder: Path) -> Iterator[Served]:
    """Serve a stage with ``CONFIG`` while a test module runs. ``folder`` is an empty folder."""
    config = folder / "tidetable.toml"
    config.write_text(CONFIG)
    stage = Stage(NOON, CONFIG)
    while stage.run_lifecycle().done:
        pass
    stage.clock.time = NOON
    for application in serving(stage, config):
        served = Served(application)
        with pytest.MonkeyPatch.context() as patch, make_server("127.0.0.1", 0, served, handler_class=Quiet) as http:
            # The functions would write their metrics to stdout. The tests of commands read stdout.
            patch.setenv("POWERTOOLS_METRICS_DISABLED", "true")
            thread = threading.Thread(target=http.serve_forever, daemon=True)
            thread.start()
            served.url = f"http://127.0.0.1:{http.server_port}"
            yield served
            http.shutdown()
