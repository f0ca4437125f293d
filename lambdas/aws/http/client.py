"""DynamoDB's data plane without botocore, whose layers cost more than all the rest of a request.

Several requests are under way at once: up to 8 are sent before the first answer is read. The client takes care of
connections, signatures, damaged answers, wrong clocks, and requests that may be sent again. Its caller interprets the
answers.
"""

from __future__ import annotations

import os
import ssl
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from random import SystemRandom
from threading import Lock
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from zlib import crc32

import msgspec

from aws.http.connection import Broken, Connection, HttpAnswer
from aws.http.credentials import CredentialSource, NoCredentials, Provider
from aws.http.endpoints import read_endpoint
from aws.http.proxies import find_proxy
from aws.http.roots import make_context
from aws.http.signing import Signer

_VERSION = "DynamoDB_20120810"
_OK = 200
# SystemRandom reads the system's own source. Functions that start from one snapshot share the state of Python's own
# generator, so they would draw the same numbers.
_RANDOM = SystemRandom()
# A TLS handshake costs more than a request, so there are few connections, and they are kept alive.
CONNECTIONS = 8
CONNECT_SECONDS, READ_SECONDS = 2.0, 5.0
# If a refusal has one of these codes, and our clock and the service's differ by more than _SKEW, the service's time is
# used from then on. The service accepts a difference of five minutes.
_SKEW_CODES = frozenset(
    {"InvalidSignatureException", "SignatureDoesNotMatch", "RequestExpired", "RequestTimeTooSkewed", "AuthFailure"}
)
_SKEW = timedelta(minutes=4)
# A connection that was idle for longer is not used again. After a freeze of the function, or behind a NAT gateway,
# which forgets connections after 350 s, the other end may be gone without notice. Each such connection would cost a
# time-out.
# https://docs.aws.amazon.com/vpc/latest/userguide/nat-gateway-troubleshooting.html
IDLE = timedelta(seconds=60)
# The exceptions that a decoder can raise if the body of an answer is not in DynamoDB's form. msgspec's are ValueErrors.
_UNREADABLE = (ValueError, TypeError, LookupError, ArithmeticError, RecursionError)


class ServiceRequest(NamedTuple):
    """An operation, such as ``Query``, its body, and the decoder of the answer's body."""

    operation: str
    body: bytes
    decode: Callable[[bytes], Any] | None = None


class RequestRefused(NamedTuple):
    """DynamoDB's refusal: its code, its message, and the whole body, which may say more."""

    code: str
    message: str
    body: bytes


class NoAnswer(NamedTuple):
    """There was no answer that can be trusted: DynamoDB may have carried out the request or not."""

    why: str


# The decoded body of an answer, the body itself, or the reason why there is no answer.
Reply = Any


class _Error(msgspec.Struct):
    type: str = msgspec.field(name="__type", default="")
    message: str = ""
    Message: str = ""


_ERROR = msgspec.json.Decoder(_Error).decode


