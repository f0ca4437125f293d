"""``tidetable rollup``: what it asks of the refresher and of the lifecycle, and what it prints."""

import json
from typing import Any

import pytest

from cli import common
from cli import rebuilding as command
from cli.account import Account
from cli.workload import choose_stream
from tests.worlds.commands import OUTPUTS, run
from tidetable.catalog import RecordedPolicy
from tidetable.config import parse

HOURS = {
    "rollup": "hours",
    "stream": "quakes-hours",
    "every": "1h",
    "by": ["series"],
    "fields": ["mag"],
    "stats": ["count"],
    "start": "2026-03-01T00:00:00.000000Z",
    "sealed": "2026-03-02T03:00:00.000000Z",
    "lag_seconds": 30,
    "marks": 12,
    "overfull": ["2026-03-01T05:00:00.000000Z"],
    "overfull_count": 1,
    "versions": [],
}
DAYS = HOURS | {"rollup": "days", "stream": "quakes-days", "start": None, "sealed": None, "overfull": []}
STATUS = {"stream": "quakes", "paused": False, "rollups": [HOURS, DAYS]}
FIRST, LAST = "2026-01-01T00:00:00.000000Z", "2026-02-01T00:00:00.000000Z"
SPAN = ("--rebuild", "--from", "2026-01-01", "--to", "2026-02-01")
WANTED = {"stream": "quakes", "rollup": "hours", "from": FIRST, "to": LAST}
PLAN = {"buckets": 744, "marked": 3, "problem": None, "rebuild": None}
PLANNED = ("refresher", {"rebuild": WANTED, "dry_run": True})


