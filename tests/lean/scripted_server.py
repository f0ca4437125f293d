"""A server on this machine that answers by script, and the lean client before it."""

import socket
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from aws.http.client import CONNECTIONS, LeanClient
from aws.http.credentials import Provider

KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
NOW = datetime(2026, 3, 15, 12, tzinfo=UTC)
# The server's reaction to a request: the bytes that it sends, and whether it then closes the connection.
Step = tuple[bytes, bool]


def answer(body: bytes = b"{}", status: int = 200, *headers: str, crc: int | None = None) -> bytes:
    checksum = f"x-amz-crc32: {zlib.crc32(body) if crc is None else crc}"
    lines = [f"HTTP/1.1 {status} x", f"Content-Length: {len(body)}", checksum, *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def refusal(code: str, *headers: str, status: int = 400) -> bytes:
    return answer(f'{{"__type":"com.amazonaws#{code}","message":"why"}}'.encode(), status, *headers)


class Server:
    """Answers requests in the order in which they come; ``seen`` has their bodies, ``dates`` the dates of their
    signatures.
    """

    def __init__(self, steps: list[Step]) -> None:
        self.steps = steps
        self.seen: list[bytes] = []
        self.heads: list[str] = []
        self.connections = 0
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as file:
            while head := self._head(file):
                length = next(int(line.split(":")[1]) for line in head if line.lower().startswith("content-length"))
                body = file.read(length)
                with self._lock:
                    self.seen.append(body)
                    self.heads.append("\n".join(head))
                    sent, close = self.steps.pop(0) if self.steps else (answer(body), False)
                connection.sendall(sent)
                if close:
                    return

    @staticmethod
    def _head(file: Any) -> list[str]:
        lines = []
        while (line := file.readline()) not in (b"\r\n", b""):
            lines.append(line.decode().strip())
        return lines

    def close(self) -> None:
        self._listener.close()


@contextmanager
def served(
    *steps: Step, clock: Callable[[], datetime] = lambda: NOW, connections: int = CONNECTIONS
) -> Iterator[tuple[Server, LeanClient]]:
    server = Server(list(steps))
    try:
        source = Provider(KEYS, clock, lambda *_: b"").get
        yield server, LeanClient(server.endpoint, "us-east-1", source, clock, connections=connections)
    finally:
        server.close()


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: x\r\n\r\n"
