"""Versions out of the files of an archive, where an event's versions lie in different row groups."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from aws.archive import parquet
from tests.worlds.parts import make_item, read_part
from tidetable.archive import Manifest
from tidetable.archive.manifest import Part
from tidetable.archive.reading import ArchivedEvent, read_archive
from tidetable.conditions import Condition
from tidetable.layout import Layout
from tidetable.ports import ArchiveRange

KEPT = Layout("time", 1, "id", 86_400, versioned=True)
LOW, HIGH = "v0#2026-03-01T00:00:00.000000Z", "v0#2026-03-02T00:00:00.000000Z"


class File:
    """An archive of one file: event ``a`` was changed from 1 to 9, and event ``b`` from 9 to 1."""

    def __init__(self) -> None:
        items = [
            self._item(id, number, mag)
            for id, mags in (("a", (9, 1)), ("b", (1, 9)))
            for number, mag in enumerate(mags)
        ]
        writer = parquet.Parquet().writer(KEPT, {"mag": "integer"})
        writer.add(json.dumps(items).encode())
        self._body = writer.finish()

    def _item(self, id: str, number: int, mag: int) -> Any:
        """Number 0 is the newest version, which is the second."""
        more = {"version": {"N": "1" if number else "2"}, "at": {"N": "1772366400000"}}
        return make_item(KEPT, "s", 1, id, {"mag": {"N": str(mag)}}, more, version=number)

    def manifest(self, key: str) -> Manifest:
        part = Part(key=key, events=4, size=0, sha256="", digest="", partitions=1, first=LOW, last=HIGH)
        return Manifest(
            stream="s", period="2026-03-01", table="t", layout=KEPT, events=4, size=0, digest="", columns={},
            written_at=LOW, parts=(part,),
        )  # fmt: skip

    def events(
        self, part: Part, keys: ArchiveRange, layout: Layout, *, ascending: bool, together: int = 1
    ) -> Iterator[ArchivedEvent]:
        assert part.events == 4
        return read_part(self._body, keys, layout, ascending=ascending)


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("ascending", [True, False])
def test_the_newest_version_decides_wherever_the_others_are(
    rows: int, monkeypatch: pytest.MonkeyPatch, *, ascending: bool
) -> None:
    """Of the newest versions only that of ``a`` meets the condition, and of the earlier ones only that of ``b``."""
    monkeypatch.setattr("aws.archive.part_file._GROUP_EVENTS", rows)
    condition = Condition("mag", "ge", ("5",))

    def read(*, versions: bool) -> list[tuple[Any, ...]]:
        keys = ArchiveRange("m", LOW, HIGH, conditions=(condition,), versions=versions)
        page = read_archive(keys, File(), limit=10, ascending=ascending)
        numbers: list[int | None] = [version.number for version in page.versions or ()]
        numbers = numbers or [None] * len(page.events)
        return [(event.id, event.data["mag"], number) for event, number in zip(page.events, numbers, strict=True)]

    assert read(versions=False) == [("a", 9, None)]
    assert read(versions=True) == [("a", 9, 2), ("a", 1, 1)]
