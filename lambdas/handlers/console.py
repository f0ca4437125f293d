"""GET /console and GET /console/assets/{file}: the console's page and its files. They need no key and contain no data.

The files lie beside the function's code. The address of every file under ``assets`` contains a hash of all files, so a
browser may keep these files for ever. The browser requests the page itself again, with the page's ETag.
"""

from __future__ import annotations

import gzip
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".md": "text/markdown; charset=utf-8",
}
# The page has nothing inline and nothing from another host, and may not be in a frame.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Vary": "Accept-Encoding",
}
_YEAR = 31_536_000
# The folder with the files, in the function's asset.
FOLDER = Path(__file__).resolve().parent.parent / "site"


class File(NamedTuple):
    """A file in the forms in which the function answers it."""

    content_type: str
    body: bytes
    compressed: bytes
    etag: str


class Site(NamedTuple):
    """All files by their paths, and the hash that is part of the addresses of the assets."""

    version: str
    files: Mapping[str, File]


@cache
def load_site(folder: Path) -> Site:
    """Read the console's files, once per process. The page names its assets with the hash of all files."""
    contents = {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }
    digest = sha256()
    for name, body in contents.items():
        digest.update(name.encode() + b"\0" + sha256(body).digest())
    version = digest.hexdigest()[:16]
    page = _name_assets(contents, version)
    files = {name: _make_file(name, body) for name, body in contents.items() if name != "index.html"}
    return Site(version, files | {"index.html": _make_file("index.html", page)})


def _name_assets(contents: Mapping[str, bytes], version: str) -> bytes:
    """Put the addresses of the assets into the page. The page names every module, so that a browser fetches all modules
    at once. Otherwise modules that import modules would take one round trip after another.
    """
    assets = f"console/assets/{version}/"
    modules = [name for name in contents if name.startswith("js/")]
    links = "".join(f'    <link rel="modulepreload" href="{assets}{name}">\n' for name in modules)
    page = contents["index.html"].replace(b"console/assets/", assets.encode())
    return page.replace(b"  </head>", f"{links}  </head>".encode())


def _make_file(name: str, body: bytes) -> File:
    kind = _TYPES.get(Path(name).suffix, "application/octet-stream")
    # ``mtime=0`` omits the time of compression, so that every process answers the same bytes.
    return File(kind, body, gzip.compress(body, mtime=0), f'"{sha256(body).hexdigest()[:32]}"')


def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """Answer a file, or 304 if the browser has it."""
    site = load_site(FOLDER)
    version, _, name = ((event.get("pathParameters") or {}).get("file") or "").partition("/")
    if not version:
        return _answer(site.files["index.html"], event, "no-cache")
    file = site.files.get(name)
    if file is None or name == "index.html":
        headers = {**_HEADERS, "Content-Type": "text/plain"}
        return {"statusCode": 404, "headers": headers, "body": "There is no such file."}
    # A page from before a deploy gets the present files. The browser must not keep them under the former hash.
    return _answer(file, event, f"public, max-age={_YEAR}, immutable" if version == site.version else "no-store")


def _answer(file: File, event: Mapping[str, Any], cache_control: str) -> dict[str, Any]:
    request_headers = {name.lower(): value for name, value in (event.get("headers") or {}).items()}
    headers = {**_HEADERS, "Content-Type": file.content_type, "Cache-Control": cache_control, "ETag": file.etag}
    if file.etag in (request_headers.get("if-none-match") or ""):
        return {"statusCode": 304, "headers": headers, "body": ""}
    body = file.body
    if "gzip" in (request_headers.get("accept-encoding") or "").lower():
        headers["Content-Encoding"] = "gzip"
        body = file.compressed
    return {"statusCode": 200, "headers": headers, "body": b64encode(body).decode(), "isBase64Encoded": True}
