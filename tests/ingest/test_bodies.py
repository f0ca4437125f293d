"""Bodies: every form, and everything that is refused whole."""

import gzip
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidetable.ingest.bodies import Sent, Unreadable, decode_body
from tidetable.problems import ProblemError

E = b'{"series": "a"}'
FORMS = [
    ("one event", "application/json", E, 1),
    ("an array", "application/json", b"[" + E + b"," + E + b"]", 2),
    ("an object with events", "application/json; charset=utf-8", b'{"events": [' + E + b"]}", 1),
    ("NDJSON", "application/x-ndjson", E + b"\n" + E + b"\n", 2),
    ("NDJSON with blank lines and CRLF", "application/x-ndjson", b"\n" + E + b"\r\n\n" + E, 2),
    ("JSON without a type", "", E, 1),
    ("NDJSON that only says it is bytes", "application/octet-stream", E + b"\n" + E, 2),
]


def decode(body: bytes, content_type: str = "application/json") -> list[object]:
    """What a body holds, those that were recognised as events as they were sent."""
    found = decode_body(body, content_type, max_body=1000, max_events=10)
    return [plain(one) if isinstance(one, Sent) else one for one in found]


def plain(sent: Sent) -> dict[str, object]:
    values = {"series": sent.series, "time": sent.time, "id": sent.id, "data": sent.data}
    return {name: value for name, value in values.items() if value not in (None, {})}


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize(("name", "content_type", "body", "count"), FORMS)
def test_every_form_gives_its_events_plain_and_gzipped(
    name: str, content_type: str, body: bytes, count: int, zipped: bool
) -> None:
    assert decode(gzip.compress(body) if zipped else body, content_type) == [{"series": "a"}] * count


def test_a_gzip_file_of_several_members_is_read_to_its_end() -> None:
    body = gzip.compress(E + b"\n") + gzip.compress(E)
    assert len(decode(body, "application/x-ndjson")) == 2


REFUSED = [
    ("no JSON", b'{"series": ', "application/json", 400, "unparseable"),
    ("an empty body", b"", "application/json", 400, "unparseable"),
    ("only white space", b" \n ", "application/x-ndjson", 400, "unparseable"),
    ("an empty array", b"[]", "application/json", 400, "unparseable"),
    ("a bare number", b"17", "application/json", 400, "unparseable"),
    ("events that is no array", b'{"events": 3}', "application/json", 400, "unparseable"),
    ("events among other fields", b'{"events": [], "series": "a"}', "application/json", 400, "unparseable"),
    ("NaN", b'{"series": NaN}', "application/json", 400, "unparseable"),
    ("bytes that are no UTF-8", b'{"series": "\xff"}', "application/json", 400, "unparseable"),
    ("ten thousand nested arrays", b"[" * 400 + b"]" * 400 + b"x", "application/json", 400, "unparseable"),
    ("damaged gzip", b"\x1f\x8b" + b"x" * 20, "application/json", 400, "unparseable"),
    ("gzip cut short", gzip.compress(E * 9, mtime=0)[:-9], "application/json", 400, "unparseable"),
    ("a form", b"series=a", "application/x-www-form-urlencoded", 415, "unsupported_media_type"),
    ("too many bytes", b'"' + b"x" * 1000 + b'"', "application/json", 413, "too_large"),
    ("too many events", b"[" + b",".join([E] * 11) + b"]", "application/json", 413, "too_many_events"),
    ("too many events in a batch", b'{"events": [' + b",".join([E] * 11) + b"]}", "application/json", 413, "too_many_events"),
    ("too many lines", b"\n".join([E] * 11), "application/x-ndjson", 413, "too_many_events"),
    ("too many values that are no events", b"[" + b",".join([b"7"] * 11) + b"]", "application/json", 413, "too_many_events"),
    ("too many bad lines", b"x\n" * 11, "application/x-ndjson", 413, "too_many_events"),
    ("too many and half a surrogate pair", b'["\\ud800"' + b",7" * 11 + b"]", "", 413, "too_many_events"),
    ("an array and more", b'["\\ud800"]7', "application/json", 400, "unparseable"),
    ("an array without a comma", b'["\\ud800" 7]', "application/json", 400, "unparseable"),
    ("an array with a comma too many", b'["\\ud800",]', "application/json", 400, "unparseable"),
    ("an array that does not end", b'["\\ud800", 7', "application/json", 400, "unparseable"),
    ("a batch that repeats events", b'{"events": [7], "events": [8]}', "application/json", 400, "unparseable"),
    ("a small bomb", gzip.compress(b" " * 1_000_000, mtime=0), "application/json", 413, "too_large"),
]


@pytest.mark.parametrize(("name", "body", "content_type", "status", "code"), REFUSED)
def test_what_is_refused_whole_says_why(name: str, body: bytes, content_type: str, status: int, code: str) -> None:
    with pytest.raises(ProblemError) as caught:
        decode(body, content_type)
    assert (caught.value.problem.status, caught.value.problem.code) == (status, code)


def test_nesting_beyond_the_decoders_own_limit_is_unparseable_not_a_crash() -> None:
    with pytest.raises(ProblemError, match="unparseable"):
        decode_body(b"[" * 100_000, "application/json", max_body=1_000_000, max_events=10)


def test_a_broken_line_of_ndjson_costs_only_itself() -> None:
    first, broken, last = decode(E + b"\n{oops\n" + E, "application/x-ndjson")
    assert first == last == {"series": "a"}
    assert isinstance(broken, Unreadable)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=10))
def test_numbers_keep_every_digit(number: Decimal) -> None:
    body = msgspec.json.Encoder(decimal_format="number").encode({"data": number})
    assert decode(body) == [{"data": number}]


@given(st.binary(max_size=200), st.sampled_from(["application/json", "application/x-ndjson", "application/gzip", ""]))
def test_any_bytes_are_decoded_or_refused_with_a_problem(body: bytes, content_type: str) -> None:
    try:
        outcome = bool(decode(body, content_type))
    except ProblemError as error:
        outcome = error.problem.status in (400, 413)
    assert outcome
