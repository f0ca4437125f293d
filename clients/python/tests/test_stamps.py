"""Events become lines: stamped before the first try, exact, or refused at the line that wrote them."""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from doubles import NOON
from tidetable_client import EventInvalid
from tidetable_client.stamps import Stamper


def encode(event: Any, **options: Any) -> Any:
    return json.loads(Stamper(name="n", **options).encode(event, NOON), parse_float=Decimal)


def test_an_event_without_a_time_is_stamped_with_the_time_and_an_id() -> None:
    stamper = Stamper(name="n")
    lines = [json.loads(stamper.encode({"series": "s", "data": {"v": 1}}, NOON)) for _ in range(2)]
    assert lines == [
        {"series": "s", "time": "2026-03-15T12:00:00Z", "id": "n-0", "data": {"v": 1}},
        {"series": "s", "time": "2026-03-15T12:00:00Z", "id": "n-1", "data": {"v": 1}},
    ]


def test_two_clients_never_stamp_the_same_id() -> None:
    ids = {json.loads(Stamper().encode({"series": "s"}, NOON))["id"] for _ in range(100)}
    assert len(ids) == 100


def test_processes_that_begin_from_one_snapshot_never_stamp_the_same_id() -> None:
    """AWS Lambda with SnapStart copies the memory of a process that has made its client and has written nothing."""
    snapshot = Stamper()
    stampers = [deepcopy(snapshot) for _ in range(2)]
    assert len({json.loads(stamper.encode({"series": "s"}, NOON))["id"] for stamper in stampers}) == 2


def test_an_event_with_a_time_keeps_it_and_its_id_stays_the_hash_of_its_content() -> None:
    assert encode({"series": "s", "time": 1773576000000, "data": {}}) == {
        "series": "s",
        "time": 1773576000000,
        "data": {},
    }
    at = datetime(2026, 3, 15, 13, tzinfo=timezone(timedelta(hours=1)))
    assert encode({"series": "s", "time": at})["time"] == "2026-03-15T13:00:00+01:00"
    assert encode({"series": "s", "time": at}, unique_ids=True)["id"] == "n-0"


def test_values_keep_what_they_are() -> None:
    data = {
        "exact": Decimal("0.1000000000000000000000000000000000001"),
        "large": 10**30,
        "none": None,
        "at": NOON,
        "numpy": np.float64(1.5),
        "array": np.array([1, 2]),
        "pandas": pd.Timestamp("2026-01-01", tz=UTC),
    }
    assert encode({"series": "s", "time": 0, "data": data})["data"] == {
        "exact": Decimal("0.1000000000000000000000000000000000001"),
        "large": 10**30,
        "none": None,
        "at": "2026-03-15T12:00:00Z",
        "numpy": Decimal("1.5"),
        "array": [1, 2],
        "pandas": "2026-01-01T00:00:00+00:00",
    }


@dataclass
class Reading:
    series: str
    data: dict[str, float]


def test_a_dataclass_is_an_event() -> None:
    assert encode(Reading("s", {"v": 1.5}))["data"] == {"v": Decimal("1.5")}


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({"data": {}}, "needs its series"),
        ({"series": ""}, "needs its series"),
        ({"series": 7}, "needs its series"),
        ({"series": "s", "mag": 4}, "put mag into data"),
        ({"series": "s", "time": datetime(2026, 1, 1)}, "has no offset"),  # noqa: DTZ001 - that is the mistake
        ({"series": "s", "time": 1.5}, "neither a datetime"),
        ({"series": "s", "id": 5}, "the id 5 is not text"),
        ({"series": "s", "data": {"a": Decimal("Infinity")}}, "data.a is Infinity"),
        ({"series": "s", "data": {"a": {"b": [1, float("nan")]}}}, r"data.a.b\[1\] is nan"),
        ({"series": "s", "data": {"a": float("inf")}}, "data.a is inf"),
        ({"series": "s", "data": {"a": Decimal("NaN")}}, "data.a is NaN"),
        ({"series": "s", "data": {"a": Decimal("sNaN")}}, "data.a is sNaN"),
        ({"series": "s", "data": {"a": np.float64("nan")}}, "data.a is nan"),
        ({"series": "s", "data": {"a": np.datetime64("NaT")}}, "NaT has no form in JSON: leave the field out"),
        ({"series": "s", "data": {"a": np.timedelta64("NaT", "ns")}}, "NaT has no form in JSON: leave the field out"),
        ({"series": "s", "data": {"a": np.array(["NaT"], "datetime64[ns]")}}, "NaT has no form in JSON"),
        ({"series": "s", "data": {"a": np.timedelta64(5, "M")}}, "has no fixed length: write a number"),
        ({"series": "s", "data": {"a": np.timedelta64(5)}}, "has no fixed length: write a number"),
        ({"series": "s", "data": {"a": {float("nan")}}}, r"data.a\[0\] is nan"),
        ({"series": "s", "data": {"a": Reading("b", {"v": float("nan")})}}, "data.a.data.v is nan"),
        ({"series": "s", "data": Reading("b", {"v": float("-inf")})}, "data.data.v is -inf"),
        ({"series": "s", "data": {"a": object()}}, "object has no form in JSON"),
        (5, "not int"),
    ],
)
def test_a_mistake_is_an_error_at_once(event: Any, message: str) -> None:
    with pytest.raises(EventInvalid, match=message):
        encode(event)


