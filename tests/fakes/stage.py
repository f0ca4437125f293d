"""A whole stage in this process: the real use cases and adapters on the strict service, with a manual clock."""

import copyreg
import random
import threading
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, partial, wraps
from typing import Any, ParamSpec, Self

from botocore.exceptions import BotoCoreError, ClientError, ConnectionClosedError

from aws.archive.scan import RawScan
from aws.dynamodb.catalog import LeanCatalog
from aws.dynamodb.credentials import LeanCredentials
from aws.dynamodb.rollups import LeanRollups
from aws.dynamodb.store import LeanStore
from aws.dynamodb.tables import DynamoTables
from aws.dynamodb.work import LeanWork
from strict import ManualClock, StrictDynamo
from strict.client import StrictClient
from strict.memory import MemoryEngine
from strict.regions import Regions
from tests.fakes.bucket import FakeBucket, FakeBucketReader, FakeFormat
from tests.fakes.gauges import FakeGauges
from tests.fakes.mappings import FakeMappings
from tests.fakes.meters import FakeMeters
from tests.fakes.operations import FakeOperations
from tests.fakes.queue import FakeBeats, FakeBus, FakeMessages, FakeQueue
from tests.fakes.refresher import refresh_rollups
from tests.fakes.scaling import FakeScaling
from tests.fakes.serial import Serial
from tests.fakes.store import FakeValues, large_values
from tests.fakes.transport import StrictTransport
from tests.fakes.work_queue import FakeWorkQueue
from tidetable.archive import Exporter, archive_period
from tidetable.archive.restore_orders import RESTORE, cancel_restores
from tidetable.archive.restore_range import explain_refusal, follow_orders, list_range, order_restore
from tidetable.archive.restore_worker import wake_workers, work_on_message
from tidetable.archive.turn import require_entry
from tidetable.catalog import Entry
from tidetable.config import Config, TableClass, parse
from tidetable.credentials import CredentialRing
from tidetable.errors import ArchiveBusy, ArchiveFailed
from tidetable.feed.mappings import FollowedFeeds
from tidetable.ingest.beat import BeatingOverflow
from tidetable.ingest.circuit import Circuit
from tidetable.ingest.marks import Marks
from tidetable.ingest.outcome import Outcome
from tidetable.ingest.recent_periods import RecentPeriods
from tidetable.ingest.request import IngestRequest, ingest_body
from tidetable.ingest.saved import SavedRun, drain_saved, take_messages
from tidetable.ingest.standstill import Watch, WatchReport, watch_drain
from tidetable.large.sweep import sweep
from tidetable.large.sweep_report import Swept
from tidetable.lifecycle import LifecycleRun, RunReport, reconcile
from tidetable.ports import Pools, TableSpec
from tidetable.query import Reader, Seal
from tidetable.rollup_model.bounds import choose_lease_length
from tidetable.rollups.run import RefreshReport as Refreshed
from wiring_upkeep import Upkeep

STAGE, REGION = "lapse", "us-east-1"
CATALOG = "tidetable-lapse-catalog"
# The table of the rollups' state. It is made only for a configuration with streams that use it: other stages then have no
# superfluous table.
ROLLUPS = "tidetable-lapse-rollups"
# Eventually consistent reads answer an older state: its age is between half of this time and this time. The seed
# decides.
STALE_SECONDS = 2.0
# The time limits of the deployed functions.
INGEST_SECONDS, DRAIN_SECONDS, LIFECYCLE_SECONDS = 20.0, 50.0, 280.0
REFRESHER_SECONDS = 300.0
# The restorer keeps ten seconds for its answer.
RESTORER_SECONDS = 290.0

# A copy of a stage gets new locks and new thread-local data: nobody holds a lock during the copy, and a thread makes
# its local data again.
for _make in (threading.Lock, threading.RLock, threading.local):
    copyreg.pickle(type(_make()), lambda _, make=_make: (make, ()))  # type: ignore[misc]

_P = ParamSpec("_P")


class Killed(BaseException):
    """The function was stopped here. No handler catches this error, just as no handler can catch Lambda's time-out."""


# The beginnings of the names of calls that change nothing, in boto3 and on the wire.
_READING = ("describe", "get", "batchget", "query", "scan", "list")


