"""The server in memory behind a real socket, and programs that call it in processes of their own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

from doubles import Server

SOURCE = Path(__file__).parents[1] / "src"


class Socket(BaseHTTPRequestHandler):
    """A server whose process is killed at chosen moments: it closes the connection without an end."""

    server: Api
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer by which connection the request came."""
        body = json.dumps({"streams": [{"port": self.client_address[1]}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        api = self.server
        headers = {"content-type": self.headers["Content-Type"]}
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request = httpx.Request("POST", f"http://t.test{self.path}", content=body, headers=headers)
        with api.lock:
            api.posts += 1
            fate = api.fates.pop(0) if api.fates else "serve"
            answer = api.double.store(request) if fate != "kill before" else None
        if answer is None or fate == "kill after":
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        self.send_response(answer.status_code)
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        if fate == "half":
            self.wfile.write(answer.content[:40])
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        self.wfile.write(answer.content)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the tests report errors."""


class Api(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Socket)
        self.lock = threading.Lock()
        self.double = Server()
        self.fates: list[str] = []
        self.posts = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program that uses the client."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)  # noqa: S603
