"""The versions of an event: each is shown, and two of them are compared, by mouse and by keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.console.browser import Browser
from tests.console.guarded import Guarded, guarded_console, text_of
from tests.console.pages import find_axe_problems, of_key, visit

HOSTILE = '<img src=x onerror="window.hurt=1">'
QUOTED = r'"<img src=x onerror=\"window.hurt=1\">"'
VERSIONS: tuple[dict[str, Any], ...] = (
    {"state": "new", "size": {"w": 1, "h": 2}, "tags": ["a", "b"], "old": True},
    {"state": "new", "size": {"w": 1, "h": 3}, "tags": ["a", "c", "d"], HOSTILE: HOSTILE},
    {"state": "2", "size": {"w": 1, "h": 3}, "tags": ["a", "c", "d"], "a.b": 1, "big": 9007199254740993},
)


@pytest.fixture(scope="module")
def console() -> Iterator[Guarded]:
    """An event of three versions, and one of a single version."""
    with guarded_console() as console:
        console.add("everything", "write", "read", "operate")
        for minutes, data in zip((9, 7, 5), VERSIONS, strict=True):
            console.send("sensors", minutes, series="s", id="changed", time="2026-03-31T09:30:00Z", data=data)
        console.send("sensors", series="single", id="once", data={"n": 1})
        yield console


def open_event(browser: Browser, console: Guarded, series: str) -> None:
    view = f"explore?stream=sensors&ask=events&series={series}&show=table"
    visit(browser, console, view, key=text_of("everything"))
    browser("click", selector="tbody tr")
    browser.wait("document.querySelector('dialog .whole')")


def differences(browser: Browser) -> list[list[str]]:
    """The rows of the comparison: field, what, before and after."""
    rows = "[...document.querySelectorAll('.compare [role=status] tbody tr')]"
    script = f"{rows}.map((row) => [...row.cells].map((cell) => cell.innerText))"
    return [[cell.replace("\n", "") for cell in row] for row in browser.evaluate(script)]


def test_the_newest_version_is_compared_with_the_one_before(chromium: Browser, console: Guarded) -> None:
    open_event(chromium, console, "s")
    assert "3 versions" in chromium.text("dialog .compare")
    assert "From version 2 to version 3: 4 differences" in chromium.text("dialog .compare")
    assert sorted(differences(chromium)) == sorted(
        [
            ["≠state", "changed", '"new"', '"2"'],
            [f"\u2212{QUOTED}", "removed", QUOTED, ""],
            ['+"a.b"', "added", "", "1"],
            ["+big", "added", "", "9007199254740993"],
        ]
    )
    assert chromium.evaluate("window.hurt ?? null") is None
    assert chromium.evaluate("document.querySelectorAll('dialog img').length") == 0
    assert of_key(chromium.errors) == []


def test_any_two_versions_are_chosen_by_the_keyboard(chromium: Browser, console: Guarded) -> None:
    open_event(chromium, console, "s")
    chromium.evaluate("document.querySelector('.versions input[name=before]:checked').focus()")
    chromium("press", key="ArrowDown")
    chromium.evaluate("document.querySelector('.versions input[name=after]:checked').focus()")
    chromium("press", key="ArrowDown")
    assert "From version 1 to version 2: 5 differences" in chromium.text("dialog .compare")
    rows = differences(chromium)
    assert ["≠size.h", "changed", "2", "3"] in rows, "nested fields by their path"
    assert ["≠tags[1]", "changed", '"b"', '"c"'] in rows
    assert ["+tags[2]", "added", "", '"d"'] in rows
    assert ["\u2212old", "removed", "true", ""] in rows
    assert not any(row[0].endswith("size.w") for row in rows), "what is the same is not listed"
    chromium("press", key="ArrowDown")
    assert "From version 1 to version 1: the same data" in chromium.text("dialog .compare")


def test_an_event_of_one_version_says_so(chromium: Browser, console: Guarded) -> None:
    open_event(chromium, console, "single")
    assert "This event has one version." in chromium.text("dialog")


def test_axe_finds_nothing_serious_in_a_comparison(chromium: Browser, console: Guarded) -> None:
    visit(
        chromium,
        console,
        "explore?stream=sensors&ask=events&series=s&show=table",
        key=text_of("everything"),
        width=390,
    )
    chromium("click", selector="tbody tr")
    chromium.wait("document.querySelector('dialog .whole')")
    assert find_axe_problems(chromium) == {}
    assert chromium.evaluate("document.documentElement.scrollWidth") <= 390
    assert (
        chromium.evaluate("document.querySelector('dialog').scrollWidth - document.querySelector('dialog').clientWidth")
        <= 0
    )
