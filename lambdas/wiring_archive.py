"""Builds the objects of the functions that carry pyarrow; apart from wiring, so that no other function imports it."""

from __future__ import annotations

from functools import cache

import wiring
import wiring_control
from aws import clients
from aws.archive.clients import decode_range, encode_page
from aws.archive.parquet import Parquet
from aws.archive.s3 import S3PartReader
from aws.archive.scan import RawScan
from aws.archive.whole import PageCompleter
from aws.objects import S3Objects
from settings import config, settings
from tidetable.archive import Exporter, Restorer
from tidetable.archive.reading import PartReader
from wiring import SystemClock

__all__ = ["decode_range", "encode_page", "exporter", "part_reader", "restorer"]


@cache
def exporter() -> Exporter:
    """For the archiver."""
    return Exporter(
        config(),
        wiring_control.catalog(),
        wiring_control.tables(),
        RawScan(clients.dynamodb()),
        S3Objects(clients.s3(), settings().archive_bucket),
        Parquet(),
        SystemClock(),
        PageCompleter(wiring.unpacker()),
        wiring.pools,
        time_travel=settings().allow_time_travel,
    )


@cache
def restorer() -> Restorer:
    """For the restorer."""
    return Restorer(
        settings().stage, exporter(), wiring_control.tables(), wiring.store(), wiring.jitter, wiring.outside()
    )


@cache
def part_reader() -> PartReader:
    """For the archive reader."""
    return S3PartReader(S3Objects(clients.s3(), settings().archive_bucket))
