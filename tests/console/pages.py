"""The console in a real browser, before the handlers of an example's pipeline: what the tests of its views share."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from socketserver import ThreadingMixIn
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit
from wsgiref.simple_server import WSGIServer, make_server

from tests.console.browser import Browser
from tests.console.serve import Quiet, Served
from tests.fakes.stage import STALE_SECONDS
from tests.worlds.examples import NOW, Example

KEY = "tt_right"


class Addressed(Protocol):
    """A served console."""

    url: str


class Locked:
    """The served console; its API takes one key, and can be out of order."""

    def __init__(self, served: Served, example: Example) -> None:
        self.served = served
        self.example = example
        self.down = False
        # The API answers while it is set.
        self.open = threading.Event()
        self.open.set()
        self.url = ""
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"].startswith("/v1/"):
            self.open.wait(60)
        # The handlers share one simulated clock.
        with self._lock:
            if environ["PATH_INFO"].startswith("/v1/") and environ.get("HTTP_X_API_KEY") != KEY:
                return self._refuse(start, 403, "forbidden", "Send a valid key in the header x-api-key.")
            if environ["PATH_INFO"].startswith("/v1/") and self.down:
                return self._refuse(start, 503, "unavailable", "Send the request again, which is harmless.")
            self.example.stage.clock.time = NOW - timedelta(seconds=STALE_SECONDS)
            return list(self.served(environ, start))

    @staticmethod
    def _refuse(start: Any, status: int, code: str, detail: str) -> Iterable[bytes]:
        start(f"{status} refusal", [("Content-Type", "application/problem+json")])
        return [json.dumps({"status": status, "code": code, "detail": detail}).encode()]


class _Threads(ThreadingMixIn, WSGIServer):
    daemon_threads = True


@contextmanager
def listening(application: Any) -> Iterator[str]:
    """The address of the console of an application at this machine."""
    with make_server("127.0.0.1", 0, application, server_class=_Threads, handler_class=Quiet) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}/console"
        http.shutdown()


def visit(browser: Browser, console: Addressed, view: str, *, key: str = KEY, **options: Any) -> None:
    """Open a view in a new session of a tab that has a key already, and wait until the answer is shown."""
    open_console(browser, console, view, session={"tidetable.key": key}, **options)
    browser.wait("!document.querySelector('.busy')")


def enter_key(browser: Browser, console: Addressed, view: str, *, key: str = KEY) -> None:
    """Open a view in a new session, enter the key where the page asks for it, and wait until the answer is shown."""
    open_console(browser, console, view)
    browser("type", selector="dialog input", text=key)
    browser("click", selector="dialog .primary")
    # Of a wrong key the dialog asks again.
    browser.wait("!document.querySelector('dialog') || document.querySelector('dialog .remedy')")
    browser("settle")
    browser.wait("!document.querySelector('.busy')")


def open_console(browser: Browser, console: Addressed, view: str, **options: Any) -> None:
    """Open a view in a new session whose clock begins with ``NOW``."""
    browser("open", url=f"{console.url}#{view}", now=int(NOW.timestamp() * 1000), **options)


def find_axe_problems(browser: Browser) -> dict[str, list[Any]]:
    """The findings of axe-core in light and in dark colours. The page is loaded once: only its colours change."""
    found: dict[str, list[Any]] = {}
    for theme in ("dark", "light"):
        browser("theme", theme=theme)
        if findings := browser("axe"):
            found[theme] = findings
    return found


def of_key(errors: list[str]) -> list[str]:
    """Errors beside those of the first requests without a key, which the browser itself notes."""
    return [error for error in errors if "403" not in error]


def question_of(browser: Browser) -> dict[str, list[str]]:
    """The parameters in the address."""
    return parse_qs(urlsplit(browser.evaluate("location.hash.slice(1)")).query)


def picture_of(browser: Browser, selector: str = ".chart canvas") -> str:
    """The pixels of a canvas."""
    return str(browser.evaluate(f"document.querySelector('{selector}').toDataURL()"))


def ink_of(browser: Browser, colour: str) -> int:
    """How many pixels of the chart have about a colour."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    script = f"""(() => {{ const canvas = document.querySelector('.chart canvas');
        const {{ data }} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height); let count = 0;
        for (let at = 0; at < data.length; at += 4) if (data[at + 3] > 200 && Math.abs(data[at] - {red}) < 12 &&
            Math.abs(data[at + 1] - {green}) < 12 && Math.abs(data[at + 2] - {blue}) < 12) count += 1; return count; }})()"""
    return int(browser.evaluate(script))
