"""Read the workload that a command prices, from the command's options and files."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from bill.workload import Workload, spread_by_hour
from tidetable.config import Config, Stream, load
from tidetable.problems import describe_unknown_stream


@dataclass(frozen=True)
class Load:
    """The options that describe a workload. With a folder, its workload.toml has the rates and the sizes."""

    rate: Annotated[float | None, typer.Option(help="Events per second.", min=0)] = None
    night: Annotated[
        float | None, typer.Option(help="Events per second from 23 to 7 o'clock UTC, if different.", min=0)
    ] = None
    size: Annotated[int, typer.Option("--bytes", help="Bytes of an event as stored.", min=1, max=400_000)] = 1000
    batch: Annotated[int, typer.Option(help="Events per request.", min=1, max=10_000)] = 100
    reads: Annotated[float, typer.Option(help="Queries of recent events per second.", min=0)] = 1.0
    read_bytes: Annotated[int, typer.Option(help="Bytes that a query reads.", min=1)] = 8192
    old_reads: Annotated[float, typer.Option(help="Queries per second of events older than a day.", min=0)] = 0.0
    archive_days: Annotated[
        int | None, typer.Option(help="For how many days archives are kept; default: as the file says.", min=1)
    ] = None
    in_index: Annotated[
        list[str] | None, typer.Option(help="The share of events in an index, such as by_error=0.01; by default all.")
    ] = None
    packed_bytes: Annotated[
        float | None,
        typer.Option(help="Bytes of an event in a pack, of a stream with packs; default: a quarter.", min=1),
    ] = None
    groups: Annotated[
        int, typer.Option(help="Groups, such as series, in a bucket of a rollup.", min=1, max=100_000)
    ] = 100
    series_per_request: Annotated[
        int | None,
        typer.Option(
            help="Series per request: packs of a stream by series hold one series each; default: each event has its own.",
            min=1,
            max=10_000,
        ),
    ] = None
    seconds_per_request: Annotated[
        float,
        typer.Option(
            help="Seconds from the oldest to the newest event of a request: a pack holds events of one span.", min=0
        ),
    ] = 1.0
    late_share: Annotated[
        float,
        typer.Option(
            help="The share of events that come more than two minutes late, 0 to 1: they cost more if there are rollups.",
            min=0,
            max=1,
        ),
    ] = 0.0
    latest: Annotated[
        float,
        typer.Option(
            help="Requests per second for the latest events of 100 series, priced as if all were silent.", min=0
        ),
    ] = 0.0

    def make_workload(self, config: Config, stream: str | None, folder: Path | None) -> Workload:
        """Make the workload of a stream, or of a folder's stream; ValueError says which option cannot be used."""
        if folder is not None:
            workload = replace(read_workload(folder, config), batch=self.batch, archive_days=self.archive_days)
        else:
            policy, hours = choose_stream(config, stream), spread_by_hour(self.rate or 0.0, self.night)
            reads = self.reads, self.read_bytes, self.old_reads
            workload = Workload(hours, self.size, *reads, policy, self.batch, self.archive_days)
            workload = replace(workload, by_key=config.api.by_key, keeping=config.find_keeping(policy.name))
        shares = read_shares(workload.stream, self.in_index or [])
        packed = self.packed_bytes or workload.packed_bytes
        workload = replace(workload, index_shares=shares, groups=self.groups, packed_bytes=packed)
        return replace(
            workload,
            series_per_request=self.series_per_request,
            seconds_per_request=self.seconds_per_request,
            late_share=self.late_share,
            latest=self.latest,
        )


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
