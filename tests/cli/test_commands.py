"""The commands against a stage in memory: their output and their exit codes."""

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bill import current_tables
from cli import common
from cli.account import Account, AccountError
from cli.app import app
from tests.fakes.stage import Stage
from tests.worlds.commands import OUTPUTS, ROOT, FakeFunctions, FakeMetrics, run
from tests.worlds.hours import CONFIG
from tidetable.catalog import Backfill, Opening
from tidetable.config import parse
from tidetable.times import to_text


def test_status_shows_every_table_with_its_state_and_price(stage: Stage) -> None:
    result = run("status")
    assert result.exit_code == 0, result.output
    assert "2026-03-15T12" in result.output
    assert "deleted" not in result.output
    listed = json.loads(run("status", "--json").output)
    current = next(row for row in listed if row["period"] == "2026-03-15T12")
    assert (current["state"], current["write"], current["read"]) == ("open", 10, 10)
    assert current["dollars"] == pytest.approx((10 * 0.00065 + 10 * 0.00013) * 730)
    everything = json.loads(run("status", "--json", "--all").output)
    assert {row["state"] for row in everything} > {row["state"] for row in listed}


def test_status_has_pages(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [row["period"] for row in json.loads(run("status", "--json").output)]
    monkeypatch.setattr(current_tables, "MAX_PERIODS", len(whole) - 1)
    before = f"{whole[-2]}:00:00.000000Z"
    first = run("status")
    assert f"s has more periods, which are not shown: --stream s --before {before}" in first.output
    assert f"--stream s --before {before} --all" in run("status", "--all").output
    page = run("status", "--stream", "s", "--before", before, "--json")
    assert [row["period"] for row in json.loads(page.output)] == whole[-1:]
    wrong = run("status", "--before", "soon")
    assert (wrong.exit_code, "--before: " in wrong.output) == (64, True)


def test_status_names_a_lost_table(stage: Stage) -> None:
    label = "2026-03-15T12"
    stage.dynamo.call("DeleteTable", {"TableName": f"tidetable-lapse.s.{label}"})
    stage.clock.sleep(10)
    states = {row["period"]: row["state"] for row in json.loads(run("status", "--json").output)}
    assert states[label] == "LOST"


def test_plan_ends_with_two_while_something_is_pending_and_changes_nothing(stage: Stage) -> None:
    run("apply", "--yes")
    run("apply", "--yes")
    assert run("plan").exit_code == 0
    stage.clock.sleep(3600)
    before = dict(stage.dynamo.account.tables)
    result = run("plan")
    assert result.exit_code == 2
    assert "create" in result.output
    assert json.loads(run("plan", "--json").output)["dry_run"] is True
    assert stage.dynamo.account.tables == before


def test_apply_asks_first_and_reports(stage: Stage) -> None:
    stage.clock.sleep(3600)
    before = set(stage.dynamo.account.tables)
    refused = run("apply", input="n\n")
    assert refused.exit_code == 1
    assert set(stage.dynamo.account.tables) == before
    done = run("apply", input="y\n")
    assert done.exit_code == 0, done.output
    assert set(stage.dynamo.account.tables) - before


def test_archive_archives_a_period(stage: Stage) -> None:
    label = "2026-03-15T09"
    result = run("archive", "s", label)
    assert result.exit_code == 0, result.output
    assert f"s {label} is archived" in result.output


def test_backfill_asks_for_what_was_said(functions: FakeFunctions) -> None:
    assert (
        run("backfill", "s", "2026-01-01", "2026-02-01", "--hours", "3", "--write", "9", "--read", "8").exit_code == 0
    )
    edges = {"from": "2026-01-01T00:00:00.000000Z", "to": "2026-02-01T00:00:00.000000Z"}
    request = {"stream": "s", **edges, "hours": 3, "write": 9, "read": 8}
    assert functions.payloads[-1] == {"dry_run": False, "backfill": request}
    assert run("backfill", "s", "--end").exit_code == 0
    assert functions.payloads[-1] == {"dry_run": False, "end_backfill": "s"}
    assert run("backfill", "s", "2026-01-01", "2026-02-01", "--end").exit_code == 0
    assert functions.payloads[-1] == {"dry_run": False, "end_backfill": {"stream": "s", **edges}}


@pytest.mark.parametrize(
    ("edges", "sent"),
    [
        # The clock of the commands says 12:20:37.
        (("2026-01-01", "now"), ("2026-01-01T00:00:00.000000Z", "2026-03-15T12:20:00.000000Z")),
        (("-30d", "-2h"), ("2026-02-13T12:20:00.000000Z", "2026-03-15T10:20:00.000000Z")),
        (("yesterday", "today"), ("2026-03-14T00:00:00.000000Z", "2026-03-15T00:00:00.000000Z")),
        (("2026-03-01T01:00+01:00", "1772407800000"), ("2026-03-01T00:00:00.000000Z", "2026-03-01T23:30:00.000000Z")),
    ],
)
@pytest.mark.parametrize("more", [(), ("--end",)])
def test_a_backfill_takes_each_form_of_a_time(
    functions: FakeFunctions, stage: Stage, edges: tuple[str, str], sent: tuple[str, str], more: tuple[str, ...]
) -> None:
    stage.clock.sleep(37)
    result = run("backfill", "s", *edges, "--hours", "3", *more)
    assert result.exit_code == 0, result.output
    payload = functions.payloads[-1]["end_backfill" if more else "backfill"]
    assert (payload["from"], payload["to"]) == sent


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("2026-01-01",), "give both from and to, or neither"),
        (("-30d",), "give both from and to, or neither"),
        (("2026-01-01", "--end"), "give both from and to, or neither"),
        (
            ("2026-01-01", "2026-03-16"),
            "to: 2026-03-16T00:00:00.000000Z is in the future: a backfill imports events of",
        ),
        (("2026-04-01", "2026-05-01"), "from: 2026-04-01T00:00:00.000000Z is in the future"),
        (("-3x", "now"), "from: '-3x' is not an age: write such as -15m, -6h, -7d or -2w"),
        (("2026-01-01", "soon"), "to: 'soon' is not"),
        (("2026-01-01", "now", "--hour", "3"), "No such option: --hour"),
        (("-30d", "now", "--hour", "3"), "--hour"),
    ],
)
def test_wrong_edges_of_a_backfill_are_wrong_usage(
    functions: FakeFunctions, words: tuple[str, ...], reason: str
) -> None:
    result = run("backfill", "s", *words)
    assert (result.exit_code, result.output.count(reason), functions.payloads) == (64, 1, []), result.output


