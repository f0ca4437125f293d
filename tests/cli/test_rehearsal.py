"""A dry run judges what the import would send: the values of a Parquet file in the form that the client gives them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from cli.rehearsal import Rehearsal
from tidetable.config import parse
from tidetable_client import Page

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)


class Api:
    """The answers of a stage with one stream, of which a range is open for a backfill."""

    def streams(self) -> list[dict[str, Any]]:
        window = {"oldest": "2026-03-14T12:00:00Z", "newest": "2026-03-15T12:05:00Z"}
        return [{"stream": "stations", "late": "1d", "window": window}]

    def periods(self, stream: str, **parameters: Any) -> Api:
        return self

    def pages(self) -> list[Page]:
        backfill = {"from": "2026-02-01T00:00:00Z", "to": "2026-02-02T00:00:00Z"}
        return [Page([], None, document={"backfills": [backfill]})]


def judge(value: Any) -> str | None:
    client: Any = Api()
    event = {"series": "a", "time": "2026-03-15T11:00:00Z", "data": {"x": value}}
    rejection = Rehearsal(client, "stations", None, NOON).judge_event(event)
    return None if rejection is None else f"{rejection.code}: {rejection.detail}"


@pytest.mark.parametrize("value", [1.5, NOON, date(2026, 3, 15), Decimal("1.5"), b"bytes", [1.5, None]])
def test_a_value_that_the_client_can_write_is_not_refused(value: Any) -> None:
    assert judge(value) is None


def test_a_value_that_the_client_cannot_write_is_refused_with_its_reason() -> None:
    assert judge(float("nan")) == "invalid: data.x is nan, which JSON cannot hold: leave the field out, or write text"


@pytest.mark.parametrize(
    ("time", "code"),
    [
        ("2026-03-14T12:00:00Z", None),
        ("2026-03-14T11:59:59Z", "too_old"),
        ("2026-03-15T12:05:00Z", None),
        ("2026-03-15T12:05:01Z", "too_new"),
        # A backfill takes events from its beginning on, and none of its end.
        ("2026-02-01T00:00:00Z", None),
        ("2026-01-31T23:59:59Z", "too_old"),
        ("2026-02-01T23:59:59Z", None),
        ("2026-02-02T00:00:00Z", "too_old"),
    ],
)
def test_a_time_is_judged_by_the_window_and_the_open_ranges(time: str, code: str | None) -> None:
    client: Any = Api()
    rejection = Rehearsal(client, "stations", None, NOON).judge_event({"series": "a", "time": time, "data": {}})
    assert (None if rejection is None else rejection.code) == code


def test_a_stream_that_the_stage_does_not_have_is_named_with_those_that_it_has() -> None:
    client: Any = Api()
    with pytest.raises(ValueError, match="there is no stream 'quakes'; there are: stations"):
        Rehearsal(client, "quakes", None, NOON)


CONFIG = """
[streams.stations]
period = "day"
late = "1d"
retention = 5
{more}
key = {{ partition_by = "series" }}
"""


@pytest.mark.parametrize(
    ("more", "size", "code"),
    [
        (None, 450_000, None),
        ("", 450_000, "too_large"),
        ("", 300_000, None),
        ('large = { beyond = "chunks" }', 450_000, None),
    ],
)
def test_a_size_is_judged_where_the_configuration_is_known(more: str | None, size: int, code: str | None) -> None:
    client: Any = Api()
    config = None if more is None else parse(CONFIG.format(more=more))
    rehearsal = Rehearsal(client, "stations", config, NOON)
    event = {"series": "a", "time": "2026-03-15T11:00:00Z", "data": {"x": "y" * size}}
    rejection = rehearsal.judge_event(event)
    assert (None if rejection is None else rejection.code) == code
    assert rehearsal.is_complete is (more is not None)
