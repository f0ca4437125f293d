"""A stream's policy as text. The catalog keeps it for the time after the stream has left the configuration."""

from __future__ import annotations

from typing import Any

import msgspec

from tidetable.config.model import Stream
from tidetable.durations import read_duration
from tidetable.errors import ConfigError


def render_policy(stream: Stream) -> str:
    """Return the policy as JSON with every key: a default that changes later does not change the recorded policy."""
    return msgspec.json.encode(stream, enc_hook=str).decode()


def parse_policy(stream: str, text: str) -> Stream:
    """Return the policy that ``render_policy`` wrote; ConfigError if this version of the code cannot read it."""
    try:
        decoded: Any = msgspec.json.decode(text, type=Stream, dec_hook=read_duration)
    except (msgspec.DecodeError, ValueError) as error:
        problem = f"the recorded policy of the removed stream {stream} cannot be read: {error}"
        raise ConfigError(
            [f"{problem}; add [streams.{stream}] again, so that the lifecycle manages its tables"]
        ) from error
    policy: Stream = msgspec.structs.replace(decoded, name=stream)
    return policy
