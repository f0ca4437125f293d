"""The tables of a stream, ``[streams.NAME.…]``, except for its capacity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from tidetable.config.groups import Group
from tidetable.durations import Duration
from tidetable.layout import TIME, Index, Packing
from tidetable.layout.period_layout import PartitionBy, ShardBy
from tidetable.periods import Kind
from tidetable.statistics import DEFAULT_KEPT, KeptName

StorageClass = Literal["standard", "infrequent-access", "intelligent-tiering", "glacier-instant-retrieval"]
Beyond = Literal["refuse", "chunks", "s3"]
ChangeKind = Literal["insert", "replace"]
ChangeStream = Literal["none", "keys-only", "new-image", "old-image", "new-and-old-images"]
OnExpiry = Literal["archive", "delete", "keep"]
ArchiveAt = Literal["expiry", "close"]
# A bucket has at most this many groups times fields. While the bucket is read, each sketch takes 9 KB of the
# refresher's memory.
MAX_CELLS = 100_000
DEFAULT_GROUPS = 10_000


class KeyPolicy(Group, frozen=True, kw_only=True):
    """``[streams.NAME.key]``: the layout of period tables not yet created."""

    partition_by: PartitionBy
    bucket: Duration | None = None
    shards: int = 1
    shard_by: ShardBy = "id"
    # Only the part of a series before this text decides its suffix; empty: the whole series.
    shard_until: str = ""


class IndexPolicy(Group, frozen=True, kw_only=True):
    """``[[streams.NAME.index]]``: an index of period tables not yet created.

    ``partition_by`` is a field of ``data``, ``*`` for all events at once, or, with ``kind``, a field for each kind of
    events. ``sort_by`` is ``time``, a field that holds numbers, or a list of fields that hold texts, which are joined.
    ``project`` says which part of an event the index holds: all, keys only, or some fields of ``data``. A ``replica``
    has the table's own keys. A ``local`` index has the table's own partitions in another order.
    """

    name: str
    partition_by: str | Mapping[str, str] | None = None
    kind: str | None = None
    shards: int = 1
    sort_by: str | tuple[str, ...] = TIME
    project: Literal["all", "keys"] | tuple[str, ...] = "all"
    replica: bool = False
    local: bool = False

    @property
    def index(self) -> Index:
        """The index in the form that layouts use."""
        kinds = tuple(self.partition_by.items()) if isinstance(self.partition_by, Mapping) else ()
        return Index(
            self.name,
            self.partition_by if isinstance(self.partition_by, str) else "",
            self.shards,
            self.sort_by if isinstance(self.sort_by, str) else TIME,
            None if self.project == "all" else () if self.project == "keys" else self.project,
            self.kind or "",
            kinds,
            self.replica,
            self.sort_by if isinstance(self.sort_by, tuple) else (),
            self.local,
        )


class TablePolicy(Group, frozen=True, kw_only=True):
    """``[streams.NAME.table]``: the settings of period tables not yet created, besides key and capacity."""

    deletion_protection: bool = False
    point_in_time_recovery: bool = False
    # "aws-owned" (free), "aws-managed", or the ARN of the user's own key.
    encryption: str = "aws-owned"
    stream: ChangeStream = "none"
    tags: Mapping[str, str] = msgspec.field(default_factory=dict)


class Keeping(Group, frozen=True, kw_only=True):
    """``[archive]``: how long archives are kept after they were written (zero: for ever), and in which class of S3.

    Archives move to ``storage_class`` after the time ``storage_class_after``. Only classes that can be read at once are
    allowed: a query of an archived period must not wait for hours.
    """

    expire_after: Duration = Duration(0)
    storage_class: StorageClass = "standard"
    storage_class_after: Duration = Duration(days=30)


class ArchivePolicy(Group, frozen=True, kw_only=True):
    """``[streams.NAME.archive]``: how an expired table is exported, and what its files look like.

    A provisioned table is switched to on-demand for its export; if ``read_units`` is set, it is raised to these units
    instead. The export uses the share ``read_share`` of the table's read units, and reads the number of ``segments`` in
    parallel. ``columns`` maps fields of ``data`` to the types of their columns. The other keys replace those of
    ``[archive]`` for this stream.
    """

    read_share: float = 0.5
    read_units: int | None = None
    segments: int = 4
    columns: Mapping[str, str] = msgspec.field(default_factory=dict)
    expire_after: Duration | None = None
    storage_class: StorageClass | None = None
    storage_class_after: Duration | None = None


class LargePolicy(Group, frozen=True, kw_only=True):
    """``[streams.NAME.large]``: how large events are stored.

    If an event's ``data`` has more than ``compress_above`` bytes, it is compressed if that saves write units.
    ``beyond`` says what happens to an event that is still too large for an item: it is refused, kept in chunks beside
    the table, or in S3.
    """

    compress_above: int | None = None
    beyond: Beyond = "refuse"


class PackPolicy(Group, frozen=True, kw_only=True):
    """``[streams.NAME.pack]``: many events in one item, in period tables not yet created.

    The events of a pack are less than ``span`` apart, and take at most ``max_bytes`` when compressed.
    """

    span: Duration
    max_bytes: int = 65_536

    @property
    def packing(self) -> Packing:
        """The settings of packs in the form that layouts use."""
        return Packing(int(self.span.total_seconds()), self.max_bytes)


class FeedPolicy(Group, frozen=True, kw_only=True):
    """``[streams.NAME.feed]``: which changes of a stream's events are delivered, and to which targets.

    ``targets`` are ARNs. ``where`` are conditions as in queries, such as ``{"mag:ge" = "5"}``. A batch has at most
    ``batch`` records; Lambda waits at most ``window`` for a batch, and works on ``parallel`` batches of a shard at once. A
    record that a target did not accept for ``max_age`` becomes a dead letter.
    """

    targets: tuple[str, ...]
    kinds: tuple[ChangeKind, ...] = ("insert", "replace")
    where: Mapping[str, str] = msgspec.field(default_factory=dict)
    batch: int = 100
    window: Duration = Duration(seconds=1)
    parallel: int = 1
    max_age: Duration = Duration(hours=1)


class RollupPolicy(Group, frozen=True, kw_only=True):
    """``[[streams.NAME.rollup]]``: aggregates of a stream, stored as the stream NAME-``name`` (``tidetable.config.derive``).

    ``every`` is the length of a bucket. ``by`` (``series`` and fields of ``data``) divides a bucket's events into
    groups. Each group has the statistics ``stats`` of the numbers in ``fields``. A table holds one ``period``, and is
    kept for ``retention`` after the period's end. A bucket with more than ``max_groups`` groups is not sealed;
    without the key, ``most_groups`` follows from the fields.
    """

    name: str
    every: Duration
    by: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    stats: tuple[KeptName, ...] = DEFAULT_KEPT
    retention: Duration
    period: Kind | None = None
    max_groups: int | None = None
    on_expiry: OnExpiry = "archive"

    @property
    def most_groups(self) -> int:
        """The most groups of a bucket that is kept. The default fits the number of fields, too."""
        return self.max_groups or min(DEFAULT_GROUPS, self.groups_that_fit)

    @property
    def groups_that_fit(self) -> int:
        """The most groups for which the refresher's memory has room."""
        return MAX_CELLS // max(len(self.fields), 1)

    @property
    def kind(self) -> Kind:
        """The period of the rollup's tables."""
        return self.period or (Kind.DAY if self.every < Duration(hours=1) else Kind.MONTH)


class InfluxPolicy(Group, frozen=True, kw_only=True):
    """``[streams.NAME.influx]``: a point's series as a template of its measurement and tags, such as "{measurement}/{host}".

    Without a template the series has the measurement and all tags.
    """

    series: str = ""


class OtlpPolicy(Group, frozen=True, kw_only=True):
    """``[streams.NAME.otlp]``: the attributes that form the series of a metric or a log record.

    If no attributes are named, a metric's series has all attributes of its resource and its point, and a log record's
    series has all attributes of its resource. Names that begin with "telemetry." are left out.
    """

    series: tuple[str, ...] = ()


class CloudEventsPolicy(Group, frozen=True, kw_only=True):
    """``[streams.NAME.cloudevents]``: the attribute of a CloudEvent that is its series.

    Without a subject it is the source.
    """

    series: Literal["subject", "source", "type"] = "subject"


class FirehosePolicy(Group, frozen=True, kw_only=True):
    """``[streams.NAME.firehose]``: the paths of the fields in a record that hold its series, its time and its id."""

    series: str = "series"
    time: str = "time"
    id: str = "id"
