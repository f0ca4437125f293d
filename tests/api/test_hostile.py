"""Hostile requests through the real handlers: each gets an answer with the reason, and none of its text reaches the logs."""

import gzip
import io
import json
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.gateway import Context, Gateway, gateway
from tidetable.errors import ArchiveBusy, ArchiveFailed, Outage, StoreUnavailable

SECRET = "tell-nobody-4711"
DEEP = b'{"series": "tell-nobody-4711", "data": {"a": ' + b"[" * 10_000 + b"]" * 10_000 + b"}}"


def of(data: str, **more: Any) -> bytes:
    """An event with data as raw JSON text."""
    head = json.dumps({"series": SECRET, **more})[:-1]
    return f'{head}, "data": {data}}}'.encode()


def make_bomb() -> bytes:
    packer = zlib.compressobj(1, wbits=31)
    return b"".join([*(packer.compress(b" " * 1_000_000) for _ in range(200)), packer.flush()])


BOMB = make_bomb()
BODIES: list[tuple[str, bytes, int]] = [
    ("empty", b"", 400),
    ("four megabytes of white space", b" " * 3_900_000, 400),
    ("two hundred megabytes as a gzip bomb", BOMB, 413),
    ("a bomb in a bomb", gzip.compress(BOMB), 400),
    ("ten thousand nested arrays", DEEP, 400),
    ("thirty-three levels", of('{"a":' * 33 + "1" + "}" * 33), 422),
    ("NaN", of('{"n": NaN}'), 400),
    ("Infinity", of('{"n": -Infinity}'), 400),
    ("a number beyond DynamoDB's", of('{"n": 1e126}'), 422),
    ("a number of a million digits", of('{"n": ' + "7" * 1_000_000 + "}"), 422),
    ("an exponent of a million digits", of('{"n": 1e' + "9" * 1_000_000 + "}"), 422),
    ("thirty-nine digits", of('{"n": ' + "1" * 39 + "}"), 422),
    ("a lone surrogate", of('{"n": "\\ud800"}'), 422),
    ("a name that is no text", b'{"series": {"tell-nobody-4711": 1}}', 422),
    ("a series of a megabyte", json.dumps({"series": SECRET * 70_000}).encode(), 422),
    ("an empty field name", of('{"": 1}'), 422),
    ("an unknown field", b'{"series": "tell-nobody-4711", "tell-nobody-4711": 1}', 422),
    ("a time in the year 10000", of("{}", time="10000-01-01T00:00:00Z"), 422),
    ("ten thousand events", b"[" + b",".join([b'{"series":"a"}'] * 10_000) + b"]", 413),
    ("UTF-16", '{"series": "tell-nobody-4711"}'.encode("utf-16"), 400),
    ("bytes of nothing", bytes(range(256)) * 100, 400),
]
TAKEN: list[tuple[str, bytes, Any]] = [
    ("thirty-eight digits", of('{"n": ' + "1" * 38 + "}"), {"n": int("1" * 38)}),
    ("a name given twice: the last counts", of('{"n": 1, "n": 2}'), {"n": 2}),
    ("characters that queues refuse", of('{"n": "\\uffff\\ufffe\\u0000"}'), {"n": "\uffff\ufffe\x00"}),
    ("minus nothing", of('{"n": -0.0}'), {"n": 0}),
    (
        "a field that is called like ours",
        of('{"pk": 1, "z": "x", "out": {"o": 1}}'),
        {"pk": 1, "z": "x", "out": {"o": 1}},
    ),
]


@pytest.fixture(scope="module")
def app() -> Iterator[Gateway]:
    yield from gateway()


def post(app: Gateway, body: bytes, kind: str = "application/json", path: str = "/v1/streams/quakes/events") -> Any:
    """Status, headers and document of an answer."""
    log: list[Any] = []
    environ = {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": path,
        "CONTENT_TYPE": kind,
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": io.BytesIO(body),
    }
    document = json.loads(b"".join(app(environ, lambda status, headers: log.append((int(status[:3]), dict(headers))))))
    return (*log[0], document)


