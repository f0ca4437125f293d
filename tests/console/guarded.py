"""A small stage behind the authorizer's own decision: keys with few rights, events with versions, and hostile names."""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.api.gateway import ROUTES, serving
from tests.console.pages import listening
from tests.console.serve import Served, served_console
from tests.credentials.records import record
from tests.fakes.stage import STALE_SECONDS, Stage
from tests.worlds.examples import NOW
from tidetable.access import Scope
from tidetable.credentials import Call, CredentialRecord, CredentialRing, decide
from tidetable.credentials.text import make_key_text

CONFIG = """
[streams.sensors]
period = "day"
late = "1h"
retention = 3
versions = "keep"
[streams.sensors.key]
partition_by = "series"

[streams.doors]
period = "day"
late = "1h"
retention = 3
[streams.doors.key]
partition_by = "time"
bucket = "24h"
shards = 1
[[streams.doors.index]]
name = "widest"
partition_by = "*"
sort_by = "width"
"""
# What the gateway answers where the authorizer refuses.
REFUSAL = {
    "type": "about:blank",
    "title": "Forbidden",
    "status": 403,
    "code": "forbidden",
    "detail": "Send one valid key that may call this route: as x-api-key, or as Authorization: Bearer, Token or Basic.",
}


def text_of(name: str) -> str:
    """The text of a key by a name of ten letters."""
    return make_key_text(name, "s" * 32)


class Guarded:
    """The console and the API; every request is decided on as the authorizer does it."""

    def __init__(self, served: Served, stage: Stage) -> None:
        self.served = served
        self.stage = stage
        self.url = ""
        self.keys: dict[str, CredentialRecord] = {}
        # Answers of paths in place of the API's own: status and document.
        self.answers: dict[str, tuple[int, Any]] = {}
        self._ring = CredentialRing(self.keys.get)
        self._lock = threading.Lock()

    def add(self, name: str, *can: Scope, streams: set[str] | None = None, prefix: str = "", **facts: Any) -> str:
        """Make a key, and return its text."""
        self.keys[name] = record(text_of(name), streams, can, prefix, **facts)
        return text_of(name)

    def send(self, stream: str, minutes: float = 5, **event: Any) -> None:
        """Store an event of so many minutes ago, which every read of now finds."""
        self.stage.clock.time = NOW - timedelta(minutes=minutes)
        timed = {"time": self.stage.clock.time.isoformat(), **event}
        outcome = self.stage.send(stream, json.dumps(timed).encode())
        assert (outcome.accepted, outcome.queued) == (1, 0)

    def revoke(self, name: str) -> None:
        """Revoke a key; no process remembers how it was."""
        self.keys[name] = replace(self.keys[name], revoked=NOW)
        self._ring = CredentialRing(self.keys.get)

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        with self._lock:
            self.stage.clock.time = NOW - timedelta(seconds=STALE_SECONDS)
            if environ["PATH_INFO"].startswith("/v1/"):
                key = environ.get("HTTP_X_API_KEY")
                resource, found = next(
                    (name, match) for name, route in ROUTES.items() if (match := route.fullmatch(environ["PATH_INFO"]))
                )
                headers = {"x-api-key": [key]} if key else {}
                call = Call(environ["REQUEST_METHOD"], resource, found.groupdict().get("stream"), headers)
                decision = decide(call, self._ring, NOW)
                if not decision.allowed:
                    start("403 refusal", [("Content-Type", "application/problem+json")])
                    return [json.dumps(REFUSAL).encode()]
                environ["tidetable.access"] = decision.context()
            if environ["PATH_INFO"] in self.answers:
                status, document = self.answers[environ["PATH_INFO"]]
                start(f"{status} answer", [("Content-Type", "application/json")])
                return [json.dumps(document).encode()]
            return list(self.served(environ, start))


@contextmanager
def guarded_console(text: str = CONFIG) -> Iterator[Guarded]:
    """The console of a configuration, by default of that above, with the tables of its streams."""
    stage = Stage(NOW - timedelta(hours=1), text)
    while stage.run_lifecycle().done:
        pass
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "tidetable.toml"
        config.write_text(text)
        for gateway in serving(stage, config):
            with served_console(gateway) as served:
                application = Guarded(served, stage)
                with listening(application) as application.url:
                    yield application
