"""What the console shows to keys that may not do everything: each view says what it lacks, and where to go from there."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.console.browser import Browser
from tests.console.guarded import Guarded, guarded_console
from tests.console.pages import of_key, visit
from tests.worlds.examples import NOW


@pytest.fixture(scope="module")
def console() -> Iterator[Guarded]:
    """The stage, with an event of each of two tenants and keys of every kind."""
    with guarded_console() as console:
        for series in ("tenant7/a", "tenant8/b"):
            for stream in ("sensors", "doors"):
                console.send(stream, series=series, id=series, data={"width": 3})
        console.add("everything", "write", "read", "operate")
        console.add("readsatall", "read")
        console.add("writesonly", "write")
        console.add("operatorkk", "operate")
        console.add("onestreamk", "write", "read", streams={"doors"})
        console.add("tenantkeyy", "write", "read", prefix="tenant7/")
        console.add("expiredkey", "read", expires=NOW - timedelta(days=1))
        console.add("revokedkey", "read", revoked=NOW)
        console.add("endsduring", "read")
        yield console


def open_view(browser: Browser, console: Guarded, view: str, name: str) -> None:
    visit(browser, console, view, key=f"tt_{name}_{'s' * 32}")


def closed_views(browser: Browser) -> list[str]:
    """The names in the navigation that the key cannot use."""
    return list(browser.evaluate("[...document.querySelectorAll('nav .closed')].map((link) => link.innerText)"))


def links(browser: Browser) -> list[str]:
    """Where the page offers to go."""
    return list(browser.evaluate("[...document.querySelectorAll('main .links a')].map((link) => link.innerText)"))


def test_a_key_for_everything_has_no_closed_view(chromium: Browser, console: Guarded) -> None:
    open_view(chromium, console, "", "everything")
    assert closed_views(chromium) == []
    assert chromium.text("nav [aria-current]") == "Now"


def test_a_key_that_only_writes_begins_with_sending_and_is_led_there(chromium: Browser, console: Guarded) -> None:
    open_view(chromium, console, "", "writesonly")
    assert chromium.text("nav [aria-current]") == "Send"
    assert closed_views(chromium) == ["Now", "Tide", "Explore", "Rankings", "Latest", "Cost"]
    chromium("type", selector="textarea", text='{"series": "s", "data": {}}')
    chromium("click", selector=".send .primary")
    chromium.wait("document.querySelectorAll('.verdicts li').length === 1")
    assert "1 event accepted" in chromium.text(".result")
    chromium.evaluate("location.hash = '#explore?stream=sensors'")
    chromium.wait("document.querySelector('main .links')")
    text = chromium.text("main")
    assert "Explore is closed to this key" in text
    assert "This key may not read events." in text
    assert "bin/tidetable keys create --name me --stream sensors --stream doors --can write,read" in text
    assert links(chromium) == ["Send"]
    assert of_key(chromium.errors) == [], "nothing is asked that must be refused"
    chromium("click", selector="main .links button")
    assert chromium.text("dialog h2") == "Key"


def test_the_command_for_another_key_names_every_stream(chromium: Browser, console: Guarded) -> None:
    """A key that is made with it may use what this key sees, however many streams that are."""
    open_view(chromium, console, "send", "writesonly")
    names = [f"s{number}" for number in range(1, 6)]
    script = """import(document.querySelector("script[type=module]").src.replace("main.js", "rights.js")).then((rights) => {
      const { setAccess, commandFor } = rights;
      setAccess({ can: ["write"], streams: %s.map((stream) => ({ stream })) });
      return commandFor("read");
    })"""
    assert chromium.evaluate(script % names) == (
        "bin/tidetable keys create --name me --stream s1 --stream s2 --stream s3 --stream s4 --stream s5 --can write,read"
    )


def test_a_key_that_only_operates_sees_the_tide(chromium: Browser, console: Guarded) -> None:
    open_view(chromium, console, "", "operatorkk")
    # It begins with what it may see of the present: the last writes, and no event.
    chromium.wait(
        "document.querySelector('.pulse') && document.querySelector('main .status').innerText.startsWith('As of')"
    )
    assert "Last write" in chromium.text(".pulses")
    assert "Newest event" not in chromium.text(".pulses")
    chromium.evaluate("location.hash = '#tide'")
    chromium.wait("document.querySelectorAll('.period').length > 0")
    assert closed_views(chromium) == ["Explore", "Rankings", "Latest", "Send"]


def test_a_key_that_reads_cannot_send(chromium: Browser, console: Guarded) -> None:
    open_view(chromium, console, "send", "readsatall")
    assert "This key may not send events." in chromium.text("main")
    assert "--can read,write" in chromium.text("main")
    assert links(chromium) == ["Now", "Tide", "Explore", "Rankings", "Latest"]
    assert chromium("axe") == []


def test_a_key_of_one_stream_sees_it_and_is_led_away_from_others(chromium: Browser, console: Guarded) -> None:
    open_view(chromium, console, "tide", "onestreamk")
    assert chromium.evaluate("[...document.querySelectorAll('.lane')].map((lane) => lane.ariaLabel)") == ["doors"]
    chromium.evaluate("location.hash = '#explore?stream=sensors'")
    chromium.wait("document.querySelector('main .links')")
    assert "There is no stream “sensors”, or this key does not see it." in chromium.text("main")
    chromium("click", selector="main .links a")
    chromium.wait("document.querySelector('.chart canvas')")
    assert of_key(chromium.errors) == []


def test_a_tenants_key_explores_its_own_series_alone(chromium: Browser, console: Guarded) -> None:
    open_view(chromium, console, "explore?stream=doors&ask=events&show=table", "tenantkeyy")
    assert closed_views(chromium) == ["Now", "Tide", "Rankings", "Cost"]
    assert "tenant7/a" in chromium.text("tbody")
    assert "tenant8" not in chromium.text("main")
    assert chromium.evaluate("document.querySelector('input[name=series]').placeholder") == "tenant7/…"
    errors = of_key(chromium.errors)
    chromium.evaluate("location.hash = '#explore?stream=doors&show=explain'")
    chromium.wait("document.querySelector('.result .empty')")
    assert "No plan for this key" in chromium.text(".result")
    assert "This key is for series that begin with “tenant7/”." in chromium.text(".result")
    chromium.evaluate("location.hash = '#rankings'")
    chromium.wait("document.querySelector('main .links')")
    assert "A ranking reads all series at once." in chromium.text("main")
    assert links(chromium) == ["Explore", "Latest", "Send"]
    chromium.evaluate("location.hash = '#tide'")
    chromium.wait("document.querySelector('pre.command')")
    assert "sizes and states of whole tables" in chromium.text("main")
    assert [*errors, *of_key(chromium.errors)] == [], "nothing is asked that must be refused"


def test_another_series_is_refused_with_what_to_do(chromium: Browser, console: Guarded) -> None:
    open_view(chromium, console, "explore?stream=doors&ask=events&series=tenant8%2Fb", "tenantkeyy")
    assert "403 forbidden_series" in chromium.text(".problem")
    assert "Choose series of this key" in chromium.text(".problem")
    open_view(chromium, console, "latest?stream=sensors&series=tenant7%2Fa", "tenantkeyy")
    assert "tenant7/a" in chromium.text(".cards")


def test_a_tenants_key_is_told_to_which_series_it_sends(chromium: Browser, console: Guarded) -> None:
    open_view(chromium, console, "send?stream=doors", "tenantkeyy")
    assert "This key sends to series that begin with “tenant7/”." in chromium.text("main")


@pytest.mark.parametrize("name", ["expiredkey", "revokedkey", "unknownkey"])
def test_a_key_that_opens_nothing_is_explained(chromium: Browser, console: Guarded, name: str) -> None:
    open_view(chromium, console, "tide", name)
    assert "This key was refused." in chromium.text("dialog")
    chromium("press", key="Escape")
    chromium.wait("!document.querySelector('dialog')")
    text = chromium.text("main")
    assert "This key opens nothing here" in text
    assert "It has expired, or was revoked or rotated" in text
    chromium("click", selector="main .links .primary")
    chromium("type", selector="dialog input", text=f"tt_everything_{'s' * 32}")
    chromium("click", selector="dialog .primary")
    chromium.wait("document.querySelectorAll('.period').length > 0")


def test_a_key_that_ends_while_somebody_looks_says_so(chromium: Browser, console: Guarded) -> None:
    open_view(chromium, console, "explore?stream=doors&ask=events", "endsduring")
    console.revoke("endsduring")
    chromium("click", selector=".question .primary")
    chromium.wait("document.querySelector('dialog .remedy')")
    assert "This key is not accepted any more." in chromium.text("dialog")
    assert "This key opens nothing here" in chromium.text("main")


def test_the_latest_of_a_stream_whose_series_nobody_knows_yet(chromium: Browser, console: Guarded) -> None:
    stream = {"stream": "sensors", "layout": {"partition_by": "series"}, "rollups": [{"by": ["series"]}], "indexes": []}
    # As the API answers before the rollup sealed its first step.
    refusal = {"status": 400, "code": "needs_series", "detail": "sensors is partitioned by series: add series="}
    console.answers = {
        "/v1/streams": (200, {"streams": [stream], "can": ["read"]}),
        "/v1/streams/sensors/series": (400, refusal),
    }
    try:
        open_view(chromium, console, "latest", "readsatall")
        assert "Which series?" in chromium.text(".result")
        assert "needs_series" not in chromium.text(".result"), "nobody made a mistake"
    finally:
        console.answers = {}