@pytest.mark.parametrize(
    ("at", "sent"),
    [("2026-12-01", "2026-12-01T00:00:00.000000Z"), ("-1h", "2026-03-15T11:20:00.000000Z")],
)
def test_plan_takes_each_form_of_a_time(functions: FakeFunctions, at: str, sent: str) -> None:
    assert run("plan", "--at", at).exit_code in (0, 2)
    assert functions.payloads[-1] == {"dry_run": True, "at": sent}


def test_plan_refuses_what_is_no_time(functions: FakeFunctions) -> None:
    result = run("plan", "--at", "soon")
    assert (result.exit_code, "--at: 'soon' is not" in result.output, functions.payloads) == (64, True, [])


def test_open_backfills_are_listed_and_shown_in_plan_and_status(stage: Stage) -> None:
    assert "s has no open backfill; to open one: backfill s FROM TO" in run("backfill", "s").output
    start = (stage.clock.now() - timedelta(hours=3)).replace(minute=0, second=0, microsecond=0)
    until = stage.clock.now() + timedelta(hours=5)
    request = Backfill("s", start, start + timedelta(hours=1), Opening(until, None, None))
    stage.catalog.put_backfill(request)
    listed = run("backfill", "s").output
    assert f"s: {to_text(start)} to {to_text(request.end)} is open until {to_text(until)}" in listed
    assert json.loads(run("backfill", "s", "--json").output) == [request.document()]
    assert f"open for a backfill: s from {to_text(start)}" in run("plan").output
    stage.run_lifecycle()
    (row,) = [row for row in json.loads(run("status", "--json").output) if row["backfill_until"]]
    assert (row["period"], row["state"]) == (to_text(start)[:13], "open")
    assert row["backfill_until"] == to_text(until)


