"""Periods and rows that an import into the archive refuses, each with its reason."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cli.errors import CommandError
from tests.worlds.bulk import SMALL_NOW, Importer, Small, make_days, write_rows
from tidetable.archive.importing import ImportOrder
from tidetable.catalog import ArchiveFacts, Backfill, Entry, Opening, State
from tidetable.periods import Kind, find_containing, parse_label

DAY = "2026-03-10"
PERIOD = parse_label(DAY)


def ask(world: Small, label: str = DAY, stream: str = "s") -> str:
    answer = Importer(world, stream, Path("unused")).finish(stream, label, ImportOrder())
    assert (answer["state"] == "ready") is (answer["reason"] == "")
    return str(answer["reason"])


def record(world: Small, state: State, archived: datetime | None = None) -> None:
    layout = world.config.streams["s"].layout
    facts = ArchiveFacts("key", 1, 1, archived) if archived is not None else None
    world.known.add(Entry("s", PERIOD, "t", layout, state, PERIOD.start, archive=facts))


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (State.CREATING, "period 2026-03-10 of s is creating, so its table has its events: import them without --to"),
        (State.OPEN, "is open, so its table has its events"),
        (State.CLOSED, "`tidetable backfill s 2026-03-10T00:00Z 2026-03-11T00:00Z`"),
        (State.ARCHIVING, "is being archived: import into it when it is archived"),
        (State.RESTORING, "is being restored: send its events to the API"),
        (State.DELETED, "was deleted without an archive"),
    ],
)
def test_a_period_whose_events_are_not_in_an_archive_is_refused(state: State, reason: str) -> None:
    world = Small()
    record(world, state)
    assert reason in ask(world)


@pytest.mark.parametrize(
    ("days", "reason"),
    [(90.1, "an archive that expires at 2026-03-20T09:36"), (89.5, "expires at 2026-03-21"), (88.9, "")],
)
def test_an_archive_that_has_expired_or_expires_soon_is_refused(days: float, reason: str) -> None:
    world = Small()
    record(world, State.ARCHIVED, SMALL_NOW - timedelta(days=days))
    assert ask(world).count(reason or "expires") == bool(reason)


def test_an_archive_that_the_catalog_knows_as_expired_is_refused() -> None:
    world = Small()
    record(world, State.DELETED, SMALL_NOW)
    (entry,) = world.known.entries("s")
    assert entry.archive is not None
    world.known.items["s", PERIOD] = replace(entry, archive=replace(entry.archive, expired_at=SMALL_NOW))
    assert "has an archive that expires at 2026-03-20T12:00" in ask(world)


@pytest.mark.parametrize(
    ("label", "reason"),
    [
        # The day closes a day after its end, and a quarter of an hour later no write is under way.
        ("2026-03-18", ""),
        ("2026-03-19", "takes events until 2026-03-21T00:15:00.000000Z: import them without --to archive"),
        ("2026-04-01", "takes events until 2026-04-03T00:15"),
        ("2026-03-10T05", "overlaps the period 2026-03-10: import again"),
    ],
)
def test_a_period_that_the_catalog_does_not_know(label: str, reason: str) -> None:
    world = Small()
    record(world, State.ARCHIVED, SMALL_NOW)
    assert ask(world, label)[: len(reason) + 30].count(reason or "period") == bool(reason)


def test_a_period_of_an_open_backfill_is_refused() -> None:
    world = Small()
    opened = Opening(SMALL_NOW + timedelta(hours=1), None, None)
    world.known.put_backfill(Backfill("s", PERIOD.start, PERIOD.end, opened))
    assert "is open for a backfill" in ask(world)
    world.clock.sleep(3601)
    assert ask(world) == ""


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        ("none", "the stage has no stream 'none'"),
        ("s-hours", "s-hours is a rollup of s: import into s"),
        ("gone", 'gone deletes its expired periods (on_expiry = "delete"), so it has no archives'),
    ],
)
def test_a_stream_without_archives_of_its_own_events_is_refused(stream: str, reason: str) -> None:
    assert ask(Small(), stream=stream) == reason


def test_an_archive_of_another_layout_is_refused(tmp_path: Path) -> None:
    world = Small()
    importer = Importer(world, "s", tmp_path / "import")
    work = importer.make([write_rows(tmp_path / "rows.ndjson", make_days((10, 1)))])
    runs = work.read_files()
    other = replace(world.config.streams["s"].layout, shards=4)
    entry = Entry("s", PERIOD, "t", other, State.DELETED, PERIOD.start, archive=ArchiveFacts("k", 1, 1, SMALL_NOW))
    world.known.add(entry)
    assert work.merge_periods(runs).refused == {
        DAY: "the layout of period 2026-03-10 has changed meanwhile: --again imports anew"
    }


BAD: list[Any] = [
    "not json",
    {"series": "a", "time": "2026-03-10T00:00:00Z", "data": {"n": 1}, "id": ""},
    {"series": "a", "data": {"n": 1}},
    {"series": "a", "time": "2026-03-10T01:00:00", "data": {"n": 1}},
    {"series": "a", "time": "2027-03-10T01:00:00Z", "data": {"n": 1}},
    {"series": "a", "time": "2026-03-10T02:00:00Z", "data": {"n": "x" * 500_000}},
    {"series": 5, "time": "2026-03-10T03:00:00Z", "n": 1, "id": "kept"},
]
CODES = ["unreadable", "invalid", "unreadable", "unreadable", "too_new", "too_large"]


def write_mixed(path: Path, rows: Sequence[Any]) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def test_bad_rows_are_skipped_counted_and_kept_with_their_lines(tmp_path: Path) -> None:
    world = Small()
    importer = Importer(world, "s", tmp_path / "import")
    file = write_mixed(tmp_path / "rows.ndjson", [*make_days((10, 1), n=4), *BAD])
    work = importer.run([file], stops=False)
    assert world.read_ns() == {"e10-0": 4, "kept": 1}
    refused = [json.loads(line) for line in work.folder.refused.read_bytes().splitlines()]
    assert [(row["row"], row["code"]) for row in refused] == list(enumerate(CODES, 1))
    assert refused[1]["detail"] == "id must be a text of at least one character"
    assert work.progress.refused == {"unreadable": 3, "invalid": 1, "too_new": 1, "too_large": 1}
    assert work.first_refusals[0].startswith(f"{file}, row 1: unreadable: ")


def test_a_bad_row_stops_an_import_before_anything_is_written(tmp_path: Path) -> None:
    world = Small()
    importer = Importer(world, "s", tmp_path / "import")
    file = write_mixed(tmp_path / "rows.ndjson", [*make_days((10, 1)), BAD[4]])
    work = importer.make([file])
    with pytest.raises(CommandError, match=r"rows\.ndjson, row 1: too_new: .* --on-error skip leaves such rows out"):
        work.read_files()
    assert world.bucket.objects == {}
    assert world.known.items == {}
    # The same command goes on with the other choice.
    importer.run([file], stops=False)
    assert world.read_ns() == {"e10-0": 0}


def test_a_dry_run_judges_and_counts_and_leaves_nothing(tmp_path: Path) -> None:
    world = Small()
    record(world, State.OPEN)
    work = Importer(world, "s", tmp_path / "import").make(
        [write_mixed(tmp_path / "rows.ndjson", [*make_days((10, 2), (11, 3)), *BAD])], stops=False, keeps=False
    )
    work.read_files()
    plans = work.plan_periods()
    assert [(plan.label, plan.rows, bool(plan.problem)) for plan in plans] == [(DAY, 3, True), ("2026-03-11", 3, False)]
    assert sum(work.progress.refused.values()) == 6
    assert not (tmp_path / "import").exists()
    assert world.bucket.objects == {}


def test_a_command_that_was_stopped_while_it_read_goes_on_with_the_next_row(tmp_path: Path) -> None:
    world = Small()
    rows = [*make_days((10, 3)), "bad", *make_days((11, 3), n=5), "bad too", *make_days((10, 1), n=9)]
    files = [write_mixed(tmp_path / "a.ndjson", rows), write_rows(tmp_path / "b.ndjson", make_days((12, 2)))]
    importer = Importer(world, "s", tmp_path / "import", memory=1)
    work = importer.make(files, stops=False)
    taken = 0

    def stop(*_: Any) -> None:
        nonlocal taken
        taken += 1
        if taken == 2:
            raise KeyboardInterrupt

    work.show = stop
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cli.bulk.command._TOGETHER", 3)
        with pytest.raises(KeyboardInterrupt):
            work.read_files()
        # What the killed run wrote behind its progress does not count.
        with work.folder.refused.open("ab") as file:
            file.write(b"cut off")
        again = importer.run(files, stops=False)
    assert world.read_ns() == {
        "e10-0": 9, "e10-1": 1, "e10-2": 2, "e11-0": 5, "e11-1": 6, "e11-2": 7, "e12-0": 0, "e12-1": 1,
    }  # fmt: skip
    assert [json.loads(line)["row"] for line in again.folder.refused.read_bytes().splitlines()] == [3, 7]
    assert again.progress.refused == {"unreadable": 2}
    with pytest.raises(CommandError, match=r"other files or options \(.*b\.ndjson\): --again begins anew"):
        importer.make(files[:1])


def test_after_a_change_of_period_the_events_go_into_the_periods_that_exist(tmp_path: Path) -> None:
    world = Small()
    layout = world.config.streams["s"].layout
    hour = find_containing(datetime(2026, 3, 10, 5, tzinfo=UTC), Kind.HOUR)
    world.known.add(Entry("s", hour, "t", layout, State.DELETED, hour.start))
    work = Importer(world, "s", tmp_path / "import").make([write_rows(tmp_path / "r.ndjson", make_days((10, 7)))])
    work.read_files()
    plans = [(plan.label, plan.rows, plan.problem) for plan in work.plan_periods()]
    assert [(label, rows) for label, rows, _ in plans] == [(f"2026-03-10T0{hour}", 1) for hour in range(7)]
    assert [bool(problem) for *_, problem in plans] == [False] * 5 + [True, False]