def test_a_missing_time_of_pandas_is_refused() -> None:
    """It is a datetime for Python, and would become the text NaT."""
    with pytest.raises(EventInvalid, match="NaT has no form in JSON: leave the field out"):
        Stamper().encode({"series": "s", "time": 1, "data": {"at": pd.NaT}}, datetime(2026, 3, 15, tzinfo=UTC))


def test_an_instant_of_numpy_is_a_text_in_each_unit() -> None:
    values = [np.datetime64("2026-03-15T12:00:00", unit) for unit in ("s", "ms", "us", "ns")]
    text = Stamper().encode({"series": "s", "time": 1, "data": {"at": values}}, datetime(2026, 3, 15, tzinfo=UTC))
    assert text == b'{"series":"s","time":1,"data":{"at":[%s]}}' % b",".join(4 * [b'"2026-03-15T12:00:00"'])


@pytest.mark.parametrize(
    ("instant", "expected"),
    [
        (np.datetime64("2026-03-15T12:00:00.123456789"), "2026-03-15T12:00:00.123456789"),
        (np.datetime64("2026-03-15T12:00:00.123456000"), "2026-03-15T12:00:00.123456"),
        (np.datetime64("1969-12-31T23:59:59.999999999"), "1969-12-31T23:59:59.999999999"),
        (np.datetime64("1970-01-01T00:00:00.000000000001"), "1970-01-01T00:00:00.000000000001"),
        (np.datetime64("20000-01-01"), "20000-01-01"),
        (np.datetime64("2026-03-15"), "2026-03-15T00:00:00"),
        (np.datetime64("2026-03", "M"), "2026-03-01T00:00:00"),
        (
            np.array([["2026-03-15T12:00:00.000000001"], ["2026-03-15T12:00:00"]], "datetime64[ns]"),
            [["2026-03-15T12:00:00.000000001"], ["2026-03-15T12:00:00"]],
        ),
    ],
)
def test_an_instant_of_numpy_keeps_its_digits(instant: Any, expected: Any) -> None:
    assert encode({"series": "s", "time": 1, "data": {"at": instant}})["data"] == {"at": expected}


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (np.timedelta64(1_500_000_000, "ns"), Decimal("1.5")),
        (np.timedelta64(1, "ns"), Decimal("0.000000001")),
        (np.timedelta64(-1, "us"), Decimal("-0.000001")),
        (np.timedelta64(2, "ps"), Decimal("0.000000000002")),
        (np.timedelta64(5, "s"), 5),
        (np.timedelta64(2, "h"), 7200),
        (np.timedelta64(1, "D"), 86_400),
        (np.timedelta64(1, "W"), 604_800),
        (np.array([2], "timedelta64[25ms]")[0], Decimal("0.05")),
        (np.array([1, 2_000_000_000], "timedelta64[ns]"), [Decimal("0.000000001"), 2]),
        (pd.Timedelta(1_500_000_001, "ns"), Decimal("1.500000001")),
        (pd.Timedelta("100000 days 00:00:00.000000001"), Decimal("8640000000.000000001")),
        (pd.Timedelta(-1, "ns"), Decimal("-0.000000001")),
    ],
)
def test_a_length_of_time_is_its_seconds_in_every_unit(length: Any, expected: Any) -> None:
    assert encode({"series": "s", "time": 1, "data": {"took": length}})["data"] == {"took": expected}
