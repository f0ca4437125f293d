"""A query's parameters: every refusal says what to change."""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import shake_256

import msgspec
import pytest

from tests.fakes import SEAL
from tests.worlds.days import NOW, STREAM
from tidetable.conditions import Condition, NameConditions, Operator, read_numbers
from tidetable.config import parse
from tidetable.problems import ProblemError
from tidetable.query import Seal, parse_query, refuse_unwritable
from tidetable.query.model import Position, Query

BY_SERIES = parse('[streams.d]\nperiod = "day"\nlate = "1d"\nretention = 3\nkey = { partition_by = "series" }').streams[
    "d"
]
BEFORE = NOW - timedelta(days=1)


def cursor(stream: str = "s", series: str | None = "a", *, consistent: bool = False) -> str:
    """The cursor at the end of a query's page."""
    query = Query(
        stream,
        BEFORE,
        NOW,
        NameConditions(() if series is None else (series,)),
        ascending=True,
        limit=1,
        consistent=consistent,
    )
    return SEAL.seal(query.make_cursor(Position(NOW)))


CURSOR = cursor()
OTHER = cursor("other", None)
TOUCHED = CURSOR.replace(CURSOR[40], "A" if CURSOR[40] != "A" else "B", 1)
FORGED = Seal(lambda: b"a guess").seal(
    Query("s", BEFORE, NOW, NameConditions(("a",)), ascending=True, limit=1).make_cursor(Position(NOW))
)

REFUSED = [
    ("an unknown parameter", {"form": ["-1h"]}, "unknown_parameter", "did you mean format?; known are from, to"),
    ("a parameter with a typing error", {"serie": ["a"]}, "unknown_parameter", "did you mean series?"),
    (
        "a field without where",
        {"customer": ["a"]},
        "unknown_parameter",
        "a condition on a field of data is where.customer=",
    ),
    ("a path without where", {"place.state": ["CA"]}, "unknown_parameter", "is where.place.state="),
    (
        "a field as CSV calls it",
        {"where.data.mag:ge": ["4"]},
        "bad_parameter",
        "data.mag: paths begin within data, so write mag",
    ),
    ("such a field to show", {"fields": ["id,data.mag"]}, "bad_parameter", "is data.data.mag"),
    ("a field deeper than events are", {"fields": [".".join("a" * 32)]}, "bad_parameter", "31 names"),
    ("a parameter given twice", {"limit": ["1", "2"]}, "bad_parameter", "once"),
    ("a consistency of neither kind", {"consistent": ["yes"]}, "bad_parameter", "true or false"),
    ("fields that are none", {"fields": ["a,,b"]}, "bad_parameter", "mag,place"),
    ("versions of neither kind", {"versions": ["2"]}, "bad_parameter", "newest or all"),
    ("versions that are not kept", {"versions": ["all"]}, "bad_parameter", "keeps no earlier"),
    ("a limit that is no number", {"limit": ["many"]}, "bad_parameter", "1 to 10000"),
    ("a limit of nothing", {"limit": ["0"]}, "bad_parameter", "1 to 10000"),
    ("a limit too large", {"limit": ["10001"]}, "bad_parameter", "1 to 10000"),
    ("an order that is none", {"order": ["newest"]}, "bad_parameter", "asc"),
    ("a time that is none", {"from": ["tomorrow"]}, "bad_parameter", "today or yesterday"),
    ("edges the wrong way round", {"from": ["-1h"], "to": ["-2h"]}, "bad_parameter", "before to"),
    ("an empty series", {"series": [""]}, "bad_parameter", "series"),
    ("a cursor that is none", {"cursor": ["abc"]}, "invalid_cursor", "not a cursor"),
    (
        "a cursor of which a letter was changed",
        {"cursor": [TOUCHED]},
        "invalid_cursor",
        "not a cursor",
    ),
    ("a cursor that somebody made", {"cursor": [FORGED]}, "invalid_cursor", "not a cursor"),
    ("a cursor with another condition", {"cursor": [CURSOR], "where.a": ["1"]}, "invalid_cursor", "another query"),
    ("a cursor with another priority", {"cursor": [CURSOR], "priority": ["low"]}, "invalid_cursor", "another query"),
    ("a condition on no field", {"where.": ["1"]}, "unknown_parameter", "where.FIELD"),
    ("an operator on no field", {"where.:gt": ["1"]}, "bad_parameter", "where.FIELD:gt"),
    ("an operator that there is not", {"where.mag:gte": ["4"]}, "bad_parameter", "there are eq, ne, lt"),
    ("an operator in other letters", {"where.mag:GE": ["4"]}, "bad_parameter", "'GE' is not an operator"),
    ("an operator of SQL", {"where.mag>": ["4"]}, "bad_parameter", "where.mag:OPERATOR=VALUE"),
    ("too many values", {"where.a:in": [",".join(map(str, range(31)))]}, "bad_parameter", "30 values"),
    ("a prefix of nothing", {"where.a:prefix": [""]}, "bad_parameter", "prefix"),
    ("too many conditions", {f"where.f{n}": ["1"] for n in range(11)}, "bad_parameter", "10 conditions"),
    ("a value that is too long", {"where.a": ["x" * 1025]}, "bad_parameter", "1024 bytes"),
    ("a priority of neither kind", {"priority": ["high"]}, "bad_parameter", "normal or low"),
    ("a replica read consistently", {"priority": ["low"], "consistent": ["true"]}, "bad_parameter", "eventually"),
    ("a cursor of another stream", {"cursor": [OTHER]}, "invalid_cursor", "belongs to another stream"),
    ("a cursor with another series", {"cursor": [CURSOR], "series": ["b"]}, "invalid_cursor", "another query"),
    ("a cursor with another order", {"cursor": [CURSOR], "order": ["desc"]}, "invalid_cursor", "another query"),
    (
        "a cursor with versions",
        {"cursor": [CURSOR], "versions": ["newest"], "fields": ["a"]},
        "invalid_cursor",
        "another",
    ),
    (
        "a cursor with another consistency",
        {"cursor": [CURSOR], "consistent": ["true"]},
        "invalid_cursor",
        "another query",
    ),
    (
        "a cursor with a new edge",
        {"cursor": [CURSOR], "from": ["-1h"]},
        "invalid_cursor",
        "repeat its from, leave from out",
    ),
    ("a cursor with two others", {"cursor": [CURSOR], "to": ["-1h"], "id": ["x"]}, "invalid_cursor", "its id and to"),
]


