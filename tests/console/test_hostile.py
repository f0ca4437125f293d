"""Hostile names and values: the page shows them as text, and what it copies is run as somebody would run it."""

from __future__ import annotations

import ast
import csv
import json
import subprocess
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.console.browser import Browser
from tests.console.guarded import Guarded, guarded_console, text_of
from tests.console.pages import visit

# Each breaks out of another language, were it not escaped for it.
TEXTS = (
    '<img src=x onerror="window.hurt=1"><script>window.hurt=1</script>',
    "'; touch hurt; echo '",
    '"; touch hurt; echo "$(touch hurt)`touch hurt`',
    "back\\slash\\' newline\n#{1+1}{{1+1}}",
    '=HYPERLINK("https://example.com","a")',
    "+1+1",
    "-1+1|calc",
    "@SUM(A1)",
    "\t=1+1",
    "%27%22%3Cimg&where.x=1#[1-3]{a,b}",
    "\u202egnp.exe\u0000",
)


@pytest.fixture(scope="module")
def console() -> Iterator[Guarded]:
    """An event of each text, in its series, its id, a field's name and a value."""
    with guarded_console() as console:
        console.add("everything", "write", "read", "operate")
        for text in TEXTS:
            name = text.replace("\n", " ").replace("\t", " ").replace("\0", "").strip()
            console.send("doors", series=name, id=name, data={"field " + name: text, "value": text, "width": 3})
        yield console


def look(browser: Browser, console: Guarded, view: str, **options: Any) -> None:
    visit(browser, console, view, key=text_of("everything"), **options)


def assert_harmless(browser: Browser) -> None:
    assert browser.evaluate("window.hurt ?? null") is None
    found = "document.querySelectorAll('main :is(img, script, iframe, object, style), dialog :is(img, script, iframe)').length"
    assert browser.evaluate(found) == 0
    assert browser.evaluate("document.querySelectorAll('[onerror], [onload], [style*=url]').length") == 0


@pytest.mark.parametrize(
    "view",
    [
        "explore?stream=doors&ask=events&show=table",
        "explore?stream=doors&ask=events",
        "explore?stream=doors&ask=events&show=json",
        "explore?stream=doors&by=series&form=heat",
        "explore?stream=doors&by=series",
        "explore?stream=doors&by=value&show=table",
        "rankings?stream=doors",
        *(
            f"explore?stream=doors&series={quote(text)}&field={quote(text)}&by={quote(text)}&where={quote(quote(text))}:eq:1"
            for text in TEXTS[:2]
        ),
        f"explore?stream={quote(TEXTS[0])}",
        f"explore?stream=doors&from={quote(TEXTS[0])}&to={quote(TEXTS[0])}&step={quote(TEXTS[0])}&form={quote(TEXTS[0])}&show={quote(TEXTS[0])}",
        f"rankings?stream=doors&index={quote(TEXTS[0])}",
        f"latest?series={quote(TEXTS[0])}",
        "explore?stream=doors&where=%E0%A4%A",
    ],
)
def test_no_view_takes_text_for_markup(chromium: Browser, console: Guarded, view: str) -> None:
    look(chromium, console, view)
    assert_harmless(chromium)
    assert chromium.text("main"), "and it shows something"
    assert not [error for error in chromium.errors if "Failed to load resource" not in error]


def test_every_text_is_shown_as_it_is(chromium: Browser, console: Guarded) -> None:
    look(chromium, console, "explore?stream=doors&ask=events&show=table")
    cells = chromium.evaluate("[...document.querySelectorAll('tbody td')].map((cell) => cell.textContent)")
    assert set(TEXTS) <= set(cells)


def test_an_event_that_is_opened_is_text(chromium: Browser, console: Guarded) -> None:
    look(chromium, console, "explore?stream=doors&ask=events&show=table&sort=series")
    for _ in TEXTS:
        chromium("click", selector="tbody tr")
        chromium.wait("document.querySelector('dialog .whole')")
        assert_harmless(chromium)
        chromium("press", key="Escape")
        chromium.wait("!document.querySelector('dialog')")
        chromium.evaluate("document.querySelector('tbody tr').remove()")


