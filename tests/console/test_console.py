"""The console in a real browser, before the handlers of a pipeline with three weeks of web accesses."""

from __future__ import annotations

import json
from datetime import timedelta
from urllib.parse import quote, urlsplit

import pytest

from tests.console.browser import Browser
from tests.console.pages import (
    KEY,
    Locked,
    enter_key,
    find_axe_problems,
    ink_of,
    of_key,
    picture_of,
    question_of,
    visit,
)
from tests.worlds.examples import NOW

VIEWS = ("tide", "explore?stream=access&from=-24h&by=path", "rankings", "latest", "send")


def test_the_page_loads_without_a_key_and_asks_for_one(chromium: Browser, console: Locked) -> None:
    chromium("open", url=console.url)
    assert chromium.text("dialog h2") == "Key"
    assert "403 forbidden" in chromium.text("main")
    log = chromium("log")
    assert {request["key"] for request in log["requests"]} == {None}
    assert {urlsplit(request["url"]).netloc for request in log["requests"]} == {urlsplit(console.url).netloc}
    assert log["bytes"] < 95_000, "everything that the first view needs, compressed"
    assert chromium.evaluate("localStorage.length") == 0


def test_a_wrong_key_is_refused_and_the_right_one_stays_in_the_tab_alone(chromium: Browser, console: Locked) -> None:
    enter_key(chromium, console, "tide", key="tt_wrong")
    assert "This key was refused." in chromium.text("dialog")
    chromium("type", selector="dialog input", text=KEY)
    chromium("click", selector="dialog .primary")
    chromium.wait("document.querySelectorAll('.period').length > 0")
    assert chromium.evaluate("sessionStorage.getItem('tidetable.key')") == KEY
    assert chromium.evaluate("Object.values(localStorage).join() + document.cookie + location.href").count(KEY) == 0
    keys = {request["key"] for request in chromium("log")["requests"] if "/v1/" in request["url"]}
    assert keys == {None, "tt_wrong", KEY}


@pytest.mark.parametrize("width", [1280, 390])
def test_the_dialog_of_the_key_shows_all_of_itself(chromium: Browser, console: Locked, width: int) -> None:
    chromium("open", url=f"{console.url}#tide", width=width, height=800)
    hidden = """(() => { const frame = document.querySelector('dialog').getBoundingClientRect();
        return [...document.querySelectorAll('dialog h2, dialog p, dialog input, dialog button')].filter((each) => {
            const box = each.getBoundingClientRect();
            return box.top < frame.top || box.bottom > frame.bottom || box.right > frame.right; }).length; })()"""
    chromium.wait("document.querySelector('dialog .primary')")
    assert chromium.evaluate(hidden) == 0
    assert chromium.evaluate("document.querySelector('dialog input').offsetWidth") > width / 2.5, "a key has 48 letters"


def test_the_tide_shows_every_period_and_its_facts(chromium: Browser, console: Locked) -> None:
    visit(chromium, console, "tide")
    entries = list(console.example.stage.catalog.entries("access"))
    assert chromium.evaluate("document.querySelectorAll('.period').length") == len(entries) == 22
    assert chromium.evaluate("document.querySelectorAll('.period.open').length") == 3, "today and two ahead"
    assert chromium.evaluate("document.querySelectorAll('.period.late').length") == 2, "two days of late events"
    assert chromium.evaluate("document.querySelectorAll('.period.ahead').length") == 2
    assert chromium.evaluate("document.querySelectorAll('line.now').length") == 1
    assert "takes events up to 2 days late" in chromium.text("main")
    chromium.evaluate("document.querySelectorAll('.period.late')[1].focus()")
    chromium.wait("document.activeElement.classList.contains('late')")
    chromium("press", key="Enter")
    chromium.wait("document.querySelector('dialog h2')")
    text = chromium.text("dialog")
    assert "access, 2026-03-30" in text
    assert "open for late events" in text
    assert "tidetable-lapse.access.2026-03-30" in text
    assert of_key(chromium.errors) == []


def test_the_chart_is_of_the_data(chromium: Browser, console: Locked) -> None:
    visit(chromium, console, "explore?stream=access&from=-7d&step=1d&form=bars")
    assert ink_of(chromium, "#1791a7") > 5_000
    week = picture_of(chromium)
    visit(chromium, console, "explore?stream=access&from=-7d&step=1d&form=bars&where=status%3Age%3A500")
    assert picture_of(chromium) != week
    assert of_key(chromium.errors) == []


def test_the_table_has_the_numbers_of_the_events(chromium: Browser, console: Locked) -> None:
    """The page shows whole steps: seven days until the last midnight."""
    visit(chromium, console, "explore?stream=access&from=-7d&step=1d&by=path&show=table")
    rows = chromium.evaluate(
        "[...document.querySelectorAll('tbody tr')].map((row) => [...row.cells].map((cell) => cell.innerText))"
    )
    counts: dict[str, int] = {}
    for row in rows:
        counts[row[1]] = counts.get(row[1], 0) + int(row[2])
    midnight = NOW.replace(hour=0, minute=0, second=0, microsecond=0)
    events = [event for event in console.example.sent if midnight - timedelta(days=7) <= event["at"] < midnight]
    wanted: dict[str, int] = {}
    for event in events:
        wanted[event["data"]["path"]] = wanted.get(event["data"]["path"], 0) + 1
    assert counts == wanted