@pytest.mark.parametrize(("name", "parameters", "code", "detail"), REFUSED)
def test_a_refusal_says_what_to_change(name: str, parameters: dict[str, list[str]], code: str, detail: str) -> None:
    with pytest.raises(ProblemError) as caught:
        parse_query(STREAM, parameters, NOW, SEAL)
    assert (caught.value.problem.status, caught.value.problem.code) == (400, code)
    assert detail in caught.value.problem.detail


def test_a_parameter_beside_a_cursor_may_repeat_what_its_query_says() -> None:
    messages = {
        "from": ["2026-03-05T00:00:00Z"],
        "to": ["2026-03-06T00:00:00Z"],
        "series": ["b", "a"],
        "id:prefix": ["x"],
        "order": ["asc"],
        "fields": ["mag,place"],
        "consistent": ["true"],
        "where.mag:ge": ["4"],
        "where.kind": ["quake"],
    }
    query = parse_query(STREAM, messages, NOW, SEAL)
    text = SEAL.seal(query.make_cursor(Position(NOW, "a", "x1")))
    later = NOW + timedelta(hours=1)
    for name, values in messages.items():
        continued = parse_query(STREAM, {"cursor": [text], name: values, "limit": ["7"]}, later, SEAL)
        assert (continued.start, continued.end, continued.limit) == (query.start, query.end, 7)
        assert continued.after == Position(NOW, "a", "x1")
    # An age is another instant by now.
    with pytest.raises(ProblemError, match="another query: repeat its from"):
        parse_query(STREAM, {"cursor": [text], "from": ["-1d"]}, later, SEAL)
    with pytest.raises(ProblemError, match=r"another query: repeat its where\.mag:ge"):
        parse_query(STREAM, {"cursor": [text], "where.mag:ge": ["5"]}, later, SEAL)


