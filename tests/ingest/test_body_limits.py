"""Bodies at their limits: each content type that is understood, and as many bytes and values as a request may have."""

import gzip
import tracemalloc

import pytest

from tidetable.ingest.bodies import Body, decode_body, read_body
from tidetable.ingest.unreadable import Unreadable
from tidetable.problems import ProblemError

LINES = b'{"series": "a"}\n{"series": "b"}'
ARRAY = b'[{"series": "a"}, {"series": "b"}]'
OPAQUE = ["", "application/gzip", "application/x-gzip", "application/octet-stream"]


def find_series(body: bytes, content_type: str) -> list[str]:
    return [sent.series for sent in decode_body(read_body(body, content_type, max_body=1000), max_events=10)]


@pytest.mark.parametrize(
    "content_type",
    ["application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines", *OPAQUE],
)
def test_lines_are_read_by_every_type_that_may_have_lines(content_type: str) -> None:
    assert find_series(LINES, content_type) == ["a", "b"]


@pytest.mark.parametrize("content_type", ["application/json", "text/json", *OPAQUE])
def test_an_array_is_read_by_every_type_that_may_have_json(content_type: str) -> None:
    assert find_series(ARRAY, content_type) == ["a", "b"]


@pytest.mark.parametrize("content_type", ["application/json", "text/json"])
def test_json_has_no_lines(content_type: str) -> None:
    with pytest.raises(ProblemError, match="the body is not JSON"):
        find_series(LINES, content_type)


@pytest.mark.parametrize(
    "content_type", ["Application/JSON", " application/json ; charset=utf-8", "APPLICATION/JSON;x"]
)
def test_a_type_may_have_capitals_and_parameters(content_type: str) -> None:
    """RFC 9110, section 8.3.1: the type is case-insensitive."""
    assert read_body(ARRAY, content_type, max_body=1000) == Body(ARRAY, "application/json")


def test_a_type_that_is_not_understood_is_cut_in_the_error() -> None:
    with pytest.raises(ProblemError, match=f"Content-Type '{'x' * 64}' is not understood"):
        read_body(ARRAY, "x" * 1000, max_body=1000)


@pytest.mark.parametrize("zipped", [False, True])
def test_a_body_may_have_as_many_bytes_as_the_limit_says(zipped: bool) -> None:
    body = gzip.compress(ARRAY, mtime=0) if zipped else ARRAY
    assert read_body(body, "application/json", max_body=len(ARRAY)).text == ARRAY
    with pytest.raises(ProblemError, match=f"413 too_large: the body exceeds {len(ARRAY) - 1} bytes"):
        read_body(body, "application/json", max_body=len(ARRAY) - 1)


MANY = {
    "events": (b"[" + b",".join([b'{"series":"a"}'] * 10) + b"]", "application/json"),
    "values that are no events": (b"[" + b",".join([b"7"] * 10) + b"]", "application/json"),
    "half of a surrogate pair among them": (b'["\\ud800"' + b",7" * 9 + b"]", "application/json"),
    "lines": (b"\n".join([b'{"series":"a"}'] * 10), "application/x-ndjson"),
    "bad lines": (b"\n".join([b"x"] * 10), "application/x-ndjson"),
}


@pytest.mark.parametrize(("body", "content_type"), MANY.values(), ids=MANY.keys())
def test_a_request_may_have_as_many_values_as_the_limit_says(body: bytes, content_type: str) -> None:
    read = read_body(body, content_type, max_body=1000)
    assert len(decode_body(read, max_events=10)) == 10
    with pytest.raises(ProblemError, match="413 too_many_events: more than 9 events in one request: send at most 9"):
        decode_body(read, max_events=9)


@pytest.mark.parametrize(
    ("between", "kind"), [(b",", "application/json"), (b"\n", "application/x-ndjson")], ids=["array", "lines"]
)
def test_too_many_events_of_a_long_body_do_not_fill_the_memory(between: bytes, kind: str) -> None:
    """200,000 events of 14 bytes would take 30 MB when they are decoded."""
    body = between.join([b'{"series":"a"}'] * 200_000)
    read = read_body(body if between == b"\n" else b"[" + body + b"]", kind, max_body=10**7)
    tracemalloc.start()
    try:
        with pytest.raises(ProblemError, match="413 too_many_events"):
            decode_body(read, max_events=1000)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_an_element_that_cannot_be_read_stands_where_it_was_sent() -> None:
    values = decode_body(read_body(b'[7, "\\ud800" , {"a":[1]}]', "application/json", max_body=1000), max_events=10)
    assert [value for value in values if not isinstance(value, Unreadable)] == [7, {"a": [1]}]
    assert isinstance(values[1], Unreadable)


EVENT = b'{"series": "a"}'


@pytest.mark.parametrize(
    "body",
    [
        b" \r\n\t[" + EVENT + b"] \n",
        b"\n " + EVENT + b"\t\n",
        b'\t{ "events" :\n[' + EVENT + b"] } \r\n",
    ],
)
def test_json_may_have_spaces_around_it(body: bytes) -> None:
    assert find_series(body, "application/json") == ["a"]


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b" \n ", "the body is empty"),
        (b'{"events": [' + EVENT + b"]]", "the body is not JSON"),
        (b'{"events": [], "series": "a"}', '"events" must be an array and the only field of the body'),
        (b'{"events": {"series": "a"}}', '"events" must be an array and the only field of the body'),
        (b"17", "the body must be an event, an array of events or an object with events"),
        (b"[]", "the body holds no event"),
    ],
)
@pytest.mark.parametrize("content_type", ["application/json", ""])
def test_a_body_that_is_no_batch_says_why(body: bytes, detail: str, content_type: str) -> None:
    with pytest.raises(ProblemError, match=f"400 unparseable: {detail}"):
        find_series(body, content_type)


DEEP = b'{"series": "a", "data": {"v": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}"


@pytest.mark.parametrize(
    "body", [DEEP, b"[" + DEEP + b"]", b'{"events": [' + DEEP + b"]}"], ids=["event", "array", "batch"]
)
def test_an_event_that_is_nested_too_deeply_is_no_failure(body: bytes) -> None:
    with pytest.raises(ProblemError, match="400 unparseable"):
        decode_body(read_body(body, "application/json", max_body=10**6), max_events=10)


def test_a_line_that_is_nested_too_deeply_costs_only_itself() -> None:
    read = read_body(EVENT + b"\n" + DEEP + b"\n" + EVENT, "application/x-ndjson", max_body=10**6)
    assert [isinstance(value, Unreadable) for value in decode_body(read, max_events=10)] == [False, True, False]
