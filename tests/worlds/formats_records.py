"""Records of the catalog that few stages have: entries in every state, and keys. They are written out here."""

from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from tests.credentials.records import record
from tests.fakes.stage import Stage
from tests.worlds.entries import make_entry
from tidetable.catalog import ArchiveFacts, Backfill, Entry, Opening, RecordedPolicy, SeenTable, State
from tidetable.config import TableClass
from tidetable.credentials import CredentialRecord, Secret
from tidetable.layout import Index, Layout, Packing
from tidetable.periods import Kind, find_containing
from tidetable.ports import Guarded, Mark
from tidetable.segmentation import Segmentation, SegmentMarks

NOON = datetime(2026, 3, 12, 12, tzinfo=UTC)
# The stream of these entries is not in the configuration, so no run of the lifecycle changes them.
FORMER = "former"
_PLAIN = Layout("time", 4, "id", 21_600)
_INDEXES = (
    Index("kinds", "kind", 2),
    Index("largest", "*", 1, "n", ("kind",)),
    Index("people", kind="kind", kinds=(("order", "customer"), ("refund", "staff.name"))),
    Index("places", "*", 2, levels=("country", "town"), project=()),
    Index("near", local=True, sort_by="n"),
    Index("again", replica=True),
)


def _make_entry(day: int, state: State, layout: Layout = _PLAIN, kind: Kind = Kind.DAY, **facts: Any) -> Entry:
    period = find_containing(datetime(2026, 2, day, 5, tzinfo=UTC), kind)
    return make_entry(FORMER, period, f"tidetable-lapse.{FORMER}.{period.label}", layout, state, NOON, **facts)


_ARCHIVE = ArchiveFacts("stream=former/period=2026-02-04/_manifest.json", 7, 1234, NOON, None, {"n": 2})
_EXPIRED = ArchiveFacts("stream=former/period=2026-02-06/_manifest.json", 7, 1234, NOON, NOON + timedelta(days=1))
_PARTLY = replace(_ARCHIVE, made="1773316800001", oldest=NOON - timedelta(days=3))
_SEGMENTS = Segmentation(9, 40, "1773316800000", "1773316800001", (3, 5))
_UNITS = Opening(NOON + timedelta(days=2), 50, 5)
# One entry for each state, with every layout and every fact.
ENTRIES = [
    _make_entry(1, State.CREATING),
    _make_entry(2, State.OPEN, Layout("series", 2, "series", 0, _INDEXES, versioned=True, parts=True)),
    _make_entry(3, State.CLOSED, Layout("time", 1, "id", 3_600, pack=Packing(60, 65_536)), opened=_UNITS),
    _make_entry(4, State.ARCHIVING),
    _make_entry(5, State.ARCHIVED, archive=_ARCHIVE, active=("eu-west-1",), replicas=("eu-west-1", "us-west-2")),
    _make_entry(6, State.DELETED, archive=_EXPIRED, deleted_at=NOON),
    _make_entry(7, State.RESTORING, archive=_ARCHIVE, keep_until=NOON, begun=("eu-west-1", NOON)),
    _make_entry(8, State.DELETED, kind=Kind.HOUR, deleted_at=NOON),
    _make_entry(9, State.RETAINED, archive=_PARTLY, segments=_SEGMENTS, marks=SegmentMarks((7,), 12)),
]
SEEN = SeenTable(5, 4, TableClass.INFREQUENT, (("kinds", (3, 2)),), changing=True)
BACKFILL = Backfill(FORMER, NOON - timedelta(days=40), NOON - timedelta(days=30), Opening(NOON, None, None))
POLICY = RecordedPolicy(FORMER, '{"period":"day"}', NOON)
# Buckets of a rollup: with too many groups, computed anew, without its events, and with a new late event.
HOUR = timedelta(hours=1)
OVER, RESTED, LOST, NEW = NOON, NOON + HOUR, NOON + 2 * HOUR, NOON + 3 * HOUR


def record_rare_entries(stage: Stage) -> None:
    """Write the records into the catalog by the methods that functions use."""
    for entry in ENTRIES:
        assert stage.catalog.add(entry)
    stage.catalog.note(ENTRIES[1], SEEN)
    stage.catalog.mark_scaled(ENTRIES[1], scaled=True, policy="policy-1")
    stage.catalog.put_backfill(BACKFILL)
    stage.catalog.put_policy(POLICY)
    stage.catalog.set_horizon(FORMER, NOON)
    for bucket in (OVER, RESTED, LOST):
        stage.rollups.put_marks(FORMER, [bucket], 1_000, HOUR)
    stage.rollups.note_resealed(FORMER, Mark(RESTED, 1_000, HOUR, 1_000), 2_000, rests=True)
    stage.rollups.note_lost(FORMER, Mark(LOST, 1_000, HOUR, 1_000))
    new = Mark(NEW, 1_000, HOUR, event=("tidetable-lapse.former.2026-03", "2026-03-12T15:00:00.000000Z#1", "sort key"))
    stage.store.transact([Guarded(stage.rollups.make_mark(FORMER, new))])
    stage.rollups.put_over(FORMER, "hours", OVER, 7)
    stage.rollups.stop_noting(FORMER, NOON)
    assert stage.catalog.acquire("upgrade", "owner-1", NOON, timedelta(minutes=5))


# Texts of keys with a test's secrets. The salts are fixed, too.
_SECRET, _NEW_SECRET = "abcdefghijklmnopqrstuvwxyz012345", "543210zyxwvutsrqponmlkjihgfedcba"
EVERYTHING, TENANT = f"tt_everything_{_SECRET}", f"tt_tenantkey0_{_SECRET}"
REVOKED, EXPIRED = f"tt_revokedkey_{_SECRET}", f"tt_expiredkey_{_SECRET}"
ROTATED, ROTATED_NEW = f"tt_rotatedkey_{_SECRET}", f"tt_rotatedkey_{_NEW_SECRET}"
OF_GATEWAY = "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCd"
KEYS: list[CredentialRecord] = [
    record(EVERYTHING, rate=2.5, burst=10, gateway_key="gatewaykey", plan="plan01"),
    record(TENANT, {"times"}, ("read",), "tenant/"),
    record(REVOKED, revoked=NOON),
    record(EXPIRED, expires=NOON + timedelta(days=1)),
    record(ROTATED).rotate(Secret.of(ROTATED_NEW, bytes(range(16))), NOON, timedelta(days=1)),
    record(OF_GATEWAY, {"times", "packs"}, ("write", "read"), origin="origin0001"),
]
