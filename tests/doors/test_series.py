"""The texts of series: different series, and different events, never become one, and usual series keep their text."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from doors.otlp import LOGS as LOG_RECORDS
from doors.otlp import METRICS as POINTS
from doors.otlp_json import decode_request
from doors.reading import Limits
from doors.series import fill_template, fit_name, join_tags
from tests.worlds.doors import Doors, config
from tests.worlds.influx import T, write
from tests.worlds.otlp import JSON, LOGS, METRICS, PROTOBUF, gauge, logs, metrics, point, send, text
from tidetable.config.stream import InfluxPolicy, OtlpPolicy

LIMITS = Limits(10_000, 10**7)
NAMES = st.text(alphabet="a,=\\{}:/", min_size=1, max_size=4)
MARKED = st.sampled_from(["resource:a", "resource\\:a", "attributes:a", "scope:a", "service.a", "host.", "host", "a.b"])


def list_series(doors: Doors) -> list[str]:
    return [event["series"] for event in doors.events()]


# Line protocol


def test_a_separator_in_a_tag_makes_another_series(doors: Doors) -> None:
    assert write(doors, f"m,t=a\\,u\\=b v=1 {T}\nm,t=a,u=b v=100 {T}\nm\\,t=a,u=b v=5 {T}").status == 204
    assert sorted(list_series(doors)) == [r"m,t=a,u=b", r"m,t=a\,u\=b", r"m\,t=a,u=b"]


@pytest.mark.parametrize(
    ("measurement", "tags", "series"),
    [
        ("air", [("floor", "2"), ("room", "attic")], "air,floor=2,room=attic"),
        ("m", [("path", r"C:\temp\new")], r"m,path=C:\temp\new"),
        ("m", [("path", "C:\\")], "m,path=C:\\\\"),
        ("a=b c", [("x y", 'é "{}"')], 'a=b c,x y=é "{}"'),
        ("a,b\\", [("n=,", "\\,\\\\=")], "a\\,b\\\\,n\\=\\,=\\\\\\,\\\\\\\\\\="),
        ("m", [], "m"),
    ],
)
def test_only_separators_are_escaped(measurement: str, tags: list[tuple[str, str]], series: str) -> None:
    assert join_tags(measurement, tags) == series


def test_no_two_of_all_small_points_have_one_text() -> None:
    """All measurements and values of up to three characters, with up to one tag, or two tags of one character."""
    words = ["".join(word) for size in (1, 2, 3) for word in itertools.product("a,=\\", repeat=size)]
    short = [word for word in words if len(word) < 3]
    points: list[tuple[str, list[tuple[str, str]]]] = [(word, []) for word in words]
    points += [(name, [(tag, value)]) for name in short for tag in short for value in words]
    one = [word for word in words if len(word) == 1]
    points += [(name, [(a, b), (c, d)]) for name, a, b, c, d in itertools.product(one, repeat=5)]
    assert len({join_tags(*found) for found in points}) == len(points)


TAGS = st.dictionaries(NAMES, NAMES, max_size=3).map(lambda tags: tuple(sorted(tags.items())))


@settings(deadline=None)
@given(st.lists(st.tuples(NAMES, TAGS), min_size=2, max_size=40, unique=True))
def test_different_tags_have_different_texts(points: list[tuple[str, tuple[tuple[str, str], ...]]]) -> None:
    assert len({join_tags(*found) for found in points}) == len(points)


@pytest.mark.parametrize(
    ("template", "values", "series"),
    [
        ("{m}/{host}", ("cpu", "a"), "cpu/a"),
        # The last value ends with the text, so it needs no backslash.
        ("{m}/{host}", ("disk", "/var/log"), "disk//var/log"),
        ("{m}/{host}", ("a/b", "c"), r"a\/b/c"),
        ("{m}/{host}", (r"C:\x", "c"), r"C:\x/c"),
        ("{m}/{host}", ("C:\\", "c"), "C:\\\\/c"),
        ("{m} - {host}", ("a b", "c"), "a b - c"),
        ("{m} - {host}", ("a - b", "c"), r"a\ -\ b - c"),
        ("{m} - {host}", ("a -", "- c"), r"a\ - - - c"),
        ("x{m}y", ("y/\\",), "xy/\\y"),
        ("{m}::{host}", ("x::y", "c"), r"x\:\:y::c"),
        ("{m}::{host}", (r"x\:\:y", "c"), r"x\\\:\\\:y::c"),
        ("{m}::{host}", ("x:y", "c"), "x:y::c"),
    ],
)
def test_a_template_escapes_a_value_that_would_end_too_early(template: str, values: tuple[str], series: str) -> None:
    assert fill_template(template, dict(zip(("m", "host"), values, strict=False))) == series


@settings(deadline=None)
@given(
    st.sampled_from(
        ["{a}/{b}", "{a}::{b}", "{a}aa{b}", "({a}):{b}/", "{a}/{b}/{a}", "{b}=a={a}", "{a}a/a{b}", "{a}, {b}:"]
    ),
    st.lists(st.tuples(st.text("a:/=, \\", max_size=5), st.text("a:/=, \\", max_size=5)), max_size=50, unique=True),
)
def test_different_values_of_a_template_have_different_texts(template: str, pairs: list[tuple[str, str]]) -> None:
    assert len({fill_template(template, {"a": a, "b": b}) for a, b in pairs}) == len(pairs)


def test_a_template_keeps_points_of_different_tags_apart() -> None:
    doors = Doors(config(influx=InfluxPolicy(series="{room}/{measurement}")))
    assert write(doors, f"b/m,room=a v=1 {T}\nm,room=a/b v=2 {T}").status == 204
    assert sorted(list_series(doors)) == ["a/b/m", r"a\/b/m"]


# Long names


@pytest.mark.parametrize("name", ["x" * 481, "x" * 90 + "y" * 400])
def test_no_name_is_the_short_form_of_another_name(name: str) -> None:
    short = fit_name(name)
    assert len(short) == 123
    assert fit_name(short) != short
    assert fit_name(fit_name(short)) not in (short, fit_name(short))
    # Names that only resemble a short form stay.
    for other in (short[:-1], short + "a", short.replace("~", "-"), short[:-1] + "g"):
        assert fit_name(other) == other


# OpenTelemetry


def test_the_separators_of_attributes_make_other_series(doors: Doors) -> None:
    for attributes in ([text("t", "a,u=b")], [text("t", "a"), text("u", "b")], [text("t=a,u", "b")]):
        send(doors, metrics(gauge(point(1, attributes=attributes)), resource={}))
    send(doors, metrics(gauge(point(1), name="load{t=a,u=b}"), resource={}))
    assert sorted(list_series(doors)) == [r"load\{t=a,u=b}", "load{t=a,u=b}", r"load{t=a\,u\=b}", r"load{t\=a\,u=b}"]


@pytest.mark.parametrize("kind", [JSON, PROTOBUF])
def test_levels_of_attributes_stay_apart(doors: Doors, kind: str) -> None:
    def sent(resource: dict[str, str], scope: dict[str, str], own: dict[str, str]) -> str:
        doors = Doors(config())
        found = metrics(
            gauge(point(1, attributes=[text(*pair) for pair in own.items()])),
            resource={"attributes": [text(*pair) for pair in resource.items()]},
        )
        found["resourceMetrics"][0]["scopeMetrics"][0]["scope"]["attributes"] = [text(*pair) for pair in scope.items()]
        assert send(doors, found, kind).status == 200
        (series,) = list_series(doors)
        return series

    assert sent({"service.name": "shop"}, {}, {"country": "fr"}) == "load{country=fr,service.name=shop}"
    assert sent({"host.name": "a"}, {}, {"host.name": "b"}) == "load{attributes:host.name=b,host.name=a}"
    assert sent({"env": "a"}, {}, {"env": "b"}) == "load{env=b,resource:env=a}"
    assert sent({"env": "a"}, {}, {}) == "load{resource:env=a}"
    assert sent({}, {"env": "a"}, {}) == "load{scope:env=a}"
    assert sent({}, {}, {"env": "a"}) == "load{env=a}"
    # Attributes that identify the SDK are left out only where the SDK writes them.
    assert sent({"telemetry.sdk.name": "a"}, {}, {}) == "load"
    assert sent({}, {}, {"telemetry.x": "a"}) == "load{attributes:telemetry.x=a}"
    assert sent({}, {"telemetry.x": "a"}, {}) == "load{scope:telemetry.x=a}"
    assert sent({}, {}, {"resource:env": "a"}) == r"load{resource\:env=a}"
    assert sent({}, {}, {"host.name": "a", "host": "b"}) == "load{attributes:host.name=a,host=b}"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"stringValue": "fr"}, "fr"),
        ({"stringValue": "1.2.3"}, "1.2.3"),
        ({"stringValue": "200"}, '"200"'),
        ({"intValue": "200"}, "200"),
        ({"doubleValue": 200}, "200.0"),
        ({"stringValue": "true"}, '"true"'),
        ({"boolValue": True}, "true"),
        ({"stringValue": "NaN"}, '"NaN"'),
        ({"doubleValue": "NaN"}, "NaN"),
        ({"doubleValue": "-Infinity"}, "-Infinity"),
        ({}, "null"),
        ({"stringValue": ""}, ""),
        ({"stringValue": "[::1]:80"}, '"[::1]:80"'),
        ({"arrayValue": {"values": [{"stringValue": "a,b"}, {"intValue": "1"}, {}]}}, '["a,b",1,null]'),
        ({"kvlistValue": {"values": [text("b", "x"), text("a", "1")]}}, '{"a":"1","b":"x"}'),
        ({"bytesValue": "AAE="}, 'b"AAE="'),
        ({"stringValue": 'b"AAE="'}, '"b\\"AAE=\\""'),
        ({"stringValue": 'say "a,b"'}, 'say "a\\,b"'),
    ],
)
@pytest.mark.parametrize("kind", [JSON, PROTOBUF])
def test_values_of_different_types_have_different_texts(doors: Doors, kind: str, value: Any, written: str) -> None:
    attributes = [{"key": "a", "value": value}]
    assert send(doors, metrics(gauge(point(1, attributes=attributes)), resource={}), kind).status == 200
    assert list_series(doors) == [f"load{{a={written}}}"]


SCALARS = st.one_of(
    st.text(alphabet='a,=\\"1b[]{}:', max_size=4).map(lambda value: {"stringValue": value}),
    st.sampled_from(["true", "null", "NaN", "1", "-1", "1.0", "[]", "{}", '"a"', 'b""']).map(
        lambda value: {"stringValue": value}
    ),
    st.integers(-1, 1).map(lambda value: {"intValue": str(value)}),
    st.booleans().map(lambda value: {"boolValue": value}),
    st.sampled_from([1.0, -1.0, 0.5, "NaN", "Infinity"]).map(lambda value: {"doubleValue": value}),
    st.sampled_from(["", "YQ=="]).map(lambda value: {"bytesValue": value}),
    st.just({}),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=2).map(lambda values: {"arrayValue": {"values": values}})
        | st.dictionaries(NAMES | st.just("a.b"), inner, max_size=2).map(
            lambda fields: {
                "kvlistValue": {"values": [{"key": name, "value": fields[name]} for name in sorted(fields)]}
            }
        )
    ),
    max_leaves=3,
)
ATTRIBUTES = st.dictionaries(NAMES | MARKED, VALUES, max_size=2).map(
    lambda fields: [{"key": name, "value": fields[name]} for name in sorted(fields)]
)
INPUT = st.fixed_dictionaries({"metric": NAMES, "resource": ATTRIBUTES, "scope": ATTRIBUTES, "own": ATTRIBUTES})
X = [text("x", "1")]


@settings(deadline=None, max_examples=80)
@given(st.lists(INPUT, min_size=2, max_size=15, unique_by=lambda sent: json.dumps(sent, sort_keys=True)))
@example(
    [{"metric": "m", "resource": X, "scope": [], "own": []}, {"metric": "m", "resource": [], "scope": [], "own": X}]
)
@example(
    [{"metric": "m", "resource": [], "scope": X, "own": []}, {"metric": "m", "resource": [], "scope": [], "own": X}]
)
def test_different_points_have_different_series_and_ids(inputs: list[dict[str, Any]]) -> None:
    found = [
        {
            "resource": {"attributes": sent["resource"]},
            "scopeMetrics": [
                {
                    "scope": {"attributes": sent["scope"]},
                    "metrics": [gauge(point(1, attributes=sent["own"]), name=sent["metric"])],
                }
            ],
        }
        for sent in inputs
    ]
    reading = POINTS.read(
        decode_request(POINTS.request, json.dumps({"resourceMetrics": found}).encode()), OtlpPolicy(), LIMITS
    )
    assert len(set(reading.batch.series)) == len(inputs)
    assert len(set(reading.batch.ids)) == len(inputs)


RECORDS = st.fixed_dictionaries({"resource": ATTRIBUTES, "scope": ATTRIBUTES, "own": ATTRIBUTES, "body": VALUES})


@settings(deadline=None, max_examples=80)
@given(st.lists(RECORDS, min_size=2, max_size=15, unique_by=lambda sent: json.dumps(sent, sort_keys=True)))
def test_different_records_have_different_ids_and_different_resources_different_series(
    records: list[dict[str, Any]],
) -> None:
    """Each record comes in a request of its own, because equal records of one request are numbered."""
    ids, series = set(), set()
    for sent in records:
        record = {"timeUnixNano": "1772323440000000000", "body": sent["body"], "attributes": sent["own"]}
        scoped = {"scope": {"attributes": sent["scope"]}, "logRecords": [record]}
        found = {"resourceLogs": [{"resource": {"attributes": sent["resource"]}, "scopeLogs": [scoped]}]}
        request = decode_request(LOG_RECORDS.request, json.dumps(found).encode())
        batch = LOG_RECORDS.read(request, OtlpPolicy(), LIMITS).batch
        ids.add(batch.ids[0])
        series.add(batch.series[0])
    assert len(ids) == len(records)
    # Names that begin with "telemetry." are not in these samples.
    assert len(series) == len({json.dumps(sent["resource"]) for sent in records})


@pytest.mark.parametrize("route", [METRICS, LOGS])
def test_chosen_attributes_of_both_levels_are_both_in_the_series(route: str) -> None:
    doors = Doors(config(otlp=OtlpPolicy(series=("env",))))
    resource = {"attributes": [text("env", "a"), text("service.name", "shop")]}
    if route == METRICS:
        document = metrics(gauge(point(1, attributes=[text("env", "b"), text("other", "c")])), resource=resource)
    else:
        document = logs({"timeUnixNano": str(T), "attributes": [text("env", "b"), text("other", "c")]})
        document["resourceLogs"][0]["resource"] = resource
    assert send(doors, document, JSON, route).status == 200
    labels = "env=b,resource:env=a"
    assert list_series(doors) == [f"load{{{labels}}}" if route == METRICS else labels]
