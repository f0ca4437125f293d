"""What Explore does beside asking: ranges, refreshing, a legend, a readout, an order, comparing, cancelling, recent questions."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from tests.console.browser import Browser
from tests.console.pages import Locked, of_key, picture_of, question_of, visit
from tests.worlds.examples import NOW

PATHS = "explore?stream=access&from=-14d&by=path&top=5&step=1d"


@pytest.fixture
def gate(console: Locked) -> Iterator[threading.Event]:
    """While it is clear, the API does not answer."""
    yield console.open
    console.open.set()


def make_requests(browser: Browser, route: str = "/aggregate") -> list[str]:
    return [request["url"] for request in browser("log")["requests"] if route in request["url"]]


def cells(browser: Browser, column: int) -> list[str]:
    script = f"[...document.querySelectorAll('tbody tr')].map((row) => row.cells[{column}].innerText)"
    return list(browser.evaluate(script))


def lines(browser: Browser) -> dict[str, bool]:
    """The lines of the legend, and whether each is drawn."""
    script = (
        "[...document.querySelectorAll('.lines button')].map((line) => [line.innerText, line.ariaPressed === 'true'])"
    )
    return dict(browser.evaluate(script))


@pytest.mark.parametrize(
    ("first", "last", "wanted"),
    [
        ("now-6h", "now", {"from": ["-6h"]}),
        ("3d", "now-1d", {"from": ["-3d"], "to": ["-1d"]}),
        ("yesterday", "today", {"from": ["yesterday"], "to": ["today"]}),
        ("2026-03-20", "2026-03-21 12:30", {"from": ["2026-03-20T00:00:00.000Z"], "to": ["2026-03-21T12:30:00.000Z"]}),
        ("2026-03-20T00:00:00+02:00", "now", {"from": ["2026-03-19T22:00:00.000Z"]}),
    ],
)
def test_a_range_is_typed(
    chromium: Browser, console: Locked, first: str, last: str, wanted: dict[str, list[str]]
) -> None:
    visit(chromium, console, "explore?stream=access")
    chromium("click", selector=".select")
    chromium("type", selector="input[name=from]", text=first)
    chromium("type", selector="input[name=to]", text=last)
    chromium("press", key="Enter")
    chromium("settle")
    question = question_of(chromium)
    assert {name: question[name] for name in ("from", "to") if name in question} == wanted
    assert not chromium.text(".problem")


@pytest.mark.parametrize(
    ("first", "last", "said"),
    [
        ("soon", "now", "“soon” is not a time"),
        ("now-1h", "now-2h", "must end after it begins"),
        ("2026-02-31", "now", "is not a time"),
    ],
)
def test_a_wrong_range_is_not_used(chromium: Browser, console: Locked, first: str, last: str, said: str) -> None:
    visit(chromium, console, "explore?stream=access")
    chromium("click", selector=".select")
    chromium("type", selector="input[name=from]", text=first)
    chromium("type", selector="input[name=to]", text=last)
    chromium("press", key="Enter")
    chromium.wait(f"document.querySelector('.custom .remedy').innerText.includes('{said}')")
    assert "from" not in question_of(chromium)


def test_the_keyboard_moves_the_range(chromium: Browser, console: Locked) -> None:
    visit(chromium, console, "explore?stream=access&from=2026-03-20T00:00:00Z&to=2026-03-22T00:00:00Z")
    for key, first, last in (
        ("ArrowLeft", "2026-03-19T00:00:00.000Z", "2026-03-21T00:00:00.000Z"),
        ("ArrowRight", "2026-03-20T00:00:00.000Z", "2026-03-22T00:00:00.000Z"),
        ("-", "2026-03-19T00:00:00.000Z", "2026-03-23T00:00:00.000Z"),
        ("+", "2026-03-20T00:00:00.000Z", "2026-03-22T00:00:00.000Z"),
    ):
        chromium("press", key=key)
        chromium("settle")
        question = question_of(chromium)
        assert (question["from"], question["to"]) == ([first], [last]), key
    chromium.evaluate("document.querySelector('.moves button').click()")
    chromium("settle")
    assert question_of(chromium)["from"] == ["2026-03-19T00:00:00.000Z"]


def test_a_range_that_reaches_now_follows_it_again(chromium: Browser, console: Locked) -> None:
    visit(chromium, console, "explore?stream=access&from=2026-03-30T09:00:00Z&to=2026-03-31T09:00:00Z")
    chromium("press", key="ArrowRight")
    chromium("settle")
    question = question_of(chromium)
    assert question["from"] == ["-1d"]
    assert "to" not in question
    assert chromium.evaluate("document.querySelector('.moves button:nth-of-type(2)').disabled"), "nothing is later"


def test_the_legend_hides_lines_and_shows_one_alone(chromium: Browser, console: Locked) -> None:
    visit(chromium, console, PATHS)
    names = list(lines(chromium))
    assert len(names) == 5
    before = picture_of(chromium)
    asked = len(make_requests(chromium))
    chromium("click", selector=".lines button")
    assert lines(chromium) == {name: name != names[0] for name in names}
    assert picture_of(chromium) != before
    assert question_of(chromium)["hide"] == [names[0]], "the address can be shared"
    chromium.evaluate(
        "document.querySelectorAll('.lines button')[2].dispatchEvent(new MouseEvent('click', {shiftKey: true}))"
    )
    assert lines(chromium) == {name: name == names[2] for name in names}
    chromium.evaluate(
        "document.querySelectorAll('.lines button')[2].dispatchEvent(new MouseEvent('click', {shiftKey: true}))"
    )
    assert set(lines(chromium).values()) == {True}
    assert picture_of(chromium) == before
    assert len(make_requests(chromium)) == asked, "nothing is asked again"
    visit(chromium, console, f"{PATHS}&hide={names[1].replace('/', '%2F')}")
    assert lines(chromium) == {name: name != names[1] for name in names}


def test_bars_without_a_hidden_line_stand_on_the_others(chromium: Browser, console: Locked) -> None:
    visit(chromium, console, f"{PATHS}&form=bars")
    highest = "Math.max(...document.querySelector('.chart').plot.data[1])"
    whole = chromium.evaluate(highest)
    values = chromium.evaluate("document.querySelector('.chart').plot.data.slice(1).map((line) => line[3])")
    assert values == sorted(values, reverse=True), "each stands on those behind it"
    chromium.evaluate("[...document.querySelectorAll('.lines button')].at(-1).click()")
    assert chromium.evaluate(highest) < whole


def test_the_readout_names_every_line_the_greatest_first(chromium: Browser, console: Locked) -> None:
    visit(chromium, console, PATHS)
    chromium("hover", selector=".plot .u-over", to=0.5)
    parts = "['.name', 'b'].map((part) => row.querySelector(part).innerText)"
    script = f"[...document.querySelectorAll('.readout li')].map((row) => {parts})"
    rows = [(name, int(value)) for name, value in chromium.evaluate(script)]
    # A chart has whole steps: the day that is not over is left out.
    day = NOW.replace(hour=0) - timedelta(days=8)
    assert chromium.text(".readout time") == day.strftime("Mar %d, 2026, 00:00:00")
    wanted: dict[str, int] = {}
    for event in console.example.sent:
        if day <= event["at"] < day + timedelta(days=1):
            wanted[event["data"]["path"]] = wanted.get(event["data"]["path"], 0) + 1
    assert dict(rows) == {name: wanted.get(name, 0) for name in lines(chromium)}
    assert [value for _, value in rows] == sorted((value for _, value in rows), reverse=True)
    assert len(chromium.evaluate("[...document.querySelectorAll('.readout .nearest')]")) == 1


def test_the_keyboard_reads_the_chart_and_looks_closer(chromium: Browser, console: Locked) -> None:
    visit(chromium, console, "explore?stream=access&from=-14d&step=1d")
    chromium.evaluate("document.querySelector('.plot').focus()")
    chromium("press", key="Home")
    assert "Mar 17, 2026" in chromium.text(".readout time")
    assert "count" in chromium.evaluate("document.getElementById('said').textContent"), "and it is spoken"
    chromium("press", key="ArrowRight")
    assert "Mar 18, 2026" in chromium.text(".readout time")
    chromium("press", key="Enter")
    for _ in range(3):
        chromium("press", key="ArrowRight")
    chromium("press", key="Enter")
    chromium("settle")
    question = question_of(chromium)
    assert (question["from"], question["to"]) == (["2026-03-18T00:00:00.000Z"], ["2026-03-21T00:00:00.000Z"])
    assert "step" not in question


def test_a_table_is_sorted_by_its_headings_and_the_order_is_in_the_address(chromium: Browser, console: Locked) -> None:
    visit(chromium, console, "explore?stream=access&from=-7d&step=1w&by=path&show=table")
    original = cells(chromium, 2)
    asked = len(make_requests(chromium))
    script = "[...document.querySelectorAll('th button')].find((button) => button.innerText.startsWith('{}')).click()"
    for sort, direction in (("-count", "descending"), ("count", "ascending"), (None, None)):
        chromium.evaluate(script.format("count"))
        values = [int(cell) for cell in cells(chromium, 2)]
        assert question_of(chromium).get("sort") == (None if sort is None else [sort])
        assert chromium.evaluate("document.querySelectorAll('th')[2].getAttribute('aria-sort')") == direction
        if sort is None:
            assert cells(chromium, 2) == original
        else:
            assert values == sorted(values, reverse=sort.startswith("-"))
    chromium.evaluate(script.format("path"))
    assert cells(chromium, 1) == sorted(cells(chromium, 1))
    assert len(make_requests(chromium)) == asked
    visit(chromium, console, "explore?stream=access&from=-7d&step=1w&by=path&show=table&sort=-count")
    values = [int(cell) for cell in cells(chromium, 2)]
    assert values == sorted(values, reverse=True)


def test_a_long_table_grows_while_it_is_read(chromium: Browser, console: Locked) -> None:
    visit(chromium, console, "explore?stream=access&ask=events&from=-14d&limit=1000&show=table")
    assert len(cells(chromium, 0)) < 700
    assert chromium.evaluate("document.querySelector('table').getAttribute('aria-rowcount')") == "1001"
    scrolled = "document.querySelector('.scroll').scrollTop = 1e6"
    chromium.wait(f"({scrolled}, document.querySelectorAll('tbody tr').length === 1000)")
    assert (
        len(set(cells(chromium, len(chromium.evaluate("[...document.querySelectorAll('th')].map(() => 0)")) - 1)))
        == 1000
    )


def test_the_range_before_is_drawn_beside(chromium: Browser, console: Locked) -> None:
    visit(
        chromium, console, "explore?stream=access&from=2026-03-24T00:00:00Z&to=2026-03-31T00:00:00Z&step=1d&beside=1w"
    )
    assert list(lines(chromium)) == ["count", "count, earlier"]
    data = chromium.evaluate("document.querySelector('.chart').plot.data")
    first = NOW.replace(hour=0) - timedelta(days=7)
    assert data[0] == [(first + timedelta(days=day)).timestamp() for day in range(7)]
    for line, back in ((1, 0), (2, 7)):
        starts = [first + timedelta(days=day - back) for day in range(7)]
        wanted = [
            sum(start <= event["at"] < start + timedelta(days=1) for event in console.example.sent) for start in starts
        ]
        assert data[line] == wanted
    assert len(make_requests(chromium)) == 2
    assert of_key(chromium.errors) == []


def test_an_answer_is_refreshed_and_keeps_the_focus_and_the_cursor(chromium: Browser, console: Locked) -> None:
    visit(chromium, console, "explore?stream=access&from=-1d&every=5s")
    chromium.evaluate("document.querySelector('.repeat').click()")
    chromium.wait("document.querySelector('.plot') && !document.querySelector('.repeat')")
    chromium.evaluate("document.querySelector('.plot').focus()")
    chromium("press", key="Home")
    asked = len(make_requests(chromium))
    # A later answer is no longer the element of now.
    chromium.evaluate("document.querySelector('.chart').dataset.former = '1'")
    chromium.wait("document.querySelector('.chart') && !document.querySelector('.chart').dataset.former")
    assert len(make_requests(chromium)) > asked
    assert chromium.evaluate("document.activeElement.className") == "plot"
    assert not chromium.evaluate("document.querySelector('.readout').hidden")
    chromium.evaluate("location.hash = '#send'")
    chromium.wait("document.querySelector('textarea')")


def test_a_slow_answer_says_what_is_awaited_and_can_be_cancelled(
    chromium: Browser, console: Locked, gate: threading.Event
) -> None:
    visit(chromium, console, "explore?stream=access&from=-7d")
    height = chromium.evaluate("document.querySelector('.result').offsetHeight")
    gate.clear()
    chromium.evaluate("document.querySelector('.question .primary').click()")
    chromium.wait("document.querySelector('.wait')")
    assert "Reading access, Last 7 days…" in chromium.text(".wait")
    assert chromium.evaluate("document.querySelector('.result').offsetHeight") == height, "the former answer stays"
    assert chromium.evaluate("document.querySelectorAll('.chart canvas').length") == 1
    chromium("press", key="Escape")
    chromium.wait("document.querySelector('.result .empty')")
    assert "Cancelled" in chromium.text(".result")
    gate.set()
    chromium("click", selector=".result .empty button")
    chromium.wait("document.querySelector('.chart canvas')")


def test_what_an_answer_took_is_beside_it(chromium: Browser, console: Locked) -> None:
    visit(chromium, console, "explore?stream=access&ask=events&from=-6h&show=table")
    parts = chromium.text(".cost").split(" · ")
    assert parts[0] == f"{len(cells(chromium, 0))} rows"
    assert parts[1].endswith(("read unit", "read units"))
    assert parts[2].endswith(("request", "requests"))
    assert parts[3].endswith(" ms")
    assert parts[4] == "from table"


def test_recent_questions_are_kept_in_the_tab_alone(chromium: Browser, console: Locked) -> None:
    visit(chromium, console, "explore?stream=access&from=-7d&where=status%3Age%3A500")
    chromium.evaluate("location.hash = '#explore?stream=access&ask=events&from=-6h'")
    chromium("settle")
    chromium("click", selector=".recentmenu summary")
    chromium.wait("document.querySelectorAll('.recent a').length === 2")
    texts = chromium.evaluate("[...document.querySelectorAll('.recent a span')].map((text) => text.innerText)")
    assert texts == ["access, events, Last 6 hours", "access, count, Last 7 days, status ge 500"]
    chromium("click", selector=".recent a:nth-of-type(2)")
    chromium("settle")
    assert question_of(chromium)["where"] == ["status:ge:500"]
    assert chromium.evaluate("Object.keys(localStorage).join()") == ""
    chromium("click", selector=".tools button:nth-of-type(3)")
    chromium.evaluate("[...document.querySelectorAll('dialog .buttons button')].at(-1).click()")
    chromium.wait("sessionStorage.length === 0")


def test_the_focus_stays_where_it_was(chromium: Browser, console: Locked) -> None:
    visit(chromium, console, "explore?stream=access&from=-7d")
    chromium.evaluate("document.querySelector('select[name=step]').focus()")
    chromium("select", selector="select[name=step]", value="1d")
    chromium("settle")
    assert question_of(chromium)["step"] == ["1d"]
    assert chromium.evaluate("document.activeElement.name") == "step"
    chromium("click", selector="details.choice:not(.recentmenu) summary")
    for stat in ("sum", "max"):
        chromium("click", selector=f"input[name=stat-{stat}]")
        chromium("settle")
    assert question_of(chromium)["stat"] == ["count,sum,max"], "the list stays open for the next"


def test_control_and_enter_runs_from_any_field(chromium: Browser, console: Locked) -> None:
    visit(chromium, console, "explore?stream=access&from=-1d")
    asked = len(make_requests(chromium))
    chromium.evaluate("document.querySelector('input[name=by]').focus()")
    chromium("press", key="Control+Enter")
    chromium.wait("!document.querySelector('.wait')")
    chromium("settle")
    assert len(make_requests(chromium)) == asked + 1


def test_the_keyboard_reads_a_heat_map_and_looks_closer(chromium: Browser, console: Locked) -> None:
    visit(chromium, console, "explore?stream=access&from=-14d&by=path&form=heat&step=1d")
    chromium.evaluate("document.querySelector('.heat .plot').focus()")
    chromium("press", key="Home")
    first = chromium.text(".heat .tip")
    assert ", Mar 17, 00:00" in first
    assert chromium.evaluate("document.getElementById('said').textContent") == first, "and it is spoken"
    chromium("press", key="ArrowDown")
    below = chromium.text(".heat .tip")
    assert ", Mar 17, 00:00" in below
    assert below.partition(",")[0] != first.partition(",")[0], "another row"
    chromium("press", key="ArrowRight")
    assert ", Mar 18, 00:00" in chromium.text(".heat .tip")
    chromium("press", key="Enter")
    for _ in range(3):
        chromium("press", key="ArrowRight")
    assert chromium.evaluate("document.querySelector('.heat .selection').hidden") is False
    chromium("press", key="Escape")
    chromium("press", key="Enter")
    chromium("press", key="ArrowLeft")
    assert "from=2026" not in chromium.evaluate("location.hash"), "Escape gave the first beginning up"
    chromium("press", key="Enter")
    chromium("settle")
    question = question_of(chromium)
    # The columns of March 20 and 21, to the end of the latter.
    assert (question["from"], question["to"]) == (["2026-03-20T00:00:00.000Z"], ["2026-03-22T00:00:00.000Z"])
    assert "step" not in question, "a finer step"
    assert of_key(chromium.errors) == []


def test_dragging_over_a_heat_map_looks_closer(chromium: Browser, console: Locked) -> None:
    visit(chromium, console, "explore?stream=access&from=-14d&by=path&form=heat&step=1d")
    before = picture_of(chromium)
    chromium("drag", selector=".heat canvas", **{"from": 0.4, "to": 0.7})
    chromium.wait("location.hash.includes('to=2026')")
    chromium("settle")
    asked = question_of(chromium)
    begin, end = (datetime.fromisoformat(asked[name][0]) for name in ("from", "to"))
    # The columns are 14 days or 15; the names of the rows take up to a fifth of the width.
    assert timedelta(days=4) < end - begin < timedelta(days=6)
    assert "step" not in asked, "a finer step"
    assert picture_of(chromium) != before
    assert of_key(chromium.errors) == []


def test_a_range_of_a_day_is_named_as_people_say_it(chromium: Browser, console: Locked) -> None:
    visit(chromium, console, "explore?stream=access&from=-1d")
    assert chromium.evaluate("document.querySelector('.select').textContent") == "Last day"
    visit(chromium, console, "explore?stream=access&from=-10d")
    assert chromium.evaluate("document.querySelector('.select').textContent") == "Last 10 days"
