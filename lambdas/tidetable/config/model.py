"""The types of the configuration, with the default of every key."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

import msgspec

from tidetable.durations import Duration
from tidetable.keys import TIME, Index, Layout, Packing
from tidetable.keys.layout import PartitionBy, ShardBy
from tidetable.periods import Kind

Auth = Literal["api-key", "iam"]
OnExpiry = Literal["archive", "delete", "keep"]
Removal = Literal["keep", "delete"]
Mode = Literal["provisioned", "on-demand"]
Versions = Literal["overwrite", "keep"]
LoggingRole = Literal["stage", "account"]
Beyond = Literal["refuse", "chunks", "s3"]
StorageClass = Literal["standard", "infrequent-access", "intelligent-tiering", "glacier-instant-retrieval"]
ChangeKind = Literal["insert", "replace"]
ChangeStream = Literal["none", "keys-only", "new-image", "old-image", "new-and-old-images"]
# Whole periods since a table closed, or the step between the period's end and the closing.
Age = int | Literal["late"]
RollupStat = Literal["count", "sum", "min", "max", "first", "last", "percentiles"]
LATE: Literal["late"] = "late"


class TableClass(StrEnum):
    """DynamoDB's table classes, as the configuration spells them."""

    STANDARD = "standard"
    INFREQUENT = "infrequent-access"


