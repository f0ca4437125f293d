"""Converts an access log of nginx to events, one line of JSON each.

python -m examples.weblogs.convert < access.log | python examples/python/send.py access

The server writes its log in this format:

log_format tides '$host $remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent $request_time';
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

SLOW_MS = 200
_LINE = re.compile(
    r"(?P<host>\S+) (?P<address>\S+) - (?P<user>\S+) \[(?P<time>[^]]+)\] "
    r'"(?P<method>[A-Z]+) (?P<target>\S+)[^"]*" (?P<status>\d{3}) (?P<bytes>\d+) (?P<seconds>\d+\.\d+)'
)


def convert_lines(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """An event per line, in order. ValueError names a line that does not have the format.

    The id of an event is a hash of its line and of how many equal lines came before it. A log has seconds only, so two equal
    requests of one second are two events. The same file gives the same ids when it is sent again, so nothing is stored
    twice.
    """
    seen: Counter[str] = Counter()
    second = ""
    for number, line in enumerate(lines, 1):
        text = line.strip()
        match = _LINE.fullmatch(text)
        if match is None:
            raise ValueError(f"line {number} does not have the documented log_format: {text[:200]}")
        if match["time"] != second:
            seen.clear()
            second = match["time"]
        seen[text] += 1
        yield _convert(match, f"{text} {seen[text]}")


def _convert(match: re.Match[str], identity: str) -> dict[str, Any]:
    status, ms = int(match["status"]), round(float(match["seconds"]) * 1000)
    data: dict[str, Any] = {
        "method": match["method"],
        "path": match["target"].partition("?")[0],
        "status": status,
        "bytes": int(match["bytes"]),
        "ms": ms,
        "address": match["address"],
    }
    if match["user"] != "-":
        data["customer"] = match["user"]
    # The fields of the sparse indexes: only few events have them, so the indexes cost little.
    if status >= 500:
        data["error"] = match["status"]
    if ms > SLOW_MS:
        data["slow_ms"] = ms
    time = datetime.strptime(match["time"], "%d/%b/%Y:%H:%M:%S %z")
    key = hashlib.sha256(identity.encode()).hexdigest()[:24]
    return {"series": match["host"], "time": time.isoformat(), "id": key, "data": data}


if __name__ == "__main__":
    for event in convert_lines(sys.stdin):
        print(json.dumps(event))
