"""The constructs of a stage that a reader does not have."""

from __future__ import annotations

from dataclasses import dataclass

from .console import Console
from .doors import Doors
from .feed import Feed
from .ingest import Ingest
from .lake import Lake
from .lifecycle import Lifecycle
from .query import Query
from .rollups import Rollups
from .storage import Storage
from .work import Work


@dataclass(frozen=True)
class StageParts:
    """The constructs behind the API of a stage; None for those that the configuration does not need."""

    storage: Storage
    ingest: Ingest
    query: Query
    feed: Feed
    lifecycle: Lifecycle
    work: Work
    rollups: Rollups | None
    lake: Lake
    doors: Doors | None
    console: Console | None