@pytest.mark.parametrize(
    ("first", "tagged", "known"),
    [(b"\5", b"\5", True), (b"\6", b"\6", False), (b"\5", b"\6", False), (b"\5", b"", False)],
)
def test_a_cursor_that_another_version_of_the_code_sealed_is_none(first: bytes, tagged: bytes, known: bool) -> None:
    """The tag includes the version. Here it is made by hand, first as this version does."""
    keys = hmac.digest(b"as secret as can be", b"tidetable cursor", "sha512")

    def encrypt(content: bytes, tag: bytes) -> bytes:
        return bytes(a ^ b for a, b in zip(content, shake_256(keys[32:] + tag).digest(len(content)), strict=True))

    raw = urlsafe_b64decode(CURSOR + "=" * (-len(CURSOR) % 4))
    content = encrypt(raw[17:], raw[1:17])
    tag = hmac.digest(keys[:32], tagged + content, "sha256")[:16]
    text = urlsafe_b64encode(first + tag + encrypt(content, tag)).decode().rstrip("=")
    assert (text == CURSOR) is known
    if known:
        assert parse_query(STREAM, {"cursor": [text]}, NOW, SEAL).series == "a"
    else:
        with pytest.raises(ProblemError, match="not a cursor"):
            parse_query(STREAM, {"cursor": [text]}, NOW, SEAL)


@pytest.mark.parametrize("letter", ["\x01", '"', "\\", "ü", "s"])
def test_a_cursor_is_as_long_as_its_names_have_bytes_whatever_their_characters(letter: str) -> None:
    """AWS: a request line and its headers have 10,240 bytes; 480 bytes of series, and the series and id of the last event."""
    name = letter * (480 // len(letter.encode()))
    query = parse_query(STREAM, {"series": [name]}, NOW, SEAL)
    text = SEAL.seal(query.make_cursor(Position(NOW, name, name)))
    assert len(text) < 2_100
    assert parse_query(STREAM, {"cursor": [text]}, NOW, SEAL).after == Position(NOW, name, name)


def test_the_longest_query_that_is_taken_has_a_cursor_that_can_be_sent() -> None:
    names = [f"{number:0470d}" for number in range(4)]
    most = {f"where.{n:0150d}": ["x"] for n in range(10)} | {"fields": [",".join(f"{n:029d}" for n in range(34))]}
    query = parse_query(STREAM, most | {"series": names[:2], "id": names[2:]}, NOW, SEAL)
    assert len(SEAL.seal(query.make_cursor(Position(NOW, "s" * 480, "i" * 480)))) < 8_200
    with pytest.raises(ProblemError, match="bytes too long for one query"):
        parse_query(STREAM, most | {"series": names, "id": names}, NOW, SEAL)


def test_names_alone_make_a_query_too_long_and_nothing_else_does() -> None:
    names = [f"{number:0480d}" for number in range(11)]
    for name in ("series", "id"):
        assert parse_query(STREAM, {name: names[:10]}, NOW, SEAL).limit == 100
        with pytest.raises(ProblemError, match="bytes too long for one query"):
            parse_query(STREAM, {name: names}, NOW, SEAL)
    conditions = {f"where.{n:04d}:in": [",".join(f"{n}{value:012d}" for value in range(14))] for n in range(10)}
    fields = [",".join(f"{n:019d}" for n in range(50))]
    query = parse_query(STREAM, {**conditions, "fields": fields, "tz": ["America/Argentina/Buenos_Aires"]}, NOW, SEAL)
    assert len(msgspec.msgpack.encode(query.make_cursor(Position(NOW)))) < 5_000


def test_a_query_that_would_scan_is_refused_with_what_would_not() -> None:
    with pytest.raises(ProblemError, match="add series="):
        parse_query(BY_SERIES, {}, NOW, SEAL)


def test_without_edges_it_is_the_last_hour_up_to_the_newest_that_is_taken() -> None:
    query = parse_query(STREAM, {}, NOW, SEAL)
    assert (query.start, query.end) == (NOW - timedelta(hours=1), NOW + STREAM.ahead)
    assert (query.ascending, query.limit, query.series) == (False, 100, None)


@pytest.mark.parametrize("text", ["1772755200000", "2026-03-06T00:00:00Z", "2026-03-06T01:00:00 01:00", "-0s", "now"])
def test_an_edge_may_be_written_in_every_form(text: str) -> None:
    query = parse_query(STREAM, {"from": ["2026-03-01T00:00:00Z"], "to": [text]}, NOW, SEAL)
    assert query.end == datetime(2026, 3, 6, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("today", datetime(2026, 3, 4, tzinfo=UTC)),
        ("yesterday", datetime(2026, 3, 3, tzinfo=UTC)),
        ("-1w", datetime(2026, 2, 25, 13, 30, tzinfo=UTC)),
        ("-0w", datetime(2026, 3, 4, 13, 30, tzinfo=UTC)),
    ],
)
def test_days_and_weeks_are_edges_too(text: str, wanted: datetime) -> None:
    now = datetime(2026, 3, 4, 13, 30, tzinfo=UTC)
    assert parse_query(STREAM, {"from": [text], "to": ["2026-03-05T00:00:00Z"]}, now, SEAL).start == wanted
    assert parse_query(STREAM, {"from": ["yesterday"], "to": ["today"]}, now, SEAL).end == datetime(
        2026, 3, 4, tzinfo=UTC
    )