def test_names_of_alarms_plans_periods_and_indexes_are_text(chromium: Browser, console: Guarded) -> None:
    text = TEXTS[0]
    visit(chromium, console, "tide", key=text_of("everything"))
    streams = json.loads(
        chromium.evaluate(
            "fetch('/v1/streams', {headers: {'x-api-key': sessionStorage['tidetable.key']}}).then((a) => a.text())"
        )
    )
    doors = next(stream for stream in streams["streams"] if stream["stream"] == "doors")
    index = {"name": text, "partition_by": text, "kinds": None, "sort_by": text, "replica": False}
    hostile = {
        **doors,
        "stream": text,
        "late": text,
        "on_expiry": text,
        "indexes": [index],
        "layout": {**doors["layout"], "partition_by": "series"},
    }
    action = dict.fromkeys(("action", "stream", "period", "reason", "outcome", "detail", "table"), text)
    plan = {
        "actions": [action, {**action, "action": "stuck"}],
        "troubles": [text],
        "without_next_table": [text],
        "archives_overdue": [text],
        "changes": [text],
        "removed_streams": [{"stream": text, "tables": 1}],
        "skipped": None,
    }
    quiet = {"write_units_per_second": 0, "write_units": [0] * 30, "written": text, "rollup_lag_seconds": None}
    period = {
        "period": text,
        "state": text,
        "status": text,
        "start": text,
        "end": text,
        "table": text,
        "capacity": {"mode": text, "class": text, "write": 1, "read": 1},
    }
    work: dict[str, Any] = dict.fromkeys(("kind", "stream", "problem", "command", "alarm"), text)
    work |= {"due": text, "running": text, "failed": text, "waiting": 1, "oldest_seconds": text, "paused": True}
    console.answers = {
        "/v1/streams": (200, {"streams": [hostile], "can": ["read", "write", "operate"]}),
        "/v1/alarms": (200, {"alarms": [{"name": text, "state": "ALARM", "since": text, "description": text}]}),
        "/v1/plan": (200, {"plan": plan}),
        "/v1/activity": (200, {"stage": None, "streams": [{**quiet, "stream": text}], "work": [work]}),
        f"/v1/streams/{text}/periods": (200, {"periods": [period], "next": None}),
        f"/v1/streams/{text}/latest": (500, {"code": text, "detail": text}),
    }
    try:
        for view in ("now", "tide", "tide?show=table", "rankings", f"latest?series={quote(text)}", "explore", "send"):
            look(chromium, console, view)
            assert_harmless(chromium)
            assert text in chromium.evaluate("document.querySelector('main').textContent"), view
    finally:
        console.answers = {}


def copied(browser: Browser, console: Guarded, number: int) -> tuple[str, str]:
    """What a button of the answer copies, and the address that the page itself read."""
    text = "".join(TEXTS)
    where = quote(":".join([quote("value", safe=""), "eq", quote(text, safe="")]))
    look(browser, console, f"explore?stream=doors&ask=events&series={quote(text)}&where={where}&show=table")
    browser.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    browser("click", selector=f".copy button:nth-of-type({number})")
    browser.wait("window.copied")
    asked = [request["url"] for request in browser("log")["requests"] if "/events?" in request["url"]]
    return browser.evaluate("window.copied"), asked[-1]


def test_the_copied_curl_command_calls_curl_with_the_address_alone(
    chromium: Browser, console: Guarded, tmp_path: Path
) -> None:
    command, url = copied(chromium, console, 1)
    fake = tmp_path / "bin" / "curl"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\nprintf "%s\\0" "$@" >arguments\n')
    fake.chmod(0o755)
    for shell in ("sh", "bash"):
        work = tmp_path / shell
        work.mkdir()
        environment = {"PATH": f"{fake.parent}:/usr/bin:/bin", "TIDETABLE_KEY": "the key"}
        subprocess.run([shell, "-c", command], cwd=work, env=environment, check=True, timeout=60)  # noqa: S603
        assert [path.name for path in work.iterdir()] == ["arguments"], "no other command ran"
        assert (work / "arguments").read_text().split("\0")[:-1] == ["--compressed", "-H", "x-api-key: the key", url]
    assert not set("[]{}") & set(url), "curl expands these in an address"


def test_the_copied_python_reads_the_address_alone(chromium: Browser, console: Guarded) -> None:
    source, url = copied(chromium, console, 2)
    tree = ast.parse(source)
    assert [type(node).__name__ for node in tree.body] == ["Import", "ImportFrom", "Assign", "Assign"]
    strings = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    assert strings == [url, "x-api-key", "TIDETABLE_KEY"]


def test_the_saved_csv_has_no_formula_and_every_text(chromium: Browser, console: Guarded) -> None:
    look(chromium, console, "explore?stream=doors&ask=events&show=table")
    chromium.evaluate("URL.createObjectURL = (blob) => { window.saved = blob; return 'blob:none'; }")
    chromium("click", selector=".copy button:nth-of-type(4)")
    chromium.wait("window.saved")
    # Of a file with newlines in its cells, which evaluate's own JSON keeps.
    rows = list(csv.DictReader(StringIO(chromium.evaluate("window.saved.text()"), newline="")))
    assert len(rows) == len(TEXTS)
    for row in rows:
        for name, cell in row.items():
            assert not name.startswith(("=", "+", "-", "@", "\t"))
            assert not str(cell).startswith(("=", "+", "-", "@", "\t"))
    values = {row["data.value"] for row in rows}
    assert values == {f"'{text}" if text[0] in "=+-@\t" else text for text in TEXTS}
