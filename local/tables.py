"""DynamoDB Local for a whole stage: a small layer that keeps the settings of a table that the engine does not have.

The engine does not have tags, table classes, deletion protection, backups, encryption or warm throughput. But the
lifecycle reads these settings back, and never deletes a table whose tags it cannot read. Operations without such
settings pass through unchanged. CloudFormation creates some tables, such as the catalog, in the emulator; the layer
creates them in the engine at their first use.

python -m local.tables --engine http://127.0.0.1:8000 [--origin FILE]
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from local.layer import JSON_TYPE, Layer
from local.processes import HOST, ROOT, clean_environment, end_process, start_server

_LISTENING = re.compile(r"listening on (http://127\.0\.0\.1:\d+)")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    layer: Layer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Headers and body are two writes. With Nagle's algorithm the second write would wait until the first is
    # acknowledged.
    disable_nagle_algorithm = True
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        operation = self.headers.get("X-Amz-Target", "").rpartition(".")[2]
        status, answer = self.server.layer.answer(operation, body)
        self.send_response(status)
        self.send_header("Content-Type", JSON_TYPE)
        self.send_header("Content-Length", str(len(answer)))
        self.send_header("x-amz-crc32", str(zlib.crc32(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the callers have logs of their own."""


def serve_layer(layer: Layer) -> _Server:
    """Make a server of the layer on a free port of the loopback interface. The caller starts the server."""
    server = _Server((HOST, 0), _Handler)
    server.layer = layer
    return server


def start_layer(engine: str, origin: Path, log: Path) -> tuple[subprocess.Popen[bytes], str]:
    """Start the layer as a separate process; return the process and its address."""
    process = start_server(
        "the layer before DynamoDB Local",
        [sys.executable, "-m", "local.tables", "--engine", engine, "--origin", str(origin)],
        log,
        lambda text: _LISTENING.search(text) is not None,
        folder=ROOT,
        environment=clean_environment(),
    )
    match = _LISTENING.search(log.read_text())
    if match is None:
        end_process(process)
        raise RuntimeError(f"{log} does not say where the layer listens")
    return process, match[1]


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description="Keeps the settings of tables that DynamoDB Local does not have.")
    parser.add_argument("--engine", required=True, help="DynamoDB Local's address, such as http://127.0.0.1:8000")
    parser.add_argument("--origin", type=Path, help="a file with the address of the emulator that CloudFormation uses")
    options = parser.parse_args()
    server = serve_layer(Layer(options.engine, options.origin))
    print(f"listening on http://{HOST}:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
