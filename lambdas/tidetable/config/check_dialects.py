"""Checks of ``[doors]`` and of the streams' mappings of other programs' protocols."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tidetable.config.model import Config, Stream

_TEMPLATE = re.compile(r"(?:[^{}]|\{[^{}]+\})*")
_PATH = re.compile(r"[^.]+(?:\.[^.]+)*")


def check_dialects(config: Config) -> Iterator[str]:
    """Yield the problems of the doors and the mappings, one line each."""
    for key, name in (("otlp_metrics", config.doors.otlp_metrics), ("otlp_logs", config.doors.otlp_logs)):
        if name is None:
            continue
        stream = config.streams.get(name)
        if stream is None:
            yield f'doors.{key}: there is no stream "{name}"; name one of the streams of this file'
        elif stream.source:
            yield f'doors.{key}: "{name}" is a rollup, which the pipeline itself writes; name the stream {stream.source}'
        if not config.doors.otlp:
            yield f"doors.{key}: the door is closed; add otlp = true to [doors], or remove the key"
    for stream in config.streams.values():
        yield from _check_mappings(stream)


def _check_mappings(stream: Stream) -> Iterator[str]:
    path = f"streams.{stream.name}"
    if not _TEMPLATE.fullmatch(stream.influx.series):
        yield (
            f'{path}.influx.series: "{stream.influx.series}" is not a template; write names of tags in braces, such as'
            ' "{measurement}/{host}"'
        )
    if len(set(stream.otlp.series)) < len(stream.otlp.series) or not all(stream.otlp.series):
        yield f"{path}.otlp.series: an attribute is empty or named twice; name each once"
    for key in ("series", "time", "id"):
        if not _PATH.fullmatch(getattr(stream.firehose, key)):
            yield f'{path}.firehose.{key}: write the path of a field in a record, such as "device.id"'
