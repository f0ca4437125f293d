"""Bodies: every form, and everything that is refused whole."""

import gzip
import tracemalloc
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidetable.batch import decode_data
from tidetable.exact_json import decode_json
from tidetable.ingest.bodies import Sent, decode_body, read_body
from tidetable.ingest.unreadable import Unreadable
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
    """The values of a body; recognised events as they were sent."""
    events = decode_body(read_body(body, content_type, max_body=1000), max_events=10)
    return [plain(event) if isinstance(event, Sent) else event for event in events]


def plain(sent: Sent) -> dict[str, object]:
    values = {"series": sent.series, "time": sent.time, "id": sent.id, "data": decode_data(sent.data)}
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


def test_a_thousand_members_are_read_and_more_are_refused_without_a_look() -> None:
    """200,000 empty members are 4 MB. To copy the rest of the body after each member would copy 400 GB."""
    event = gzip.compress(E + b"\n", mtime=0)
    empty = gzip.compress(b"", mtime=0)
    assert decode(event + empty * 998 + event, "application/x-ndjson") == [{"series": "a"}] * 2
    with pytest.raises(ProblemError, match="more than 1000 members"):
        decode(event + empty * 199_999, "application/x-ndjson")


@pytest.mark.parametrize("size", [*range(65_510, 65_540), 131_072, 200_000])
def test_a_gzip_file_is_read_whole_wherever_its_pieces_end(size: int) -> None:
    """The members are stored without compression, so that their ends fall around the end of a piece."""
    text = b'{"series": "' + b"x" * size + b'"}\n'
    member = gzip.compress(text, compresslevel=0, mtime=0)
    events = decode_body(read_body(member + member, "application/x-ndjson", max_body=10**6), max_events=10)
    assert [len(event.series) for event in events] == [size, size]
    with pytest.raises(ProblemError, match="cut short"):
        decode_body(read_body((member + member)[:-1], "application/x-ndjson", max_body=10**6), max_events=10)


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
    (
        "too many events in a batch",
        b'{"events": [' + b",".join([E] * 11) + b"]}",
        "application/json",
        413,
        "too_many_events",
    ),
    ("too many lines", b"\n".join([E] * 11), "application/x-ndjson", 413, "too_many_events"),
    (
        "too many values that are no events",
        b"[" + b",".join([b"7"] * 11) + b"]",
        "application/json",
        413,
        "too_many_events",
    ),
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
        decode_body(read_body(b"[" * 100_000, "application/json", max_body=1_000_000), max_events=10)


def test_a_broken_line_of_ndjson_costs_only_itself() -> None:
    first, broken, last = decode(E + b"\n{oops\n" + E, "application/x-ndjson")
    assert first == last == {"series": "a"}
    assert isinstance(broken, Unreadable)


@settings(deadline=None)
@given(st.decimals(allow_nan=False, allow_infinity=False, places=10))
def test_numbers_keep_every_digit(number: Decimal) -> None:
    body = msgspec.json.Encoder(decimal_format="number").encode({"data": number})
    assert decode(body) == [{"data": number}]


@settings(deadline=None)
@given(st.binary(max_size=200), st.sampled_from(["application/json", "application/x-ndjson", "application/gzip", ""]))
def test_any_bytes_are_decoded_or_refused_with_a_problem(body: bytes, content_type: str) -> None:
    try:
        outcome = bool(decode(body, content_type))
    except ProblemError as error:
        outcome = error.problem.status in (400, 413)
    assert outcome


BOM = b"\xef\xbb\xbf"


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize(("name", "content_type", "body", "count"), FORMS)
def test_a_byte_order_mark_in_front_is_skipped(
    name: str, content_type: str, body: bytes, count: int, zipped: bool
) -> None:
    body = BOM + body
    assert decode(gzip.compress(body) if zipped else body, content_type) == [{"series": "a"}] * count


def test_a_byte_order_mark_alone_is_an_empty_body() -> None:
    with pytest.raises(ProblemError, match="the body is empty"):
        decode(BOM)


HALF = b'{"series": "b", "data": {"s": "\\ud83d"}}'
OTHER_HALF = b'{"series": "b", "data": {"\\uDE00": 1}}'
BOTH = b'{"series": "b", "data": {"s": "\\ud83d\\ude00"}}'
WITH_HALF = [
    ("an array", "application/json", b"[" + E + b"," + HALF + b" , " + E + b" ] "),
    ("a name", "application/json", b"[" + E + b"," + OTHER_HALF + b"," + E + b"]"),
    ("a batch", "application/json", b'{"events": [' + E + b"," + HALF + b"," + E + b"]}"),
    ("NDJSON", "application/x-ndjson", E + b"\n" + HALF + b"\n" + E),
    ("an array of no type", "", b"[" + E + b",\n" + HALF + b",\n" + E + b"]"),
]


@pytest.mark.parametrize(("name", "content_type", "body"), WITH_HALF, ids=[name for name, *_ in WITH_HALF])
def test_half_a_surrogate_pair_costs_only_its_event_and_is_named(name: str, content_type: str, body: bytes) -> None:
    first, bad, last = decode(body, content_type)
    assert first == last == {"series": "a"}
    assert isinstance(bad, Unreadable)
    named = "ude00" if name == "a name" else "ud83d"
    assert bad.reason == f"\\{named} is half of a surrogate pair, which is not a character: send both halves"


def test_a_whole_pair_is_a_character_and_one_event_with_half_a_pair_has_a_verdict() -> None:
    assert decode(b"[" + BOTH + b"]") == [{"series": "b", "data": {"s": "\U0001f600"}}]
    (bad,) = decode(HALF)
    assert isinstance(bad, Unreadable)
    assert "half of a surrogate pair" in bad.reason


