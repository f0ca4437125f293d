"""Read the workload that a command prices, from the command's options and files."""

from __future__ import annotations

import tomllib
from pathlib import Path

from bill.workload import Workload
from tidetable.config import Config, Stream, load
from tidetable.problems import describe_unknown_stream


def read_workload(folder: Path, config: Config | None = None) -> Workload:
    """Read a folder's workload.toml, and the only stream of its tidetable.toml, or of ``config``."""
    config = load(folder / "tidetable.toml") if config is None else config
    stream = choose_stream(config, None)
    known = tomllib.loads((folder / "workload.toml").read_text())
    return Workload(stream=stream, keeping=config.find_keeping(stream.name), **known)


def choose_stream(config: Config, name: str | None) -> Stream:
    """Choose the named stream, or the only stream; ValueError names the existing streams."""
    # Nobody sends events to a rollup.
    streams = {stream.name: stream for stream in config.streams.values() if not stream.source}
    names = ", ".join(streams)
    if name is None and len(streams) > 1:
        raise ValueError(f"the configuration has several streams: add --stream with one of {names}")
    stream = streams.get(name) if name is not None else next(iter(streams.values()))
    if stream is None:
        raise ValueError(describe_unknown_stream(str(name), streams))
    return stream


def read_shares(stream: Stream, words: list[str]) -> dict[str, float]:
    """Read the shares of events by index, from words such as ``by_error=0.01``; ValueError describes a wrong word."""
    names = [index.name for index in stream.index]
    shares = {}
    for word in words:
        name, _, text = word.partition("=")
        if name not in names:
            raise ValueError(f"--in-index {word}: there is no index {name!r}; there are: {', '.join(names) or 'none'}")
        try:
            share = float(text)
        except ValueError:
            share = -1.0
        if not 0 <= share <= 1:
            raise ValueError(f"--in-index {word}: write the share of the events that are in it, such as {name}=0.01")
        shares[name] = share
    return shares
