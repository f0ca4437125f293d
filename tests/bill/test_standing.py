"""The rows of a stage's periods: which are read, and their marks in the timeline."""

from datetime import datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.fakes.serial import Serial
from tests.lifecycle.world import NOON, configuration
from tidetable.bill.standing import Row, mark_period, observe_periods
from tidetable.catalog import Entry

MARKS = [
    ("creating", ".", "yellow"),
    ("open", "#", "green"),
    ("closed", "=", "blue"),
    ("archiving", ">", "yellow"),
    ("restoring", ">", "yellow"),
    ("archived", "a", "magenta"),
    ("deleted", "-", "dim"),
    ("LOST", "!", "bold red"),
    ("unheard of", "?", ""),
]


def row(state: str, **facts: Any) -> Row:
    return Row("s", "2026-03-15", state, 0, None, None, None, None, None, None, 0.0, **facts)


@pytest.mark.parametrize(("state", "mark", "colour"), MARKS)
def test_every_state_has_a_mark(state: str, mark: str, colour: str) -> None:
    assert mark_period(row(state)) == (mark, colour)


def test_an_open_period_may_be_ahead_or_late() -> None:
    assert mark_period(row("open", ahead=True)) == (".", "cyan")
    assert mark_period(row("open", late=True)) == ("+", "green")
    assert mark_period(row("closed", ahead=True, late=True)) == ("=", "blue")


@pytest.mark.parametrize(("all_periods", "start"), [(False, NOON), (True, None)])
def test_periods_before_the_horizon_are_read_only_if_they_are_wanted(all_periods: bool, start: datetime | None) -> None:
    """After some years there are very many of them, all deleted."""
    starts: list[datetime | None] = []

    def entries(_: str, start: datetime | None) -> list[Entry]:
        starts.append(start)
        return []

    catalog = SimpleNamespace(horizon=lambda _: NOON, entries=entries)
    tables = SimpleNamespace(describe=None)
    stream = configuration().streams["s"]
    assert observe_periods(stream, cast("Any", catalog), cast("Any", tables), Serial, all_periods=all_periods) == []
    assert starts == [start]