TWICE = b'{"series": "x", "data": {"n": 1, "n": 2}, "series": "a"}'


@pytest.mark.parametrize("body", [TWICE, b"[" + TWICE + b"]", b"[" + TWICE + b",7]"])
@pytest.mark.parametrize("content_type", ["application/json", "application/x-ndjson"])
def test_of_a_name_that_is_repeated_the_last_counts(body: bytes, content_type: str) -> None:
    if content_type == "application/x-ndjson":
        body = TWICE + b"\n7" if b"7" in body else TWICE
    assert decode(body, content_type)[0] == {"series": "a", "data": {"n": 2}}


LINES = [
    ("two values on a line", E + E + b"\n" + E, [False, True]),
    ("two values and a space", E + b" " + E, [False]),
    ("a value on two lines", b'{"series":\n"a"}\n' + E, [False, False, True]),
]


@pytest.mark.parametrize(("name", "body", "good"), LINES, ids=[name for name, *_ in LINES])
def test_a_line_of_ndjson_is_one_value(name: str, body: bytes, good: list[bool]) -> None:
    assert [not isinstance(event, Unreadable) for event in decode(body, "application/x-ndjson")] == good


NDJSON, JSON, BYTES = "application/x-ndjson", "application/json", "application/octet-stream"
FOUR_MB = 4_000_000
# A decoded value takes 50 bytes and more: 25 times the body.
CROWDS = [
    ("bad lines", NDJSON, b"x\n"),
    ("bad lines of bytes", BYTES, b"x\n"),
    ("open brackets", NDJSON, b"[\n"),
    ("open brackets of bytes", BYTES, b"[\n"),
    ("empty objects", NDJSON, b"{}\n"),
    ("empty objects of bytes", BYTES, b"{}\n"),
    ("good lines", NDJSON, b'{"series":"a"}\n'),
    ("lines that end the old way", NDJSON, b"x\r"),
    ("an array of empty objects", JSON, b"{},"),
    ("an array of empty arrays", JSON, b"[],"),
    ("an array of numbers", JSON, b"7,"),
    ("an array of texts", JSON, b'"series",'),
    ("an array of good events", JSON, b'{"series":"a"},'),
    ("a batch", JSON, b"{},"),
    ("an array with half a surrogate pair", JSON, b"{},"),
]


def crowd(name: str, kind: str, one: bytes) -> bytes:
    many = one * (FOUR_MB // len(one) - 10)
    if kind != JSON:
        return many
    first = b'["\\ud800",' if "half" in name else b"["
    return (b'{"events":' if name == "a batch" else b"") + first + many[:-1] + b"]" + b"}" * (name == "a batch")


@pytest.mark.parametrize(("name", "kind", "one"), CROWDS, ids=[name for name, *_ in CROWDS])
def test_a_body_of_too_many_values_is_refused_before_they_are_decoded(
    name: str, kind: str, one: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[Any] = []

    def counting(text: bytes | str) -> Any:
        decoded.append(None)
        return decode_json(text)

    for module in ("bodies", "unreadable"):
        monkeypatch.setattr(f"tidetable.ingest.{module}.decode_json", counting)
    body = crowd(name, kind, one)
    tracemalloc.start()
    try:
        with pytest.raises(ProblemError) as caught:
            decode_body(read_body(body, kind, max_body=FOUR_MB), max_events=1000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (caught.value.problem.status, caught.value.problem.code) == (413, "too_many_events")
    assert "at most 1000" in caught.value.problem.detail
    assert len(decoded) <= 1001
    assert peak < 3 * FOUR_MB, f"{peak:,} bytes"


def outcome_of(body: bytes, kind: str) -> str | list[bool]:
    """The code of a refusal, or which values are unreadable."""
    try:
        values = decode_body(read_body(body, kind, max_body=FOUR_MB), max_events=1000)
    except ProblemError as error:
        return error.problem.code
    return [isinstance(event, Unreadable) for event in values]


@pytest.mark.parametrize("body", [b"[" * FOUR_MB, b'{"a":' * (FOUR_MB // 5), b'{"series":"a"}' * (FOUR_MB // 14)])
@pytest.mark.parametrize("kind", [NDJSON, JSON])
def test_four_megabytes_that_are_one_bad_value_take_no_more_than_their_own_size_again(body: bytes, kind: str) -> None:
    tracemalloc.start()
    try:
        outcome = outcome_of(body, kind)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert outcome in ("unparseable", [True])
    assert peak < 5 * FOUR_MB, f"{peak:,} bytes"


def test_a_bomb_is_given_up_at_the_limit_and_not_unpacked_whole() -> None:
    body = gzip.compress(b" " * 20_000_000, mtime=0)
    tracemalloc.start()
    try:
        with pytest.raises(ProblemError) as caught:
            decode_body(read_body(body, JSON, max_body=100_000), max_events=10)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert caught.value.problem.code == "too_large"
    assert peak < 1_000_000, f"{peak:,} bytes"


def test_series_inside_data_are_no_events() -> None:
    """Only events are counted; a body that may have too many is checked exactly."""
    text = b'{"series": "a", "data": {"series": 1, "x": [{"series": 2}]}}'
    expected = [{"series": "a", "data": {"series": 1, "x": [{"series": 2}]}}] * 10
    assert decode(b"[" + b",".join([text] * 10) + b"]") == expected
    assert decode(b"\n".join([text] * 10), NDJSON) == expected


def test_a_gzip_body_with_a_wrong_checksum_is_damaged() -> None:
    whole = gzip.compress(E, mtime=0)
    changed = whole[:-8] + bytes([whole[-8] ^ 1]) + whole[-7:]
    with pytest.raises(ProblemError, match="400 unparseable: the gzip body is damaged"):
        read_body(changed, "application/json", max_body=10**6)
