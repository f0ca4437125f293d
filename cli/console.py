"""The command that opens the console: in the browser, or through a server of this machine that signs requests."""

from __future__ import annotations

import json
import re
import secrets
import webbrowser
from collections.abc import Iterable
from hmac import compare_digest
from http.cookies import CookieError, SimpleCookie
from socketserver import ThreadingMixIn
from typing import Annotated, Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import httpx
import typer
from botocore.exceptions import BotoCoreError, ClientError

from cli.account import Account
from cli.common import app, fail, find_account, say
from cli.connection import find_emulated_address
from cli.options import Target

# Headers for one connection only. They are not copied from the stage's answer.
_HOP = frozenset({"connection", "host", "keep-alive", "transfer-encoding", "te", "upgrade", "accept-encoding"})
_KEPT = ("accept", "content-type", "prefer", "if-none-match")
# API Gateway gives up after 29 seconds.
_SECONDS = 35.0
# AWS: a request to API Gateway has at most 10 MB.
_MOST_BYTES = 10_000_000
_LENGTH = re.compile(r"\d{1,8}", re.ASCII)
_ENTRANCE = "/enter/"
_WRONG_KEY = "This server answers its own page alone: open the address that the command has printed."


@app.command()
def console(
    target: Target,
    show_only: Annotated[bool, typer.Option("--no-open", help="Only print the address.")] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="The port of the signing server; 0 chooses a free port.")
    ] = 0,
) -> None:
    """Open the console of a stage in the browser.

    Where callers sign their requests (auth = "iam"), a server on this machine signs them with your AWS credentials until you
    end it with Ctrl-C.
    """
    account = find_account(target)
    address = account.outputs.get("ConsoleUrl")
    if address is None:
        fail(f"stage {target.stage} has no console: set console = true in [api] of its configuration, and deploy")
    if target.endpoint:
        address = find_emulated_address(target.endpoint, address)
    if "ApiKeyId" in account.outputs:
        say(address)
        if not show_only:
            webbrowser.open(address)
        return
    application = Signed(account, address)
    with open_server(application, port) as server:
        local = f"http://127.0.0.1:{server.server_port}{_ENTRANCE}{application.token}"
        say(f"{local} shows {address}. End with Ctrl-C.")
        if not show_only:
            webbrowser.open(local)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say("ended")


def open_server(application: Signed, port: int) -> WSGIServer:
    """Open a server that only this machine can reach, at the port, or at any free port for 0.

    It answers several requests at once.
    """
    return make_server("127.0.0.1", port, application, _Threads, _Quiet)


