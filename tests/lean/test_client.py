"""The lean client against a server that misbehaves by script: its answers, repetitions and failures."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from aws.http import client as lean
from aws.http import connection
from aws.http.client import LeanClient, NoAnswer, RequestRefused, ServiceRequest
from aws.http.credentials import Provider
from tests.lean.scripted_server import CHUNKED, NOW, answer, refusal, served

pytestmark = pytest.mark.usefixtures("patience")

# The function answers within 30 s, so a connection or an answer is not waited for much longer than the service takes.
PATIENCE = lean.CONNECT_SECONDS, lean.READ_SECONDS


def test_a_connection_and_an_answer_are_waited_for_some_seconds() -> None:
    assert PATIENCE == (2.0, 5.0)


def test_a_chunked_answer_is_put_together_and_the_connection_kept() -> None:
    with served((CHUNKED, False)) as (server, client):
        assert client.call("Query", b"{}") == b"abcde"
        assert client.call("Query", b"next") == b"next"
    assert server.connections == 1


@pytest.mark.parametrize(
    ("sent", "body"),
    [(answer(b""), b""), (CHUNKED.replace(b"chunked", b"Chunked"), b"abcde")],
    ids=["empty", "capital"],
)
def test_a_body_may_be_empty_and_an_encoding_has_any_case(sent: bytes, body: bytes) -> None:
    assert b"Chunked" in sent or not body
    with served((sent, False)) as (_, client):
        assert client.call("Query", b"{}") == body
        assert client.call("Query", b"next") == b"next"


def test_a_long_answer_that_comes_in_parts_is_whole() -> None:
    body = bytes(range(256)) * 2_000
    with served((answer(body), False)) as (_, client):
        assert client.call("Query", b"{}") == body


def test_the_length_of_a_chunk_is_hexadecimal() -> None:
    text = b"abcdefghijklmnopqrstuvwxyz"
    chunks = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1A\r\n%s\r\n10\r\n%s\r\n0\r\n\r\n" % (
        text,
        text[:16],
    )
    with served((chunks, False)) as (_, client):
        assert client.call("Query", b"{}") == text + text[:16]


BROKEN = [
    ("closed at once", b"", "closed without an answer"),
    ("half a status line", b"HTTP/1.1 20", ""),
    ("half a header", b"HTTP/1.1 200 OK\r\nContent-Le", "ended early"),
    ("half a body", answer(b"0123456789")[:-3], "ended early"),
    ("half a chunk", CHUNKED[:-30], ""),
    ("no HTTP", b"SSH-2.0\r\n\r\n", ""),
    ("a damaged body", answer(b"{}", crc=1), "damaged"),
    ("a checksum that is no number", answer(b"{}").replace(b"crc32: ", b"crc32: abc"), "damaged"),
    ("an absurd length", b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", "too long"),
    ("a length below zero", b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}", "too long"),
    ("a chunk below zero", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n{}", "too long"),
    (
        "a header without an end",
        b"HTTP/1.1 200 OK\r\nX: %s\r\nContent-Length: 2\r\n\r\n{}" % (b"x" * 65_536),
        "head of the answer is too long",
    ),
]


@pytest.mark.parametrize(("sent", "why"), [(sent, why) for _, sent, why in BROKEN], ids=[name for name, *_ in BROKEN])
def test_what_is_no_whole_answer_is_none_and_the_next_request_is_not_hurt(sent: bytes, why: str) -> None:
    with served((sent, True)) as (server, client):
        reply = client.call("Query", b"one")
        assert isinstance(reply, NoAnswer)
        assert why in reply.why
        assert client.call("Query", b"two") == b"two"
    assert server.seen.count(b"one") == 1, "it may have been done: to send it again is the caller's decision"


def test_an_answer_that_does_not_come_in_time_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lean, "READ_SECONDS", 0.2)
    with served((b"", False)) as (_, client):
        reply = client.call("Query", b"one")
        assert isinstance(reply, NoAnswer)
        assert "timed out" in reply.why


def test_nobody_there_is_no_answer() -> None:
    with served() as (server, client):
        server.close()
        server._listener.close()
        client._port = 1
        assert isinstance(client.call("Query", b"{}"), NoAnswer)


def test_no_credentials_are_no_answer() -> None:
    with served() as (server, _):
        client = LeanClient(server.endpoint, "us-east-1", Provider({}, lambda: NOW, lambda *_: b"").get)
        reply = client.call("Query", b"{}")
    assert isinstance(reply, NoAnswer)
    assert "AWS_ACCESS_KEY_ID" in reply.why


def test_a_refusal_is_told_by_code_message_and_body() -> None:
    with served((refusal("ValidationException"), False), (b"HTTP/1.1 502 x\r\nContent-Length: 2\r\n\r\n<>", False)) as (
        _,
        client,
    ):
        reply = client.call("Query", b"{}")
        assert isinstance(reply, RequestRefused)
        assert (reply.code, reply.message) == ("ValidationException", "why")
        bad = client.call("Query", b"{}")
        assert isinstance(bad, RequestRefused)
        assert bad.code == "HTTP 502"


def test_a_refusal_without_a_code_has_that_of_http() -> None:
    """A proxy may answer in JSON, too: such a read passes, as those of the service do."""
    with served((answer(b"{}", 503), False), (answer(b'{"message":"wait"}', 502), False)) as (_, client):
        replies = [client.call("Query", b"one"), client.call("Query", b"two")]
    assert replies == [RequestRefused("HTTP 503", "", b"{}"), RequestRefused("HTTP 502", "wait", b'{"message":"wait"}')]


def test_an_answer_is_wanted_as_it_is() -> None:
    """Nothing here expands a compressed body."""
    with served() as (server, client):
        client.call("Query", b"{}")
    assert "Accept-Encoding: identity" in server.heads[0].splitlines()


@pytest.mark.parametrize("hours", [-3, 5, 301 / 3_600, -301 / 3_600])
def test_a_clock_that_is_wrong_is_set_by_the_services_and_the_request_sent_again(hours: float) -> None:
    """DynamoDB refuses a signature that is more than five minutes old, or ahead."""
    wrong = NOW + timedelta(hours=hours)
    now = f"Date: {NOW:%a, %d %b %Y %H:%M:%S} GMT"
    with served((refusal("InvalidSignatureException", now), False), clock=lambda: wrong) as (server, client):
        assert client.call("Query", b"one") == b"one"
        assert client.call("Query", b"two") == b"two"
    lines = [line for head in server.heads for line in head.splitlines() if line.startswith("X-Amz-Date")]
    stamps = [datetime.strptime(line, "X-Amz-Date: %Y%m%dT%H%M%SZ").replace(tzinfo=UTC) for line in lines]
    far = [abs(stamp - NOW) > timedelta(minutes=5) for stamp in stamps]
    assert far == [True, False, False], "it stays set"


@pytest.mark.parametrize(
    "code", ["SignatureDoesNotMatch", "RequestExpired", "RequestTimeTooSkewed", "AuthFailure", "ValidationException"]
)
def test_every_code_of_a_wrong_clock_is_known(code: str) -> None:
    now = f"Date: {NOW:%a, %d %b %Y %H:%M:%S} GMT"
    with served((refusal(code, now), False), clock=lambda: NOW + timedelta(hours=1)) as (_, client):
        reply = client.call("Query", b"one")
    assert (reply == b"one") is (code != "ValidationException")


def test_a_clock_is_set_before_it_is_wrong_by_the_five_minutes_that_the_service_accepts() -> None:
    """The answer took some time to come, so the difference that is measured is not exact."""
    now = f"Date: {NOW:%a, %d %b %Y} 12:04:01 GMT"
    with served((refusal("RequestExpired", now), False)) as (_, client):
        assert client.call("Query", b"one") == b"one"


@pytest.mark.parametrize(
    "header",
    [
        (),
        ("Date: yesterday",),
        (f"Date: {NOW:%a, %d %b %Y} 12:04:00 GMT",),
        # Without a zone no time is meant for certain.
        (f"Date: {NOW:%a, %d %b %Y} 17:00:00",),
        (f"Date: {NOW:%a, %d %b %Y} 17:00:00 -0000",),
    ],
)
def test_a_refusal_that_says_no_other_time_is_passed_on(header: tuple[str, ...]) -> None:
    """The service accepts five minutes: a difference of less is no reason of a refusal."""
    with served((refusal("InvalidSignatureException", *header), False)) as (server, client):
        reply = client.call("Query", b"one")
    assert isinstance(reply, RequestRefused)
    assert (reply.code, len(server.seen)) == ("InvalidSignatureException", 1)


def test_a_clock_that_is_right_again_is_set_back() -> None:
    """A frozen function's clock is hours late for a moment; what was added for that must go when it is right."""
    clock = [NOW - timedelta(hours=3)]
    now = f"Date: {NOW:%a, %d %b %Y %H:%M:%S} GMT"
    refused = (refusal("InvalidSignatureException", now), False)
    with served(refused, (answer(b"1"), False), refused, clock=lambda: clock[0]) as (_, client):
        assert client.call("Query", b"one") == b"1"
        clock[0] = NOW
        assert client.call("Query", b"two") == b"two"


