"""An import into the archive gives exactly the items that ingest and the archiver would have given."""

from datetime import timedelta
from pathlib import Path

import pytest

from tests.worlds.bulk import (
    FORMS,
    HOURS,
    START,
    Importer,
    live_through,
    make_rows,
    make_stage,
    read_items,
    settle_numbers,
    write_rows,
)

SEED, FIRST, ALL = 7, 40, 10**6


@pytest.mark.parametrize("name", FORMS)
def test_imported_events_are_archived_as_if_they_had_been_sent(tmp_path: Path, name: str) -> None:
    rows = make_rows(SEED)
    sent = settle_numbers(read_items(live_through(SEED, ALL, *FORMS), name))
    assert len(sent) > FIRST
    # A stream that begins later has no periods of that time. The runs of the sort are short.
    new = make_stage(START + timedelta(hours=HOURS + 9), name)
    new.run_lifecycle()
    Importer(new, name, tmp_path / "new", memory=3_000).run([write_rows(tmp_path / "all.ndjson", rows)])
    assert read_items(new, name) == sent
    half = live_through(SEED, FIRST, *FORMS)
    middle = (FIRST + len(rows)) // 2
    files = [write_rows(tmp_path / "b.ndjson", rows[FIRST:middle]), write_rows(tmp_path / "a.ndjson", rows[middle:])]
    importer = Importer(half, name, tmp_path / "half")
    importer.run(files)
    assert settle_numbers(read_items(half, name)) == sent
    # Importing them once more changes nothing.
    importer.run(files, again=True)
    assert settle_numbers(read_items(half, name)) == sent
