"""Send events from Python: in batches, compressed, and again if the API says so. It needs only the standard library.

URL=... KEY=... python examples/python/send.py access < events.ndjson
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any

BATCH = 500  # events per request; the API takes 1,000 and 4 MB
TRIES = 8


def send_events(url: str, key: str, stream: str, events: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Send all events; yields each event that was refused, with its ``code`` and ``detail``.

    OSError if the API does not answer after all retries.
    """
    source = iter(events)
    while batch := list(islice(source, BATCH)):
        # An event with a time of its own is stored once, also if it is sent again.
        now = datetime.now(UTC).isoformat()
        batch = [{"time": now, **event} for event in batch]
        for error in _post(f"{url}/v1/streams/{stream}/events", key, batch).get("errors", []):
            yield {**error, "event": batch[error["index"]]}


def _post(address: str, key: str, batch: list[dict[str, Any]]) -> dict[str, Any]:
    """Send one request, and repeat it while the API is overloaded or does not answer."""
    body = gzip.compress("\n".join(map(json.dumps, batch)).encode())
    headers = {"x-api-key": key, "Content-Type": "application/x-ndjson"}
    for attempt in range(TRIES):
        wait = min(2.0**attempt, 30.0)
        try:
            request = urllib.request.Request(address, body, headers)  # noqa: S310 - the address is the caller's own
            with urllib.request.urlopen(request, timeout=35) as answer:  # noqa: S310
                stored: dict[str, Any] = json.load(answer)  # 200: stored. 202: queued, and stored soon
                return stored
        except urllib.error.HTTPError as error:
            text = error.read()
            if error.code == 422:  # every event was refused
                refused: dict[str, Any] = json.loads(text)
                return refused
            if error.code not in (429, 500, 502, 503, 504):
                raise RuntimeError(f"the API refused the request, {error.code}: {text.decode()}") from error
            wait = float(error.headers.get("Retry-After", wait))
        except OSError:
            pass  # no answer: perhaps stored, and sending again is harmless
        time.sleep(wait)
    raise OSError(f"the API could not take the events in {TRIES} tries; {len(batch)} are not sent")


if __name__ == "__main__":
    lines = (json.loads(line) for line in sys.stdin if line.strip())
    count = 0
    for refused in send_events(os.environ["URL"], os.environ["KEY"], sys.argv[1], lines):
        count += 1
        print(f"{refused['code']}: {refused['detail']}: {json.dumps(refused['event'])}", file=sys.stderr)
    sys.exit(1 if count else 0)
