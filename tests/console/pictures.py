"""Pictures of the console for the documentation: `make pictures`."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any
from wsgiref.simple_server import make_server

import pytest

from tests.api.gateway import serving
from tests.console.browser import running_browser
from tests.console.serve import Quiet, Served, served_console
from tests.fakes.stage import STALE_SECONDS, Stage
from tests.worlds.configs import ROOT
from tests.worlds.examples import NOW
from tests.worlds.showcase import CONFIG, showcase

# File, width, height, theme and view.
PICTURES = (
    ("console", 1280, 780, "light", "explore?stream=buoys&from=-7d&by=series&stat=avg&field=level&step=1h"),
    ("console-now", 1280, 640, "light", "now"),
    ("console-tide", 1280, 1000, "dark", "tide"),
    ("console-heat", 1280, 640, "light", "explore?stream=quakes&from=-7d&by=series&top=10&step=3h&form=heat"),
    ("console-cost", 1280, 1000, "light", "cost?stream=quakes"),
    ("console-phone", 390, 844, "light", "now"),
)


class Still(Served):
    """The served console of a stage whose clock stands still."""

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        self.api.stage.clock.time = NOW - timedelta(seconds=STALE_SECONDS)
        return super().__call__(environ, start)


def draw() -> None:
    """Write every picture into docs/."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        config = Path(folder) / "tidetable.toml"
        config.write_text(CONFIG)
        patch.setenv("AWS_REGION", "us-east-1")
        draw_of(showcase(), config)


def draw_of(stage: Stage, config: Path) -> None:
    """Write the pictures of a stage."""
    for api in serving(stage, config):
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