class Functions:
    """The stage's functions, which answer what is written down."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.answers: list[Any] = []

    def invoke(self, FunctionName: str, Payload: bytes) -> Any:  # noqa: N803 - boto3's names
        self.asked.append((FunctionName, json.loads(Payload)))
        answer = json.dumps(self.answers.pop(0)).encode()

        class Body:
            def read(self) -> bytes:
                return answer

        return {"Payload": Body()}


@pytest.fixture
def scripted(stage: Any, monkeypatch: pytest.MonkeyPatch) -> Functions:
    functions = Functions()
    stage.catalog.put_policy(RecordedPolicy("quakes", ""))
    account = Account(stage.pipeline, OUTPUTS | {"RefresherFunction": "refresher"}, functions)
    monkeypatch.setattr(common, "connect", lambda *_, **__: account)
    monkeypatch.setattr(command, "sleep", lambda _: None)
    return functions


def look(left: int | None, problem: str | None = None, **more: int) -> dict[str, Any]:
    """A status while the hours are rebuilt, with so many buckets left; None if the rebuild is done."""
    progress = {"from": FIRST, "to": LAST, "buckets": 747, "left": left, "pieces": 4, "running": 0, "oldest": 0}
    rebuild = None if left is None else progress | {"problem": problem} | more
    return STATUS | {"rollups": [HOURS | {"rebuild": rebuild}, DAYS | {"rebuild": None}]}


def test_it_shows_how_far_each_rollup_is_sealed(scripted: Functions) -> None:
    scripted.answers = [STATUS]
    shown = run("rollup", "quakes")
    assert scripted.asked == [("refresher", {"status": "quakes"})]
    for part in ("quakes-hours", "2026-03-01T00:00Z", "2026-03-02T03:00Z", "30 s", "not begun"):
        assert part in shown.output
    assert "quakes-hours has too many groups and is read from events in: 2026-03-01T05:00Z" in shown.output


@pytest.mark.parametrize(("option", "rest"), [("--pause", True), ("--resume", False)])
def test_it_lets_rollups_rest_and_go_on_and_shows_which_it_is(scripted: Functions, option: str, rest: bool) -> None:
    scripted.answers = [{"stream": "quakes", "paused": rest}, STATUS | {"paused": rest}]
    shown = run("rollup", "quakes", option)
    assert scripted.asked == [("refresher", {option[2:]: "quakes"}), ("refresher", {"status": "quakes"})]
    assert ("which rest: --resume lets them go on" in " ".join(shown.output.split())) is rest


def test_the_rollups_of_all_streams_rest_and_go_on_without_a_stream_to_show(scripted: Functions) -> None:
    scripted.answers = [{"stream": "*", "paused": True}]
    shown = run("rollup", "*", "--pause")
    assert (shown.exit_code, scripted.asked) == (0, [("refresher", {"pause": "*"})])
    assert shown.output.strip() == "the rollups of all streams rest"
    unknown = run("rollup", "*")
    assert (unknown.exit_code, len(scripted.asked)) == (64, 1)


@pytest.mark.parametrize("options", [(*SPAN, "--pause"), (*SPAN, "--cancel"), ("--cancel", "--resume")])
def test_it_rebuilds_or_cancels_or_rests(scripted: Functions, options: tuple[str, ...]) -> None:
    shown = run("rollup", "quakes", *options)
    assert (shown.exit_code, scripted.asked) == (64, [])
    assert "--rebuild, --cancel and --pause or --resume exclude each other" in shown.output


def test_it_shows_one_rollup_as_json(scripted: Functions) -> None:
    scripted.answers = [STATUS]
    assert json.loads(run("rollup", "quakes", "--name", "hours", "--json").output) == [HOURS]


BEGUN = ({"healthy": True}, PLAN)


def test_a_rebuild_asks_opens_tables_orders_and_shows_progress_until_it_is_done(
    scripted: Functions, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(command, "sleep", pauses.append)
    scripted.answers = [STATUS, PLAN, *BEGUN, look(500), look(3, oldest=40), look(None)]
    shown = run("rollup", "quakes", "--name", "hours", *SPAN, input="y\n")
    opened = {"stream": "quakes-hours", "from": FIRST, "to": LAST, "hours": 24, "rebuild": True}
    status = ("refresher", {"status": "quakes"})
    begun = [("lifecycle", {"backfill": opened}), ("refresher", {"rebuild": WANTED})]
    assert scripted.asked == [status, PLANNED, *begun, status, status, status]
    assert "quakes-hours: 744 buckets to compute, 3 to compute anew" in shown.output
    assert "quakes-hours: all buckets are computed" in shown.output
    assert (shown.exit_code, pauses) == (0, [5.0, 5.0])


def test_a_rebuild_that_is_not_wanted_changes_nothing(scripted: Functions) -> None:
    scripted.answers = [STATUS, PLAN]
    shown = run("rollup", "quakes", "--name", "hours", *SPAN, input="n\n")
    assert (shown.exit_code, scripted.asked[1:]) == (1, [PLANNED])


def test_a_rebuild_that_is_under_way_is_joined_without_a_question(scripted: Functions) -> None:
    rebuild = look(500)["rollups"][0]["rebuild"]
    scripted.answers = [STATUS, PLAN | {"rebuild": rebuild}, look(7), look(None)]
    shown = run("rollup", "quakes", "--name", "hours", *SPAN)
    assert [task for task, _ in scripted.asked] == ["refresher"] * 4
    said = f"quakes-hours: the rebuild from {FIRST} to {LAST} is under way: 500 of 747 buckets are left"
    assert (shown.exit_code, said in shown.output) == (0, True)


def test_a_rebuild_need_not_be_waited_for(scripted: Functions) -> None:
    scripted.answers = [STATUS | {"paused": True}, PLAN, *BEGUN]
    shown = run("rollup", "quakes", "--name", "hours", *SPAN, "--yes", "--no-wait")
    assert (shown.exit_code, scripted.answers) == (0, [])
    assert "The rebuild goes on without this command" in shown.output
    assert "the rollups of quakes rest, and so do rebuilds: --resume lets them go on" in shown.output


def test_an_interrupted_command_leaves_the_rebuild_going_on(
    scripted: Functions, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "sleep", interrupt)
    scripted.answers = [STATUS, PLAN, *BEGUN, look(500)]
    shown = run("rollup", "quakes", "--name", "hours", *SPAN, "--yes")
    assert (shown.exit_code, "The rebuild goes on without this command" in shown.output) == (1, True)


def test_a_rebuild_is_cancelled(scripted: Functions) -> None:
    scripted.answers = [STATUS, {"rebuild": look(500)["rollups"][0]["rebuild"]}, {"rebuild": None}]
    shown = run("rollup", "quakes", "--cancel")
    named = {"stream": "quakes", "rollup": "hours"}
    assert scripted.asked[1:] == [("refresher", {"cancel": one}) for one in (named, named | {"rollup": "days"})]
    assert "quakes-hours: its rebuild ends; 500 buckets are left" in shown.output
    assert "quakes-days: no rebuild is under way" in shown.output
    scripted.answers = [STATUS, {"rebuild": None}]
    shown = run("rollup", "quakes", "--cancel", "--name", "hours", "--json")
    assert json.loads(shown.stdout) == [{"rollup": "quakes-hours", "rebuild": None}]


@pytest.mark.parametrize(
    ("start", "end", "sent"),
    [
        # The clock of the commands says 12:20:37.
        ("2026-01-01", "now", (FIRST, "2026-03-15T12:20:00.000000Z")),
        ("-2h", "now", ("2026-03-15T10:20:00.000000Z", "2026-03-15T12:20:00.000000Z")),
        ("yesterday", "today", ("2026-03-14T00:00:00.000000Z", "2026-03-15T00:00:00.000000Z")),
        ("2026-01-01T01:00+01:00", "2026-02-01", (FIRST, LAST)),
    ],
)
def test_a_range_may_end_now(scripted: Functions, stage: Any, start: str, end: str, sent: tuple[str, str]) -> None:
    stage.clock.sleep(37)
    scripted.answers = [STATUS, PLAN, *BEGUN, look(None)]
    shown = run("rollup", "quakes", "--name", "hours", "--yes", "--rebuild", f"--from={start}", f"--to={end}")
    assert shown.exit_code == 0, shown.output
    span = dict(zip(("from", "to"), sent, strict=True))
    assert scripted.asked[2][1]["backfill"].items() >= span.items()
    assert scripted.asked[3][1]["rebuild"].items() >= span.items()


@pytest.mark.parametrize(
    ("start", "end", "said"),
    [
        (
            "2026-01-01",
            "2026-03-16",
            "--to: 2026-03-16T00:00:00.000000Z is in the future: a rebuild computes past buckets",
        ),
        ("2026-04-01", "2026-05-01", "--from: 2026-04-01T00:00:00.000000Z is in the future"),
        ("soon", "now", "--from: 'soon' is not"),
        ("2026-01-01", "2026-13-01", "--to: "),
        ("-3x", "now", "--from: '-3x' is not an age"),
    ],
)
@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_an_edge_that_is_no_past_time_is_refused_with_the_reason(
    scripted: Functions, start: str, end: str, said: str, more: tuple[str, ...]
) -> None:
    shown = run("rollup", "quakes", "--rebuild", f"--from={start}", f"--to={end}", *more)
    assert (shown.exit_code, said in shown.output, scripted.asked) == (64, True, []), shown.output


def test_a_rebuild_that_cannot_go_on_says_why_and_ends_with_1(
    scripted: Functions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers try again once a minute: the command waits for three minutes without a change."""
    pauses: list[float] = []
    monkeypatch.setattr(command, "sleep", pauses.append)
    gone = "quakes 2026-01-05 is gone"
    looks = [look(500, gone), look(400), *(look(400, gone, running=n % 2) for n in range(37)), look(None)]
    scripted.answers = [STATUS, PLAN, *BEGUN, *looks]
    shown = run("rollup", "quakes", "--name", "hours", *SPAN, "--yes")
    assert (shown.exit_code, f"quakes-hours: {gone}" in shown.output) == (1, True)
    assert (sum(pauses), len(scripted.answers)) == (185, 2)


