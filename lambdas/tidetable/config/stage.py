"""The tables of a whole stage: ``[api]``, ``[doors]``, ``[observability]``, ``[lifecycle]``, ``[work]`` and
``[storage]``.
"""

from __future__ import annotations

from typing import Literal

from tidetable.config.groups import Group
from tidetable.durations import Duration

Auth = Literal["api-key", "iam"]
Removal = Literal["keep", "delete"]
LoggingRole = Literal["stage", "account"]
Tls = Literal["1.0", "1.2", "1.3"]
# A key without a rate of its own may use this part of the stage's rate, so that one caller does not stop the others.
_KEY_SHARE = 4


class ApiPolicy(Group, frozen=True, kw_only=True):
    """``[api]``: who may call, how often, and how large a request may be (``max_body`` in bytes, after decompression).

    ``rate`` and ``burst`` are for all callers together, ``key_rate`` and ``key_burst`` for each key without a rate of its
    own; without them, such a key has a quarter of the stage's. ``concurrency`` is the number of executions that are
    reserved for each function that answers requests, and the most that each may have.

    ``auth`` is a way to prove who calls, or a list of ways. With two ways the API has two addresses, because a route
    can have only one way.

    ``cors`` are the origins whose pages may call. ``console`` says whether the API serves its console. With
    ``snap_start`` the functions that callers wait for start from a snapshot. ``logging_role`` says who sets the role
    with which API Gateway writes logs: this stage, or the account's owner. An account has one such role per Region.
    ``tls`` is the least version of TLS that a caller may use.
    """

    auth: Auth | tuple[Auth, ...] = "api-key"
    rate: float = 200
    burst: int = 400
    key_rate: float | None = None
    key_burst: int | None = None
    concurrency: int | None = None
    snap_start: bool = False
    max_events: int = 1000
    max_body: int = 4_000_000
    cors: tuple[str, ...] = ()
    console: bool = True
    logging_role: LoggingRole = "stage"
    tls: Tls = "1.2"

    @property
    def rate_per_key(self) -> float:
        """The requests per second of a key without a rate of its own."""
        return self.rate / _KEY_SHARE if self.key_rate is None else self.key_rate

    @property
    def burst_per_key(self) -> int:
        """The requests in one moment of a key without a rate of its own."""
        return max(self.burst // _KEY_SHARE, 1) if self.key_burst is None else self.key_burst

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


class DoorsPolicy(Group, frozen=True, kw_only=True):
    """``[doors]``: the protocols of other programs that the API speaks besides its own.

    ``otlp_metrics`` and ``otlp_logs`` are the streams that take OTLP requests whose path does not name a stream.
    """

    influx: bool = False
    otlp: bool = False
    cloudevents: bool = False
    firehose: bool = False
    otlp_metrics: str | None = None
    otlp_logs: str | None = None

    @property
    def any(self) -> bool:
        """True if the API speaks any of these protocols."""
        return self.influx or self.otlp or self.cloudevents or self.firehose


class Observability(Group, frozen=True, kw_only=True):
    """``[observability]``: logs, traces, and the e-mail addresses and ARNs of SNS topics that alarms notify."""

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


class LifecyclePolicy(Group, frozen=True, kw_only=True):
    """``[lifecycle]``: rules for all streams. No table is deleted unless ``delete_expired`` is true.

    An archived table stays for the time ``delete_grace``, and one run deletes at most ``max_deletes`` tables: so an
    operator can notice a mistake in the configuration before many tables are gone. ``table_quota`` is the number of
    tables that the account may have in the Region. A table is lowered up to ``stagger`` later than the ladder says, and
    raised up to ``stagger`` earlier, so that many tables do not change at once.
    """

    delete_expired: bool = False
    delete_grace: Duration = Duration(days=1)
    max_deletes: int = 100
    stagger: Duration = Duration(minutes=10)
    # AWS: 2,500 tables per account and Region, until a quota increase is granted.
    table_quota: int = 2_500


class WorkPolicy(Group, frozen=True, kw_only=True):
    """``[work]``: the work in the background. ``workers`` is the number of executions that work at the same time, of each
    function that does such work. ``consumers`` is the number of executions of the drain, which writes waiting events.
    """

    workers: int = 5
    consumers: int = 5


class LakePolicy(Group, frozen=True, kw_only=True):
    """``[lake]``: the Iceberg tables of the archive. ``keep_snapshots`` is the number of snapshots that a table keeps."""

    keep_snapshots: int = 10


class StoragePolicy(Group, frozen=True, kw_only=True):
    """``[storage]``: the data outside the period tables, in the bucket and the queues.

    ``encryption`` is "service-managed" (free) or the ARN of a KMS key. ``former_keys`` are ARNs of keys that this or a
    stream's ``encryption`` named before: tables, objects and messages keep the key that they were written with.
    ``former_regions`` are Regions that a stream's ``replicas`` named before: tables keep their copies there.
    ``removal`` says whether the archive and the catalog are kept or deleted when the stack is destroyed.
    """

    encryption: str = "service-managed"
    former_keys: tuple[str, ...] = ()
    former_regions: tuple[str, ...] = ()
    removal: Removal = "keep"
    termination_protection: bool = False
