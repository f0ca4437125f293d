"""The console of the deployed stage in a real browser: the page, the key, and the stage's own tables and events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import pytest

from local import Deployed
from local.http import Api
from tests.console.browser import Browser, running_browser
from tests.e2e.clock import OFFSET


@pytest.fixture(scope="module")
def browser(deployed: Deployed, api: Api) -> Iterator[Browser]:
    """A browser, after three events of the console's own were sent."""
    # The console charts whole steps, so an event of the present step would not be seen yet.
    time = (datetime.now(UTC) + OFFSET - timedelta(minutes=10)).isoformat()
    events = [
        {"series": "console", "id": f"console-{n}", "time": time, "data": {"mag": n, "place": "<b>here</b>"}}
        for n in range(1, 4)
    ]
    assert api.send("quakes", json.dumps(events).encode()).status == 200
    with running_browser() as running:
        yield running


def visit(browser: Browser, deployed: Deployed, view: str, key: str) -> None:
    now = int((datetime.now(UTC) + OFFSET).timestamp() * 1000)
    browser("open", url=f"{deployed.api}/console#{view}", now=now)
    browser("type", selector="dialog input", text=key)
    browser("click", selector="dialog .primary")
    browser("settle")


def test_the_tide_is_that_of_the_stage_and_says_what_is_next(browser: Browser, deployed: Deployed, api: Api) -> None:
    visit(browser, deployed, "tide", deployed.key)
    browser.wait("document.querySelectorAll('.lane').length > 1 && !document.querySelector('.busy')")
    periods = api.query("quakes", "periods", limit=60).body["periods"]
    assert browser.evaluate("document.querySelectorAll('[aria-label=quakes] .period').length") == len(periods)
    browser.wait("document.querySelector('.plan')")
    assert "alarm" in browser.text(".operations")
    # The requests before the key was entered are refused, and the browser notes that.
    assert [error for error in browser.errors if "403" not in error and "401" not in error] == []
    log = browser("log")
    assert {urlsplit(request["url"]).netloc for request in log["requests"]} == {urlsplit(deployed.api).netloc}


def test_events_are_shown_as_text(browser: Browser, deployed: Deployed) -> None:
    visit(browser, deployed, "explore?stream=quakes&ask=events&from=-1h&show=table&series=console", deployed.key)
    rows = browser.evaluate("[...document.querySelectorAll('tbody tr')].map((row) => row.innerText)")
    assert len(rows) == 3
    assert all("<b>here</b>" in row for row in rows)


def test_a_chart_is_drawn_of_an_aggregate(browser: Browser, deployed: Deployed) -> None:
    visit(browser, deployed, "explore?stream=quakes&from=-1h&stat=max&field=mag&series=console&form=bars", deployed.key)
    browser.wait("document.querySelector('.chart canvas')")
    visit(
        browser,
        deployed,
        "explore?stream=quakes&from=-1h&step=1s&stat=max&field=mag&series=console&show=table",
        deployed.key,
    )
    assert "3" in browser.evaluate("[...document.querySelectorAll('tbody td')].map((cell) => cell.innerText)")


def test_the_bill_is_that_of_the_stage(browser: Browser, deployed: Deployed, api: Api) -> None:
    answer = api.call("/v1/cost")
    assert answer.status == 200, answer.body
    streams = {row["stream"]: row for row in answer.body["streams"]}
    assert {"quakes", "stations", "reports"} <= streams.keys()
    # quakes is provisioned: its tables cost by the hour, whatever CloudWatch knows of them.
    assert streams["quakes"]["dollars"] > 1
    periods = {period["period"] for period in api.query("quakes", "periods", limit=60, state="open").body["periods"]}
    assert periods <= {period["period"] for period in streams["quakes"]["periods"]}
    visit(browser, deployed, "cost?stream=quakes&rate=50", deployed.key)
    summaries = "[...document.querySelectorAll('summary')].some((one) => one.innerText.includes('is made of'))"
    browser.wait(f"{summaries} && document.querySelector('button.setting')")
    assert "quakes" in browser.text("[aria-label=Bill]")
    assert "a month" in browser.text("[aria-label='What if']")
    assert [error for error in browser.errors if "403" not in error and "401" not in error] == []


def test_a_key_that_may_not_is_refused(browser: Browser, deployed: Deployed) -> None:
    visit(browser, deployed, "tide", "tt_nobodysskey_" + "0" * 32)
    assert "This key was refused." in browser.text("dialog")
