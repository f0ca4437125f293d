"""Answers that arrive after somebody asked again: the page shows the answer to the last question alone."""

from __future__ import annotations

from tests.console.browser import Browser
from tests.console.pages import KEY, Locked, visit

# The page's requests wait, each until the test lets it go on.
HELD = """(() => {
  const real = window.fetch;
  window.held = [];
  window.fetch = (url, options) => String(url).includes("/v1/") ? new Promise((resolve, reject) => {
    options.signal?.addEventListener("abort", () => reject(new DOMException("aborted", "AbortError")));
    const ask = () => real(url, { ...options, signal: undefined }).then(resolve, reject);
    window.held.push((answer) => (answer ? resolve(new Response(answer)) : ask()));
  }) : real(url, options);
})()"""


def test_an_answer_that_was_asked_for_before_does_not_replace_a_later_one(chromium: Browser, console: Locked) -> None:
    visit(chromium, console, "explore?stream=access&from=-2d")
    chromium.evaluate(HELD)
    for number in (1, 2):
        chromium("press", key="r")
        chromium.wait(f"held.length === {number}")
    waits = chromium.evaluate("document.querySelectorAll('.wait').length")
    chromium("press", key="Escape")
    chromium.wait("document.querySelector('.result .empty')")
    chromium.evaluate("held[0]()")
    chromium("settle")
    chromium.evaluate("new Promise((resolve) => setTimeout(resolve))")
    assert (waits, chromium.text(".result .empty strong")) == (1, "Cancelled")


def test_the_rights_of_a_former_key_do_not_replace_those_of_the_next(chromium: Browser, console: Locked) -> None:
    visit(chromium, console, "send?stream=access")
    chromium.evaluate(HELD)
    for number, key in ((1, "tt_former"), (2, KEY)):
        chromium("click", selector=".tools button:nth-of-type(3)")
        chromium("type", selector="dialog input", text=key)
        chromium("click", selector="dialog .primary")
        chromium.wait(f"held.length === {number}")
    chromium.evaluate("held[1]()")
    chromium.wait("document.querySelector('textarea')")
    chromium.evaluate("""held[0]('{"streams": [], "can": ["read"]}')""")
    chromium("settle")
    chromium.evaluate("location.hash = '#runbook'")
    chromium.wait("document.title.startsWith('Runbook')")
    assert chromium.evaluate("document.querySelectorAll('nav .closed').length") == 0