class _Quiet(WSGIRequestHandler):
    # A client that does not send its body must not keep a thread for ever.
    timeout = _SECONDS

    def get_environ(self) -> dict[str, Any]:
        """Return the environment with the unchanged path of the request: PATH_INFO is decoded, and its encoding cannot
        be restored.
        """
        return {**super().get_environ(), "RAW_PATH": self.path.partition("?")[0]}

    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Threads(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class Signed:
    """A WSGI application that signs requests and passes them on.

    It accepts only requests of the console's pages. The address that the command prints has a random token, and the
    browser keeps it as a cookie. Other programs and other users of this machine do not have it.
    """

    def __init__(self, account: Account, address: str, client: httpx.Client | None = None) -> None:
        self._account = account
        self._base = address.removesuffix("/console")
        self._client = client or httpx.Client(timeout=_SECONDS)
        self.token = secrets.token_urlsafe(32)

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        path = environ.get("RAW_PATH", environ["PATH_INFO"])
        if _is_foreign(environ):
            return _refuse_plainly(start, "403 Forbidden", _WRONG_KEY)
        # Each console of this machine has its own cookie: browsers send cookies to every port of a host.
        cookie = f"tidetable-console-{environ.get('SERVER_PORT', '')}"
        if path.startswith(_ENTRANCE) and self._holds(path.removeprefix(_ENTRANCE)):
            entered = f"{cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict"
            start("303 See Other", [("Location", "/console"), ("Set-Cookie", entered), ("Cache-Control", "no-store")])
            return [b""]
        if not self._holds(_read_cookie(environ, cookie)):
            return _refuse_plainly(start, "403 Forbidden", _WRONG_KEY)
        if not _is_passed_on(environ["REQUEST_METHOD"], path):
            return _refuse_plainly(start, "404 Not Found", "The console asks for GET and POST of /v1 and /console.")
        try:
            body = _read_body(environ)
        except (ValueError, OSError) as error:
            return _refuse_plainly(start, "400 Bad Request", f"The body cannot be read: {error}")
        query = _encode_for_signature(environ.get("QUERY_STRING", ""))
        url = self._base + path + (f"?{query}" if query else "")
        sent = {
            name[5:].replace("_", "-").lower(): value for name, value in environ.items() if name.startswith("HTTP_")
        }
        sent["content-type"] = environ.get("CONTENT_TYPE", "")
        headers = {name: sent[name] for name in _KEPT if sent.get(name)}
        try:
            signed = self._account.sign_request(environ["REQUEST_METHOD"], url, headers, body)
        # botocore raises RuntimeError for credentials that are still expired after they were refreshed.
        except (BotoCoreError, ClientError, RuntimeError) as error:
            reason = str(error).rstrip(".")
            detail = f"Your AWS credentials cannot be used: {reason}. Log in again, for example with `aws sso login`."
            return _refuse_request(start, "no_credentials", detail)
        try:
            answer = self._client.request(environ["REQUEST_METHOD"], url, headers=signed, content=body)
        except httpx.HTTPError as error:
            return _refuse_request(start, "no_answer", f"The API did not answer: {error}")
        # httpx has decompressed the body, so its length and its encoding have changed.
        left_out = _HOP | {"content-length", "content-encoding"}
        kept = [(name, value) for name, value in answer.headers.items() if name.lower() not in left_out]
        start(f"{answer.status_code} {answer.reason_phrase or 'answer'}", kept)
        return [answer.content]

    def _holds(self, text: str) -> bool:
        """True if a text is this server's token."""
        return compare_digest(text.encode(), self.token.encode())


def _is_foreign(environ: dict[str, Any]) -> bool:
    """True if another page in the browser calls: its requests show another origin, or another name for this address."""
    host, origin = environ.get("HTTP_HOST", ""), environ.get("HTTP_ORIGIN")
    foreign = environ.get("HTTP_SEC_FETCH_SITE", "same-origin") not in ("same-origin", "none")
    return host.partition(":")[0] != "127.0.0.1" or foreign or (origin is not None and urlsplit(origin).netloc != host)


def _read_cookie(environ: dict[str, Any], name: str) -> str:
    """Return a cookie of a request; empty if there is none."""
    try:
        morsel = SimpleCookie(environ.get("HTTP_COOKIE", "")).get(name)
    except CookieError:
        return ""
    return "" if morsel is None else morsel.value


def _is_passed_on(method: str, path: str) -> bool:
    """True for a request that the console's pages make. The path is appended to the API's address, and must stay below
    it, also after it was decoded.
    """
    decoded = unquote(unquote(path)).replace("\\", "/")
    if any(segment in (".", "..") for segment in decoded.split("/")):
        return False
    if method == "GET":
        return path == "/console" or path.startswith(("/console/", "/v1/"))
    return method == "POST" and path.startswith("/v1/")


def _read_body(environ: dict[str, Any]) -> bytes:
    """Read the body of a request; ValueError or OSError if its length is wrong."""
    length = environ.get("CONTENT_LENGTH") or "0"
    if "HTTP_TRANSFER_ENCODING" in environ:
        raise ValueError("it has no length")
    if not _LENGTH.fullmatch(length) or int(length) > _MOST_BYTES:
        raise ValueError(f"its length is a whole number up to {_MOST_BYTES}")
    body: bytes = environ["wsgi.input"].read(int(length))
    if len(body) < int(length):
        raise ValueError("it is cut short")
    return body


def _refuse_plainly(start: Any, status: str, text: str) -> Iterable[bytes]:
    start(status, [("Content-Type", "text/plain"), ("Cache-Control", "no-store")])
    return [text.encode()]


def _encode_for_signature(query: str) -> str:
    """Encode the query in the form that AWS signs: a space is %20, and only letters, digits and -._~ stay unchanged.

    AWS: docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html. Latin-1 keeps every byte.
    """
    pairs = parse_qsl(query, keep_blank_values=True, encoding="latin-1")
    return urlencode(pairs, quote_via=quote, safe="", encoding="latin-1")


def _refuse_request(start: Any, code: str, detail: str) -> Iterable[bytes]:
    """Answer with a problem; the page shows its detail."""
    start("502 Bad Gateway", [("Content-Type", "application/problem+json")])
    return [json.dumps({"status": 502, "code": code, "detail": detail}).encode()]
