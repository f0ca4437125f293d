"""The core's ports: ``aws/`` implements them on AWS, the tests bring fakes that pass the same contract."""

from tidetable.ports.archives import (
    ArchiveColumns,
    ArchivePage,
    Archiver,
    ArchiveRange,
    ArchiveReader,
    EventVersion,
    Rank,
    WholeRange,
)
from tidetable.ports.data import (
    GET_ITEMS,
    Blob,
    Compressor,
    DeadLetters,
    EventStore,
    FieldPage,
    Guard,
    Guarded,
    ItemColumns,
    KeyRange,
    Overflow,
    Page,
    Put,
    RangeRead,
    Slot,
    Transacted,
    Values,
    Written,
)
from tidetable.ports.records import WALKED_AT_ONCE, Catalog, CatalogReader, Clock, Pools
from tidetable.ports.rollups import Edge, LastPeriods, Mark, NotedSeries, NotePage, Noting, Rollups, RollupState
from tidetable.ports.sketches import Sketch, Sketches
from tidetable.ports.tables import Scaling, Table, Tables, TableSpec
from tidetable.ports.typed import TableEncoder, TypedColumn

__all__ = [
    "GET_ITEMS", "ArchiveColumns", "ArchivePage", "ArchiveRange", "ArchiveReader", "Archiver", "Blob", "Catalog", "CatalogReader",
    "Clock", "ItemColumns", "Compressor", "DeadLetters", "Edge", "EventStore", "FieldPage", "Guard", "Guarded", "KeyRange",
    "LastPeriods", "Mark",
    "NotePage", "NotedSeries", "Noting",
    "Overflow", "Page", "Pools", "Put", "RangeRead", "Rank", "RollupState", "Rollups", "Scaling", "Sketch", "Sketches", "Slot",
    "Table",
    "TableEncoder", "TableSpec", "Tables", "Transacted", "TypedColumn", "Values", "EventVersion", "WALKED_AT_ONCE", "WholeRange",
    "Written",
]  # fmt: skip