class _Group(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the configuration: frozen, and an unknown key in it is an error."""


class ApiPolicy(_Group, frozen=True, kw_only=True):
    """``[api]``: who may call, how often, and how much at once (``max_body`` in bytes, after decompression).

    ``auth`` is a way to prove who calls, or a list of ways. With two there are two addresses, as a route has one of them alone.

    ``cors`` are the origins whose pages may call. ``console`` says whether the API serves its console. With ``snap_start`` the
    functions that callers wait for start from a snapshot.
    ``logging_role`` says who sets the role with which API Gateway writes logs, of which an account has one per Region: this
    stage, or the account's owner.
    """

    auth: Auth | tuple[Auth, ...] = "api-key"
    rate: float = 200
    burst: int = 400
    snap_start: bool = False
    max_events: int = 1000
    max_body: int = 4_000_000
    cors: tuple[str, ...] = ()
    console: bool = True
    logging_role: LoggingRole = "stage"

    @property
    def by_key(self) -> bool:
        """True if callers may send a key."""
        return "api-key" in self.ways

    @property
    def by_signature(self) -> bool:
        """True if callers may sign their requests."""
        return "iam" in self.ways

    @property
    def ways(self) -> tuple[Auth, ...]:
        """The ways to prove who calls."""
        return (self.auth,) if isinstance(self.auth, str) else self.auth


class DoorsPolicy(_Group, frozen=True, kw_only=True):
    """``[doors]``: the protocols of other programs that the API speaks besides its own.

    ``otlp_metrics`` and ``otlp_logs`` are the streams of OTLP requests whose path names no stream.
    """

    influx: bool = False
    otlp: bool = False
    cloudevents: bool = False
    firehose: bool = False
    otlp_metrics: str | None = None
    otlp_logs: str | None = None

    @property
    def any(self) -> bool:
        """True if any of these protocols is spoken."""
        return self.influx or self.otlp or self.cloudevents or self.firehose


class Observability(_Group, frozen=True, kw_only=True):
    """``[observability]``: logs, traces, and whom alarms notify: e-mail addresses and ARNs of SNS topics."""

    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    log_retention_days: int = 30
    tracing: bool = False
    notify: tuple[str, ...] = ()

    @property
    def addresses(self) -> tuple[str, ...]:
        """The e-mail addresses that alarms notify."""
        return tuple(target for target in self.notify if not target.startswith("arn:"))

    @property
    def topics(self) -> tuple[str, ...]:
        """The ARNs of the SNS topics that alarms notify."""
        return tuple(target for target in self.notify if target.startswith("arn:"))


class LifecyclePolicy(_Group, frozen=True, kw_only=True):
    """``[lifecycle]``: what holds for every stream. ``delete_expired`` is the switch without which nothing is deleted.

    An archived table stays for ``delete_grace`` more, and one run deletes ``max_deletes`` tables at the most: a mistake in the
    configuration is noticed before it has gone far. ``table_quota`` is how many tables the account may have in the Region. Each
    table steps down by up to ``stagger`` later than the ladder says, and up so much earlier: many tables do not all change at
    once.
    """

    delete_expired: bool = False
    delete_grace: Duration = Duration(days=1)
    max_deletes: int = 100
    stagger: Duration = Duration(minutes=10)
    # AWS: 2,500 tables per account and Region, until a quota increase is granted.
    table_quota: int = 2_500


class StoragePolicy(_Group, frozen=True, kw_only=True):
    """``[storage]``: what is kept outside the period tables, in the bucket and the queues.

    ``encryption`` is "service-managed" (free) or the ARN of a KMS key. ``former_keys`` are ARNs of keys that this or a stream's
    ``encryption`` named before: tables, objects and messages keep the key that they were written with. ``removal`` is what
    becomes of the archive and the catalog when the stack is destroyed.
    """

    encryption: str = "service-managed"
    former_keys: tuple[str, ...] = ()
    removal: Removal = "keep"
    termination_protection: bool = False


class KeyPolicy(_Group, frozen=True, kw_only=True):
    """``[streams.NAME.key]``: the layout of period tables not yet created."""

    partition_by: PartitionBy
    bucket: Duration | None = None
    shards: int = 1
    shard_by: ShardBy = "id"


class IndexPolicy(_Group, frozen=True, kw_only=True):
    """``[[streams.NAME.index]]``: an index of period tables not yet created.

    It is partitioned by a field of ``data``, by ``*`` for all events at once, or, with ``kind``, by a field for each kind of
    events; ``sort_by`` is ``time`` or a field that holds numbers. ``project`` is what it holds of an event: all, keys only, or
    some fields of ``data``. A ``replica`` has the table's own keys.
    """

    name: str
    partition_by: str | Mapping[str, str] | None = None
    kind: str | None = None
    shards: int = 1
    sort_by: str = TIME
    project: Literal["all", "keys"] | tuple[str, ...] = "all"
    replica: bool = False

    @property
    def index(self) -> Index:
        """The index as layouts have it."""
        kinds = tuple(self.partition_by.items()) if isinstance(self.partition_by, Mapping) else ()
        return Index(
            self.name,
            self.partition_by if isinstance(self.partition_by, str) else "",
            self.shards,
            self.sort_by,
            None if self.project == "all" else () if self.project == "keys" else self.project,
            self.kind or "",
            kinds,
            self.replica,
        )


class TablePolicy(_Group, frozen=True, kw_only=True):
    """``[streams.NAME.table]``: what period tables not yet created have besides their key and capacity."""

    deletion_protection: bool = False
    point_in_time_recovery: bool = False
    # "aws-owned" (free), "aws-managed", or the ARN of a key of one's own.
    encryption: str = "aws-owned"
    stream: ChangeStream = "none"
    tags: Mapping[str, str] = msgspec.field(default_factory=dict)


# Columns of an archive's files that are the pipeline's own, in lower case, as Athena knows no other.
RESERVED_COLUMNS = frozenset(
    {
        "time", "series", "id", "id_hex", "shard", "data", "attributes", "stream", "period", "accepted_at", "version",
    }
)  # fmt: skip


class Keeping(_Group, frozen=True, kw_only=True):
    """``[archive]``: how long archives are kept after they were written (zero: for ever), and in which class of S3's.

    They are put into ``storage_class`` after ``storage_class_after``. Only classes that are read at once can be chosen: a query
    of an archived period must not wait for hours.
    """

    expire_after: Duration = Duration(0)
    storage_class: StorageClass = "standard"
    storage_class_after: Duration = Duration(days=30)


class ArchivePolicy(_Group, frozen=True, kw_only=True):
    """``[streams.NAME.archive]``: how an expired table is exported, and what its files look like.

    A provisioned table is switched to on-demand for its export; with ``read_units`` it is raised to so many instead.
    ``read_share`` of the table's read units are used, by so many ``segments`` side by side. ``columns`` are fields of ``data``
    with the type of their column. The others are the stream's own of ``[archive]``.
    """

    read_share: float = 0.5
    read_units: int | None = None
    segments: int = 4
    columns: Mapping[str, str] = msgspec.field(default_factory=dict)
    expire_after: Duration | None = None
    storage_class: StorageClass | None = None
    storage_class_after: Duration | None = None


class LargePolicy(_Group, frozen=True, kw_only=True):
    """``[streams.NAME.large]``: what becomes of large events.

    Above ``compress_above`` bytes an event's ``data`` is compressed if that saves write units. What is too large for an item
    all the same goes ``beyond``: it is refused, or kept in chunks beside the table, or in S3.
    """

    compress_above: int | None = None
    beyond: Beyond = "refuse"


class PackPolicy(_Group, frozen=True, kw_only=True):
    """``[streams.NAME.pack]``: many events in one item, in period tables not yet created.

    The events of a pack are less than ``span`` apart, and take ``max_bytes`` at the most, compressed.
    """

    span: Duration
    max_bytes: int = 65_536

    @property
    def packing(self) -> Packing:
        """The packs as layouts have them."""
        return Packing(int(self.span.total_seconds()), self.max_bytes)


class FeedPolicy(_Group, frozen=True, kw_only=True):
    """``[streams.NAME.feed]``: where the changes of a stream's events go, and which.

    ``targets`` are ARNs. ``where`` are conditions as in queries, such as ``{"mag:ge" = "5"}``. A batch has up to ``batch``
    records and is waited for up to ``window``. What a target did not take for ``max_age`` becomes a dead letter.
    """

    targets: tuple[str, ...]
    kinds: tuple[ChangeKind, ...] = ("insert", "replace")
    where: Mapping[str, str] = msgspec.field(default_factory=dict)
    batch: int = 100
    window: Duration = Duration(seconds=1)
    max_age: Duration = Duration(hours=1)


class RollupPolicy(_Group, frozen=True, kw_only=True):
    """``[[streams.NAME.rollup]]``: aggregates of the stream, which are the stream NAME-``name`` (``tidetable.config.derive``).

    Each bucket of ``every`` has, for each group of ``by`` (``series`` and fields of ``data``), the ``stats`` of the numbers of
    ``fields``. The tables of ``period`` are kept for ``retention`` after their period's end. A bucket with more than
    ``max_groups`` groups is not sealed.
    """

    name: str
    every: Duration
    by: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    stats: tuple[RollupStat, ...] = ("count", "sum", "min", "max")
    retention: Duration
    period: Kind | None = None
    max_groups: int = 10_000
    on_expiry: OnExpiry = "archive"

    @property
    def kind(self) -> Kind:
        """The period of the rollup's tables."""
        return self.period or (Kind.DAY if self.every < Duration(hours=1) else Kind.MONTH)


class InfluxPolicy(_Group, frozen=True, kw_only=True):
    """``[streams.NAME.influx]``: a point's series as a template of its measurement and tags, such as "{measurement}/{host}".

    Without a template the series has the measurement and all tags.
    """

    series: str = ""


class OtlpPolicy(_Group, frozen=True, kw_only=True):
    """``[streams.NAME.otlp]``: the attributes in the series of a metric or a log record.

    Without any, the series of a metric has all attributes of its resource and its point, that of a log record all of its
    resource. Names that begin with "telemetry." are left out.
    """

    series: tuple[str, ...] = ()


class CloudEventsPolicy(_Group, frozen=True, kw_only=True):
    """``[streams.NAME.cloudevents]``: which attribute of a CloudEvent is its series; source, if it has no subject."""

    series: Literal["subject", "source", "type"] = "subject"


class FirehosePolicy(_Group, frozen=True, kw_only=True):
    """``[streams.NAME.firehose]``: the fields of a record, by their paths, that are its series, its time and its id."""

    series: str = "series"
    time: str = "time"
    id: str = "id"


class Units(_Group, frozen=True, kw_only=True):
    """Write and read units per second."""

    write: int
    read: int


class Range(_Group, frozen=True, kw_only=True):
    """Between which units to follow the traffic, and at what percentage of them it should run."""

    min: int
    max: int
    target: int = 70


class Autoscaling(_Group, frozen=True, kw_only=True):
    """``autoscaling``: what Application Auto Scaling does with an open table and its indexes; the rest is the ladder's."""

    write: Range | None = None
    read: Range | None = None

    @property
    def text(self) -> str:
        """The policy in one line, by which a later one is told apart from it."""
        sides = (("write", self.write), ("read", self.read))
        return " ".join(f"{side} {units.min}-{units.max}@{units.target}" for side, units in sides if units is not None)


class Step(_Group, frozen=True, kw_only=True):
    """One step of the ladder, in force from ``age`` whole periods after the table closed; 0 is every table before that.

    The age "late" is a table whose period is over and which still takes late events (``tidetable.late``). ``write`` and
    ``read`` are DynamoDB units per second (None on demand), ``index`` those of indexes that need others than the table, and
    ``mode`` the billing mode if it is not the ladder's.
    """

    age: Age
    write: int | None = None
    read: int | None = None
    mode: Mode | None = None
    index: Mapping[str, Units] = msgspec.field(default_factory=dict)
    table_class: TableClass = msgspec.field(name="class", default=TableClass.STANDARD)

    @property
    def is_late(self) -> bool:
        """True if this is the step for late events."""
        return self.age == LATE

    @property
    def rung(self) -> tuple[int, bool]:
        """The position of the step in the ladder: the step for late events comes after age 0 and before age 1."""
        return (0, True) if self.age == "late" else (self.age, False)


class Capacity(_Group, frozen=True, kw_only=True):
    """``[streams.NAME.capacity]``: billing mode and the ladder that a period table descends as it ages.

    ``warm`` is the throughput that a table is made for before its first event, ``max`` what an on-demand table may take.
    """

    mode: Mode = "on-demand"
    warm: Units | None = None
    most: Units | None = msgspec.field(name="max", default=None)
    autoscaling: Autoscaling | None = None
    ladder: tuple[Step, ...] = (Step(age=0),)

    def step_at(self, age: int, *, lowered: bool = False) -> Step:
        """The step in force at an age in periods; ``lowered`` tells that the table's period has ended and settled."""
        reached = (age, lowered or age > 0)
        return max((step for step in self.ladder if step.rung <= reached), key=lambda step: step.rung)

    @property
    def late_step(self) -> Step | None:
        """The step for tables whose period is over and which still take late events."""
        return next((step for step in self.ladder if step.is_late), None)

    @property
    def maxima(self) -> tuple[int, int] | None:
        """Write and read units that an on-demand table may take at the most."""
        return None if self.most is None else (self.most.write, self.most.read)

    def on_demand(self, step: Step) -> bool:
        """True if a step of this ladder is on demand."""
        return (step.mode or self.mode) == "on-demand"


class Stream(_Group, frozen=True, kw_only=True):
    """``[streams.NAME]``: one stream's policy. ``retention`` and ``premake`` count whole periods.

    ``source`` is the stream whose rollup this stream is; a file cannot have this key (``KEYLESS``).
    """

    name: str = ""
    source: str = ""
    period: Kind
    late: Duration
    ahead: Duration = Duration(minutes=5)
    retention: int
    on_expiry: OnExpiry = "archive"
    removal: Removal = "keep"
    premake: int = 2
    key: KeyPolicy
    index: tuple[IndexPolicy, ...] = ()
    versions: Versions = "overwrite"
    cold: tuple[str, ...] = ()
    large: LargePolicy = LargePolicy()
    pack: PackPolicy | None = None
    capacity: Capacity = Capacity()
    table: TablePolicy = TablePolicy()
    archive: ArchivePolicy = ArchivePolicy()
    feed: FeedPolicy | None = None
    rollup: tuple[RollupPolicy, ...] = ()
    influx: InfluxPolicy = InfluxPolicy()
    otlp: OtlpPolicy = OtlpPolicy()
    cloudevents: CloudEventsPolicy = CloudEventsPolicy()
    firehose: FirehosePolicy = FirehosePolicy()

    @property
    def shown(self) -> ChangeStream:
        """What the change streams of new tables show: a feed needs new images."""
        return "new-image" if self.feed is not None and self.table.stream == "none" else self.table.stream

    @property
    def layout(self) -> Layout:
        """The layout of period tables that are not created yet."""
        bucket = int(self.key.bucket.total_seconds()) if self.key.bucket is not None else 0
        indexes = tuple(policy.index for policy in self.index)
        return Layout(
            self.key.partition_by,
            self.key.shards,
            self.key.shard_by,
            bucket,
            indexes,
            versioned=self.versions == "keep",
            parts=self.large.beyond == "chunks" or bool(self.cold),
            pack=self.pack.packing if self.pack is not None else None,
        )


# Fields of a stream that are no keys of a file.
KEYLESS = frozenset({"name", "source"})


class Config(_Group, frozen=True, kw_only=True):
    """The whole of ``tidetable.toml``."""

    api: ApiPolicy = ApiPolicy()
    observability: Observability = Observability()
    lifecycle: LifecyclePolicy = LifecyclePolicy()
    storage: StoragePolicy = StoragePolicy()
    archive: Keeping = Keeping()
    doors: DoorsPolicy = DoorsPolicy()
    streams: Mapping[str, Stream]

    @property
    def table_keys(self) -> list[str]:
        """The KMS keys with which period tables may be encrypted, in order: those of streams now, and the former keys."""
        present = {stream.table.encryption for stream in self.streams.values()} - {"aws-owned", "aws-managed"}
        return sorted(present | set(self.storage.former_keys))

    @property
    def storage_keys(self) -> list[str]:
        """The KMS keys with which objects and messages may be encrypted, in order: the present one, and the former keys."""
        return sorted({self.storage.encryption, *self.storage.former_keys} - {"service-managed"})

    @property
    def rolled_up(self) -> list[Stream]:
        """The streams that have rollups."""
        return [stream for stream in self.streams.values() if stream.rollup]

    @property
    def keeps_tables(self) -> bool:
        """True if any stream's tables stay when the stack is destroyed."""
        return any(stream.removal == "keep" for stream in self.streams.values())

    @property
    def keeps_catalog(self) -> bool:
        """True if the catalog stays when the stack is destroyed: tables and archives are found by it."""
        return self.keeps_tables or self.storage.removal == "keep"

    def keeping_of(self, stream: str) -> Keeping:
        """The rules for a stream's archives: the stream's own, and else those of ``[archive]``."""
        policy = self.streams.get(stream)
        own = policy.archive if policy is not None else ArchivePolicy()
        names = ("expire_after", "storage_class", "storage_class_after")
        changes = {name: getattr(own, name) for name in names if getattr(own, name) is not None}
        return msgspec.structs.replace(self.archive, **changes) if changes else self.archive
