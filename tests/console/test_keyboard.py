"""The keyboard keeps its place: in the bar at the top, in conditions, and while an answer is repeated."""

from __future__ import annotations

from tests.console.browser import Browser
from tests.console.pages import Locked, question_of, visit

FOCUSED = "document.activeElement.localName + ' ' + document.activeElement.innerText.trim()"


def press_at(browser: Browser, selector: str, key: str = "Enter") -> str:
    """The element that has the focus after a key is pressed at another one."""
    browser.evaluate(f"document.querySelector('{selector}').focus()")
    browser("press", key=key)
    browser("settle")
    return str(browser.evaluate(FOCUSED))


def test_the_bar_keeps_the_view_and_the_focus(chromium: Browser, console: Locked) -> None:
    visit(chromium, console, "explore?stream=access&from=-2d")
    before = chromium.evaluate("location.hash")
    press_at(chromium, ".skip")
    skipped = chromium.evaluate("[location.hash, document.activeElement.id]")
    found = [press_at(chromium, f".tools button:nth-of-type({number})") for number in (1, 2)]
    found.append(press_at(chromium, "nav a:nth-of-type(6)"))
    assert (skipped, found) == ([before, "main"], ["button UTC", "button ☀", "a Send"])


def test_a_condition_is_added_and_removed_by_the_keyboard(chromium: Browser, console: Locked) -> None:
    visit(chromium, console, "explore?stream=access&from=-2d&ask=events&show=table")
    press_at(chromium, ".conditions .add")
    added = chromium.evaluate("document.activeElement.placeholder ?? ''")
    removed = press_at(chromium, ".condition button")
    chromium.evaluate("location.hash = '#explore?stream=access&from=-2d&where=status:ge:500'")
    chromium("settle")
    cleared = press_at(chromium, ".condition button")
    assert (added, removed, cleared) == ("field", "button + Condition", "button + Condition")
    assert "where" not in question_of(chromium)


def test_a_repeated_answer_leaves_the_focus_on_its_button(chromium: Browser, console: Locked) -> None:
    found = {}
    for selector in (".tab:nth-of-type(2)", ".copy button:nth-of-type(3)", "th:nth-of-type(2) .sort"):
        visit(chromium, console, "explore?stream=access&from=-1d&ask=events&show=table&every=5s")
        chromium.evaluate("document.querySelector('.repeat').click()")
        chromium.wait("document.querySelector('tbody') && !document.querySelector('.repeat')")
        chromium.evaluate(f"document.querySelector('.result {selector}').focus()")
        wanted = chromium.evaluate(FOCUSED)
        chromium.evaluate("document.querySelector('tbody').dataset.former = '1'")
        chromium.wait("document.querySelector('tbody') && !document.querySelector('tbody').dataset.former")
        found[wanted] = chromium.evaluate(FOCUSED)
    chromium.evaluate("location.hash = '#send'")
    chromium.wait("document.querySelector('textarea')")
    assert found == {"button Table": "button Table", "button Link": "button Link", "button series": "button series"}
