"""What a table should list: the files of all archived periods, as their manifests say.

What a table needs of the manifests is noted in one object per stream. The notes are only a copy, so they may be lost. All
entries of the stream are compared with the notes once a day; in between, the notes follow the periods that somebody names,
and expiry, which their own times decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from tidetable.archive.manifest import ALWAYS, Manifest, Part
from tidetable.archive.ports import Objects
from tidetable.catalog import Entry, State
from tidetable.catalog_steps import read_entry
from tidetable.config import Config
from tidetable.lake.columns import list_own_columns
from tidetable.lake.lake_tables import LAKE, LakeFile, LakePeriod
from tidetable.names import name_lake_table
from tidetable.periods import parse_label
from tidetable.ports import Catalog, Pools

# The states in which the archive has all events. While a period is restored, its table may change.
_ARCHIVED = frozenset({State.ARCHIVED, State.DELETED})
# The states in which the archive may be there, and be written anew in parts.
_RETAINED = frozenset({State.RETAINED, State.ARCHIVING})
# Files that will expire before the next runs have left the table already: S3 may delete them at any moment then.
_AHEAD = timedelta(hours=2)
# The runs come each hour, never at the same second.
_LOOKS_AGAIN = timedelta(hours=23, minutes=30)
_READ_AT_ONCE = 16


class PeriodNotes(msgspec.Struct, frozen=True):
    """The archived periods of a stream; ``looked`` is when all entries were compared with them last."""

    looked: datetime | None = None
    periods: Sequence[LakePeriod] = ()


class Wanted(msgspec.Struct):
    """Reads which files the table of a stream should list."""

    stream: str
    config: Config
    catalog: Catalog
    objects: Objects
    pools: Pools

    def read(self, now: datetime, label: str, *, full: bool) -> tuple[Sequence[LakePeriod], Sequence[str]]:
        """Read the archived periods; also the labels of periods whose manifests are gone.

        All entries are read if they were not for a day, or if ``full``; otherwise only the entry of the period ``label``,
        if there is one.
        """
        notes = self._find_notes()
        known = {period.label: period for period in notes.periods}
        if full or notes.looked is None or now - notes.looked >= _LOOKS_AGAIN:
            entries: Sequence[Entry] = self.catalog.entries(self.stream, consistent=True)
            present, looked = {entry.period.label for entry in entries}, now
            known = {name: period for name, period in known.items() if name in present}
        else:
            entry = read_entry(self.catalog, self.stream, parse_label(label)) if label else None
            entries, looked = [] if entry is None else [entry], notes.looked
        lost = self._follow(known, entries)
        lifetime = self.config.find_keeping(self.stream).expire_after
        periods = [period for period in known.values() if not lifetime or now + _AHEAD < period.at + lifetime]
        periods.sort(key=lambda period: period.label)
        # A lost manifest is looked for in each run, so that the alarm goes on.
        found = PeriodNotes(None if lost else looked, periods)
        if found != notes:
            self.objects.put(self._key, msgspec.json.encode(found))
        return periods, lost

    @property
    def _key(self) -> str:
        return f"{LAKE}{name_lake_table(self.stream)}/periods.json"

    def _find_notes(self) -> PeriodNotes:
        body = self.objects.find(self._key)
        try:
            return PeriodNotes() if body is None else msgspec.json.decode(body, type=PeriodNotes)
        except msgspec.DecodeError:
            return PeriodNotes()

    def _follow(self, known: dict[str, LakePeriod], entries: Sequence[Entry]) -> Sequence[str]:
        """Let ``known`` follow entries; return the labels of those whose manifests are gone."""
        news = list[Entry]()
        for entry in entries:
            name, facts = entry.period.label, entry.archived
            if facts is None or not _is_listed(entry):
                known.pop(name, None)
            elif name not in known or known[name].at != facts.at:
                news.append(entry)
        with self.pools(_READ_AT_ONCE) as pool:
            read = dict(zip([entry.period.label for entry in news], pool.map(self._read_period, news), strict=True))
        for name, period in read.items():
            known.pop(name, None)
            if period is not None:
                known[name] = period
        return [name for name, period in read.items() if period is None]

    def _read_period(self, entry: Entry) -> LakePeriod | None:
        facts = entry.archived
        body = None if facts is None else self.objects.find(facts.manifest)
        if facts is None or body is None:
            return None
        manifest = Manifest.decode(body)
        return LakePeriod(
            label=entry.period.label,
            at=facts.at,
            columns=list_own_columns(manifest.layout) | dict(sorted(manifest.columns.items())),
            inferred=manifest.list_undeclared(),
            files=[_describe_file(part, manifest.period) for part, _ in manifest.find_parts(*ALWAYS, (), "")],
        )


def _is_listed(entry: Entry) -> bool:
    """True if the files of the entry's archive are there, and nobody deletes them before they are archived again."""
    facts, plan = entry.archive, entry.segments
    is_whole = facts is not None and plan is not None and facts.made >= plan.whole
    return entry.state in _ARCHIVED or (entry.state in _RETAINED and is_whole)


def _describe_file(part: Part, period: str) -> LakeFile:
    file = LakeFile(key=part.key, period=period, events=part.events, size=part.size)
    if (bounds := part.bounds) is None:
        return file
    return msgspec.structs.replace(
        file, oldest=bounds.oldest, newest=bounds.newest, least=bounds.least, greatest=bounds.greatest
    )