def test_a_field_of_an_object_called_data_is_meant_by_naming_data_twice() -> None:
    query = parse_query(STREAM, {"where.data.data.n": ["1"], "fields": ["data.data.n,data"]}, NOW, SEAL)
    assert [condition.field for condition in query.conditions] == ["data.n"]
    assert query.projection.fields == ("data.n", "data")


def test_a_cursor_goes_on_as_consistently_as_its_query_began() -> None:
    for consistent in (False, True):
        text = cursor(series=None, consistent=consistent)
        assert parse_query(STREAM, {"cursor": [text]}, NOW, SEAL).consistent is consistent
        with pytest.raises(ProblemError, match="invalid_cursor"):
            parse_query(STREAM, {"cursor": [text], "consistent": [str(not consistent).lower()]}, NOW, SEAL)


def test_a_field_may_have_a_colon_in_its_name() -> None:
    (condition,) = parse_query(STREAM, {"where.a:b:eq": ["1"]}, NOW, SEAL).conditions
    assert (condition.field, condition.operator) == ("a:b", "eq")


KEPT = parse(
    '[streams.s]\nperiod = "day"\nlate = "1d"\nretention = 3\nversions = "keep"\ncold = ["raw"]\n'
    'key = { partition_by = "time", bucket = "6h" }'
).streams["s"]


def test_a_cursor_goes_on_with_the_versions_that_its_query_began_with() -> None:
    for versions in ("newest", "all"):
        query = parse_query(KEPT, {"versions": [versions]}, NOW, SEAL)
        text = SEAL.seal(query.make_cursor(Position(NOW)))
        assert parse_query(KEPT, {"cursor": [text]}, NOW, SEAL).projection.versions is (versions == "all")
        assert parse_query(KEPT, {"cursor": [text], "versions": [versions]}, NOW, SEAL).projection.versions is (
            versions == "all"
        )
        other = "all" if versions == "newest" else "newest"
        with pytest.raises(ProblemError, match="another query"):
            parse_query(KEPT, {"cursor": [text], "versions": [other]}, NOW, SEAL)


