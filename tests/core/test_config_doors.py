"""Mistakes in the configuration of doors are reported with their key and the fix."""

import pytest

from tests.worlds.configs import GOOD
from tidetable.config import parse
from tidetable.errors import ConfigError

ROLLUP = '[[streams.s.rollup]]\nname = "hourly"\nevery = "1h"\nretention = "30d"\n'


def problems(text: str) -> list[str]:
    try:
        parse(text)
    except ConfigError as error:
        return list(error.problems)
    return []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[doors]\notlp = true\notlp_logs = "t"\n', 'doors.otlp_logs: there is no stream "t"; name one of the streams'),
        ('[doors]\notlp_metrics = "s"\n', "doors.otlp_metrics: the door is closed; add otlp = true to [doors]"),
        ("[doors]\ninfluxdb = true\n", "doors.influxdb: unknown key"),
        ("[doors]\notlp = 1\n", "doors.otlp"),
    ],
)
def test_a_mistake_in_the_doors(text: str, problem: str) -> None:
    (found,) = problems(text + GOOD)
    assert found.startswith(problem)


def test_a_rollup_takes_no_metrics() -> None:
    (found,) = problems('[doors]\notlp = true\notlp_metrics = "s-hourly"\n' + GOOD + ROLLUP)
    assert found == 'doors.otlp_metrics: "s-hourly" is a rollup, which the pipeline itself writes; name the stream s'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('influx = { series = "{measurement" }', 'streams.s.influx.series: "{measurement" is not a template'),
        ('influx = { series = "{a}{b}" }', 'streams.s.influx.series: "{a}{b}" is not a template; write names of tags'),
        ("influx = { series = '{a}\\{b}' }", "streams.s.influx.series"),
        ('influx = { series = "a{}" }', "streams.s.influx.series"),
        ('otlp = { series = ["a", "a"] }', "streams.s.otlp.series: an attribute is empty or named twice"),
        ('otlp = { series = [""] }', "streams.s.otlp.series"),
        ('firehose = { series = "" }', "streams.s.firehose.series: write the path of a field"),
        ('firehose = { time = "a..b" }', "streams.s.firehose.time"),
        ('cloudevents = { series = "id" }', "streams.s.cloudevents.series"),
    ],
)
def test_a_mistake_in_a_mapping(text: str, problem: str) -> None:
    (found,) = problems(GOOD.replace("retention = 3", f"retention = 3\n{text}"))
    assert found.startswith(problem)


def test_what_is_right_is_read() -> None:
    text = '[doors]\notlp = true\notlp_metrics = "s"\n' + GOOD
    config = parse(text.replace("retention = 3", 'retention = 3\ninflux = { series = "{measurement}/{host}" }'))
    assert (config.doors.any, config.doors.influx, config.streams["s"].influx.series) == (
        True,
        False,
        "{measurement}/{host}",
    )
    assert not parse(GOOD).doors.any
