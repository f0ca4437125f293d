"""The time that a browser works on 10,000 points: drawing, moving the mouse over them, and zooming into 10,000 others.

Chromium's own trace says what the page's main thread did. The baseline is a page without a library for charts: an SVG
with a line, a circle with a title for each point, and a search for the nearest point under the mouse. Both pages get
the same answers over HTTP in the same run, in turns. CPU time is compared, as the machine may be busy with other work.
There is no ratio for the first draw: at that time the console loads all of its files, and the baseline loads nearly
nothing.
"""

from __future__ import annotations

import json
import math
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs
from wsgiref.simple_server import make_server

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "lambdas")]

from bench.results import note_ratios
from handlers import console
from infra.console import collect_files
from tests.console.browser import Browser, running_browser
from tests.console.serve import Quiet, serve_page
from tests.worlds.configs import ROOT
from tidetable.times import to_text

POINTS = 10_000
RUNS = 3
NOW = datetime(2026, 3, 31, 10, tzinfo=UTC)
STREAM = {
    "stream": "load",
    "period": "day",
    "late": "1d",
    "ahead": "5m",
    "retention": 30,
    "on_expiry": "keep",
    "versions": "newest",
    "layout": {"partition_by": "series", "bucket_seconds": None, "shards": 1, "shard_by": "id", "pack": None},
    "indexes": [],
    "rollups": [],
    "window": {"oldest": to_text(NOW - timedelta(days=1)), "newest": to_text(NOW)},
}
# The states of the console that are measured, by the form of the answer, with the address of each state.
FORMS = {
    "lines": "explore?stream=load&from=-24h&to=now&step=5s&stat=max&field=value",
    "points": "explore?stream=load&from=-24h&to=now&ask=events&limit=10000",
    "table": "explore?stream=load&from=-24h&to=now&ask=events&limit=10000&show=table",
}
WORDS = ("first draw", "mouse", "zoom")


def make_rows(query: dict[str, list[str]], *, events: bool) -> list[dict[str, Any]]:
    """10,000 rows over the range of a request. Their values form a noisy wave."""
    begin, end = (_parse_instant(query[name][0]) for name in ("from", "to"))
    step = (end - begin) / POINTS
    rows: list[dict[str, Any]] = []
    for number in range(POINTS):
        time = begin + step * number
        value = round(math.sin(number / 300) * 40 + math.sin(number * 12.9898) * 10 + 60, 3)
        if events:
            data: dict[str, Any] = {"value": value, "host": f"host-{number % 7}", "ok": number % 3 == 0}
            rows.append({"series": "a", "time": to_text(time), "id": f"e{number}", "ref": f"r{number}", "data": data})
        else:
            rows.append({"start": to_text(time), "end": to_text(time + step), "max": value})
    return rows


def _parse_instant(text: str) -> datetime:
    if text.startswith("-"):
        return NOW - timedelta(hours=24)
    return NOW if text == "now" else datetime.fromisoformat(text)


def answer_request(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
    """A WSGI application with the API of one stream, the console, and the page of the baseline."""
    path, query = environ["PATH_INFO"], parse_qs(environ.get("QUERY_STRING", ""))
    if path.startswith("/console"):
        return serve_page(environ, start)
    if path == "/plain":
        start("200 OK", [("Content-Type", "text/html")])
        return [(ROOT / "bench" / "console_plain.html").read_bytes()]
    if path == "/v1/streams":
        document: dict[str, Any] = {"streams": [STREAM], "can": ["read"]}
    elif path.endswith("/events"):
        document = {"events": make_rows(query, events=True), "next": None}
    else:
        document = {"aggregates": make_rows(query, events=False), "next": None}
    start("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(document).encode()]


@contextmanager
def serve_application() -> Iterator[str]:
    """The address of the application above."""
    import tempfile

    with (
        tempfile.TemporaryDirectory() as folder,
        make_server("127.0.0.1", 0, answer_request, handler_class=Quiet) as http,
    ):
        collect_files(ROOT, Path(folder))
        console.FOLDER = Path(folder)
        console.load_site.cache_clear()
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()


def trace_page(browser: Browser, url: str, target: str, *, zoom: bool = True) -> list[dict[str, float]]:
    """Trace the main thread during the first draw, while the mouse moves over the chart, and during a zoom."""
    browser("open", url="about:blank", now=int(NOW.timestamp() * 1000))
    traces = []
    browser("trace")
    browser("go", url=url)
    browser.wait(f"document.querySelector('{target}')")
    browser("settle")
    traces.append(browser("traced"))
    browser("trace")
    browser("hover", selector=target, steps=60)
    browser("settle")
    traces.append(browser("traced"))
    if zoom:
        browser("trace")
        browser("drag", selector=target, **{"from": 0.4, "to": 0.6})
        browser("settle")
        browser.wait(f"document.querySelector('{target}')")
        traces.append(browser("traced"))
    return traces


def choose_least(runs: list[list[dict[str, float]]]) -> list[dict[str, float]]:
    """The lowest value of each figure over the runs: other work of the machine can only make a figure higher."""
    return [{name: min(run[part][name] for run in runs) for name in runs[0][part]} for part in range(len(runs[0]))]


def main() -> None:
    """Measure every form and the baseline, and print a table and the ratios."""
    with serve_application() as url, running_browser() as browser:
        pages = {
            **{
                form: (f"{url}/console#{view}", ".scroll" if form == "table" else ".chart .u-over")
                for form, view in FORMS.items()
            },
            "plain SVG": (f"{url}/plain", "svg.chart"),
        }
        runs: dict[str, list[list[dict[str, float]]]] = {name: [] for name in pages}
        for _ in range(RUNS):
            for name, (address, target) in pages.items():
                runs[name].append(trace_page(browser, address, target, zoom=name != "table"))
        figures = {name: choose_least(traces) for name, traces in runs.items()}
    print(
        f"{'':12}{'':12}{'longest task':>14}{'its CPU':>10}{'tasks > 50 ms':>15}{'CPU':>8}{'scripts':>9}{'frames':>8}"
    )
    for name, parts in figures.items():
        for word, part in zip(WORDS, parts, strict=False):
            print(
                f"{name:12}{word:12}{part['longest']:>11.1f} ms{part['longest_cpu']:>7.1f} ms{part['long']:>15.0f}"
                f"{part['tasks']:>8.0f}{part['scripts']:>9.0f}{part['frames']:>8.0f}"
            )
    plain, ours = figures["plain SVG"], figures["points"]
    note_ratios(
        console_mouse_cpu_plain_over_ours=plain[1]["tasks"] / ours[1]["tasks"],
        console_zoom_cpu_plain_over_ours=plain[2]["tasks"] / ours[2]["tasks"],
    )
    note_ratios(
        digits=0, console_longest_task_ms=max(part["longest_cpu"] for form in FORMS for part in figures[form][1:])
    )


if __name__ == "__main__":
    main()