@pytest.mark.parametrize("field", ["raw", "raw.mag"])
def test_a_cold_field_is_not_searched_nor_what_is_in_it(field: str) -> None:
    with pytest.raises(ProblemError, match=f"{field} is a cold field of s"):
        parse_query(KEPT, {f"where.{field}": ["1"]}, NOW, SEAL)
    assert parse_query(KEPT, {"where.rawer": ["1"]}, NOW, SEAL).conditions[0].field == "rawer"


def test_a_cursor_goes_on_though_a_query_without_one_would_now_need_an_index() -> None:
    """Its periods may have an index that a deploy removed from the stream."""
    query = Query("d", BEFORE, NOW, NameConditions(), ascending=True, limit=1)
    text = SEAL.seal(query.make_cursor(Position(NOW)))
    assert parse_query(BY_SERIES, {"cursor": [text]}, NOW, SEAL).after == Position(NOW)


def test_conditions_that_no_expression_has_room_for_are_refused() -> None:
    """AWS: an expression has 4 KB. Each name of a path takes about five bytes, and `ne` names its path four times."""
    deep = ".".join("a" * 31)
    parameters = {f"where.{deep}{n}:ne": ["1"] for n in range(10)}
    with pytest.raises(ProblemError, match="too long for one request to DynamoDB"):
        parse_query(STREAM, parameters, NOW, SEAL)
    few = dict(list(parameters.items())[:4])
    assert len(parse_query(STREAM, few, NOW, SEAL).conditions) == 4


def test_the_field_data_itself_is_named_once_or_twice() -> None:
    """CSV names a field called data `data.data`."""
    assert parse_query(STREAM, {"fields": ["data"]}, NOW, SEAL).projection.fields == ("data",)
    with pytest.raises(ProblemError, match=r"so write data; the field data of an object .* is data\.data\.data"):
        parse_query(STREAM, {"fields": ["data.data"]}, NOW, SEAL)


def test_half_of_a_surrogate_pair_is_refused_in_values_and_in_names() -> None:
    for parameters in ({"series": ["a", "\ud800"]}, {"where.\ud800": ["1"]}):
        with pytest.raises(ProblemError, match="half of a surrogate pair"):
            refuse_unwritable(parameters)
    refuse_unwritable({"series": ["\U0001f30a"], "where.ü": [""]})


@pytest.mark.parametrize(
    ("operator", "values", "outcomes"),
    [
        ("eq", ("true",), [True]),
        ("ne", ("true",), [False]),
        ("ne", ("yes",), [True, False]),
        ("in", ("true", "false"), [True, False]),
        ("lt", ("true",), []),
        ("ge", ("false",), []),
        ("prefix", ("t",), []),
    ],
)
def test_truth_is_equal_or_not_and_has_no_order(
    operator: Operator, values: tuple[str, ...], outcomes: list[bool]
) -> None:
    condition = Condition("ok", operator, values)
    assert [value for value in (True, False) if condition.holds({"ok": value})] == outcomes


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("9.9E125", "9.9E125"),
        ("1E126", None),
        ("1E-130", "1E-130"),
        ("9E-131", None),
        ("9" * 38, "9" * 38),
        ("9" * 39, None),
        ("9" * 38 + "0", "9" * 38 + "0"),
        ("0E500", "0"),
        ("0x10", None),
        ("1_000", None),
        ("nan", None),
        ("\u0661", None),
    ],
)
def test_a_value_is_a_number_as_far_as_an_event_may_have_it(text: str, number: str | None) -> None:
    """AWS: 38 digits, 1E-130 to 9.9...E+125."""
    assert read_numbers(text) == ([] if number is None else [Decimal(number)])


def test_an_id_is_compared_with_ids_alone() -> None:
    names = NameConditions(series=("a", "b"), ids=("1", "2"), series_prefix="a", id_prefix="2")
    assert [(series, id) for series in "ab12" for id in "ab12" if names.hold(series, id)] == [("a", "2")]
    assert NameConditions(ids=("a",)).hold("a", "1") is False
    assert NameConditions(id_prefix="a").hold("a", "1") is False
    assert NameConditions(series_prefix="a").hold("b", "a") is False
