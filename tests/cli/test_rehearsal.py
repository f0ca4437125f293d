"""A dry run judges what the import would send: the values of a Parquet file in the form that the client gives them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from cli.rehearsal import Rehearsal
from tidetable_client import Page

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)


class Api:
    """The answers of a stage with one stream."""

    def streams(self) -> list[dict[str, Any]]:
        window = {"oldest": "2026-03-14T12:00:00Z", "newest": "2026-03-15T12:05:00Z"}
        return [{"stream": "stations", "late": "1d", "window": window}]

    def periods(self, stream: str, **parameters: Any) -> Api:
        return self

    def pages(self) -> list[Page]:
        return [Page([], None)]


def judge(value: Any) -> str | None:
    client: Any = Api()
    event = {"series": "a", "time": "2026-03-15T11:00:00Z", "data": {"x": value}}
    rejection = Rehearsal(client, "stations", None, NOON).judge(event)
    return None if rejection is None else f"{rejection.code}: {rejection.detail}"


@pytest.mark.parametrize("value", [1.5, NOON, date(2026, 3, 15), Decimal("1.5"), b"bytes", [1.5, None]])
def test_a_value_that_the_client_can_write_is_not_refused(value: Any) -> None:
    assert judge(value) is None


def test_a_value_that_the_client_cannot_write_is_refused_with_its_reason() -> None:
    assert judge(float("nan")) == "invalid: data.x is nan, which JSON cannot hold: leave the field out, or write text"
