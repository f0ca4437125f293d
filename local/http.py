"""A small HTTP client for the deployed API."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from local.stack import Deployed

_TIMEOUT = 60
_LATER = frozenset({429, 503})
_TRIES = 4


@dataclass(frozen=True)
class Answer:
    """An answer of the API. The names of its headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: Any


class Api:
    """The API of a deployed local stage."""

    def __init__(self, deployed: Deployed) -> None:
        self._base = deployed.api
        self._key = deployed.key

    def call(
        self, path: str, body: bytes | None = None, headers: dict[str, str] | None = None, *, key: str | None = None
    ) -> Answer:
        """Send a request: POST if there is a body, otherwise GET."""
        all_headers = {"x-api-key": self._key if key is None else key, **(headers or {})}
        request = urllib.request.Request(self._base + path, data=body, headers=all_headers)  # noqa: S310 - the emulator's
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:  # noqa: S310
                return _make_answer(response.status, response.headers, response.read())
        except urllib.error.HTTPError as error:
            with error:
                return _make_answer(error.code, error.headers, error.read())

    def send(self, stream: str, body: bytes, content_type: str = "application/json", **headers: str) -> Answer:
        """Send events by a POST request."""
        return self.call(f"/v1/streams/{stream}/events", body, {"Content-Type": content_type, **headers})

    def query(self, stream: str, route: str = "events", **parameters: Any) -> Answer:
        """Read a page of events, or another route, by a GET request; ``start`` stands for the parameter ``from``."""
        query_parameters = {("from" if name == "start" else name): value for name, value in parameters.items()}
        return self.call(f"/v1/streams/{stream}/{route}?{urlencode(query_parameters)}")

    def walk_events(self, stream: str, **parameters: Any) -> Iterator[dict[str, Any]]:
        """Yield every event of a query: follow the cursors to the end."""
        answer = self._query_with_retries(stream, **parameters)
        while True:
            if answer.status != 200:
                raise RuntimeError(f"the query answered {answer.status}: {answer.body}")
            yield from answer.body["events"]
            if answer.body["next"] is None:
                return
            answer = self._query_with_retries(stream, cursor=answer.body["next"], limit=parameters.get("limit", 100))

    def _query_with_retries(self, stream: str, **parameters: Any) -> Answer:
        return self._retry_request(lambda: self.query(stream, **parameters))

    @staticmethod
    def _retry_request(send: Callable[[], Answer]) -> Answer:
        """Send a request, and repeat it while the API asks for that: many cold archive readers overload a small
        machine.
        """
        for _ in range(_TRIES):
            answer = send()
            if answer.status not in _LATER:
                break
            time.sleep(float(answer.headers.get("retry-after", 1)))
        return answer

    def get(self, stream: str, ref: str) -> Answer:
        """Read one event by a GET request."""
        return self._retry_request(lambda: self.call(f"/v1/streams/{stream}/events/{quote(ref, safe='')}"))


def _make_answer(status: int, headers: Any, body: bytes) -> Answer:
    return Answer(status, {name.lower(): value for name, value in headers.items()}, json.loads(body) if body else None)


def invoke_lifecycle(deployed: Deployed, **payload: Any) -> dict[str, Any]:
    """Run the lifecycle; RuntimeError if the function fails."""
    return _invoke_function(deployed, "LifecycleFunction", "the lifecycle", payload)


def invoke_refresher(deployed: Deployed, **payload: Any) -> dict[str, Any]:
    """Run the refresher of rollups, or ask it for a status; RuntimeError if the function fails."""
    return _invoke_function(deployed, "RefresherFunction", "the refresher", payload)


def _invoke_function(deployed: Deployed, output: str, task: str, payload: dict[str, Any]) -> dict[str, Any]:
    answer = deployed.make_client("lambda").invoke(
        FunctionName=deployed.outputs[output], Payload=json.dumps(payload).encode()
    )
    report: dict[str, Any] = json.loads(answer["Payload"].read())
    if "FunctionError" in answer:
        raise RuntimeError(f"{task} failed: {report}")
    return report
