"""`archive` and `restore` name periods in the user's words, and report mistakes in them."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cli.choose import explain_open_period
from tests.fakes.stage import Stage
from tests.worlds.commands import FakeFunctions, run
from tests.worlds.entries import change_entry
from tidetable.catalog import Entry, Opening, State
from tidetable.config import parse
from tidetable.layout import Layout
from tidetable.periods import parse_label

# The time is 12:20; the periods are hours with `late` = 1 hour: 12 and 11 are open, 13 and 14 are made ahead.


def states(stage: Stage) -> dict[str, State]:
    return {entry.period.label[-3:]: entry.state for entry in stage.catalog.entries("s", consistent=True)}


@pytest.mark.parametrize(
    "words",
    [
        ("archive", "quake", "2026-03-15T09"),
        ("restore", "quake", "2026-03-15T09"),
        ("backfill", "quake"),
        ("backfill", "quake", "2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"),
        ("backfill", "quake", "--end"),
        ("rollup", "quake"),
        ("rollup", "quake", "--rebuild", "--from", "2026-03-01", "--to", "2026-03-02"),
        ("keys", "create", "--name", "a", "--stream", "quake"),
        ("status", "--stream", "quake"),
        ("advise", "--stream", "quake"),
        ("cost", "tidetable.toml", "--stream", "quake", "--rate", "5"),
    ],
    ids=lambda words: " ".join(words[:2] + words[-1:]),
)
def test_every_command_refuses_a_stream_that_is_not_there_before_anything_else(
    functions: FakeFunctions, words: tuple[str, ...]
) -> None:
    """The stage has two streams, and no function was called."""
    config = Path("tidetable.toml").read_text()
    both = config + config[config.index("[streams.s]") :].replace("[streams.s", "[streams.quakes")
    Path("tidetable.toml").write_text(both)
    functions.stage.config = parse(both)
    functions.stage.run_lifecycle()
    result = run(*words)
    assert "there is no stream 'quake'; there are: quakes, s; did you mean quakes?" in result.output
    assert result.exit_code == 64
    assert (functions.payloads, functions.archiver_calls) == ([], 0)


def test_a_label_of_another_form_is_refused_with_the_form_of_this_stream(stage: Stage) -> None:
    for label in ("2026-03", "2026-03-15"):
        result = run("archive", "s", label)
        assert result.exit_code == 1
        assert f"s has no period '{label}': a period is an hour here: 2026-10-05T13" in result.output
    assert (
        "'yesterday' is not a period of s: a period is an hour here: 2026-10-05T13"
        in run("archive", "s", "yesterday").output
    )


def test_a_period_that_never_was_is_refused_with_the_range_of_those_that_are(stage: Stage) -> None:
    result = run("archive", "s", "2025-01-01T00")
    assert result.exit_code == 1
    assert "s has no period 2025-01-01T00; it has 2026-03-15T03 to 2026-03-15T14" in result.output


def test_an_open_period_says_when_it_closes_and_its_function_is_not_called(functions: FakeFunctions) -> None:
    result = run("archive", "s", "2026-03-15T12")
    assert result.exit_code == 1
    assert "s 2026-03-15T12 is open: it closes at 2026-03-15T14:00Z" in result.output
    assert functions.archiver_calls == 0


def test_a_period_that_has_just_closed_says_from_when_on_it_can_be_archived() -> None:
    at = datetime(2026, 3, 15, 12, tzinfo=UTC)
    entry = Entry("s", parse_label("2026-03-15T10"), "t", Layout("series", 1, "id"), State.CLOSED, at)
    config = parse('[streams.s]\nperiod = "hour"\nlate = "1h"\nretention = 5\nkey = { partition_by = "series" }')
    assert explain_open_period(entry, config, at + timedelta(minutes=15)) == (
        "s 2026-03-15T10 has just closed, and writes may still land: archive it after 2026-03-15T12:15Z"
    )
    assert explain_open_period(entry, config, at + timedelta(minutes=15, seconds=1)) == ""
    ended = replace(entry, opened=Opening(at + timedelta(hours=5), None, None))
    assert "archive it after 2026-03-15T17:15Z" in explain_open_period(
        ended, config, at + timedelta(hours=5, minutes=1)
    )
    archiving = replace(entry, state=State.ARCHIVING)
    assert explain_open_period(archiving, config, at) == "", "what has begun goes on"


def test_a_range_is_archived_in_order_and_what_is_open_is_named(functions: FakeFunctions) -> None:
    result = run("archive", "s", "2026-03-15T09", "2026-03-15T11")
    assert "s 2026-03-15T09 is archived" in result.output
    assert "s 2026-03-15T10 is archived" in result.output
    assert "s 2026-03-15T11 is open: it closes at 2026-03-15T13:00Z" in result.output
    assert result.exit_code == 1
    shown_states = states(functions.stage)
    assert [shown_states[hour] for hour in ("T09", "T10", "T11")] == [State.ARCHIVED, State.ARCHIVED, State.OPEN]


def test_a_range_of_closed_periods_ends_well_and_is_listed_as_json(stage: Stage) -> None:
    result = run("archive", "s", "2026-03-15T09", "2026-03-15T10", "--json")
    assert result.exit_code == 0, result.output
    assert [(row["period"], row["state"]) for row in json.loads(result.stdout)] == [
        ("2026-03-15T09", "archived"),
        ("2026-03-15T10", "archived"),
    ]


def test_a_range_that_runs_backwards_is_refused(stage: Stage) -> None:
    result = run("archive", "s", "2026-03-15T10", "2026-03-15T09")
    assert result.exit_code == 1
    assert "2026-03-15T09 is before 2026-03-15T10: write the older period first" in result.output


def test_one_failure_does_not_stop_the_rest_of_a_range(functions: FakeFunctions) -> None:
    functions.fails = True
    result = run("archive", "s", "2026-03-15T09", "2026-03-15T10")
    assert result.exit_code == 1
    assert "archiving s 2026-03-15T09 failed: out of memory" in result.output
    assert "archiving s 2026-03-15T10 failed: out of memory" in result.output


@pytest.mark.parametrize(
    ("facts", "minutes", "reason"),
    [
        ({"state": State.RESTORING}, 0, "is being restored: `restore` continues it"),
        ({"state": State.OPEN}, 0, "is open: it closes at 2026-03-15T12:00Z, `late` after its end"),
        ({"state": State.CREATING}, 0, "is open: it closes at 2026-03-15T12:00Z, `late` after its end"),
        ({"state": State.OPEN}, 1, "has ended and is closed by the next run of the lifecycle: run `apply`"),
        (
            {"state": State.CLOSED, "opened": Opening(datetime(2026, 3, 16, tzinfo=UTC), None, None)},
            0,
            "is open for a backfill until 2026-03-16T00:00Z: close it with `backfill s --end`, or wait",
        ),
    ],
)
def test_a_period_that_cannot_be_archived_says_why(facts: Any, minutes: int, reason: str) -> None:
    at = datetime(2026, 3, 15, 12, tzinfo=UTC)
    entry = Entry("s", parse_label("2026-03-15T10"), "t", Layout("series", 1, "id"), State.OPEN, at)
    config = parse('[streams.s]\nperiod = "hour"\nlate = "1h"\nretention = 5\nkey = { partition_by = "series" }')
    found = explain_open_period(change_entry(entry, **facts), config, at + timedelta(minutes=minutes))
    assert found.startswith(f"s 2026-03-15T10 {reason}")


def test_without_the_configuration_a_period_is_open_for_an_unknown_time() -> None:
    at = datetime(2026, 3, 15, 12, tzinfo=UTC)
    entry = Entry("s", parse_label("2026-03-15T10"), "t", Layout("series", 1, "id"), State.OPEN, at)
    assert explain_open_period(entry, None, at) == (
        "s 2026-03-15T10 is open: it closes `late` after its end, 2026-03-15T11:00Z, and can be archived then"
    )
    # Writes may land for a quarter of an hour after it closed.
    closed = replace(entry, state=State.CLOSED)
    assert "archive it after 2026-03-15T11:15Z" in explain_open_period(closed, None, at - timedelta(minutes=45))
    assert explain_open_period(closed, None, at) == ""
