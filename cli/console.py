"""The command that opens the console: in the browser, or through a server of this machine that signs requests."""

from __future__ import annotations

import json
import webbrowser
from collections.abc import Iterable
from socketserver import ThreadingMixIn
from typing import Annotated, Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import httpx
import typer
from botocore.exceptions import BotoCoreError, ClientError

from cli.account import Account
from cli.common import Endpoint, Profile, Region, Stage, app, fail, find_account, out
from cli.connection import find_emulated_address

# Headers for one connection only. They are not copied from the stage's answer.
_HOP = frozenset({"connection", "host", "keep-alive", "transfer-encoding", "te", "upgrade", "accept-encoding"})
_KEPT = ("accept", "content-type", "prefer", "if-none-match")
# API Gateway gives up after 29 seconds.
_SECONDS = 35.0


@app.command()
def console(
    stage: Stage = "dev",
    show_only: Annotated[bool, typer.Option("--no-open", help="Only print the address.")] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="The port of the signing server; 0 chooses a free port.")
    ] = 0,
    endpoint: Endpoint = None,
    profile: Profile = None,
    region: Region = None,
) -> None:
    """Open the console of a stage in the browser.

    Where callers sign their requests (auth = "iam"), a server on this machine signs them with your AWS credentials until you
    end it with Ctrl-C.
    """
    account = find_account(stage, endpoint, profile, region)
    address = account.outputs.get("ConsoleUrl")
    if address is None:
        fail(f"stage {stage} has no console: set console = true in [api] of its configuration, and deploy")
    if endpoint:
        address = find_emulated_address(endpoint, address)
    if "ApiKeyId" in account.outputs:
        out.print(address, soft_wrap=True)
        if not show_only:
            webbrowser.open(address)
        return
    with open_server(Signed(account, address), port) as server:
        local = f"http://127.0.0.1:{server.server_port}/console"
        out.print(f"{local} shows {address}. End with Ctrl-C.", soft_wrap=True)
        if not show_only:
            webbrowser.open(local)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            out.print("ended")


def open_server(application: Signed, port: int) -> WSGIServer:
    """Open a server that only this machine can reach, at the port, or at any free port for 0.

    It answers several requests at once.
    """
    return make_server("127.0.0.1", port, application, _Threads, _Quiet)


class _Quiet(WSGIRequestHandler):
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
    """A WSGI application that signs requests and passes them on. It accepts only requests of the console's pages."""

    def __init__(self, account: Account, address: str, client: httpx.Client | None = None) -> None:
        self._account = account
        self._base = address.removesuffix("/console")
        self._client = client or httpx.Client(timeout=_SECONDS)

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        host = environ.get("HTTP_HOST", "")
        # Another page in the browser must not call with the operator's rights. It could call this address: the headers
        # of such a request show another origin. Or it could use another host name for this address.
        foreign = environ.get("HTTP_SEC_FETCH_SITE", "same-origin") not in ("same-origin", "none")
        origin = environ.get("HTTP_ORIGIN")
        if host.partition(":")[0] != "127.0.0.1" or foreign or (origin is not None and urlsplit(origin).netloc != host):
            start("403 Forbidden", [("Content-Type", "text/plain")])
            return [b"This server answers its own page alone."]
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        query = _encode_for_signature(environ.get("QUERY_STRING", ""))
        url = self._base + environ.get("RAW_PATH", environ["PATH_INFO"]) + (f"?{query}" if query else "")
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