class Mortal:
    """Passes on ``allowance`` calls, and stops the function after the last of these calls (None: never).

    ``changes`` are the numbers of the calls that may have changed something.
    """

    def __init__(self, target: Any) -> None:
        self._target = target
        self.allowance: int | None = None
        self.calls = 0
        self.changes: list[int] = []

    @property
    def meta(self) -> Any:
        """The client's ``meta``, at which handlers of the client's events are registered."""
        return self._target.meta

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            # Python itself looks for attributes with such names, for example to copy an object.
            raise AttributeError(name)
        attribute = getattr(self._target, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            answer = attribute(*args, **kwargs)
            self.count(name)
            return answer

        return call

    def get_paginator(self, name: str) -> Any:
        """Return the target's paginator, whose pages are counted."""
        return _CountedPages(self, name)

    def count(self, operation: str = "") -> None:
        """Count a call."""
        self.calls += 1
        if not operation.replace("_", "").lower().startswith(_READING):
            self.changes.append(self.calls)
        if self.allowance is not None and self.calls >= self.allowance:
            raise Killed


@dataclass
class _CountedPages:
    """The pages of a paginator; each counts as a call."""

    mortal: Mortal
    name: str

    def paginate(self, **kwargs: Any) -> Any:
        for page in self.mortal._target.get_paginator(self.name).paginate(**kwargs):
            self.mortal.count(self.name)
            yield page


class Stage:
    """Everything that `cdk deploy` would make, and methods that run its functions."""

    def __init__(
        self,
        start: datetime,
        config: str,
        seed: int = 0,
        clock: ManualClock | None = None,
        *,
        pools: Pools = Serial,
        stale_seconds: float = STALE_SECONDS,
        regions: Sequence[str] = (),
    ) -> None:
        self.clock = clock or ManualClock(start)
        # The thread pools of the lifecycle. All other functions work serially.
        self.pools = pools
        self.chance = random.Random(seed)
        self.dynamo = StrictDynamo(MemoryEngine(), self.clock, seed=seed, stale_seconds=stale_seconds)
        # The services of other Regions, which hold the copies.
        self.others = {region: StrictDynamo(MemoryEngine(), self.clock, seed=seed) for region in regions}
        if regions:
            Regions({REGION: self.dynamo, **self.others}, seed=seed)
        self.client = Mortal(StrictClient(self.dynamo))
        client: Any = self.client
        transport: Any = StrictTransport(self.dynamo, self.client.count)
        self.catalog = LeanCatalog(transport, CATALOG)
        self.work = LeanWork(transport, CATALOG)
        self.store = LeanStore(transport, CATALOG)
        self.rollups = LeanRollups(transport, ROLLUPS)
        self.operations = FakeOperations(partial(self.run_lifecycle, dry_run=True))
        self.meters = FakeMeters()
        self.gauges = FakeGauges()
        self.keys = LeanCredentials(transport, CATALOG)
        self.key_ring = CredentialRing(self.keys.find, self.keys.count_changes)
        self.tables = DynamoTables(client, self.client_in)
        self.config: Config = parse(config)
        for name in [CATALOG, *([ROLLUPS] if self.config.is_refreshed else [])]:
            self.tables.create(TableSpec(name, None, None, TableClass.STANDARD, {}))
        self.clock.sleep(60)
        self.scan = RawScan(client)
        self.bucket_fails = 0.0
        self.bucket = FakeBucket(self._strike_bucket)
        self.archive_reader = FakeBucketReader(self.bucket)
        self.scaling = FakeScaling(self.client.count)
        self.scaling.scaled = self.dynamo.account.autoscaled
        self.mappings = FakeMappings(self.clock, self.client.count)
        self.followed = FollowedFeeds()
        self.bus: Any = FakeBus()
        self.queue = FakeQueue(self.clock.now)
        self.beats = FakeBeats(self.client.count)
        self.work_queue, self.lake_queue = FakeWorkQueue(), FakeWorkQueue()
        self.restart()
        self.values = FakeValues(self.clock.now, self.client.count)
        self.large = large_values(self.values)
        self.runs = 0
        self.part_bytes = 100_000
        self.segment_bytes = 1_000_000_000
        self.at_once_bytes = 1_000_000_000
        self.seal = Seal(self.catalog.secret)

    def client_in(self, region: str) -> Any:
        """Make DynamoDB's client in another Region. Its calls are counted with the function's other calls."""
        client = Mortal(StrictClient(self.others[region]))
        client.count = self.client.count  # type: ignore[method-assign]
        return client

    @property
    def changes(self) -> bool:
        """True while a table changes: it has a function that ends the change, and that belongs to this stage."""
        return any(service.account.list_changing_tables() for service in (self.dynamo, *self.others.values()))

    def copy(self) -> Self:
        """Make an equal stage that shares only the configuration. No table may be changing."""
        assert not self.changes
        return deepcopy(self, {id(self.config): self.config})

    def settle(self) -> None:
        """Wait until eventually consistent reads show all earlier writes."""
        self.clock.sleep(STALE_SECONDS)

    def restart(self) -> None:
        """Start a new process of the functions. The state in the earlier process is lost."""
        self.circuit = Circuit(self.clock)
        self.known = RecentPeriods()
        self.marks = Marks(self.rollups, frozenset(stream.name for stream in self.config.listed))
        self.followed = FollowedFeeds()
        self.key_ring = CredentialRing(self.keys.find, self.keys.count_changes)

    @property
    def pipeline(self) -> Upkeep:
        """The pipeline that the functions serve, with this stage's ports and its present configuration."""
        overflow = BeatingOverflow(self.queue, self.beats, self.large, self.clock)
        waiting, letters = (
            FakeMessages(messages, self.clock.now, self.client.count)
            for messages in (self.queue.messages, self.queue.dead)
        )
        return Upkeep(
            time_travel=False,
            config=self.config,
            stage=STAGE,
            clock=self.clock,
            jitter=self._jitter,
            pools=Serial,
            store=self.store,
            catalog_reader=self.catalog,
            values=self.values,
            large=self.large,
            overflow=overflow,
            beats=self.beats,
            watch=Watch(self.beats, overflow, waiting, letters, self.large, self.clock, Serial),
            dead_letters=self.queue,
            circuit=self.circuit,
            known=self.known,
            marks=self.marks if self.config.is_refreshed else None,
            rollups=self.rollups,
            work=self.work,
            work_queue=self.work_queue,
            operations=self.operations,
            meters=self.meters,
            gauges=self.gauges,
            keys=self.keys,
            key_ring=self.key_ring,
            archive_reader=self.archive_reader,
            table_reader=self.tables,
            seal=self.seal,
            catalog=self.catalog,
            tables=self.tables,
            scaling=self.scaling,
            mappings=self.mappings,
            lake_queue=self.lake_queue,
            followed=self.followed,
            catalog_table=CATALOG,
            event_bus=self.bus,
            archiver=self,
            objects=self.bucket,
            stored_values=self.values,
            source=self.scan,
            format=FakeFormat(),
        )

    def send(self, stream: str, body: bytes) -> Outcome:
        """Handle a request as the ingest function does."""
        return ingest_body(IngestRequest(stream, body), self.pipeline.ingest, self._remaining(INGEST_SECONDS))

    def drain(self) -> None:
        """Deliver every visible message to the drain function."""
        ports = self.pipeline.drain
        self.queue.deliver(lambda messages: take_messages(messages, ports, self._remaining(DRAIN_SECONDS)))

    def drain_saved(self) -> SavedRun:
        """Write the saved messages as the drain's scheduled run does."""
        return drain_saved(self.pipeline.drain, self._remaining(DRAIN_SECONDS))

    def watch(self) -> WatchReport:
        """Watch over the drain as the lifecycle's scheduled run does."""
        return watch_drain(self.pipeline.watch, self._remaining(LIFECYCLE_SECONDS))

    def run_lifecycle(self, *, dry_run: bool = False) -> RunReport:
        """Run the lifecycle as its function does."""
        self.runs += 1
        return reconcile(self.begin_run(f"run-{self.runs}", self._remaining(LIFECYCLE_SECONDS)), dry_run=dry_run)

    def refresh(self) -> Refreshed | None:
        """Refresh the rollups as their function does; None while another run holds the lease."""
        self.runs += 1
        pipeline = self.pipeline
        services = pipeline.refresher(self._remaining(REFRESHER_SECONDS - 5))
        length = choose_lease_length(timedelta(seconds=REFRESHER_SECONDS))
        return refresh_rollups(pipeline.definitions, services, f"refresh-{self.runs}", length)

    def begin_run(self, owner: str, remaining: Callable[[], float]) -> LifecycleRun:
        """A run of the lifecycle."""
        run = self.pipeline.begin_run(owner, remaining)
        run.pools = self.pools
        return run

    def archive(self, stream: str, label: str, *, within: float, retain: bool = False) -> None:
        """Archive a period as the archiver function does."""
        owner, remaining = f"archive-{self.runs}", self._remaining(within)
        try:
            done = archive_period(stream, label, self.exporter(), owner, remaining, retain=retain)
        except (BotoCoreError, ClientError) as error:
            raise ArchiveFailed(str(error)) from error
        if not done.done:
            raise ArchiveBusy(f"{done.events} events so far")

    def restore(
        self,
        stream: str,
        first: str,
        last: str | None = None,
        *,
        keep_days: int = 7,
        within: float = RESTORER_SECONDS,
        most: int | None = None,
    ) -> Entry:
        """Restore a period or a range as the restorer function and its workers do, or so many items at ``most``.

        Return the first period of the range. An error of a worker is raised.
        """
        restorer = self.pipeline.restorer
        exporter = restorer.archive
        if order_restore(stream, first, last or first, keep_days, exporter) is None:
            require_entry(stream, first, exporter.catalog)
            raise ArchiveFailed(explain_refusal(list_range(stream, first, first, exporter)[0]))
        follow_orders(exporter, stream)
        wake_workers(restorer)
        self.work_on_restores(within=within, most=most)
        return list_range(stream, first, last or first, exporter)[0]

    def cancel_restores(self, stream: str) -> None:
        """End the restores of a stream as the restorer function does."""
        cancel_restores(self.work, stream)
        wake_workers(self.pipeline.restorer)
        self.work_on_restores()

    def work_on_restores(self, *, within: float = RESTORER_SECONDS, most: int | None = None) -> None:
        """Deliver messages of restores, also those that workers send meanwhile; with ``most``, each is for one item."""
        messages, restorer, delivered = self.work_queue.messages, self.pipeline.restorer, 0
        chain = 60.0 if most is None else 0.0
        while most != delivered and (names := [name for name in messages if name.kind == RESTORE]):
            messages.remove(names[0])
            self.runs, delivered = self.runs + 1, delivered + 1
            work_on_message(names[0], restorer, f"restore-{self.runs}", self._remaining(within), chain=chain)

    def sweep(self, *, dry_run: bool = False, remaining: Callable[[], float] | None = None) -> Swept:
        """Sweep as the sweeper function does."""
        return sweep(self.pipeline.sweeper, remaining or self._remaining(800), dry_run=dry_run)

    def reader(self) -> Reader:
        """The reader for queries."""
        return self.pipeline.reader

    def exporter(self) -> Exporter:
        """The ports of the archiver function."""
        exporter = self.pipeline.exporter
        exporter.part_bytes, exporter.segment_bytes = self.part_bytes, self.segment_bytes
        exporter.at_once_bytes = self.at_once_bytes
        return exporter

    def _remaining(self, seconds: float) -> Callable[[], float]:
        end = self.clock.now() + timedelta(seconds=seconds)
        return lambda: (end - self.clock.now()).total_seconds()

    def _jitter(self, pause: float) -> float:
        return self.chance.uniform(0, pause)

    def _strike_bucket(self) -> None:
        self.client.count()
        if self.chance.random() < self.bucket_fails:
            raise ConnectionClosedError(endpoint_url="https://bucket")


def prepare_once(prepare: Callable[_P, Stage]) -> Callable[_P, Stage]:
    """Call a function that prepares a stage once for the same arguments. Each caller gets a copy of that stage: to copy
    a stage takes a tenth of the time of nine runs of its lifecycle.
    """
    original = cache(prepare)

    @wraps(prepare)
    def copy(*args: _P.args, **kwargs: _P.kwargs) -> Stage:
        return original(*args, **kwargs).copy()  # type: ignore[arg-type]

    return copy
