"""The function that serves the console: its headers, its files, and what a browser may keep."""

from __future__ import annotations

import gzip
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from handlers import console
from infra.console import collect_files, drop_comment_lines
from tests.worlds.configs import ROOT


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The files as the function's asset has them."""
    target = tmp_path_factory.mktemp("site")
    collect_files(ROOT, target)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(console, "FOLDER", target)
        console.load_site.cache_clear()
        yield target
    console.load_site.cache_clear()


def ask(file: str | None = None, **headers: str) -> Any:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return console.handler({"headers": names, "pathParameters": None if file is None else {"file": file}}, None)


def body(answer: Any) -> bytes:
    content = b64decode(answer["body"])
    return gzip.decompress(content) if answer["headers"].get("Content-Encoding") == "gzip" else content


def test_the_page_lets_nothing_in_from_elsewhere() -> None:
    answer = ask()
    assert answer["statusCode"] == 200
    assert answer["headers"]["Content-Security-Policy"] == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    assert answer["headers"]["X-Content-Type-Options"] == "nosniff"
    assert answer["headers"]["Referrer-Policy"] == "no-referrer"
    page = body(answer).decode()
    assert "http" not in page.replace("http-equiv", ""), "no address of another origin"
    assert "<style" not in page
    assert " style=" not in page
    assert "<script>" not in page


def test_every_file_of_the_page_is_served_and_kept_for_a_year(folder: Path) -> None:
    version = console.load_site(folder).version
    page = body(ask()).decode()
    modules = sorted(path.relative_to(folder).as_posix() for path in (folder / "js").rglob("*.js"))
    assert "js/main.js" in modules
    for name in modules:
        link = f'<link rel="modulepreload" href="console/assets/{version}/{name}">'
        assert page.count(link) == 1, "one round trip for all modules"
    assert page.count(f"console/assets/{version}/") == 6 + len(modules)
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_dir() or name == "index.html":
            continue
        answer = ask(f"{version}/{name}", Accept_Encoding="gzip, br")
        assert body(answer) == path.read_bytes()
        assert answer["headers"]["Cache-Control"] == "public, max-age=31536000, immutable"
        assert answer["headers"]["Content-Encoding"] == "gzip"
    assert ask(f"{version}/js/main.js")["headers"]["Content-Type"] == "text/javascript; charset=utf-8"
    assert ask(f"{version}/style.css")["headers"]["Content-Type"] == "text/css; charset=utf-8"
    assert ask(f"{version}/icon.svg")["headers"]["Content-Type"] == "image/svg+xml"


def test_the_page_is_asked_for_again_and_not_sent_again() -> None:
    first = ask()
    assert first["headers"]["Cache-Control"] == "no-cache"
    again = ask(If_None_Match=first["headers"]["ETag"])
    assert (again["statusCode"], again["body"]) == (304, "")
    assert ask(If_None_Match='"another"')["statusCode"] == 200


def test_a_page_of_before_a_deploy_gets_the_files_of_now_and_keeps_none() -> None:
    answer = ask("0123456789abcdef/js/main.js")
    assert answer["statusCode"] == 200
    assert answer["headers"]["Cache-Control"] == "no-store"


@pytest.mark.parametrize("name", ["x/nothing.js", "x/../handlers/console.py", "x/index.html", "x/", "x"])
def test_nothing_else_is_served(name: str) -> None:
    answer = ask(name)
    assert answer["statusCode"] == 404
    assert answer["headers"]["Content-Security-Policy"].startswith("default-src 'none'")


def test_the_version_follows_the_content_of_every_file(folder: Path, tmp_path: Path) -> None:
    collect_files(ROOT, tmp_path)
    before = console.load_site(tmp_path).version
    assert before == console.load_site(folder).version
    (tmp_path / "js" / "dom.js").write_text("// other")
    console.load_site.cache_clear()
    assert console.load_site(tmp_path).version != before


def test_every_process_answers_the_same_bytes_and_a_cache_tells_compressed_from_plain() -> None:
    answer = ask(Accept_Encoding="gzip")
    # RFC 1952: the four bytes from the fifth on are the time of compression.
    assert b64decode(answer["body"])[4:8] == b"\0\0\0\0"
    assert answer["headers"]["Vary"] == ask()["headers"]["Vary"] == "Accept-Encoding"


def test_a_module_is_served_without_its_comment_lines() -> None:
    script = b"""// The first line.
import { h } from "./dom.js"; // stays
/** @param {string} text */
/**
 * Two lines.
 */
export const show = (text) => {
  /** @type {any} */ (globalThis).shown = text;
  // Why.
  return h("a", { href: "https://example.com" }, `a
 * b */`);
};
"""
    assert (
        drop_comment_lines(script).decode()
        == """import { h } from "./dom.js"; // stays
export const show = (text) => {
  /** @type {any} */ (globalThis).shown = text;
  return h("a", { href: "https://example.com" }, `a
 * b */`);
};
"""
    )


def test_no_module_is_served_with_a_comment_line(folder: Path) -> None:
    served = [line.strip() for path in (folder / "js").rglob("*.js") for line in path.read_text().splitlines()]
    assert not [line for line in served if line.startswith("//") or (line.startswith("/**") and line.endswith("*/"))]
    assert not (folder / "js" / "uplot.d.ts").exists()
