"""Pictures of the console for the documentation: `make pictures`."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from datetime import timedelta
from typing import Any
from wsgiref.simple_server import make_server

from tests.api.gateway import serving
from tests.console.browser import running_browser
from tests.console.serve import Quiet, Served, served_console
from tests.fakes.stage import STALE_SECONDS
from tests.infra.synth import ROOT
from tests.worlds.examples import NOW, Example

# File, width, height, theme and view.
PICTURES = (
    ("console", 1280, 820, "light", "explore?stream=access&from=-14d&by=path&top=5&step=1d&form=bars"),
    ("console-tide", 1280, 620, "dark", "tide"),
    ("console-phone", 390, 844, "light", "explore?stream=access&from=-14d&stat=p50,p99&field=ms&step=1d"),
)


class Still(Served):
    """The served console of a stage whose clock stands still."""

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        self.api.stage.clock.time = NOW - timedelta(seconds=STALE_SECONDS)
        return super().__call__(environ, start)


def draw() -> None:
    """Write every picture into docs/."""
    example = Example("weblogs")
    for api in serving(example.stage, example.config):
        with (
            served_console(api) as served,
            make_server("127.0.0.1", 0, Still(served.api), handler_class=Quiet) as http,
            running_browser() as browser,
        ):
            threading.Thread(target=http.serve_forever, daemon=True).start()
            for name, width, height, theme, view in PICTURES:
                address = f"http://127.0.0.1:{http.server_port}/console#{view}"
                now = int(NOW.timestamp() * 1000)
                browser("open", url=address, width=width, height=height, theme=theme, now=now)
                browser("screenshot", path=str(ROOT / "docs" / f"{name}.png"))
                print(f"docs/{name}.png")
            http.shutdown()


if __name__ == "__main__":
    draw()
