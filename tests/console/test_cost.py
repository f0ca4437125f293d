"""The bill in a real browser: its figures, what another configuration would make of it, prices in the tide, and the runbook."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest

import wiring_upkeep
from bill import accounts
from bill.consumed import ConsumedUnits, Traffic
from tests.api.gateway import serving
from tests.console import pages
from tests.console.browser import Browser
from tests.console.pages import find_axe_problems, listening, of_key
from tests.console.serve import Served, served_console
from tests.fakes.stage import STALE_SECONDS, Stage
from tests.worlds.configs import ROOT
from tests.worlds.examples import NOW
from tidetable.access import Access

OPERATOR, READER = "tt_operator", "tt_reader"
KEYS: dict[str, Access] = {
    OPERATOR: Access("operator", None, frozenset({"read", "operate"})),
    READER: Access("reader", None, frozenset({"read"})),
}
CONFIG = """
[lifecycle]
stagger = "0s"
[streams.quakes]
period = "day"
late = "1d"
retention = 3
key = { partition_by = "time", bucket = "6h" }
[streams.quakes.capacity]
mode = "provisioned"
ladder = [{ age = 0, write = 10, read = 5 }, { age = 1, write = 1, read = 2, class = "infrequent-access" }]
[streams.devices]
period = "day"
late = "1d"
retention = 3
key = { partition_by = "series" }
"""
TODAY = "tidetable-lapse.devices.2026-03-31"
PACKS = '[streams.devices.pack]\nspan = "1h"'
VIEWS = (
    "cost",
    "cost?stream=quakes",
    f"cost?stream=devices&rate=50&change={quote(PACKS)}",
    "runbook?section=lost-tables",
)


class Priced:
    """The served console; its API knows two keys."""

    def __init__(self, served: Served, stage: Stage) -> None:
        self.served = served
        self.stage = stage
        self.url = ""
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        # The handlers share one simulated clock.
        with self._lock:
            if environ["PATH_INFO"].startswith("/v1/"):
                access = KEYS.get(environ.get("HTTP_X_API_KEY", ""))
                if access is None:
                    start("403 refusal", [("Content-Type", "application/problem+json")])
                    return [json.dumps({"status": 403, "code": "forbidden", "detail": "Send a valid key."}).encode()]
                environ["tidetable.access"] = access.context()
            self.stage.clock.time = NOW - timedelta(seconds=STALE_SECONDS)
            return list(self.served(environ, start))


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Priced]:
    """A stage of five days, whose CloudWatch has counted what devices took today."""
    file = tmp_path_factory.mktemp("priced") / "tidetable.toml"
    file.write_text(CONFIG)
    stage = Stage(NOW - timedelta(days=5), CONFIG)
    while stage.clock.now() < NOW:
        while stage.run_lifecycle().count("done"):
            stage.clock.sleep(60)
        stage.clock.sleep(6 * 3600)
    stage.clock.time = NOW
    while stage.run_lifecycle().count("done"):
        stage.clock.sleep(1)
    stage.meters.units = {(TODAY, ""): ConsumedUnits(16e6, 8e6)}
    stage.meters.counted = Traffic(requests=2e6, events=2e8, queries=1e6, read_units=1e6)
    for gateway in serving(stage, file):
        with served_console(gateway) as served:
            application = Priced(served, stage)
            with listening(application) as application.url:
                yield application


def visit(browser: Browser, console: Priced, view: str, *, key: str = OPERATOR, **options: Any) -> None:
    """Open a view in a new session with a key, the operator's if none is named."""
    pages.visit(browser, console, view, key=key, **options)


def rows_of(browser: Browser, caption: str) -> list[list[str]]:
    """The cells of a table by its caption."""
    found = f"[...document.querySelectorAll('table')].find((one) => one.caption?.textContent === {json.dumps(caption)})"
    script = f"[...{found}.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.innerText))"
    return list(browser.evaluate(script))


