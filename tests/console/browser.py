"""A real browser for tests: headless Chromium in a process of its own, driven by lines of JSON."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from local.processes import ROOT, drop_clock


class BrowserError(Exception):
    """The browser could not do what a test wanted."""


class Browser:
    """One page at a time; ``open`` begins a new session without storage and cache."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __call__(self, name: str, **arguments: Any) -> Any:
        """Do a command of browser.mjs."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"name": name, **arguments}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise BrowserError("the browser ended")
        answer = json.loads(line)
        if "error" in answer:
            raise BrowserError(f"{name} {arguments}: {answer['error']}")
        return answer["answer"]

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        return self("evaluate", expression=expression)

    def wait(self, expression: str) -> None:
        """Wait until an expression is true."""
        self("wait", expression=expression)

    def text(self, selector: str = "main") -> str:
        """The visible text of an element."""
        return str(self.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    @property
    def errors(self) -> list[str]:
        """Errors of the page and its console since it was opened."""
        return list(self("log")["errors"])


PACKAGE = ROOT / "node_modules" / "@sparticuz" / "chromium"
UNPACK = "import chromium from '@sparticuz/chromium'; console.log(await chromium.executablePath());"


def unpack_chromium(folder: Path = ROOT / ".build") -> Path:
    """The path of Chromium, unpacked whole.

    The package unpacks to the machine's folder for temporary files, and takes for whole what is there: the browser of
    a second process at the same time would be a half-written file. So it is unpacked elsewhere and then renamed.
    """
    version = json.loads((PACKAGE / "package.json").read_text())["version"]
    unpacked = folder / f"chromium-{version}"
    if not unpacked.exists():
        folder.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as temporary:
            place = Path(temporary) / "chromium"
            place.mkdir()
            subprocess.run(  # noqa: S603 - our own script
                ["node", "--input-type=module", "--eval", UNPACK],  # noqa: S607
                cwd=ROOT,
                env=os.environ | {"TMPDIR": str(place)},
                check=True,
                stdout=subprocess.DEVNULL,
            )
            try:
                place.rename(unpacked)
            except OSError:
                # Another process was first.
                if not unpacked.exists():
                    raise
    return unpacked / "chromium"


def _browser_environment() -> dict[str, str]:
    """This process's environment without a moved clock, and with a locale.

    With libfaketime Chromium needs many times as long, and ``open`` gives each page a time of its own anyway. Without a
    locale Chromium takes the machine's, which may be one that JavaScript does not know.
    """
    return drop_clock(os.environ) | {"LC_ALL": "en_US.UTF-8", "LANGUAGE": "en_US"}


@contextmanager
def running_browser() -> Iterator[Browser]:
    """A browser that ends with the block."""
    with subprocess.Popen(  # noqa: S603 - our own script
        ["node", str(ROOT / "tests" / "console" / "browser.mjs"), str(unpack_chromium())],  # noqa: S607
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=_browser_environment(),
    ) as process:
        yield Browser(process)
        assert process.stdin is not None
        process.stdin.close()
