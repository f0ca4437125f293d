"""The function of the console on a small folder: the headers and the forms of its files."""

from __future__ import annotations

import gzip
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from handlers import console

PAGE = b'<html><head><link href="console/assets/style.css">\n  </head></html>'
FILES = {
    "index.html": PAGE,
    "style.css": b"a {}",
    "js/main.js": b"1",
    "js/dom.js": b"2",
    "icon.svg": b"<svg/>",
    "note.txt": b"t",
    "licence.md": b"m",
    "font.bin": b"\x00",
}
SAFE = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Vary": "Accept-Encoding",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
}


@pytest.fixture(scope="module")
def version(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The version of a folder with a page and seven files, which the function serves."""
    folder: Path = tmp_path_factory.mktemp("site")
    (folder / "js").mkdir()
    for name, body in FILES.items():
        (folder / name).write_bytes(body)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(console, "FOLDER", folder)
        console.load_site.cache_clear()
        yield console.load_site(folder).version
    console.load_site.cache_clear()


def ask(file: str | None = None, **headers: str) -> Any:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return console.handler({"headers": names, "pathParameters": None if file is None else {"file": file}}, None)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("style.css", "text/css; charset=utf-8"),
        ("js/main.js", "text/javascript; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
        ("note.txt", "text/plain; charset=utf-8"),
        ("licence.md", "text/markdown; charset=utf-8"),
        ("font.bin", "application/octet-stream"),
    ],
)
def test_a_file_has_its_type_and_every_header_that_keeps_a_browser_safe(version: str, name: str, kind: str) -> None:
    answer = ask(f"{version}/{name}")
    assert (answer["statusCode"], answer["isBase64Encoded"]) == (200, True)
    assert b64decode(answer["body"]) == FILES[name]
    headers = dict(answer["headers"])
    etag = headers.pop("ETag")
    assert (etag[0], etag[-1], len(etag)) == ('"', '"', 34)
    assert headers == SAFE | {"Content-Type": kind, "Cache-Control": "public, max-age=31536000, immutable"}


def test_a_page_names_its_files_by_their_version(version: str) -> None:
    answer = ask()
    assert len(version) == 16
    assert b64decode(answer["body"]).decode() == (
        f'<html><head><link href="console/assets/{version}/style.css">\n'
        f'    <link rel="modulepreload" href="console/assets/{version}/js/dom.js">\n'
        f'    <link rel="modulepreload" href="console/assets/{version}/js/main.js">\n'
        "  </head></html>"
    )
    headers = answer["headers"]
    assert (headers["Content-Type"], headers["Cache-Control"]) == ("text/html; charset=utf-8", "no-cache")


@pytest.mark.parametrize("encoding", ["gzip", "br, GZIP", "br", None])
def test_a_file_is_compressed_for_a_browser_that_takes_it(version: str, encoding: str | None) -> None:
    answer = ask(f"{version}/style.css", **({} if encoding is None else {"ACCEPT_encoding": encoding}))
    compressed = encoding is not None and "gzip" in encoding.lower()
    body = b64decode(answer["body"])
    assert answer["headers"].get("Content-Encoding") == ("gzip" if compressed else None)
    assert (gzip.decompress(body) if compressed else body) == b"a {}"


def test_a_browser_that_has_a_file_gets_it_no_more_and_keeps_it_as_long(version: str) -> None:
    first = ask(f"{version}/style.css")["headers"]
    again = ask(f"{version}/style.css", If_None_Match=f'"x", {first["ETag"]}')
    assert (again["statusCode"], again["headers"], again["body"]) == (304, first, "")
    assert ask(f"{version}/style.css", If_None_Match='"x"')["statusCode"] == 200


@pytest.mark.usefixtures("version")
@pytest.mark.parametrize("name", ["x/none.css", "x/index.html", "x"])
def test_a_file_that_is_not_there_is_answered_with_the_same_headers(name: str) -> None:
    assert ask(name) == {
        "statusCode": 404,
        "headers": SAFE | {"Content-Type": "text/plain"},
        "body": "There is no such file.",
    }


@pytest.mark.usefixtures("version")
def test_a_file_under_a_former_version_is_not_kept() -> None:
    answer = ask("0123456789abcdef/style.css")
    assert (answer["statusCode"], answer["headers"]["Cache-Control"]) == (200, "no-store")
