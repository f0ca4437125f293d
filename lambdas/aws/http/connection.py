"""One keep-alive connection. It sends a whole request, and reads the answer later."""

from __future__ import annotations

import socket
import ssl
from io import BufferedReader
from time import monotonic
from typing import NamedTuple, cast

from aws.http.proxies import open_tunnel

_LONGEST_LINE = 65_536
# The bytes of one read. With Python's default of 8 KB, an answer of a few hundred KB takes three times as many calls.
_BUFFER = 65_536
# DynamoDB answers with at most 1 MB of items, or 16 MB for BatchGetItem. As JSON, they are a little larger.
_LONGEST_BODY = 64_000_000


# Several requests are sent before their answers are read, and the time-out of an answer counts from its request. The
# time-out may be over before the answer is read, although the answer has arrived. So each read waits at least
# _LEAST_SECONDS. If the answer is read within _SOON_SECONDS of its request, the full time-out is used: two more system
# calls per answer would cost more than they save.
_LEAST_SECONDS, _SOON_SECONDS = 0.1, 1.0


class Broken(Exception):
    """The connection ended before the answer was complete.

    If ``unanswered``, the connection had worked before, but no byte of this answer came.
    """

    def __init__(self, why: str, *, unanswered: bool) -> None:
        self.unanswered = unanswered
        super().__init__(why)


class HttpAnswer(NamedTuple):
    """Status, headers by lower-case name, body."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes


class Connection:
    """A connection to one host.

    If it is ``used``, it has brought an answer before, so the other end may have closed it. If it is ``reusable``,
    another request may be sent. ``read`` is the number of seconds in which an answer must begin after its request, and
    also the longest pause within an answer. ``proxy`` is the address of the proxy through which it goes.
    """

    def __init__(
        self,
        host: str,
        port: int,
        context: ssl.SSLContext | None,
        connect: float,
        read: float,
        proxy: str | None = None,
    ) -> None:
        self.used = False
        self._sent = 0.0
        self.reusable = True
        self._seconds = read
        raw = (
            socket.create_connection((host, port), timeout=connect)
            if proxy is None
            else open_tunnel(proxy, host, port, connect)
        )
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        try:
            self._socket = raw if context is None else context.wrap_socket(raw, server_hostname=host)
        except BaseException:
            raw.close()
            raise
        self._socket.settimeout(read)
        self._file = cast("BufferedReader", self._socket.makefile("rb", _BUFFER))

    def send(self, request: bytes) -> None:
        """Send a whole request; Broken if the other end has closed the connection."""
        self._sent = monotonic()
        try:
            self._socket.sendall(request)
        except OSError as error:
            raise Broken(str(error), unanswered=self.used) from error

    def receive(self) -> HttpAnswer:
        """Read the answer to the last request; Broken if the connection ended, TimeoutError if it was late."""
        begun = False
        try:
            status_line = self._read_first_line()
            begun = bool(status_line)
            if not begun:
                raise Broken("closed without an answer", unanswered=self.used)
            status = int(status_line.split(b" ", 2)[1])
            headers = self._read_headers()
            body = self._read_body(headers)
        except TimeoutError:
            raise
        except (OSError, ValueError, IndexError) as error:
            raise Broken(str(error), unanswered=self.used and not begun) from error
        self.used = True
        closing = headers.get(b"connection", b"").lower() == b"close" or status_line.startswith(b"HTTP/1.0")
        self.reusable = not closing
        return HttpAnswer(status, headers, body)

    def quiet(self) -> bool:
        """True if the other end still has the connection open and has sent nothing since its answer.

        Further bytes would be taken for the next answer. The check does not wait. Over TLS, it may read a ticket of the
        session, which is not an answer.
        """
        self._socket.settimeout(0)
        try:
            if self._file.peek(1):
                return False
            self._socket.recv(1)  # a byte, or the end of the connection: in both cases it is not used again
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except (OSError, ValueError):
            return False
        else:
            return False
        finally:
            self._socket.settimeout(self._seconds)

    def close(self) -> None:
        """Close the connection."""
        self._file.close()
        self._socket.close()

    def _read_first_line(self) -> bytes:
        waited = monotonic() - self._sent
        if waited < _SOON_SECONDS:
            return self._file.readline(_LONGEST_LINE)
        self._socket.settimeout(max(self._seconds - waited, _LEAST_SECONDS))
        line = self._file.readline(_LONGEST_LINE)
        self._socket.settimeout(self._seconds)
        return line

    def _read_line(self) -> bytes:
        line = self._file.readline(_LONGEST_LINE)
        if not line.endswith(b"\n"):
            raise OSError("the answer ended early")
        return line.rstrip(b"\r\n")

    def _read_headers(self) -> dict[bytes, bytes]:
        headers = {}
        while line := self._read_line():
            name, _, value = line.partition(b":")
            headers[name.lower()] = value.strip()
        return headers

    def _read_body(self, headers: dict[bytes, bytes]) -> bytes:
        if headers.get(b"transfer-encoding", b"").lower() == b"chunked":
            return self._read_chunks()
        length = int(headers.get(b"content-length", b"0"))
        return self._read_exactly(length)

    def _read_chunks(self) -> bytes:
        chunks: list[bytes] = []
        length = 0
        while size := int(self._read_line().partition(b";")[0], 16):
            chunks.append(self._read_exactly(size))
            self._read_line()
            length += size
            if length > _LONGEST_BODY:
                raise ValueError("the answer is too long")
        self._read_headers()  # trailers may follow the last chunk
        return b"".join(chunks)

    def _read_exactly(self, size: int) -> bytes:
        if not 0 <= size <= _LONGEST_BODY:
            raise ValueError("the answer is too long")
        body = self._file.read(size)
        if len(body) < size:
            raise OSError("the answer ended early")
        return body