def test_a_clock_that_was_set_is_no_reason_of_a_later_refusal() -> None:
    now = f"Date: {NOW:%a, %d %b %Y %H:%M:%S} GMT"
    refused = (refusal("InvalidSignatureException", now), False)
    with served(refused, (answer(b"1"), False), refused, clock=lambda: NOW - timedelta(hours=3)) as (server, client):
        assert client.call("Query", b"one") == b"1"
        assert isinstance(client.call("Query", b"two"), RequestRefused)
    assert server.seen == [b"one", b"one", b"two"]


def test_a_request_is_signed_for_its_host_and_region() -> None:
    with served() as (server, client):
        client.call("Query", b"{}")
    (head,) = server.heads
    assert f"Host: {server.endpoint.removeprefix('http://')}" in head.splitlines()
    assert f"/{NOW:%Y%m%d}/us-east-1/dynamodb/aws4_request, SignedHeaders=" in head


def test_a_signature_that_is_wrong_for_another_reason_is_refused_once() -> None:
    now = f"Date: {NOW:%a, %d %b %Y %H:%M:%S} GMT"
    with served((refusal("InvalidSignatureException", now), False)) as (server, client):
        assert isinstance(client.call("Query", b"one"), RequestRefused)
    assert len(server.seen) == 1


def test_a_clock_that_stays_wrong_is_a_refusal() -> None:
    """The service may name another time with each refusal: the request is sent twice, and not for ever."""
    hours = [f"Date: {NOW + timedelta(hours=hour):%a, %d %b %Y %H:%M:%S} GMT" for hour in (1, 5, 9)]
    steps = [(refusal("RequestTimeTooSkewed", hour), False) for hour in hours]
    with served(*steps) as (server, client):
        assert isinstance(client.call("Query", b"one"), RequestRefused)
    assert server.seen == [b"one", b"one"]


