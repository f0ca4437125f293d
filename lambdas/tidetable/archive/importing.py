"""The use case that lets imported files count: the last step of an import straight into the archive.

The command ``import --to archive`` reads the archive of a period, merges it with the events of files, and writes new
parts and a manifest beside it, all with a token of their own. Nobody reads them until this use case has moved the
period's record to that manifest. It does so under the period's lease, and only if the record still names the archive
that the command has read. So an import that was overtaken changes nothing, and is merged anew.
"""

from __future__ import annotations

from datetime import timedelta

import msgspec

from tidetable.archive.exporter import Exporter, hold_period, read_manifest
from tidetable.archive.manifest import Manifest, make_import_key, make_prefix
from tidetable.archive_expiry import mark_expired
from tidetable.catalog import LIVE, ArchiveFacts, Entry, State
from tidetable.catalog_steps import list_open_backfills, read_entry
from tidetable.config import Stream
from tidetable.errors import ArchiveBusy, ArchiveFailed, StaleEntry
from tidetable.expiry import SETTLE, compute_closing
from tidetable.periods import Period, parse_label
from tidetable.ports import Rollups
from tidetable.remaining import Remaining
from tidetable.rollup_model.bounds import FUNCTION_LIFE, to_millis
from tidetable.times import EPOCH, from_text, to_text

# An archive that expires so soon is not merged: its files may be gone before the new ones count.
_EXPIRES_SOON = timedelta(days=1)
# Longer marks would cover more buckets of a fine rollup than a run computes.
_MARK_LENGTH = timedelta(hours=1)


class ImportOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an import has written for a period: the files of ``token``, merged with the archive ``base``.

    ``oldest`` and ``newest`` are the times of the imported events. Without a token, the period is only looked at.
    """

    token: str = ""
    base: str = ""
    oldest: str = ""
    newest: str = ""


def name_base(entry: Entry | None) -> str:
    """Name the archive that a period has at present; empty if it has none. Each archive has another time."""
    facts = entry.archive if entry is not None else None
    return "" if facts is None else f"{facts.manifest} {to_text(facts.at)}"


def finish_import(
    stream: str, label: str, order: ImportOrder, exporter: Exporter, rollups: Rollups, owner: str, remaining: Remaining
) -> str:
    """Let the files of an import count. Return "imported", or "changed" if the period must be merged anew.

    Without a token, return "ready" if the period takes an import. ArchiveFailed says why it does not, ArchiveBusy that
    another run has the period.
    """
    period = parse_label(label)
    with hold_period(stream, label, exporter, owner, remaining, "archived, restored or imported into"):
        entry = read_entry(exporter.catalog, stream, period)
        policy = _require_period(stream, period, entry, exporter)
        key = make_import_key(stream, label, order.token)
        if not order.token:
            return "ready"
        if entry is not None and entry.archive is not None and entry.archive.manifest == key:
            return "imported"
        if name_base(entry) != order.base:
            return "changed"
        sizes = exporter.objects.sizes(make_prefix(stream, label))
        manifest = read_manifest(key, exporter) if key in sizes else None
        if manifest is None or not manifest.is_stored(sizes):
            # Another import or a rewriting has removed the files, as no record names them.
            return "changed"
        if manifest.layout != (policy.layout if entry is None else entry.layout):
            raise ArchiveFailed(f"the layout of {stream} {label} has changed: import its files anew, with --again")
        begun = exporter.clock.now()
        _mark_buckets(policy, order, exporter, rollups)
        if remaining() <= 0 or exporter.clock.now() - begun > FUNCTION_LIFE:
            # The lease, or the marks, may count no more.
            raise ArchiveBusy("the time is up")
        return _record(entry, period, manifest, key, exporter)


def _require_period(stream: str, period: Period, entry: Entry | None, exporter: Exporter) -> Stream:
    """Return the policy of the stream; ArchiveFailed says why the period takes no import."""
    policy, now, name = exporter.config.streams.get(stream), exporter.clock.now(), f"period {period.label} of {stream}"
    if policy is None:
        raise ArchiveFailed(f"the stage has no stream {stream!r}")
    if policy.source:
        raise ArchiveFailed(f"{stream} is a rollup of {policy.source}: import into {policy.source}")
    if entry is None:
        _require_free(policy, period, name, exporter)
        return policy
    entry = mark_expired(entry, exporter.config, now + _EXPIRES_SOON)
    if entry.state is State.ARCHIVING:
        raise ArchiveFailed(f"{name} is being archived: import into it when it is archived")
    if entry.state is State.RESTORING:
        raise ArchiveFailed(f"{name} is being restored: send its events to the API when it is restored")
    if entry.state in LIVE:
        raise ArchiveFailed(f"{name} is {entry.state}, so its table has its events: {_name_way_out(stream, period)}")
    if entry.archive is None:
        raise ArchiveFailed(f"{name} was deleted without an archive, as the policy of the stream wants")
    if entry.archive.expired_at is not None:
        raise ArchiveFailed(f"{name} has an archive that expires at {to_text(entry.archive.expired_at)}")
    return policy


def _require_free(policy: Stream, period: Period, name: str, exporter: Exporter) -> None:
    """Raise ArchiveFailed if a period that the catalog does not know has a table soon, or must have no archive."""
    catalog, now = exporter.catalog, exporter.clock.now()
    if policy.on_expiry == "delete":
        raise ArchiveFailed(f'{policy.name} deletes its expired periods (on_expiry = "delete"), so it has no archives')
    for other in catalog.entries(policy.name, period.start, period.end, consistent=True):
        if other.period.overlaps(period):
            raise ArchiveFailed(f"{name} overlaps the period {other.period.label}: import again")
    closed = compute_closing(period, policy) + SETTLE
    if now <= closed:
        raise ArchiveFailed(f"{name} takes events until {to_text(closed)}: {_name_way_out(policy.name, period)}")
    if any(backfill.meets(period) for backfill in list_open_backfills(catalog, policy.name, now)):
        raise ArchiveFailed(f"{name} is open for a backfill: import without --to archive, or end the backfill")


def _name_way_out(stream: str, period: Period) -> str:
    span = f"{period.start:%Y-%m-%dT%H:%MZ} {period.end:%Y-%m-%dT%H:%MZ}"
    return f"import them without --to archive, after `tidetable backfill {stream} {span}` if they are older than `late`"


def _mark_buckets(policy: Stream, order: ImportOrder, exporter: Exporter, rollups: Rollups) -> None:
    """Mark the buckets of the stream's rollups that the imported events change, as every writer of late events does."""
    if not policy.rollup:
        return
    length = max(_MARK_LENGTH, min(rollup.every for rollup in policy.rollup))
    first, last = ((from_text(text) - EPOCH) // length for text in (order.oldest, order.newest))
    buckets = [EPOCH + number * length for number in range(first, last + 1)]
    rollups.put_marks(policy.name, buckets, to_millis(exporter.clock.now()), length)


def _record(entry: Entry | None, period: Period, manifest: Manifest, key: str, exporter: Exporter) -> str:
    """Move the period's record to the manifest. A period without a record gets that of a deleted table."""
    catalog, now = exporter.catalog, exporter.clock.now()
    facts = ArchiveFacts(key, manifest.events, manifest.size, now, untyped=manifest.untyped)
    if entry is None:
        made = Entry(manifest.stream, period, manifest.table, manifest.layout, State.DELETED, now, archive=facts)
        return "imported" if catalog.add(made) else "changed"
    try:
        catalog.move(entry, entry.state, expected=(entry.state,), archive=facts)
    except StaleEntry:
        return "changed"
    return "imported"
