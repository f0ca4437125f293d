"""A run of the lifecycle fits the archive's tables to the configured streams, and reports what it could not change."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import partial

import pytest

from tests.lifecycle.world import NOON, World
from tidetable.config import Stream
from tidetable.lifecycle import RunReport, reconcile

MORE = '[streams.t]\nperiod = "day"\nlate = "1d"\nretention = 5\nkey = { partition_by = "series" }\n[streams.s.archive]'


class Lake:
    """Says that the table of each stream must be changed, and notes the changes. One table cannot be changed."""

    def __init__(self, refused: str = "") -> None:
        self.refused = refused
        self.looks: list[datetime] = []
        self.changed: list[str] = []

    def list_changes(self, streams: Iterable[Stream], now: datetime) -> Iterator[tuple[str, Callable[[], object]]]:
        self.looks.append(now)
        if self.refused == "list":
            raise OSError("no answer")
        for stream in streams:
            yield stream.name, partial(self._change, stream.name)

    def _change(self, name: str) -> None:
        if name == self.refused:
            raise OSError("no right")
        self.changed.append(name)


def run(lake: Lake, *, dry_run: bool = False, only: str | None = None) -> RunReport:
    world = World(more=MORE)
    return reconcile(world.begin_run(lake=lake), dry_run=dry_run, only=only)


def test_a_run_changes_the_tables_of_the_archive() -> None:
    lake = Lake()
    assert run(lake).troubles == []
    assert (lake.looks, lake.changed) == ([NOON], ["s", "t"])


@pytest.mark.parametrize(("dry_run", "only"), [(True, None), (False, "s")])
def test_a_dry_run_and_a_run_for_one_stream_leave_them_alone(only: str | None, *, dry_run: bool) -> None:
    lake = Lake()
    run(lake, dry_run=dry_run, only=only)
    assert lake.looks == []


def test_a_table_that_cannot_be_changed_stops_no_other_and_no_period_table() -> None:
    lake = Lake("s")
    report = run(lake)
    assert report.troubles == ["the archive's table s could not be changed: OSError: no right"]
    assert lake.changed == ["t"]
    assert report.count("done") == 8


def test_tables_that_cannot_be_listed_are_a_trouble() -> None:
    report = run(Lake("list"))
    assert report.troubles == ["the archive's tables could not be listed: OSError: no answer"]
    assert report.count("done") == 8
