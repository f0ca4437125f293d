"""Merge the items of a period with its present archive: new parts, a manifest, and the call that lets them count."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

import msgspec

from cli.bulk.judge import make_sort_key
from cli.bulk.progress import PeriodProgress
from cli.bulk.runs import Runs, merge_runs
from cli.bulk.settle import settle_items
from cli.errors import CommandError
from tidetable.archive.importing import ImportOrder, name_base
from tidetable.archive.manifest import Manifest, Part, make_import_key, make_prefix
from tidetable.archive.ports import Format, Objects
from tidetable.archive.verified import write_verified_part
from tidetable.catalog import Entry
from tidetable.catalog_steps import read_entry
from tidetable.errors import ArchiveMismatch
from tidetable.names import name_table
from tidetable.periods import parse_label
from tidetable.ports import CatalogReader, Clock
from tidetable.times import to_micros

# So often a period is merged anew because another import or a rewriting came first, and so often its lease is awaited.
_ATTEMPTS, _WAITS, _WAIT_SECONDS = 5, 60, 5.0
# Folders of the import: the runs of a period's present archive, and its new parts.
OLD, PARTS = "old", "parts"
_RAWS = msgspec.json.Decoder(list[msgspec.Raw]).decode


class _Keys(msgspec.Struct):
    pk: dict[str, str]
    sk: dict[str, str]


_KEYS = msgspec.json.Decoder(_Keys).decode
# Calls the restorer's function, with a stream, a label and an order.
Finish = Callable[[str, str, ImportOrder], Mapping[str, Any]]


class ImportRefused(CommandError):
    """The period takes no import; the message says why."""


class Merged(NamedTuple):
    """What a period has after an import: its events, and how many of the imported rows are copies of other events."""

    events: int
    parts: int
    size: int


@dataclass(slots=True)
class Merger:
    """The ports that merging needs. ``columns`` are the declared columns of the stream. ``folder`` is for its own files."""

    stage: str
    stream: str
    columns: Mapping[str, str]
    catalog: CatalogReader
    objects: Objects
    format: Format
    clock: Clock
    finish: Finish
    folder: Path

    def merge_period(self, label: str, runs: Runs, known: PeriodProgress) -> Merged:
        """Merge the items of a period with its archive, until the result counts. ImportRefused says why it cannot."""
        for _ in range(_ATTEMPTS):
            entry = read_entry(self.catalog, self.stream, parse_label(label))
            if entry is not None and entry.layout != known.layout:
                raise ImportRefused(f"the layout of period {label} has changed meanwhile: --again imports anew")
            token = f"{to_micros(self.clock.now()) // 1000:013d}-{token_hex(4)}"
            merged = self._write(label, token, entry, runs, known)
            order = ImportOrder(token=token, base=name_base(entry), oldest=known.oldest, newest=known.newest)
            if self._let_count(label, order) == "imported":
                return merged
        raise CommandError(f"period {label} of {self.stream} changes all the time: call the command again")

    def _let_count(self, label: str, order: ImportOrder) -> str:
        for _ in range(_WAITS):
            answer = self.finish(self.stream, label, order)
            if answer["state"] == "refused":
                raise ImportRefused(answer["reason"])
            if answer["state"] != "busy":
                return str(answer["state"])
            self.clock.sleep(_WAIT_SECONDS)
        raise CommandError(f"{answer['reason']}: call the command again")

    def _write(self, label: str, token: str, entry: Entry | None, runs: Runs, known: PeriodProgress) -> Merged:
        """Write the parts and the manifest of a merge into the bucket; nobody reads them yet."""
        former = None
        if entry is not None and entry.archive is not None:
            former = Manifest.decode(self._read_object(entry.archive.manifest))
        old = Runs(self.folder / OLD, {})
        if former is not None:
            self._add_archive(former, label, old)
        prefix = f"{make_prefix(self.stream, label)}part-{token}-"
        local, packs = _Folder(self.folder / PARTS), former.packs if former is not None else 0
        local.clear(prefix)
        pages = settle_items(
            merge_runs([*old.list_runs(label), *runs.list_runs(label)]), versioned=known.layout.versioned
        )
        parts = list(self._write_parts(pages, prefix, local, known, packs))
        old.remove([label])
        for part in parts:
            self.objects.put(part.key, local.get(part.key))
            if sha256(self.objects.get(part.key)).hexdigest() != part.sha256:
                raise ArchiveMismatch(f"{part.key} differs from the bytes that were written")
            local.clear(part.key)
        table = name_table(self.stage, self.stream, parse_label(label)) if entry is None else entry.table
        manifest = Manifest.of_parts(
            parts, self.clock.now(), stream=self.stream, period=label, table=table, layout=known.layout,
            columns=self.columns,
        )  # fmt: skip
        self.objects.put(make_import_key(self.stream, label, token), manifest.encode())
        return Merged(manifest.events, len(parts), manifest.size)

    def _write_parts(
        self, pages: Iterator[list[str]], prefix: str, local: Objects, known: PeriodProgress, packs: int
    ) -> Iterator[Part]:
        """Write parts into a folder, and read each back. The packs of a former archive are kept with the first part."""
        layout, number = known.layout, 0
        page = next(pages, None)
        while page is not None:
            writer = self.format.writer(layout, self.columns)
            while page is not None and not writer.is_full:
                writer.add(f"[{','.join(page)}]".encode())
                page = next(pages, None)
            key = f"{prefix}{number:05d}.parquet"
            yield write_verified_part(key, writer, local, self.format, layout, 0 if number else packs)
            number += 1

    def _add_archive(self, manifest: Manifest, label: str, old: Runs) -> None:
        """Add the items of an archive to runs, part by part."""
        seen = 0
        for part in manifest.parts:
            body = self._read_object(part.key)
            if sha256(body).hexdigest() != part.sha256:
                raise ArchiveMismatch(f"{part.key} differs from the bytes that were written")
            for page in self.format.pages([body], manifest.layout):
                texts = list(map(bytes.decode, map(bytes, _RAWS(page))))
                keys = map(_KEYS, texts)
                layout = manifest.layout
                if old.add(label, [make_sort_key(layout, key.pk["S"], key.sk["S"]) for key in keys], texts):
                    old.spill()
                seen += len(texts)
        old.spill()
        if seen != manifest.events:
            raise ArchiveMismatch(f"the archive of {label} has {seen} events, its manifest {manifest.events}")

    def _read_object(self, key: str) -> bytes:
        body = self.objects.find(key)
        if body is None:
            raise CommandError(f"the archive's object {key} does not exist: call the command again")
        return body


@dataclass(slots=True)
class _Folder:
    """A folder as a bucket: parts are verified there before they are uploaded."""

    path: Path

    def _find(self, key: str) -> Path:
        return self.path / key.rpartition("/")[2]

    def put(self, key: str, body: bytes) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        self._find(key).write_bytes(body)

    def get(self, key: str) -> bytes:
        return self._find(key).read_bytes()

    def find(self, key: str) -> bytes | None:
        return self.get(key) if self._find(key).exists() else None

    def sizes(self, prefix: str) -> Mapping[str, int]:
        name = prefix.rpartition("/")[2]
        return {path.name: path.stat().st_size for path in self.path.glob(f"{name}*")}

    def clear(self, prefix: str) -> None:
        for name in self.sizes(prefix):
            self._find(name).unlink()