def test_a_backfill_that_has_closed_is_not_listed(stage: Stage) -> None:
    start = (stage.clock.now() - timedelta(hours=3)).replace(minute=0, second=0, microsecond=0)
    closed = Backfill("s", start, start + timedelta(hours=1), Opening(stage.clock.now(), None, None))
    stage.catalog.put_backfill(closed)
    assert "s has no open backfill" in run("backfill", "s").output
    assert json.loads(run("backfill", "s", "--json").output) == []


ON_DEMAND = """
[streams.d]
period = "day"
late = "1h"
retention = 3
cold = ["raw"]
[streams.d.key]
partition_by = "series"
[[streams.d.index]]
name = "by_kind"
partition_by = "kind"
"""


@pytest.fixture
def on_demand(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> FakeMetrics:
    Path("tidetable.toml").write_text(ON_DEMAND)
    stage.config = parse(ON_DEMAND)
    for _ in range(2):
        stage.run_lifecycle()
        stage.clock.sleep(60)
    table = f"tidetable-lapse.d.{stage.clock.now():%Y-%m-%d}"
    metrics = FakeMetrics(
        {
            (table, "", "write"): 4_000_000.0,
            (table, "", "read"): 8_000_000.0,
            (table, "by_kind", "write"): 2_000_000.0,
            (f"{table}.parts", "", "write"): 1_000_000.0,
        }
    )
    account = Account(stage.pipeline, OUTPUTS, metrics=metrics)
    monkeypatch.setattr(common, "connect", lambda *_, **__: account)
    return metrics


def test_on_demand_tables_are_priced_by_what_they_and_their_indexes_took(on_demand: FakeMetrics) -> None:
    listed = json.loads(run("status", "--json", "--stream", "d").output)
    row = next(row for row in listed if row["taken_write"])
    assert (row["taken_write"], row["taken_read"]) == (7_000_000.0, 8_000_000.0)
    # Seven million write units at $0.625 a million, eight million read units at $0.125.
    assert row["dollars"] == pytest.approx(7 * 0.625 + 8 * 0.125)
    assert "priced by their units of the last 30 days" in run("status").output


def test_what_tables_took_need_not_be_asked_for(on_demand: FakeMetrics) -> None:
    result = run("status", "--no-metrics")
    assert "on-demand tables are priced by their storage alone" in result.output
    assert on_demand.requests == []
    on_demand.fails = True
    result = run("status")
    assert result.exit_code == 0
    assert "allow cloudwatch:GetMetricData, or add --no-metrics" in result.output


def test_a_removed_stream_is_shown_and_priced_until_its_tables_are_gone(on_demand: FakeMetrics, stage: Stage) -> None:
    listed = json.loads(run("status", "--json").output)
    mine = [row for row in listed if row["stream"] == "s"]
    assert mine
    assert all(row["removed_since"] for row in mine)
    assert sum(row["dollars"] for row in mine) > 0
    assert re.search(
        r"s is since \S+ no longer in tidetable.toml: its \d+ tables are handled by its last policy",
        run("status").output,
    )


def test_status_shows_one_stream_and_names_one_that_left_the_file_alone(stage: Stage) -> None:
    """No run of the lifecycle has noticed yet that the stream is no longer in the file."""
    Path("tidetable.toml").write_text(ON_DEMAND)
    shown = run("status", "--no-metrics").output
    assert re.search(r"s is deployed, but not in tidetable.toml: its \d+ tables are handled by its last policy", shown)
    rows = json.loads(run("status", "--no-metrics", "--json", "--stream", "d").output)
    assert [row for row in rows if row["stream"] != "d"] == []


def test_status_draws_each_streams_line_of_time(stage: Stage) -> None:
    stage.run_lifecycle()
    stage.settle()
    line = next(line for line in run("status", "--all").output.splitlines() if line.strip().startswith("s 2"))
    assert re.fullmatch(r" +s \S+ -+=*#+\.\.? \S+", line.rstrip()), line


def test_a_run_says_from_when_a_change_of_the_layout_holds(stage: Stage) -> None:
    stage.config = parse(CONFIG.replace("[streams.s.key]", "[streams.s.key]\nshards = 7"))
    result = run("plan")
    assert re.search(r"not in force yet: s: shards 1 -> 7 from \S+ on", result.output), result.output


def test_restore_goes_on_until_the_period_is_a_table_again(stage: Stage) -> None:
    label = "2026-03-15T05"
    states = {row["period"]: row["state"] for row in json.loads(run("status", "--json", "--all").output)}
    assert states[label] == "deleted"
    result = run("restore", "s", label, "--keep", "3", "--yes")
    assert result.exit_code == 0, result.output
    assert f"s {label}: restored" in result.output
    assert f"tidetable-lapse.s.{label}" in stage.dynamo.account.tables


def test_a_function_that_fails_is_an_error_and_no_traceback(functions: FakeFunctions) -> None:
    functions.fails = True
    for command in (["plan"], ["apply", "--yes"], ["archive", "s", "2026-03-15T09"]):
        result = run(*command)
        assert result.exit_code == 1
        assert "out of memory" in result.output
        assert isinstance(result.exception, SystemExit)


def test_an_unknown_stream_and_a_bad_configuration_say_what_to_do(stage: Stage) -> None:
    assert "there are: s" in run("status", "--stream", "nothing").output
    Path("tidetable.toml").write_text("[streams.s]\nperiod = 1")
    result = run("cost", "--days", "1")
    assert result.exit_code == 1
    assert "streams.s" in result.output


def test_a_stage_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(*_: Any, **__: Any) -> Account:
        raise AccountError("stage 'dev' could not be reached")

    monkeypatch.setattr(common, "connect", nowhere)
    result = run("plan")
    assert (result.exit_code, "could not be reached" in result.output) == (1, True)


def test_cost_follows_the_ladder_from_an_empty_start(tmp_path: Path) -> None:
    arguments = ("cost", str(ROOT / "tidetable.toml"), "--days", "30", "--svg", str(tmp_path))
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "quakes.svg").read_text().startswith("<svg")
    life = json.loads(run(*arguments, "--json").output)["days"]["quakes"]
    assert len(life) == 31
    # With `late` = 7 days eight tables are open and two stand by; closed tables are deleted after fourteen days.
    assert [life[0][name] for name in ("ahead", "open", "closed")] == [2, 8, 0]
    assert [life[30][name] for name in ("ahead", "open", "closed")] == [2, 8, 7]
    assert life[30]["infrequent"] == 7


