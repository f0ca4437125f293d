"""Numbers of many characters are refused before they become numbers, in every place of an event that may have one."""

from typing import Any

import pytest

from tests.ingest.streams import CONFIG
from tests.worlds.intake import World
from tidetable.config import parse
from tidetable.problems import ProblemError

LONG = f"0.{'9' * 399}"
LONG_REASON = "is a number of more than 400 characters; send it as text"
FAR_REASON = "lies outside 1E-130 to 9.9E+125; send it as text"
TIME_REASON = "time: a time is RFC 3339 text with an offset, or whole epoch milliseconds"
INDEXED = parse(
    """
    [streams.quakes]
    period = "day"
    late = "2d"
    retention = 7
    key = { partition_by = "time", bucket = "6h", shards = 4 }
    [[streams.quakes.index]]
    name = "states"
    partition_by = "state"
    [[streams.quakes.index]]
    name = "levels"
    partition_by = "kind"
    sort_by = ["state"]
    """
)


def judge(event: str, config: Any = CONFIG) -> list[str]:
    """Send an event before a good one, and return the reasons of the refusals."""
    outcome = World(config).post(f'[{event},{{"series":"good"}}]'.encode())
    assert outcome.accepted + len(outcome.rejections) == 2
    return [rejection.detail for rejection in outcome.rejections]


@pytest.mark.parametrize(
    ("number", "reasons"),
    [
        (f"0.{'9' * 398}", ["data.state has more than 38 digits; send it as text"]),
        (LONG, [f"data.state {LONG_REASON}"]),
        (f"-{LONG[:-1]}", [f"data.state {LONG_REASON}"]),
        (f"1e{'9' * 400}", [f"data.state {LONG_REASON}"]),
        # Twelve characters, whose text without an exponent would have a thousand million: indexes need that text.
        ("1e999999999", [f"data.state {FAR_REASON}"]),
        ("-1E+999999999", [f"data.state {FAR_REASON}"]),
        ("1e-999999999", [f"data.state {FAR_REASON}"]),
        ("1e401", [f"data.state {FAR_REASON}"]),
        ("1e400", [f"data.state {FAR_REASON}"]),
        ("1e99999999999999999999", [f"data.state {FAR_REASON}"]),
        # Zeros are zero, whatever their exponent.
        ("0e999999999", []),
        ("-0e-999999999", []),
        (f"1.{'0' * 398}", []),
        ("9.9e125", []),
        ("1e-130", []),
    ],
    ids=lambda value: str(value)[:16],
)
@pytest.mark.parametrize("config", [CONFIG, INDEXED], ids=["plain", "indexed"])
def test_a_long_number_is_refused_by_its_place(number: str, reasons: list[str], config: Any) -> None:
    assert judge(f'{{"series":"a","data":{{"kind":"k","state":{number}}}}}', config) == reasons


@pytest.mark.parametrize("number", [LONG, "1e999999999", f"1e{'9' * 400}"], ids=["digits", "far", "exponent"])
@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ('{"series":"a","time":%s}', TIME_REASON),
        ('{"series":%s}', "series must be a text of at least one character"),
        ('{"series":"a","id":%s}', "id must be a text of at least one character"),
        ('{"series":"a","data":%s}', "data must be a JSON object"),
        ("%s", "an event is a JSON object with series, and optionally time, id and data"),
    ],
)
def test_a_long_number_is_refused_in_every_field(event: str, reason: str, number: str) -> None:
    assert judge(event % number) == [reason]


def test_a_long_number_deep_in_data_is_refused_by_its_path() -> None:
    assert judge(f'{{"series":"a","data":{{"a":[{{"b":{LONG}}}]}}}}') == [f"data.a[0].b {LONG_REASON}"]


def test_a_body_that_is_a_long_number_holds_no_event() -> None:
    with pytest.raises(ProblemError, match="must be an event, an array of events or an object with events"):
        World().post(LONG.encode())


def test_the_reason_for_a_long_time_is_short() -> None:
    (whole,) = judge(f'{{"series":"a","time":{"9" * 4000}}}')
    assert whole.startswith(f"time: {'9' * 40} is not a time")
    (text,) = judge(f'{{"series":"a","time":"2026-02-30T00:00:00.{"1" * 4000}Z"}}')
    assert max(len(whole), len(text)) < 200
