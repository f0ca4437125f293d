"""The console and the API of an example's pipeline behind one address in this process, for a browser.

`python -m tests.console.serve weblogs 8765` serves it until it is ended, to look at the console while it is changed.
"""

from __future__ import annotations

import base64
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from handlers import console
from infra.console import collect_files
from tests.api.gateway import Gateway, serving
from tests.worlds.configs import ROOT
from tests.worlds.examples import NOW, Example


class Quiet(WSGIRequestHandler):
    """Requests that write no log."""

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class Served:
    """The console's function and the API, as the gateway routes them."""

    def __init__(self, api: Gateway) -> None:
        self.api = api

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path != "/console" and not path.startswith("/console/"):
            return self.api(environ, start)
        return serve_page(environ, start)


def serve_page(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
    """A file of the console, by its function."""
    headers = {
        "Accept-Encoding": environ.get("HTTP_ACCEPT_ENCODING", ""),
        "If-None-Match": environ.get("HTTP_IF_NONE_MATCH", ""),
    }
    file = environ["PATH_INFO"].removeprefix("/console").removeprefix("/assets/").lstrip("/")
    answer = console.handler({"headers": headers, "pathParameters": {"file": file} if file else None}, None)
    body = answer["body"]
    content = base64.b64decode(body) if answer.get("isBase64Encoded") else body.encode()
    start(f"{answer['statusCode']} answer", [*answer["headers"].items(), ("Content-Length", str(len(content)))])
    return [content]


@contextmanager
def served_console(api: Gateway) -> Iterator[Served]:
    """The console before an API."""
    with tempfile.TemporaryDirectory() as folder:
        collect_files(ROOT, Path(folder))
        console.FOLDER = Path(folder)
        console.load_site.cache_clear()
        yield Served(api)


if __name__ == "__main__":
    example = Example(sys.argv[1])
    for api in serving(example.stage, example.config):
        example.stage.clock.time = NOW
        with (
            served_console(api) as application,
            make_server("127.0.0.1", int(sys.argv[2]), application, handler_class=Quiet) as http,
        ):
            print(f"http://127.0.0.1:{http.server_port}/console", flush=True)
            http.serve_forever()
