"""Checks of a new key, as an operator describes it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tidetable.access import SCOPES, Access
from tidetable.layout import MAX_NAME_BYTES
from tidetable.names import STREAM

# The form of a key's name, which stands in the access log and in names of API Gateway.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
# A key has at most this many streams: they are part of the authorizer's context, which is passed on with each request.
MOST_STREAMS = 50
# The series of all cells in a rollup that does not group by series.
_EVERY_SERIES = "*"


def check_rights(
    name: str, streams: Sequence[str] | None, can: Sequence[str], series_prefix: str
) -> tuple[Access, list[str]]:
    """Return the rights of a key, without its id, and their problems, one line per problem."""
    problems = []
    if not _NAME.fullmatch(name):
        problems.append(f"--name {name[:64]!r}: use 1 to 63 letters, digits, dots, hyphens and underscores")
    if streams is not None:
        if not streams:
            problems.append("add --stream NAME once for each stream, or --all-streams")
        if len(streams) > MOST_STREAMS:
            problems.append(f"--stream: at most {MOST_STREAMS}; use --all-streams, or several keys")
        wrong = [stream for stream in streams if not STREAM.fullmatch(stream)]
        problems += [f"--stream {stream[:64]!r} is not the name of a stream" for stream in wrong]
    unknown = [scope for scope in can if scope not in SCOPES]
    if unknown or not can:
        problems.append(f"--can is a list such as write,read of {', '.join(SCOPES)}")
    if len(series_prefix.encode()) > MAX_NAME_BYTES:
        problems.append(f"--series-prefix has at most {MAX_NAME_BYTES} bytes")
    if series_prefix == _EVERY_SERIES:
        problems.append("--series-prefix '*' is the series of rollups that do not group by series: leave it out")
    scopes = frozenset(scope for scope in SCOPES if scope in can)
    return Access("", None if streams is None else frozenset(streams), scopes, series_prefix), problems
