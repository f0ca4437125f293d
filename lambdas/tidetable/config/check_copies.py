"""Checks of ``replicas``: the conditions under which a stream's tables may have copies in other Regions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tidetable.config.bounds import find_repeated
from tidetable.config.model import Config, Stream
from tidetable.config.regions import find_partition

REGION = re.compile(r"[a-z]{2,}(-[a-z]+)+-\d{1,2}")
# Each write is paid for once per Region, and the copies of a table are made one after another.
MAX_COPIES = 5
_VIEWS = ("none", "new-and-old-images")


def check_copies(stream: Stream) -> Iterator[str]:
    """Yield the problems of a stream's copies. Each begins with its key, without the path of the stream."""
    if not stream.copied:
        return
    at = ".replicas"
    yield from check_regions(at, stream.replicas)
    if find_repeated(stream.replicas):
        yield f"{at}: {list(stream.replicas)} names a Region twice; name each once"
    partitions = {find_partition(region) for region in stream.replicas}
    if len(partitions) > 1:
        yield f"{at}: {list(stream.replicas)} are in {len(partitions)} partitions of AWS, and DynamoDB copies within one only"
    if len(stream.replicas) > MAX_COPIES:
        yield f"{at}: {len(stream.replicas)} Regions; name {MAX_COPIES} at the most, because each pays for every write"
    if stream.table.stream not in _VIEWS:
        yield (
            f'.table.stream: "{stream.table.stream}" cannot be used with replicas, which need new and old images; remove it, or'
            ' write "new-and-old-images"'
        )
    if stream.table.encryption.startswith("arn:"):
        yield (
            ".table.encryption: a KMS key is of one Region, and each copy would need a key of its own; with replicas choose"
            ' "aws-owned" or "aws-managed"'
        )
    yield from _check_capacity(stream)


def check_regions(at: str, regions: Sequence[str]) -> Iterator[str]:
    """Yield a problem for each name that is not the name of a Region."""
    for region in regions:
        if not REGION.fullmatch(region):
            yield f'{at}: "{region}" is not the name of a Region, such as "eu-west-1"'


def check_own_region(config: Config, region: str) -> Iterator[str]:
    """Yield the problems that follow from the stage's own Region; its name is known at synth and in the functions."""
    for stream in config.streams.values():
        others = [copy for copy in stream.replicas if find_partition(copy) != find_partition(region)]
        if others and not stream.source:
            yield (
                f"streams.{stream.name}.replicas: {', '.join(others)} and the stage's {region} are in different partitions of"
                " AWS, and DynamoDB copies within one only; remove it"
            )
        if region in stream.replicas and not stream.source:
            yield (
                f"streams.{stream.name}.replicas: {region} is the Region of the stage itself, which has the tables already;"
                " remove it"
            )


def _check_capacity(stream: Stream) -> Iterator[str]:
    """Check AWS's rule: as long as a table has copies, its write units must be on demand or scaled automatically."""
    capacity = stream.capacity
    for step in capacity.ladder:
        if capacity.on_demand(step):
            continue
        at = f".capacity.ladder (age = {step.age})"
        if step is not capacity.ladder[0]:
            yield (
                f"{at}: provisioned write units cannot be used with replicas after age = 0, as nothing scales them then;"
                ' set mode = "on-demand"'
            )
        elif capacity.autoscaling is None or capacity.autoscaling.write is None:
            yield (
                f"{at}: provisioned write units need autoscaling with replicas; add capacity.autoscaling.write, or set mode ="
                ' "on-demand"'
            )