def test_the_lines_of_a_stream_are_shown_whole(chromium: Browser, console: Priced) -> None:
    visit(chromium, console, "cost?stream=quakes")
    hidden = "(() => { const box = document.querySelector('.result details[open]');"
    assert chromium.evaluate(hidden + " return box.scrollHeight - box.clientHeight; })()") == 0
    assert len(rows_of(chromium, "The bill of quakes")) >= 3


def test_the_older_periods_of_a_stream_are_priced_page_by_page(
    chromium: Browser, console: Priced, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer has an entry per stream, and a page of a stream two."""
    monkeypatch.setattr(accounts, "MAX_ENTRIES", 2)
    # A process keeps the bills of other tests.
    bills: dict[Any, Any] = {}
    monkeypatch.setattr(wiring_upkeep.pipeline().bills, "_answers", bills)
    visit(chromium, console, "cost?stream=quakes")
    button = "[...document.querySelectorAll('.result button')].find((one) => one.textContent.startsWith('Price the periods'))"
    shown, count = 0, len(console.stage.catalog.entries("quakes")) - 1
    while chromium.evaluate(f"Boolean({button})"):
        chromium.evaluate(f"{button}.click()")
        shown += 1
        chromium.wait(f"document.querySelectorAll('[aria-label=Bill] table').length === {2 + shown}")
    assert shown == -(-count // 2)
    assert sorted(key[1:] == (None, None) for key in bills) == [False] * shown + [True]
    assert of_key(chromium.errors) == []


def test_the_tide_shows_the_class_and_the_capacity_of_each_step(chromium: Browser, console: Priced) -> None:
    visit(chromium, console, "tide")
    kinds = dict(
        chromium.evaluate(
            "[...document.querySelectorAll('[aria-label=quakes] .period')].map((each) =>"
            " [each.getAttribute('aria-label').slice(0, 10), each.getAttribute('class')])"
        )
    )
    infrequent = {
        entry.period.label
        for entry in console.stage.catalog.entries("quakes")
        if entry.capacity.seen is not None and entry.capacity.seen.table_class.value == "infrequent-access"
    }
    assert "2026-03-28" in infrequent
    assert {label for label, kind in kinds.items() if "ia" in kind.split()} == infrequent
    assert {label for label, kind in kinds.items() if "ahead" in kind.split()} == {"2026-04-01", "2026-04-02"}
    amounts = "[...document.querySelectorAll('[aria-label=quakes] .amount')].map((each) => each.textContent)"
    assert chromium.evaluate(amounts)[-2:] == ["10", "1"], "today's and late tables, and the tables made ahead"
    fills = [
        chromium.evaluate(f"getComputedStyle(document.querySelector('[aria-label=quakes] {kind} .bar')).fill")
        for kind in (".closed.ia", ".late", ".open:not(.ahead)", ".ahead")
    ]
    assert len(set(fills)) == 4


def test_a_mistake_in_a_proposal_is_named_without_another_try(chromium: Browser, console: Priced) -> None:
    visit(chromium, console, "cost?stream=devices&rate=1&change=" + quote("[streams.devices.pack]\nspam = 1"))
    chromium.wait("document.querySelector('.problem')")
    assert "streams.devices.pack.spam: unknown key" in chromium.text(".problem")
    assert chromium.evaluate("document.querySelectorAll('.problem button').length") == 0, "it would ask the same"


def test_the_bill_is_shown_by_stream(chromium: Browser, console: Priced) -> None:
    visit(chromium, console, "cost")
    rows = {row[0]: row[1] for row in rows_of(chromium, "The bill by stream")}
    # Today's and yesterday's tables of quakes at 10/5; two made ahead at 1/1; one at 10/5 until it is a period old, and what
    # is older at 1/2 in the class infrequent-access. Devices: 16 million writes, 8 million reads.
    assert rows["devices"] == "$11.00"
    # Three million requests at $3.50, calls at $0.20; times of functions and the authorizer.
    assert rows["API and functions"].startswith("$1")
    hourly = {"open": 10 * 0.00065 + 5 * 0.00013, "ahead": 0.00065 + 0.00013, "old": (0.00065 + 2 * 0.00013) * 1.25}
    states = [
        (entry.capacity.seen.write, entry.capacity.seen.table_class.value)
        for entry in console.stage.catalog.entries("quakes")
        if entry.live and entry.capacity.seen is not None
    ]
    counts = {
        "open": states.count((10, "standard")),
        "ahead": states.count((1, "standard")),
        "old": states.count((1, "infrequent-access")),
    }
    assert counts["open"] >= 2
    assert sum(counts.values()) == len(states)
    quakes = sum(hourly[kind] * count for kind, count in counts.items()) * 730
    assert rows["quakes"] == f"${quakes:.2f}"
    text = chromium.text("[aria-label=Bill]")
    assert "us-east-1, November 2026" in text
    assert "Costs that this bill does not include" in text
    assert of_key(chromium.errors) == []


def test_a_stream_is_opened_by_its_address_and_says_what_it_is_made_of(chromium: Browser, console: Priced) -> None:
    visit(chromium, console, "cost")
    chromium("click", selector="a[href='#cost?stream=devices']")
    chromium.wait("document.querySelector('details[open]')")
    lines = {row[0]: row[1] for row in rows_of(chromium, "The bill of devices")}
    assert (lines["tables, writes"], lines["tables, reads"]) == ("$10.00", "$1.00")
    asked = [urlsplit(request["url"]) for request in chromium("log")["requests"]]
    assert [url.query for url in asked if url.path == "/v1/cost" and "rate=" not in url.query] == [""], (
        "the bill is kept for some minutes: each costs metrics"
    )


def test_a_load_that_is_not_measured_is_entered_and_a_setting_is_tried_by_keyboard(
    chromium: Browser, console: Priced
) -> None:
    visit(chromium, console, "cost?stream=devices")
    assert "There are too few measurements" in chromium.text("[aria-label='What if']")
    chromium("type", selector=".figure input[required]", text="100")
    chromium("press", key="Enter")
    chromium.wait("document.querySelector('button.setting')")
    settings = {row[0]: row for row in rows_of(chromium, "Other settings")}
    assert {"provisioned", "a rollup"} <= settings.keys()
    assert "packs" not in settings, "each event of a request has a series of its own, and so a pack"
    chromium("type", selector=".figure:has(input[name=series_per_request]) input", text="1")
    chromium("press", key="Enter")
    chromium.wait("[...document.querySelectorAll('button.setting')].some((one) => one.innerText === 'packs')")
    chromium.evaluate(
        "[...document.querySelectorAll('button.setting')].find((one) => one.innerText === 'packs').focus()"
    )
    chromium("press", key="Enter")
    chromium.wait("document.querySelector('.verdict')")
    assert chromium.text(".verdict").startswith("This saves $")
    rows = {row[0]: row[1:] for row in rows_of(chromium, "Before and after")}
    # 262.8 million write units at $0.625; in packs of a hundred events, 25,880 bytes, 26 units.
    assert rows["tables, writes"] == ["$164.25", "$42.71", "$121.54"]
    question = parse_qs(urlsplit(chromium.evaluate("location.hash.slice(1)")).query)
    assert question == {"stream": ["devices"], "rate": ["100"], "series_per_request": ["1"], "change": [PACKS]}
    assert chromium.text("pre.json") == PACKS
    shared, verdict = chromium.evaluate("location.hash"), chromium.text(".verdict")
    visit(chromium, console, shared[1:])
    assert chromium.text(".verdict") == verdict
    assert of_key(chromium.errors) == []


def test_a_proposal_that_cannot_be_says_line_and_key(chromium: Browser, console: Priced) -> None:
    change = quote('[streams.devices.pack]\nspan = "1h"\nspam = 3')
    visit(chromium, console, f"cost?stream=devices&rate=50&change={change}")
    assert "streams.devices.pack.spam: unknown key" in chromium.text(".problem")
    assert "(line 3)" in chromium.text(".problem")


def test_a_key_that_may_not_operate_sees_no_price_and_is_told_why(chromium: Browser, console: Priced) -> None:
    visit(chromium, console, "cost", key=READER)
    assert "operat" in chromium.text("main")
    assert "$" not in chromium.text("main")
    visit(chromium, console, "tide", key=READER)
    assert "$" not in chromium.text("main")
    chromium.evaluate(
        "document.querySelector('.period.open').dispatchEvent(new MouseEvent('click', { bubbles: true }))"
    )
    chromium.wait("document.querySelector('dialog')")
    assert "for keys that may operate" in chromium.text("dialog")
    asked = {urlsplit(request["url"]).path for request in chromium("log")["requests"]}
    assert "/v1/cost" not in asked


def test_the_tide_has_prices_and_next_steps(chromium: Browser, console: Priced) -> None:
    visit(chromium, console, "tide", zone="UTC")
    chromium.wait("document.querySelector('[aria-label=devices] header').innerText.includes('a month')")
    assert "$11.00 a month" in chromium.text("[aria-label=devices] header")
    chromium.evaluate("document.querySelector('[aria-label=devices] .period[aria-label^=\"2026-03-31\"]').focus()")
    chromium.wait("!document.querySelector('[aria-label=devices] .tip').hidden")
    tip = chromium.text("[aria-label=devices] .tip")
    assert "$11.00 a month" in tip
    # Kept for three days after its own.
    assert "next: archived, on Apr 4, 00:00" in tip
    # Of quakes, today's table closes a day after its end, and its first whole period after that is its next step.
    label = chromium.evaluate(
        "document.querySelector('[aria-label=quakes] .period[aria-label^=\"2026-03-31\"]').getAttribute('aria-label')"
    )
    assert "next: 1 write, 2 read units, infrequent-access, on Apr 2, 00:00" in label
    chromium("press", key="Enter")
    chromium.wait("document.querySelector('dialog')")
    assert "archived, on Apr 4, 00:00" in chromium.text("dialog")


def test_an_alarm_leads_to_its_section_of_the_runbook(chromium: Browser, console: Priced) -> None:
    description = "A stream's next table is not active. What to do: docs/operate/runbook.md#nexttablemissing"
    console.stage.operations.ringing = [
        {"name": "Tidetable-t-Alarms", "state": "ALARM", "since": None, "description": description}
    ]
    try:
        visit(chromium, console, "tide")
        # The alarm rings on until the link was followed: a busy page asks again in between.
        chromium("click", selector=".problem a[href='#runbook?section=nexttablemissing']")
        chromium.wait("document.querySelector('h1').innerText === 'Runbook: NextTableMissing'")
    finally:
        console.stage.operations.ringing = []
    chromium("settle")
    assert "Tables are made two periods ahead" in chromium.text("main")
    assert chromium.evaluate("document.querySelectorAll('#tabs a').length") == 7, "the runbook has no tab"
    assert {urlsplit(request["url"]).netloc for request in chromium("log")["requests"]} == {
        urlsplit(console.url).netloc
    }


def test_every_section_of_the_runbook_is_shown(chromium: Browser, console: Priced) -> None:
    visit(chromium, console, "runbook")
    titles = [
        line[3:] for line in (ROOT / "docs/operate/runbook.md").read_text().splitlines() if line.startswith("## ")
    ]
    options = chromium.evaluate("[...document.querySelectorAll('select option')].map((one) => one.innerText)")
    assert options == ["Runbook", *titles]
    links = chromium.evaluate("[...document.querySelectorAll('main table a')].map((one) => one.getAttribute('href'))")
    assert "#runbook?section=writesthrottled" in links
    assert set(links) <= {
        f"#runbook?section={value}"
        for value in chromium.evaluate("[...document.querySelectorAll('select option')].map((one) => one.value)")
    }


@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_nothing_serious(chromium: Browser, console: Priced, view: str) -> None:
    visit(chromium, console, view)
    assert find_axe_problems(chromium) == {}


@pytest.mark.parametrize("view", VIEWS)
def test_a_phone_needs_no_sideways_scrolling(chromium: Browser, console: Priced, view: str) -> None:
    visit(chromium, console, view, width=390, height=844)
    assert chromium.evaluate("document.documentElement.scrollWidth") <= 390
    assert of_key(chromium.errors) == []