def test_the_beginning_of_an_answer_shows_that_the_request_was_seen() -> None:
    """It may be done: whoever repeats a write must decide that."""
    with served((answer(), False), (b"HTTP/1.1 200 OK\r\nContent-Le", True)) as (server, client):
        assert client.call("PutItem", b"one") == b"{}"
        assert isinstance(client.call("PutItem", b"two"), NoAnswer)
    assert server.seen == [b"one", b"two"]


def test_a_message_may_have_a_capital_and_a_page_of_a_proxy_is_cut() -> None:
    capital = answer(b'{"__type":"x#AccessDeniedException","Message":"not you"}', 400)
    with served((capital, False), (answer(b"<" + b"h" * 5_000, 503), False)) as (_, client):
        denied, page = client.call("Query", b"{}"), client.call("Query", b"{}")
    assert isinstance(denied, RequestRefused)
    assert (denied.code, denied.message) == ("AccessDeniedException", "not you")
    assert isinstance(page, RequestRefused)
    assert (page.code, len(page.message)) == ("HTTP 503", 200)


def test_an_answer_has_at_most_64_million_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """BatchGetItem answers 16 MB of items, which take up to four times as much as JSON; in chunks, too."""
    assert connection._LONGEST_BODY == 64_000_000
    monkeypatch.setattr(connection, "_LONGEST_BODY", 4)
    fitting_chunks = CHUNKED.replace(b"2\r\nde", b"1\r\nd")
    steps = [CHUNKED, answer(b"12345"), answer(b"1234"), fitting_chunks]
    with served(*((sent, False) for sent in steps)) as (_, client):
        chunked, long, fitting, fitting_chunked = (client.call("Query", b"{}") for _ in steps)
    assert [isinstance(reply, NoAnswer) and reply.why for reply in (chunked, long)] == ["the answer is too long"] * 2
    assert (fitting, fitting_chunked) == (b"1234", b"abcd")


@pytest.mark.parametrize(
    "error", [TypeError("x"), KeyError("x"), IndexError("x"), ValueError("x"), OverflowError("x"), RecursionError("x")]
)
def test_whatever_fails_while_an_answer_is_decoded_there_is_none(error: Exception) -> None:
    """A proxy's page, or half an item: the request is read again, and the caller's other requests are kept."""

    def decode(_: bytes) -> None:
        raise error

    with served() as (_, client):
        replies = client.call_all([ServiceRequest("Query", b"one", decode), ServiceRequest("Query", b"two")])
    assert isinstance(replies[0], NoAnswer)
    assert replies[1] == b"two"


def test_an_answer_whose_body_cannot_be_read_is_none_and_the_others_are_kept() -> None:
    decode = msgspec.json.Decoder(dict[str, int]).decode
    with served((answer(b'{"n":1'), False), (answer(b'{"n":"x"}'), False), (answer(b'{"n":3}'), False)) as (_, client):
        replies = [client.call_all([ServiceRequest("Query", b"{}", decode)])[0] for _ in range(3)]
    assert [isinstance(reply, NoAnswer) for reply in replies] == [True, True, False]
    assert replies[2] == {"n": 3}
    assert "cannot be read" in replies[0].why
