"""The names that a shell completes: the stage's own streams and series.

A completion must never disturb the line that a user is typing: whatever goes wrong, there are no names, and nothing is
printed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from threading import Thread
from typing import Any, get_type_hints

import typer

# A user waits no longer than this for names.
_LONGEST = 2.0
_MOST = 50


def complete_stream(ctx: typer.Context, incomplete: str) -> list[str]:
    """List the streams that the key may see and that begin as the word does."""
    names = _ask(ctx, lambda client: [stream["stream"] for stream in client.streams()])
    return sorted(name for name in names if name.startswith(incomplete))


def complete_target(ctx: typer.Context, incomplete: str) -> list[str]:
    """List the streams that get events, and that begin as the word does: only the pipeline writes into rollups."""
    streams = _ask(ctx, lambda client: client.streams())
    rollups = {rollup["stream"] for stream in streams for rollup in stream["rollups"]}
    names = {stream["stream"] for stream in streams} - rollups
    return sorted(name for name in names if name.startswith(incomplete))


def complete_rollup(ctx: typer.Context, incomplete: str) -> list[str]:
    """List the rollups of the stream that is named already."""
    named = ctx.params.get("stream") or next(iter(ctx.args), None)
    streams = _ask(ctx, lambda client: client.streams())
    rollups = [rollup["stream"] for stream in streams if stream["stream"] == named for rollup in stream["rollups"]]
    names = [rollup.removeprefix(f"{named}-") for rollup in rollups]
    return sorted(name for name in names if name.startswith(incomplete))


def complete_stream_of_file(ctx: typer.Context, incomplete: str) -> list[str]:
    """List the streams of the configuration that is named already, or of tidetable.toml; rollups get no events."""
    from cli.options import DEFAULT
    from tidetable.config import load
    from tidetable.errors import ConfigError

    # While an option has no value yet, click leaves the arguments before it unread, and the parameter has its default.
    file = Path(next(iter(ctx.args), None) or ctx.params.get("file") or DEFAULT)
    try:
        streams = load(file / DEFAULT.name if file.is_dir() else file).streams.values()
    except (ConfigError, OSError):
        return []
    return sorted(stream.name for stream in streams if not stream.source and stream.name.startswith(incomplete))


def complete_series(ctx: typer.Context, incomplete: str) -> list[str]:
    """List some series of the stream that is named already. They begin as the word does."""
    # While an option has no value yet, click leaves the arguments before it unread.
    stream = ctx.params.get("stream") or next(iter(ctx.args), None)
    if not stream:
        return []
    narrowed = {"prefix": incomplete} if incomplete else {}
    query = {"start": "-1d", "limit": _MOST, **narrowed}
    return _ask(ctx, lambda client: [row["series"] for row in next(client.series(stream, **query).pages()).rows])


def _ask(ctx: typer.Context, list_found: Callable[[Any], list[Any]]) -> list[Any]:
    """Ask the API, in a thread that nobody waits for too long; nothing is found if it fails or is slow."""
    found: list[Any] = []

    def ask() -> None:
        from cli.connection import open_client
        from cli.options import ApiTarget
        from tidetable_client import Policy

        with suppress(BaseException):
            # A completion does not read the variables that stand for options by itself.
            hints = get_type_hints(ApiTarget, include_extras=True)
            variables = {name: hint.__metadata__[0].envvar or "" for name, hint in hints.items()}
            given: dict[str, Any] = {
                name: ctx.params.get(name) or os.environ.get(variable) for name, variable in variables.items()
            }
            target = ApiTarget(**{name: value for name, value in given.items() if value})
            with open_client(target, policy=Policy(retry_for=0, exit_timeout=0)) as client:
                found.extend(list_found(client))

    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):  # noqa: PTH123
        thread = Thread(target=ask, daemon=True)
        thread.start()
        thread.join(_LONGEST)
    return list(found)
