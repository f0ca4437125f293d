"""The rankings of an index that several kinds of events share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.console.browser import Browser
from tests.console.guarded import Guarded, guarded_console, text_of
from tests.console.pages import visit

CONFIG = """
[streams.sales]
period = "day"
late = "1h"
retention = 3
[streams.sales.key]
partition_by = "series"
[[streams.sales.index]]
name = "dearest"
kind = "type"
partition_by = { order = "customer", refund = "order" }
sort_by = "amount"
"""


@pytest.fixture(scope="module")
def console() -> Iterator[Guarded]:
    """Two orders of a customer, and a refund of one of them."""
    with guarded_console(CONFIG) as console:
        console.add("everything", "write", "read", "operate")
        for id, data in (
            ("o1", {"type": "order", "customer": "c1", "amount": 20}),
            ("o2", {"type": "order", "customer": "c1", "amount": 30}),
            ("r1", {"type": "refund", "order": "o1", "amount": 5}),
        ):
            console.send("sales", series="shop", id=id, data=data)
        yield console


@pytest.mark.parametrize(
    ("view", "amounts"), [("value=c1", [30, 20]), ("kind=order&value=c1", [30, 20]), ("kind=refund&value=o1", [5])]
)
def test_a_ranking_is_of_one_kind_of_events(
    chromium: Browser, console: Guarded, view: str, amounts: list[float]
) -> None:
    visit(chromium, console, f"rankings?stream=sales&{view}", key=text_of("everything"))
    shown = chromium.evaluate("[...document.querySelectorAll('.meter')].map((cell) => Number(cell.innerText))")
    assert shown == amounts


def test_without_a_value_the_view_asks_for_one(chromium: Browser, console: Guarded) -> None:
    visit(chromium, console, "rankings?stream=sales", key=text_of("everything"))
    assert "each kind of events" in chromium.text(".result")
    kinds = chromium.evaluate("[...document.querySelectorAll('option')].map((option) => option.value)")
    assert {"order", "refund"} <= set(kinds)