def test_a_rebuild_that_cannot_run_yet_opens_no_table(scripted: Functions) -> None:
    problem = "the rollup begins at 2026-03-15T13:00:00Z: rebuild it after 2026-03-15T13:02:00Z"
    scripted.answers = [STATUS, PLAN | {"problem": problem}]
    shown = run("rollup", "quakes", "--name", "hours", *SPAN)
    assert (shown.exit_code, f"quakes-hours: {problem}" in shown.output) == (1, True)
    assert scripted.asked[1:] == [PLANNED]


def test_a_plan_has_its_price(scripted: Functions, stage: Any) -> None:
    """The fake table of the last day has no events; the refresher says the units of a bucket."""
    estimate = {"from": FIRST, "to": LAST, "cell_units": 2, "finer": None, "read_units": 4.0}
    scripted.answers = [
        STATUS,
        PLAN | {"estimate": estimate},
        PLAN | {"estimate": estimate | {"finer": "quakes-hours"}},
    ]
    shown = run("rollup", "quakes", *SPAN, "--dry-run")
    assert (
        "  reads about 0 events (tables 0.0 MB, archives 0.0 MB); 3,735 read units, 1,500 write units, 75 s of"
        in shown.output
    )
    assert "  reads the cells of quakes-hours (" in shown.output
    assert "  estimated: tables have the size of up to six hours ago" in shown.output
    scripted.answers = [STATUS, PLAN | {"estimate": estimate}]
    (answer,) = json.loads(run("rollup", "quakes", "--name", "hours", *SPAN, "--dry-run", "--json").stdout)
    assert answer["price"].items() >= {"read_units": 3_735, "write_units": 1_500, "finer": None}.items()
    assert answer["price"]["dollars"] == pytest.approx(0.0004669 + 0.0009375 + 0.0017187, rel=1e-3)


