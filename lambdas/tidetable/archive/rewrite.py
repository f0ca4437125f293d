"""The use case of rewriting: an archive of an earlier format gets files of today's format.

The new files are written beside the old ones, in a folder whose name begins with an underscore, and under names that
do not end with ".parquet": programs that read all Parquet files of the bucket do not find them. When all of them hold
exactly the items that the manifest says, they are copied to their places, the manifest names them, and a little later
the old files are deleted. A run may stop anywhere: the next run goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256

import msgspec
from msgspec.structs import replace

from tidetable.archive.digest import join_digests
from tidetable.archive.exporter import Exporter, hold_period, read_manifest, read_object
from tidetable.archive.manifest import VERSION, Manifest, Part, make_prefix
from tidetable.archive.turn import require_entry
from tidetable.archive.verified import write_verified_part
from tidetable.archive_expiry import mark_expired
from tidetable.catalog import Entry, State
from tidetable.errors import ArchiveFailed, ArchiveMismatch
from tidetable.remaining import Remaining
from tidetable.times import from_text, to_text

# A run rewrites old files together until they have so many events or bytes: all of them are in memory.
_TOGETHER_EVENTS, _TOGETHER_BYTES = 4_000_000, 200_000_000
# To read an event, to write it and to read it back takes about 20 µs. A run begins nothing that it may not end.
SECONDS_PER_EVENT = 40e-6
_LEAST_SECONDS = 30.0
# Old files are deleted so long after the switch: a query that has begun reads them to its end.
_KEEP = timedelta(minutes=2)
_PARTS = list[Part]


@dataclass(frozen=True, slots=True)
class Rewritten:
    """How far the rewriting of an archive is: ``done`` of ``files`` old files are rewritten and verified.

    The ``state`` is "old" or "rewriting" while there are files to rewrite, "switched" until the old files are deleted,
    and "current". ``wait`` is the number of seconds after which another run can go on.
    """

    state: str
    files: int
    done: int
    events: int
    size: int
    wait: float = 0.0


def rewrite_archive(
    stream: str, label: str, exporter: Exporter, owner: str, remaining: Remaining, *, dry_run: bool = False
) -> Rewritten:
    """Rewrite a period's archive as far as the time allows; with ``dry_run``, only say what there is to do.

    ArchiveFailed says why a period cannot be rewritten, ArchiveMismatch that the old or the new files are not as they
    should be. Until the switch, the archive stays as it is.
    """
    with hold_period(stream, label, exporter, owner, remaining, "archived, restored or rewritten"):
        entry = mark_expired(require_entry(stream, label, exporter.catalog), exporter.config, exporter.clock.now())
        if entry.archive is None or entry.archive.expired_at is not None or entry.state not in _ARCHIVED:
            raise ArchiveFailed(f"period {label} of {stream} is {entry.state}, and has no archive to rewrite")
        manifest = read_manifest(entry.archive.manifest, exporter)
        run = _Run(entry, manifest, exporter, remaining)
        if manifest.version == VERSION:
            return run.finish(dry_run=dry_run)
        done = run.count_done() if dry_run else run.rewrite_files()
        if done < len(manifest.parts) or dry_run:
            state = "old" if not done else "rewriting"
            return Rewritten(state, len(manifest.parts), done, manifest.events, manifest.size)
        run.switch()
        return Rewritten("switched", done, done, manifest.events, manifest.size, _KEEP.total_seconds())


_ARCHIVED = frozenset({State.ARCHIVED, State.DELETED})


@dataclass(slots=True)
class _Run:
    entry: Entry
    manifest: Manifest
    exporter: Exporter
    remaining: Remaining

    @property
    def _prefix(self) -> str:
        return make_prefix(self.entry.stream, self.entry.period.label)

    @property
    def _beside(self) -> str:
        return f"{self._prefix}_rewrite/"

    def _list_groups(self) -> Iterator[tuple[str, Sequence[Part]]]:
        """List the old files that are rewritten together, each with the key of the note of their new files."""
        group: list[Part] = []
        number = 0
        for part in self.manifest.parts:
            events, size = sum(each.events for each in group), sum(each.size for each in group)
            if group and (events + part.events > _TOGETHER_EVENTS or size + part.size > _TOGETHER_BYTES):
                yield f"{self._beside}{number:05d}.json", group
                group, number = [], number + 1
            group.append(part)
        if group:
            yield f"{self._beside}{number:05d}.json", group

    def count_done(self) -> int:
        """Count the old files whose new files are written and verified."""
        return sum(len(group) for note, group in self._list_groups() if self.exporter.objects.find(note) is not None)

    def rewrite_files(self) -> int:
        """Rewrite old files until the time is up; return how many are rewritten."""
        done = 0
        for note, group in self._list_groups():
            if self.exporter.objects.find(note) is None:
                if self.remaining() < _LEAST_SECONDS + SECONDS_PER_EVENT * sum(part.events for part in group):
                    return done
                written = self._rewrite_group(note.removesuffix(".json"), group)
                self.exporter.objects.put(note, msgspec.json.encode(written))
            done += len(group)
        return done

    def _rewrite_group(self, name: str, group: Sequence[Part]) -> list[Part]:
        exporter, layout = self.exporter, self.manifest.layout
        bodies = [read_object(part.key, exporter) for part in group]
        for part, body in zip(group, bodies, strict=True):
            if sha256(body).hexdigest() != part.sha256:
                raise ArchiveMismatch(f"{part.key} differs from the bytes that were written")
        written: list[Part] = []
        writer = exporter.format.writer(layout, self.manifest.columns)

        def write() -> None:
            key = f"{name}-{len(written):02d}.part"
            # The packs of the old files are no items; their number is kept with the first new file.
            packs = 0 if written else sum(part.packs for part in group)
            written.append(write_verified_part(key, writer, exporter.objects, exporter.format, layout, packs))

        for page in exporter.format.pages(bodies, layout):
            if writer.is_full:
                write()
                writer = exporter.format.writer(layout, self.manifest.columns)
            writer.add(page)
        if writer.facts.items:
            write()
        _compare(written, group)
        return written

    def switch(self) -> None:
        """Copy the new files to their places, and let the manifest and the catalog name them."""
        objects, now = self.exporter.objects, self.exporter.clock.now()
        notes = [msgspec.json.decode(objects.get(note), type=_PARTS) for note, _ in self._list_groups()]
        written = [part for parts in notes for part in parts]
        _compare(written, self.manifest.parts)
        parts = []
        for number, part in enumerate(written):
            key = f"{self._prefix}part-v{VERSION}-{number:05d}.parquet"
            objects.put(key, objects.get(part.key))
            if sha256(objects.get(key)).hexdigest() != part.sha256:
                raise ArchiveMismatch(f"{key} differs from the bytes that were written")
            parts.append(replace(part, key=key))
        size = sum(part.size for part in parts)
        manifest = replace(self.manifest, version=VERSION, parts=tuple(parts), size=size, written_at=to_text(now))
        objects.put(self.entry.archive.manifest, manifest.encode())  # type: ignore[union-attr]
        self.manifest = manifest
        self._note_facts()

    def _note_facts(self) -> None:
        """Record the new size, and the time from which the bucket's rules count."""
        facts, written_at = self.entry.archive, from_text(self.manifest.written_at)
        if facts is not None and facts.bytes != self.manifest.size:
            facts = replace(facts, bytes=self.manifest.size, at=written_at)
            self.entry = self.exporter.catalog.move(
                self.entry, self.entry.state, expected=(self.entry.state,), archive=facts
            )

    def finish(self, *, dry_run: bool) -> Rewritten:
        """Delete what the manifest does not name, once no query can still read it."""
        objects, counted = self.exporter.objects, {part.key for part in self.manifest.parts}
        manifests = f"{self._prefix}_manifest"
        counted.add(self.entry.archive.manifest)  # type: ignore[union-attr]
        keys = [
            key
            for key in objects.sizes(self._prefix)
            if (key.endswith(".parquet") or key.startswith(manifests)) and key not in counted
        ]
        count, facts = len(self.manifest.parts), (self.manifest.events, self.manifest.size)
        # The manifest of an import counts some time after it was written.
        since = max(from_text(self.manifest.written_at), self.entry.archive.at)  # type: ignore[union-attr]
        wait = (since + _KEEP - self.exporter.clock.now()).total_seconds()
        if dry_run or (keys and wait > 0):
            return Rewritten("switched" if keys else "current", count, count, *facts, max(wait, 0.0) if keys else 0.0)
        self._note_facts()
        for key in keys:
            objects.clear(key)
        objects.clear(self._beside)
        return Rewritten("current", count, count, *facts)


def _compare(written: Sequence[Part], old: Sequence[Part]) -> None:
    """Raise ArchiveMismatch if new files do not hold exactly the items of old files."""
    sides = [
        (sum(part.events for part in parts), join_digests(part.digest for part in parts)) for parts in (written, old)
    ]
    if sides[0] != sides[1]:
        raise ArchiveMismatch(f"the new files have {sides[0][0]} events, the old files {sides[1][0]}, or other events")