class LeanClient:
    """A client of one endpoint.

    ``proxy`` is the address of the proxy before it. ``authorities`` is a file of certificates: if it is given, the
    endpoint's certificate must come from one of them.
    """

    def __init__(
        self,
        endpoint: str,
        region: str,
        credentials: CredentialSource,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        *,
        proxy: str | None = None,
        authorities: str | None = None,
        connections: int = CONNECTIONS,
    ) -> None:
        parts = urlsplit(endpoint)
        secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if secure else 80)
        host = self._host if parts.port is None else f"{self._host}:{parts.port}"
        # None for plain HTTP.
        self._context = make_context(self._host, authorities) if secure else None
        self._is_context_fixed = authorities is not None
        self._proxy = proxy
        self._signer = Signer(host, region)
        self._head = f"POST / HTTP/1.1\r\nHost: {host}\r\nAccept-Encoding: identity\r\n".encode()
        self._credentials = credentials
        self._clock = clock
        self._skew = timedelta(0)
        self._connections = connections
        self._idle: deque[tuple[Connection, datetime]] = deque()
        self._lock = Lock()

    @classmethod
    def of_process(cls, connections: int = CONNECTIONS) -> LeanClient:
        """Return the client of this process, from the environment variables that AWS's own clients read."""
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
        endpoint = read_endpoint(os.environ, region)
        is_behind_proxy = not os.environ.keys().isdisjoint({"HTTPS_PROXY", "https_proxy"})
        return cls(
            endpoint,
            region,
            Provider.of_process(lambda: datetime.now(UTC)).get,
            proxy=find_proxy(endpoint) if is_behind_proxy else None,
            authorities=os.environ.get("AWS_CA_BUNDLE"),
            connections=connections,
        )

    def pause(self, most: float) -> None:
        """Wait for a random time of up to ``most`` seconds, before requests are sent again."""
        time.sleep(_RANDOM.uniform(0, most))

    def call(self, operation: str, body: bytes) -> Reply:
        """Send one request."""
        return self.call_all([ServiceRequest(operation, body)])[0]

    def call_all(self, requests: Sequence[ServiceRequest], *, insist: bool = True) -> list[Reply]:
        """Send requests and return the replies in the same order. Up to ``connections`` requests are under way at once.

        The reply to a request that failed is a Refused or a NoAnswer; no exception is raised. If ``insist`` is false,
        no further requests are sent after a request without an answer.
        """
        replies: list[Reply] = [NoAnswer("not sent")] * len(requests)
        under_way: deque[tuple[int, Connection]] = deque()
        is_lost = False
        for index, request in enumerate(requests):
            if len(under_way) == self._connections:
                is_lost |= self._finish(requests, replies, under_way.popleft())
            if is_lost and not insist:
                break
            exchange = self._send(request)
            if isinstance(exchange, NoAnswer):
                replies[index], is_lost = exchange, True
            else:
                under_way.append((index, exchange))
        while under_way:
            self._finish(requests, replies, under_way.popleft())
        return replies

    def _finish(
        self, requests: Sequence[ServiceRequest], replies: list[Reply], under_way: tuple[int, Connection]
    ) -> bool:
        """Put the reply to a request into the replies; return True if it is NoAnswer."""
        index, connection = under_way
        replies[index] = self._receive(requests[index], connection)
        return isinstance(replies[index], NoAnswer)

    def _send(self, request: ServiceRequest) -> Connection | NoAnswer:
        """Send over an idle connection or, if no connection is open, over a new connection."""
        try:
            message = self._make_message(request)
            while (connection := self._take_connection()) is not None:
                try:
                    connection.send(message)
                except Broken:
                    connection.close()
                else:
                    return connection
            return self._send_anew(message)
        except (OSError, Broken, NoCredentials) as error:
            return NoAnswer(str(error))

    def _send_anew(self, message: bytes) -> Connection:
        try:
            connection = self._connect()
        except ssl.SSLCertVerificationError:
            if self._is_context_fixed:
                raise
            # The endpoint is in another AWS partition, or the account has a proxy of its own. So the roots that the
            # system trusts are used.
            self._context = ssl.create_default_context()
            connection = self._connect()
        connection.send(message)
        return connection

    def _connect(self) -> Connection:
        return Connection(self._host, self._port, self._context, CONNECT_SECONDS, READ_SECONDS, self._proxy)

    def _receive(self, request: ServiceRequest, connection: Connection, *, again: bool = True) -> Reply:
        try:
            answer = connection.receive()
        except (OSError, Broken) as error:
            connection.close()
            # The other end closes an old connection without notice. So it has not seen the request.
            if again and isinstance(error, Broken) and error.unanswered:
                return self._repeat_request(request)
            return NoAnswer(str(error) or type(error).__name__)
        checksum = answer.headers.get(b"x-amz-crc32")
        if checksum is not None and checksum != b"%d" % crc32(answer.body):
            connection.close()
            return NoAnswer("the answer was damaged on its way")
        self._give_back(connection)
        if answer.status == _OK:
            return _decode_body(answer.body, request)
        refused = _read_refusal(answer)
        if again and refused.code in _SKEW_CODES and self._set_clock(answer):
            return self._repeat_request(request)
        return refused

    def _repeat_request(self, request: ServiceRequest) -> Reply:
        """Repeat a request over a new connection."""
        try:
            return self._receive(request, self._send_anew(self._make_message(request)), again=False)
        except (OSError, Broken, NoCredentials) as error:
            return NoAnswer(str(error))

    def _make_message(self, request: ServiceRequest) -> bytes:
        now = self._clock() + self._skew
        target = f"{_VERSION}.{request.operation}"
        headers = self._signer.make_headers(target, request.body, now, self._credentials())
        return b"%sContent-Length: %d\r\n%s\r\n%s" % (self._head, len(request.body), headers, request.body)

    def _set_clock(self, answer: HttpAnswer) -> bool:
        """Use the service's time if it differs from ours so much that this explains a refusal; return True if it does."""
        from email.utils import parsedate_to_datetime

        try:
            # TypeError: the date has no zone.
            skew = parsedate_to_datetime(answer.headers[b"date"].decode()) - self._clock()
        except (KeyError, ValueError, TypeError):
            return False
        differs = abs(skew - self._skew) > _SKEW
        if differs:
            self._skew = skew
        return differs

    def _take_connection(self) -> Connection | None:
        """Find an idle connection that can be used. Close the idle connections that cannot be used."""
        oldest = self._clock() - IDLE
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection, since = self._idle.pop()
            # After the clock was set back, nobody knows how long the connection was idle.
            if oldest <= since <= oldest + IDLE and connection.quiet():
                return connection
            connection.close()

    def _give_back(self, connection: Connection) -> None:
        with self._lock:
            keep = connection.reusable and len(self._idle) < self._connections
            if keep:
                self._idle.append((connection, self._clock()))
        if not keep:
            connection.close()


def _decode_body(body: bytes, request: ServiceRequest) -> Reply:
    """Decode an answer's body; NoAnswer if that fails, because such a body shows that something is broken."""
    if request.decode is None:
        return body
    try:
        return request.decode(body)
    except _UNREADABLE as error:
        return NoAnswer(f"the answer cannot be read: {error}")


def _read_refusal(answer: HttpAnswer) -> RequestRefused:
    try:
        error = _ERROR(answer.body)
    except msgspec.DecodeError:
        return RequestRefused(f"HTTP {answer.status}", answer.body[:200].decode(errors="replace"), answer.body)
    code = error.type.rpartition("#")[2] or f"HTTP {answer.status}"
    return RequestRefused(code, error.message or error.Message, answer.body)