def test_cost_prices_a_workload_and_refuses_what_is_none(tmp_path: Path) -> None:
    priced = json.loads(run("cost", str(ROOT / "bench" / "workload"), "--json").output)
    assert set(priced) > {"rolling tables with the ladder", "one provisioned table", "one on-demand table"}
    refused = run("cost", str(tmp_path))
    assert refused.exit_code == 1
    assert "workload.toml" in refused.output or "tidetable.toml" in refused.output


COMMANDS = {
    "advise",
    "status",
    "check",
    "plan",
    "apply",
    "archive",
    "restore",
    "backfill",
    "replay",
    "sweep",
    "cost",
    "rollup",
    "console",
    "doctor",
    "import",
    "query",
    "tail",
}


def test_every_command_is_listed_with_what_it_does_and_explains_itself() -> None:
    assert {
        command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands
    } == COMMANDS
    overview = " ".join(run("--help").output.split())
    for command in app.registered_commands:
        name = str(command.name or getattr(command.callback, "__name__", ""))
        first = " ".join((getattr(command.callback, "__doc__", "") or "").split())[:25]
        assert len(first) == 25, f"{name} says what it does"
        shown = run(name, "--help")
        assert shown.exit_code == 0
        assert first in " ".join(shown.output.split())
        assert name in overview