def logged(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> str:
    """Everything that was logged: messages with their fields, and the printed output."""
    printed = capfd.readouterr()
    records = " ".join(str(vars(record)) for record in caplog.records)
    return caplog.text + records + printed.out + printed.err


@pytest.mark.parametrize(("name", "body", "status"), BODIES, ids=[name for name, *_ in BODIES])
def test_a_hostile_body_is_refused_with_a_reason_and_leaves_no_trace(
    app: Gateway,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    name: str,
    body: bytes,
    status: int,
) -> None:
    found, headers, document = post(app, body)
    assert found == status, document
    assert headers["Content-Type"] == "application/problem+json"
    assert document["code"]
    assert document["detail"]
    assert len(json.dumps(document)) < 2_000, "an error does not give back what it refused"
    assert SECRET not in logged(caplog, capfd)


@pytest.mark.parametrize(("name", "body", "data"), TAKEN, ids=[name for name, *_ in TAKEN])
def test_what_is_unusual_and_right_comes_back_as_it_was_sent(app: Gateway, name: str, body: bytes, data: Any) -> None:
    status, _, document = post(app, body)
    assert (status, document["rejected"]) == (200, 0)
    log: list[Any] = []
    environ = {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": f"/v1/streams/quakes/events/{document['refs'][0]}",
        "wsgi.input": io.BytesIO(),
    }
    body = b"".join(app(environ, lambda status, _: log.append(status)))
    assert log[0].startswith("200")
    assert json.loads(body)["data"] == data


def test_a_failure_inside_tells_neither_the_caller_nor_the_log_what_was_sent(
    app: Gateway, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("inside")

    monkeypatch.setattr(app.stage.store, "write", broken)
    status, headers, document = post(app, of('{"n": 1}'))
    assert (status, headers["Retry-After"], document["code"]) == (503, "5", "unavailable")
    assert "inside" not in json.dumps(document)
    text = logged(caplog, capfd)
    assert "RuntimeError: inside" in text
    assert SECRET not in text


@pytest.mark.parametrize("path", ["events", "top", "aggregate", "latest", "periods", "series", "fields"])
@pytest.mark.parametrize(
    "parameters",
    [
        {"where.\ud800": ["1"]},
        {"where.\ud800": ["1", "2"]},
        {"where.a": ["\udfff"]},
        {"series": ["\ud800"]},
        {"\ud800": ["x"]},
        {"cursor": ["\ud800"]},
        {"format": ["\ud800"]},
    ],
)
def test_half_of_a_surrogate_pair_in_a_query_is_refused(
    app: Gateway, path: str, parameters: dict[str, list[str]]
) -> None:
    """A Lambda event that was made by hand may contain it."""
    answer = called(path, parameters)
    document = json.loads(answer["body"])
    if path == "periods":
        assert answer["statusCode"] in (200, 400)
    else:
        assert (answer["statusCode"], document["code"]) == (400, "bad_parameter"), document
        assert "surrogate" in document["detail"]


@pytest.mark.parametrize("event", [{}, {"httpMethod": "GET"}, {"httpMethod": "GET", "path": None}])
def test_a_request_that_is_none_is_answered_all_the_same(app: Gateway, event: dict[str, Any]) -> None:
    from handlers import query

    context: Any = Context()
    answer = query.handler(event, context)
    assert answer["statusCode"] in (404, 503)
    assert json.loads(answer["body"])["code"] in ("not_found", "unavailable")


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (
            StoreUnavailable(Outage.THROTTLED, "table x", "ProvisionedThroughputExceededException"),
            "throttled the reads",
        ),
        (StoreUnavailable(Outage.THROTTLED, "5 items of table x could not be read"), "throttled the reads"),
        (StoreUnavailable(Outage.NO_ANSWER, "timed out at 10.0.0.1"), "DynamoDB did not answer in time"),
        (StoreUnavailable(Outage.NO_SECRET, "table x"), "the stage is new"),
        (ArchiveBusy("the function x is at work"), "archived period of the range did not answer in time"),
        (ArchiveFailed("the bucket x is gone"), "archived period of the range could not be read"),
        (RuntimeError("x"), "the query could not be answered now; ask again"),
    ],
)
def test_a_503_says_what_gave_no_answer_and_nothing_of_the_inside(
    app: Gateway, monkeypatch: pytest.MonkeyPatch, error: Exception, detail: str
) -> None:
    from handlers import query

    def failing(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setitem(query.ROUTES, "/v1/streams/{stream}/events", failing)
    answer = called("events", {})
    document = json.loads(answer["body"])
    assert (answer["statusCode"], document["code"]) == (503, "unavailable")
    assert detail in document["detail"]
    assert not {"x", "10.0.0.1"} & set(document["detail"].split())


def called(path: str, parameters: dict[str, list[str]]) -> Any:
    """The query function's answer to a Lambda event."""
    from handlers import query

    resource, path = f"/v1/streams/{{stream}}/{path}", f"/v1/streams/quakes/{path}"
    event = {
        "httpMethod": "GET",
        "path": path,
        "resource": resource,
        "headers": {},
        "multiValueHeaders": {},
        "pathParameters": {"stream": "quakes"},
        "queryStringParameters": None,
        "multiValueQueryStringParameters": parameters or None,
        "requestContext": {"requestId": "test", "stage": "v1", "path": path, "httpMethod": "GET"},
        "body": None,
        "isBase64Encoded": False,
    }
    context: Any = Context()
    return query.handler(event, context)
