"""One keep-alive connection. It sends a whole request, and reads the answer later."""

from __future__ import annotations

import socket
import ssl
from time import monotonic
from typing import NamedTuple

from aws.http.proxies import open_tunnel

_LONGEST_HEAD = 65_536
# The bytes of one read. With 8 KB, an answer of a few hundred KB takes three times as many calls.
_READ = 65_536
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
        # The bytes that were received last, and the number of those that were read.
        self._received = b""
        self._at = 0

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
            begun = self._await_answer()
            if not begun:
                raise Broken("closed without an answer", unanswered=self.used)
            status_line, *lines = self._read_to(b"\r\n\r\n").split(b"\r\n")
            status = int(status_line.split(b" ", 2)[1])
            headers = {name.lower(): value.strip() for name, _, value in [line.partition(b":") for line in lines]}
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
        if self._at < len(self._received):
            return False
        self._socket.settimeout(0)
        try:
            self._socket.recv(1)  # a byte, or the end of the connection: in both cases it is not used again
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except OSError:
            return False
        else:
            return False
        finally:
            self._socket.settimeout(self._seconds)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _await_answer(self) -> bool:
        """Receive the first bytes of an answer; False if the connection ended without any."""
        waited = monotonic() - self._sent
        if waited < _SOON_SECONDS:
            self._received = self._socket.recv(_READ)
        else:
            self._socket.settimeout(max(self._seconds - waited, _LEAST_SECONDS))
            self._received = self._socket.recv(_READ)
            self._socket.settimeout(self._seconds)
        self._at = 0
        return bool(self._received)

    def _receive_more(self, size: int = _READ) -> bytes:
        # Memory for all of ``size`` is taken at each call, however little has come.
        more = self._socket.recv(min(size, _READ))
        if not more:
            raise OSError("the answer ended early")
        return more

    def _read_to(self, end: bytes) -> bytes:
        """Read up to an end, which is not returned."""
        while (found := self._received.find(end, self._at, self._at + _LONGEST_HEAD)) < 0:
            if len(self._received) - self._at >= _LONGEST_HEAD:
                raise ValueError("the head of the answer is too long")
            self._received, self._at = self._received[self._at :] + self._receive_more(), 0
        read, self._at = self._received[self._at : found], found + len(end)
        return read

    def _read_body(self, headers: dict[bytes, bytes]) -> bytes:
        if headers.get(b"transfer-encoding", b"").lower() == b"chunked":
            return self._read_chunks()
        return b"".join(self._read_exactly(int(headers.get(b"content-length", b"0"))))

    def _read_chunks(self) -> bytes:
        pieces: list[bytes] = []
        length = 0
        while size := int(self._read_to(b"\r\n").partition(b";")[0], 16):
            pieces += self._read_exactly(size)
            self._read_to(b"\r\n")
            length += size
            if length > _LONGEST_BODY:
                raise ValueError("the answer is too long")
        while self._read_to(b"\r\n"):
            pass  # trailers may follow the last piece
        return b"".join(pieces)

    def _read_exactly(self, size: int) -> list[bytes]:
        """Read so many bytes, in parts: the whole body is joined once."""
        if not 0 <= size <= _LONGEST_BODY:
            raise ValueError("the answer is too long")
        read = self._received[self._at : self._at + size]
        self._at += len(read)
        parts, missing = [read], size - len(read)
        while missing:
            parts.append(more := self._receive_more(missing))
            missing -= len(more)
        return parts
