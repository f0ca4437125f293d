"""The strict service over HTTP, between real functions and an engine: DynamoDB's JSON protocol.

python -m strict.proxy --engine http://127.0.0.1:8000 --port 8001
"""

from __future__ import annotations

import argparse
import json
import socket
import struct
import threading
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from uuid import uuid4

from strict.clock import SystemClock
from strict.engines import LOCAL_UNKNOWN, HttpEngine
from strict.faults import Kind, NoAnswer
from strict.refusals import Refusal
from strict.service import StrictDynamo

# The proxy disconnects a caller without an answer after this time, unless the caller hangs up before.
_DISCONNECT_SECONDS = 60.0


class Proxy:
    """Serves a strict service on a free port of the loopback interface until it is closed."""

    def __init__(self, service: StrictDynamo, port: int = 0) -> None:
        self.service = service
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.service = service
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Proxy:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    service: StrictDynamo


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Headers and body are two writes. With Nagle's algorithm the second write would wait until the first is
    # acknowledged.
    disable_nagle_algorithm = True
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        operation = self.headers.get("X-Amz-Target", "").rpartition(".")[2]
        try:
            self._answer(200, self.server.service.call(operation, json.loads(body or b"{}")))
        except Refusal as refusal:
            self._answer(refusal.status, refusal.document())
        except NoAnswer as lost:
            self._lose_answer(lost.kind)
        except Exception as error:
            document = {
                "__type": "InternalFailure",
                "message": f"the strict double failed: {type(error).__name__}: {error}",
            }
            self._answer(500, document)
            raise

    def _answer(self, status: int, document: Any) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("x-amzn-RequestId", uuid4().hex.upper())
        self.send_header("x-amz-crc32", str(zlib.crc32(body)))
        self.end_headers()
        self.wfile.write(body)

    def _lose_answer(self, kind: Kind) -> None:
        """Send no answer: wait until the caller hangs up, or reset the connection."""
        self.close_connection = True
        if kind in (Kind.TIMEOUT_BEFORE, Kind.TIMEOUT_AFTER):
            self.connection.settimeout(_DISCONNECT_SECONDS)
            try:
                self.connection.recv(1)
            except OSError:
                return
        else:
            # With a linger time of zero, the close resets the connection.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the callers have logs of their own."""


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description="A strict DynamoDB in front of an engine.")
    parser.add_argument("--engine", required=True, help="the engine's address, such as http://127.0.0.1:8000")
    parser.add_argument("--port", type=int, default=0, help="the port to listen on (default: a free one)")
    parser.add_argument(
        "--local", action="store_true", help="the engine is DynamoDB Local, which has no tags or classes"
    )
    options = parser.parse_args()
    engine = HttpEngine(options.engine, unknown=LOCAL_UNKNOWN if options.local else frozenset())
    with Proxy(StrictDynamo(engine, SystemClock()), options.port) as proxy:
        print(f"strict DynamoDB at {proxy.endpoint}, in front of {options.engine}")
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()
