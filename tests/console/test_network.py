"""A slow network and a small screen: what is there first, what is awaited, and that nothing jumps or is cut off."""

from __future__ import annotations

import pytest

from tests.console.browser import Browser
from tests.console.pages import KEY, Locked, find_axe_problems, visit
from tests.worlds.examples import NOW

# Milliseconds until the first byte, and kilobytes per second: a phone at the edge of its network.
SLOW = {"latency": 400, "speed": 60}


def open_slowly(browser: Browser, console: Locked) -> None:
    browser("open", url="about:blank", now=int(NOW.timestamp() * 1000), width=390, height=844)
    browser("network", **SLOW)
    browser("go", url=console.url)


def test_all_modules_are_fetched_in_one_round_trip(chromium: Browser, console: Locked) -> None:
    open_slowly(chromium, console)
    entries = "performance.getEntriesByType('resource').filter(({ name }) => name.endsWith('.js'))"
    times = chromium.evaluate(f"{entries}.map(({{ name, startTime, responseEnd }}) => [name, startTime, responseEnd])")
    assert len(times) > 20
    main = next(end for name, _, end in times if name.endswith("/main.js"))
    late = [name for name, begun, _ in times if begun >= main]
    assert late == [], "these were found in another module only"


def test_something_is_painted_before_the_api_answers_and_nothing_jumps(chromium: Browser, console: Locked) -> None:
    open_slowly(chromium, console)
    paint = chromium.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    answered = chromium.evaluate(
        "performance.getEntriesByType('resource').find(({ name }) => name.endsWith('/v1/streams')).responseEnd"
    )
    assert paint < answered
    assert chromium.evaluate("jumps") < 0.1, "Google's limit of a good page"


def test_the_page_says_what_it_waits_for_at_each_step(chromium: Browser, console: Locked) -> None:
    visit(chromium, console, "explore?stream=access&from=-7d")
    console.open.clear()
    try:
        chromium("restart")
        chromium.wait("document.querySelector('main').innerText.includes('Reading the list of streams…')")
        assert chromium.text("nav [aria-current]") == "Explore"
    finally:
        console.open.set()
    chromium.wait("document.querySelector('.chart canvas')")
    assert chromium.evaluate("jumps") < 0.1


def test_a_new_question_moves_nothing(chromium: Browser, console: Locked) -> None:
    visit(chromium, console, "explore?stream=access&from=-7d&by=path&top=5")
    chromium.evaluate("jumps = 0")
    for hash in ("from=-3d&by=path&top=5", "from=-3d&by=path&top=5&form=bars", "from=-1d&by=path&top=5"):
        chromium.evaluate(f"location.hash = '#explore?stream=access&{hash}'")
        chromium("settle")
    assert chromium.evaluate("jumps") < 0.05


def test_without_motion_nothing_moves(chromium: Browser, console: Locked) -> None:
    script = "getComputedStyle(document.querySelector('.wave')).animationName"
    for motion, name in ((False, "none"), (True, "drift")):
        chromium("open", url="about:blank", motion=motion)
        chromium("go", url=console.url)
        chromium.evaluate("document.querySelector('main').innerHTML = '<span class=wave></span>'")
        assert chromium.evaluate(script) == name


@pytest.mark.parametrize(
    "view",
    [
        "now",
        "tide?show=table",
        "explore?stream=access&from=-14d&by=path&form=bars&step=1d",
        "explore?stream=access&from=-14d&by=path&form=heat&step=1d",
        "explore?stream=access&from=-7d&show=json",
        "explore?stream=access&from=-7d&show=explain",
        "explore?stream=access&ask=events&show=table&where=status%3Age%3A500",
        "explore?stream=access&ask=events&y=ms",
        "explore?stream=unknown-stream-with-a-very-long-name-that-nobody-would-choose-but-somebody-does",
        "explore?stream=access&from=nonsense",
    ],
)
def test_nothing_is_cut_off_at_390_pixels(chromium: Browser, console: Locked, view: str) -> None:
    visit(chromium, console, view, width=390, height=844)
    assert chromium.evaluate("document.documentElement.scrollWidth") <= 390
    # What is wider than the page lies in an element that scrolls.
    scrolling = ".scroll, .tide, .visually-hidden, .u-wrap"
    wide = f"""[...document.querySelectorAll('main *')].filter((each) => each.offsetParent && !each.closest('{scrolling}')
        && each.getBoundingClientRect().right > 391).map((each) => each.className || each.localName)"""
    assert chromium.evaluate(wide) == []
    # A thumb needs 44 pixels. Links in a sentence, and in a table, have the height of their text.
    small = """[...document.querySelectorAll('button, .button, nav a, select, summary, input:not([type=checkbox])')]
        .filter((each) => { const box = each.getBoundingClientRect();
            return box.width && (box.height < 43.9 || box.width < 43.9) && !each.matches('.calendar'); })
        .map((each) => [each.localName, each.className, each.textContent.slice(0, 20)])"""
    assert chromium.evaluate(small) == []
    assert find_axe_problems(chromium) == {}


def test_conditions_and_columns_of_a_log_are_seen_on_a_phone(chromium: Browser, console: Locked) -> None:
    visit(chromium, console, "explore?stream=access&ask=events&show=table", width=390, height=844)
    assert "+ Condition" in chromium.text(".question")
    columns = """[...document.querySelectorAll('thead th')].filter((each) =>
        each.getBoundingClientRect().right <= innerWidth).map((each) => each.innerText.trim())"""
    assert len(chromium.evaluate(columns)) >= 4


def test_a_narrow_page_begins_with_the_first_fields_and_shows_all(chromium: Browser, console: Locked) -> None:
    visit(chromium, console, "explore?stream=access&from=-7d", width=390, height=844)
    assert chromium.evaluate("document.querySelector('.chart').getBoundingClientRect().top") < 844 * 0.75, (
        "the chart is seen"
    )
    assert "Group by" not in chromium.text(".question")
    chromium("click", selector=".allfields")
    assert "Group by" in chromium.text(".question")
    assert chromium.evaluate("document.querySelector('.allfields').ariaExpanded") == "true"


def test_the_key_is_not_sent_elsewhere_when_slow(chromium: Browser, console: Locked) -> None:
    visit(chromium, console, "explore?stream=access&from=-7d")
    chromium("network", **SLOW)
    chromium("reload")
    chromium.wait("document.querySelector('.chart canvas')")
    assert {request["key"] for request in chromium("log")["requests"] if "/console" in request["url"]} == {None}
    assert chromium.evaluate("sessionStorage.getItem('tidetable.key')") == KEY


def test_an_absolute_range_stays_inside_of_its_button(chromium: Browser, console: Locked) -> None:
    view = "explore?stream=access&from=2026-03-30T00:00:00Z&to=2026-03-31T12:00:00Z"
    visit(chromium, console, view, width=390, height=844)
    button = "document.querySelector('.anchor button.select')"
    assert chromium.evaluate(f"{button}.scrollWidth - {button}.clientWidth") <= 0
    assert chromium.evaluate(f"{button}.scrollHeight - {button}.clientHeight") <= 0
    assert chromium.evaluate("document.querySelector('.question').textContent.includes('p95')") is True