def test_a_dry_run_computes_nothing(scripted: Functions) -> None:
    scripted.answers = [STATUS, PLAN]
    shown = run("rollup", "quakes", "--name", "hours", *SPAN, "--dry-run")
    assert scripted.asked[1:] == [PLANNED]
    assert "quakes-hours: 744 buckets to compute, 3 to compute anew" in shown.output


@pytest.mark.parametrize("options", [("--rebuild",), ("--from", "2026-01-01"), SPAN[1:], SPAN[:3]])
def test_a_rebuild_needs_its_range_and_a_range_a_rebuild(scripted: Functions, options: tuple[str, ...]) -> None:
    shown = run("rollup", "quakes", *options)
    assert (shown.exit_code, scripted.asked) == (64, [])
    assert "a rebuild needs all of --rebuild, --from and --to" in shown.output


def test_an_unknown_rollup_is_named_with_those_that_there_are(scripted: Functions) -> None:
    scripted.answers = [STATUS]
    shown = run("rollup", "quakes", "--name", "weeks")
    assert (shown.exit_code, "quakes has no rollup 'weeks'; it has hours, days" in shown.output) == (64, True)


def test_a_stage_without_rollups_says_what_to_do(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    account = Account(stage.pipeline, OUTPUTS, Functions())
    monkeypatch.setattr(common, "connect", lambda *_, **__: account)
    shown = run("rollup", "s")
    assert "no stream of this stage has rollups: add [[streams.NAME.rollup]] and deploy" in shown.output


def test_a_workload_is_of_a_stream_that_takes_events() -> None:
    text = '[streams.s]\nperiod = "day"\nlate = "1d"\nretention = 5\nkey = { partition_by = "time", bucket = "6h" }\n'
    config = parse(text + '[[streams.s.rollup]]\nname = "h"\nevery = "1h"\nretention = "30d"\n')
    assert choose_stream(config, None).name == "s"
    with pytest.raises(ValueError, match="there is no stream 's-h'; there are: s"):
        choose_stream(config, "s-h")


def test_all_rollups_are_rebuilt_and_one_that_cannot_go_on_is_a_failure(scripted: Functions) -> None:
    gone = "it is gone"
    scripted.answers = [STATUS, PLAN, PLAN | {"problem": gone}, *BEGUN, look(4), look(None)]
    result = run("rollup", "quakes", *SPAN, "--json")
    answers = [{"rollup": "quakes-hours", **PLAN}, {"rollup": "quakes-days", **PLAN, "problem": gone}]
    assert (result.exit_code, json.loads(result.stdout)) == (1, answers)
    # Nothing is to be computed.
    nothing = PLAN | {"buckets": 0, "marked": 0}
    scripted.answers = [STATUS, nothing, nothing]
    assert run("rollup", "quakes", *SPAN).exit_code == 0


def test_a_dry_run_as_json_has_the_plan_and_a_problem_is_a_failure(scripted: Functions) -> None:
    plan = PLAN | {"problem": "the archive is gone"}
    scripted.answers = [STATUS, plan]
    words = "rollup", "quakes", "--name", "days", *SPAN, "--dry-run"
    shown = run(*words)
    assert (shown.exit_code, shown.stdout) == (1, "quakes-days: the archive is gone\n")
    scripted.answers = [STATUS, plan]
    result = run(*words, "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (1, [{"rollup": "quakes-days", **plan}])