def test_dragging_looks_closer_with_a_finer_step_and_the_address_can_be_shared(
    chromium: Browser, console: Locked
) -> None:
    visit(chromium, console, "explore?stream=access&from=-14d&step=1d")
    chromium("drag", selector=".chart .u-over", **{"from": 0.5, "to": 0.6})
    chromium("settle")
    question = question_of(chromium)
    assert "step" not in question, "the step follows the range"
    assert question["from"][0] > "2026-03-22"
    assert question["to"][0] < "2026-03-28"
    assert "auto (10m)" in chromium.text(".question")
    shared, shown = chromium.evaluate("location.hash"), chromium.text(".resultbar .tabs") + chromium.text(".lines")
    visit(chromium, console, shared[1:])
    assert chromium.text(".resultbar .tabs") + chromium.text(".lines") == shown
    chromium.evaluate("history.length")
    assert of_key(chromium.errors) == []


def test_events_are_opened_whole(chromium: Browser, console: Locked) -> None:
    visit(chromium, console, "explore?stream=access&ask=events&from=-6h&show=table")
    newest = max((event for event in console.example.sent if event["at"] < NOW), key=lambda event: event["at"])
    chromium("click", selector="tbody tr")
    chromium.wait("document.querySelector('dialog .whole')")
    assert newest["id"] in chromium.text("dialog")
    assert json.loads(chromium.text("dialog pre")) == json.loads(json.dumps(newest["data"], default=float))
    assert of_key(chromium.errors) == []


def test_a_condition_is_built_by_clicking(chromium: Browser, console: Locked) -> None:
    visit(chromium, console, "explore?stream=access&ask=events&from=-7d&show=table")
    chromium("click", selector=".conditions .add")
    chromium("type", selector=".condition input[placeholder=field]", text="status")
    chromium("select", selector=".condition select", value="ge")
    chromium("type", selector=".condition input[placeholder=value]", text="500")
    chromium("press", key="Enter")
    chromium("settle")
    assert question_of(chromium)["where"] == ["status:ge:500"]
    column = chromium.evaluate(
        "(() => { const at = [...document.querySelectorAll('thead th')].findIndex((cell) => cell.innerText === 'status');"
        "return [...document.querySelectorAll('tbody tr')].map((row) => Number(row.cells[at].innerText)); })()"
    )
    assert column
    assert min(column) >= 500


def test_explain_says_what_is_read(chromium: Browser, console: Locked) -> None:
    visit(chromium, console, "explore?stream=access&from=-36h&show=explain")
    text = chromium.text(".result")
    assert "read units" in text
    assert "2026-03-30" in text
    assert "table" in text


def test_a_ranking_shows_the_greatest_first(chromium: Browser, console: Locked) -> None:
    visit(chromium, console, "rankings?stream=access&index=slowest&from=-7d&limit=10")
    values = chromium.evaluate(
        "[...document.querySelectorAll('.meter')].map((cell) => Number(cell.innerText.replaceAll(',', '')))"
    )
    slow = [event["data"]["slow_ms"] for event in console.example.since(days=7) if "slow_ms" in event["data"]]
    assert values == [float(value) for value in sorted(slow, reverse=True)[:10]]


def test_sent_events_get_a_verdict_each(chromium: Browser, console: Locked) -> None:
    visit(chromium, console, "send?stream=access")
    lines = [
        '{"series": "shop.example", "data": {"path": "/sent"}}',
        '{"data": {}}',
        '{"series": "old", "time": "2020-01-01T00:00:00Z", "data": {}}',
    ]
    chromium("type", selector="textarea", text="\n".join(lines))
    chromium("click", selector=".send .primary")
    chromium.wait("document.querySelectorAll('.verdicts li').length === 3")
    verdicts = chromium.evaluate("[...document.querySelectorAll('.verdicts li')].map((line) => line.innerText)")
    assert "accepted" in verdicts[0]
    assert "refused" in verdicts[1]
    assert "invalid" in verdicts[1]
    assert "too_old" in verdicts[2]
    assert "1 event accepted, 2 refused." in chromium.text(".result")


def test_nothing_that_was_sent_is_executed(chromium: Browser, console: Locked) -> None:
    hostile = '<img src=x onerror="window.hurt=1"><script>window.hurt=1</script>'
    event = {"series": hostile, "id": hostile, "data": {hostile: hostile, "n": 1}}
    console.example.stage.send("access", json.dumps(event).encode())
    for view in (
        "explore?stream=access&ask=events&from=-5m&to=now&show=table",
        "explore?stream=access&from=-5m&by=series&form=heat",
        "explore?stream=access&from=-5m&by=series",
        f"explore?stream=access&series={quote(hostile)}",
    ):
        visit(chromium, console, view)
        assert chromium.evaluate("window.hurt ?? null") is None
        assert chromium.evaluate("document.querySelectorAll('main img, main script').length") == 0
    visit(chromium, console, "explore?stream=access&ask=events&from=-5m&show=table")
    assert "<script>window.hurt=1</script>" in chromium.text("tbody")


def test_an_api_that_is_out_of_order_is_told_and_tried_again(chromium: Browser, console: Locked) -> None:
    visit(chromium, console, "tide")
    console.down = True
    try:
        chromium.evaluate("location.hash = '#explore?stream=access'")
        chromium.wait("document.querySelector('.problem')")
        assert "503 unavailable" in chromium.text(".problem")
    finally:
        console.down = False
    chromium("click", selector=".problem button")
    chromium.wait("document.querySelector('.chart canvas')")


@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing_serious(chromium: Browser, console: Locked, view: str) -> None:
    visit(chromium, console, view)
    assert find_axe_problems(chromium) == {}


@pytest.mark.parametrize("view", VIEWS)
def test_a_phone_needs_no_sideways_scrolling(chromium: Browser, console: Locked, view: str) -> None:
    visit(chromium, console, view, width=390, height=844)
    assert chromium.evaluate("document.documentElement.scrollWidth") <= 390
    assert of_key(chromium.errors) == []
