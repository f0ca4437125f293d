"""The commands that change a stage: their calls of its functions, their output and their exit codes."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aws.dynamodb.work import LeanWork
from cli import act, archives, common
from cli.account import Account
from cli.common import find_account
from cli.options import Target
from tests.fakes.letters import Queues, message
from tests.fakes.stage import Stage
from tests.worlds.commands import OUTPUTS, run
from tidetable.errors import Outage, StoreUnavailable
from tidetable.events import Event
from tidetable.ingest.overflow import encode_message
from tidetable.large.sweep_work import SWEEP
from tidetable.times import EPOCH
from tidetable.work.claim import WorkItem

NOTHING: dict[str, Any] = {"healthy": True, "skipped": None, "tables": 7, "actions": []}
MAPPED = {
    "action": "map",
    "table": "tidetable-t.s.2026-03-15T12",
    "reason": "its stream has a feed",
    "outcome": "planned",
    "detail": "",
}
CREATED = {"action": "create", "stream": "s", "period": "p1", "outcome": "done", "reason": "due", "detail": ""}
SWEPT = {"seen": 1500, "orphans": 4, "expired": 3, "unknown": 0, "failures": [], "finished": True}


class Scripted:
    """A stage whose functions have scripted answers; ``calls`` has each function's name and payload."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.answers: list[dict[str, Any]] = []
        self.failing: set[int] = set()
        self.queues = Queues()

    def invoke(self, FunctionName: str, Payload: bytes) -> Any:  # noqa: N803 - boto3's names
        self.calls.append((FunctionName, json.loads(Payload)))
        answer = json.dumps(self.answers.pop(0)).encode()

        class Body:
            def read(self) -> bytes:
                return answer

        failed = {"FunctionError": "Unhandled"} if len(self.calls) - 1 in self.failing else {}
        return {"Payload": Body(), **failed}


@pytest.fixture
def scripted(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    functions = Scripted()
    account = Account(
        stage.pipeline,
        OUTPUTS
        | {"OverflowQueueUrl": "overflow", "DeadLetterQueueUrl": "dead", "SweeperFunction": "sweeper"}
        | {"FeedFunction": "feed", "FeedDeadLetterQueueUrl": "changes"},
        functions=functions,
        queues=functions.queues,
    )
    monkeypatch.setattr(common, "connect", lambda *_, **__: account)
    yield functions
    assert functions.answers == [], "answers that nobody asked for"


def test_plan_asks_for_now_or_for_the_time_that_is_given(scripted: Scripted) -> None:
    scripted.answers = [NOTHING, NOTHING]
    assert run("plan").exit_code == 0
    assert run("plan", "--at", "2026-12-01T00:00:00Z").exit_code == 0
    assert scripted.calls == [
        ("lifecycle", {"dry_run": True}),
        ("lifecycle", {"dry_run": True, "at": "2026-12-01T00:00:00.000000Z"}),
    ]


@pytest.mark.parametrize(
    "more, code", [({}, 0), ({"troubles": []}, 0), ({"actions": [CREATED]}, 2), ({"troubles": ["a table is lost"]}, 2)]
)
def test_plan_ends_with_two_for_actions_and_for_troubles(scripted: Scripted, more: dict[str, Any], code: int) -> None:
    scripted.answers = [NOTHING | more, NOTHING | more]
    assert run("plan").exit_code == code
    result = run("plan", "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (code, NOTHING | more)


PENDING = [
    {"kind": "seal", "stream": "quakes", "outcome": "due", "reason": "2 buckets to seal"},
    {"kind": "sweep", "stream": None, "outcome": "due", "reason": "1 item"},
]
ROLLED = """
[streams.quakes]
period = "day"
late = "1h"
retention = 5
key = { partition_by = "series" }
[[streams.quakes.rollup]]
name = "hours"
every = "1h"
retention = "90d"
"""


@pytest.fixture
def rolled(scripted: Scripted, monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """A stage with a refresher."""
    account = find_account(Target())
    outputs = {**account.outputs, "RefresherFunction": "refresher"}
    monkeypatch.setattr(common, "connect", lambda *_, **__: replace(account, outputs=outputs))
    return scripted


def test_plan_shows_the_work_in_the_background_which_is_no_action_of_the_lifecycle(rolled: Scripted) -> None:
    answer = {"work": PENDING, "definitions": {}}
    rolled.answers = [NOTHING, answer, NOTHING, answer]
    shown = run("plan")
    assert shown.exit_code == 0
    assert rolled.calls[1:] == [("refresher", {"status": "*"})]
    lines = [line.split() for line in shown.output.splitlines() if "work:" in line]
    assert ["work:", "seal", "quakes", "due", "2", "buckets", "to", "seal"] in [
        [word for word in line if word not in "│|"] for line in lines
    ]
    assert json.loads(run("plan", "--json").stdout) == NOTHING | {"work": PENDING}


def test_plan_for_another_time_asks_only_the_lifecycle(rolled: Scripted) -> None:
    rolled.answers = [NOTHING]
    assert run("plan", "--at", "2026-12-01T00:00:00Z").exit_code == 0
    assert [name for name, _ in rolled.calls] == ["lifecycle"]


def test_plan_says_what_the_deploy_of_a_file_changes_in_rollups(rolled: Scripted, tmp_path: Path) -> None:
    file = tmp_path / "tidetable.toml"
    file.write_text(ROLLED)
    rolled.answers = [NOTHING, {"work": [], "definitions": {"quakes": {"days": "a definition"}}}]
    found = json.loads(run("plan", "--config", str(file), "--json").stdout)["work"]
    new = "hours is new, and begins after the deploy; bin/tidetable rollup quakes --name hours --rebuild computes past buckets"
    assert [(row["outcome"], row["reason"]) for row in found] == [
        ("at a deploy", "days leaves: its buckets are not sealed any more"),
        ("at a deploy", new),
    ]


def test_plan_says_so_of_a_stage_without_rollups(scripted: Scripted, tmp_path: Path) -> None:
    file = tmp_path / "tidetable.toml"
    file.write_text(ROLLED)
    scripted.answers = [NOTHING]
    (row,) = json.loads(run("plan", "--config", str(file), "--json").stdout)["work"]
    assert row["reason"].startswith("hours is new")


def test_plan_shows_the_sweep_of_a_stage_without_rollups(
    scripted: Scripted, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, now = stage.pipeline.work, stage.clock.now()
    work.mark_sent(WorkItem(*SWEEP), now, now)
    scripted.answers = [NOTHING, NOTHING]
    found = json.loads(run("plan", "--json").stdout)
    assert found == NOTHING | {"work": [{"kind": "sweep", "stream": None, "outcome": "due", "reason": "1 item"}]}

    def refuse(*_: object) -> None:
        raise StoreUnavailable(Outage.OTHER, "AccessDenied")

    monkeypatch.setattr(LeanWork, "list_items", refuse)
    shown = run("plan")
    assert shown.exit_code == 0
    assert "the work in the background is not known: other: AccessDenied" in shown.output


def test_plan_goes_on_if_the_refresher_does_not_answer(rolled: Scripted) -> None:
    """The function of an earlier version knows no outlook."""
    rolled.answers, rolled.failing = [NOTHING, {"errorMessage": "'*' is not a stream"}], {1}
    shown = run("plan")
    assert shown.exit_code == 0
    assert "the work in the background is not known: the refresher failed: '*' is not a stream" in shown.output


def test_plan_shows_what_a_feed_lacks_and_ends_with_two_only_if_the_next_run_mends_it(scripted: Scripted) -> None:
    waiting = MAPPED | {"action": "look", "reason": "", "outcome": "deferred", "detail": "it shows no new images"}
    scripted.answers = [NOTHING | {"feeds": [MAPPED]}, NOTHING | {"feeds": [waiting]}, NOTHING | {"feeds": [MAPPED]}]
    due, later = run("plan"), run("plan")
    assert (due.exit_code, later.exit_code) == (2, 0)
    for cell in ("feed: map", " s ", "2026-03-15T12", "planned", "its stream has a feed"):
        assert cell in due.output, due.output
    assert "it shows no new images" in later.output
    assert ": it shows" not in later.output
    assert json.loads(run("plan", "--json").stdout) == NOTHING | {"feeds": [MAPPED]}


def test_apply_runs_for_a_feed_alone(scripted: Scripted) -> None:
    pending = NOTHING | {"feeds": [MAPPED]}
    scripted.answers = [pending, pending]
    assert run("apply", input="y\n").exit_code == 0
    assert scripted.calls == [("lifecycle", {"dry_run": True}), ("lifecycle", {})]


def test_apply_does_nothing_and_asks_nothing_where_nothing_is_to_be_done(scripted: Scripted) -> None:
    scripted.answers = [NOTHING]
    result = run("apply")
    assert result.exit_code == 0, result.output
    assert scripted.calls == [("lifecycle", {"dry_run": True})]
    assert "nothing to do: 7 tables are as they should be" in result.output


def test_apply_ends_with_one_if_nothing_can_be_done_because_something_could_not_be_looked_at(
    scripted: Scripted,
) -> None:
    scripted.answers = [NOTHING | {"healthy": False, "troubles": ["the catalog could not be read for s: no answer"]}]
    result = run("apply")
    assert result.exit_code == 1, result.output
    assert "the catalog could not be read for s" in result.output
    assert scripted.calls == [("lifecycle", {"dry_run": True})]


def test_apply_shows_the_plan_and_runs_once_it_may(scripted: Scripted) -> None:
    pending = NOTHING | {"actions": [CREATED]}
    scripted.answers = [pending]
    assert run("apply", input="n\n").exit_code == 1
    assert scripted.calls == [("lifecycle", {"dry_run": True})]
    scripted.answers = [pending, pending]
    assert run("apply", input="y\n").exit_code == 0
    assert scripted.calls[1:] == [("lifecycle", {"dry_run": True}), ("lifecycle", {})]


def test_apply_with_yes_runs_at_once_and_an_unhealthy_run_is_a_failure(scripted: Scripted) -> None:
    scripted.answers = [NOTHING | {"healthy": False}, NOTHING]
    result = run("apply", "--yes", "--json")
    assert (result.exit_code, json.loads(result.stdout)["healthy"]) == (1, False)
    assert run("apply", "--yes").exit_code == 0
    assert scripted.calls == [("lifecycle", {}), ("lifecycle", {})]


def test_an_archive_that_takes_several_runs_waits_between_them_as_the_archiver_says(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(act, "sleep", slept.append)
    request = {"stream": "s", "period": "2026-03-15T09"}
    scripted.answers = [
        {**request, "state": "archiving", "events": 1, "wait": 12.5},
        {**request, "state": "archiving", "events": 2, "wait": 0.0},
        {**request, "state": "archived", "events": 3},
    ]
    result = run("archive", "s", "2026-03-15T09")
    assert (result.exit_code, slept) == (0, [12.5])
    assert result.stdout == "s 2026-03-15T09 is archived\n"
    assert scripted.calls == [("archiver", request)] * 3


def rewritten(state: str, done: int, wait: float = 0.0) -> dict[str, Any]:
    """An answer about an archive of three files and 1,500 million events."""
    period = {"stream": "s", "period": "2026-03-15T09"}
    return {**period, "state": state, "files": 3, "done": done, "events": 1_500_000_000, "size": 9, "wait": wait}


def test_an_archive_is_rewritten_run_by_run_after_its_price_was_confirmed(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(archives, "sleep", slept.append)
    steps = [("old", 0, 0.0), ("rewriting", 1, 0.0), ("switched", 3, 120.0), ("current", 2, 0.0)]
    scripted.answers = [rewritten(*step) for step in steps]
    result = run("archive", "s", "2026-03-15T09", "--rewrite", "--yes")
    assert (result.exit_code, slept) == (0, [120.0])
    # 1,500 million events, 20 µs each, 1.73 GB at $0.0000133334 per second.
    assert result.stdout == (
        "s 2026-03-15T09 is old: 0 of 3 files have today's format\n"
        "1,500,000,000 events are to be rewritten, for about $0.69\n"
        "s 2026-03-15T09 is rewritten\n"
    )
    request = {"stream": "s", "period": "2026-03-15T09", "rewrite": True}
    assert scripted.calls == [
        ("archiver", request | {"dry_run": True}),
        *[("archiver", request | {"dry_run": False})] * 3,
    ]


def test_a_rewriting_is_shown_refused_and_given_up(scripted: Scripted) -> None:
    command = ("archive", "s", "2026-03-15T09", "--rewrite")
    scripted.answers = [rewritten("old", 0)]
    shown = run(*command, "--dry-run", "--json")
    assert (shown.exit_code, json.loads(shown.stdout)) == (0, [rewritten("old", 0)])
    scripted.answers = [rewritten("current", 3)]
    assert "0 events are to be rewritten, for about $0.00" in run(*command).stdout
    scripted.answers = [rewritten("old", 0), rewritten("old", 0), rewritten("old", 0)]
    stuck = run(*command, "--yes")
    assert (stuck.exit_code, "does not go on" in stuck.stderr) == (1, True)
    scripted.answers = [{"state": "busy", "reason": "another run"}]
    busy = run(*command, "--yes")
    assert (busy.exit_code, "rewriting s 2026-03-15T09 has to wait: another run" in busy.stderr) == (1, True)


def test_the_json_of_an_archive_is_a_document_for_a_period_and_a_list_for_a_range(scripted: Scripted) -> None:
    done = {"stream": "s", "period": "2026-03-15T09", "state": "archived", "events": 3}
    scripted.answers = [done, done]
    result = run("archive", "s", "2026-03-15T09", "--json")
    assert (result.exit_code, json.loads(result.stdout)) == (0, done)
    several = run("archive", "s", "2026-03-15T09", "2026-03-15T09", "--json")
    assert json.loads(several.stdout) == [done]
    still_open = run("archive", "s", "2026-03-15T12", "--json")
    assert (still_open.exit_code, json.loads(still_open.stdout)) == (1, None)
    assert "s 2026-03-15T12 is open: it closes at" in still_open.stderr


def test_a_backfill_may_be_looked_at_first_and_an_unhealthy_run_is_a_failure(scripted: Scripted) -> None:
    scripted.answers = [NOTHING, NOTHING | {"healthy": False}]
    assert run("backfill", "s", "2026-01-01", "2026-02-01", "--dry-run").exit_code == 0
    result = run("backfill", "s", "--end", "--json")
    assert (result.exit_code, json.loads(result.stdout)["healthy"]) == (1, False)
    edges = {"from": "2026-01-01T00:00:00.000000Z", "to": "2026-02-01T00:00:00.000000Z"}
    span = {"stream": "s", **edges, "hours": 24, "write": None, "read": None}
    assert scripted.calls == [
        ("lifecycle", {"dry_run": True, "backfill": span}),
        ("lifecycle", {"dry_run": False, "end_backfill": "s"}),
    ]


DEAD = [
    {"stream": "s", "reason": "archived", "events": 5},
    {"stream": "z", "reason": "no such stream", "events": 1200},
]


@pytest.fixture
def letters(scripted: Scripted) -> Queues:
    """Three messages of dead events, of two streams."""
    many = encode_message("z", [Event("a", EPOCH, str(number), {}) for number in range(1200)])
    dead = (many, "no such stream"), (message(3), "archived"), (message(2), "archived")
    scripted.queues.messages = Queues(*dead).messages
    return scripted.queues


@pytest.mark.parametrize("words", [["--dry-run"], ["--dry-run", "--json"], ["--dry-run", "--yes", "--json"]])
def test_a_dry_replay_sends_nothing(letters: Queues, words: list[str]) -> None:
    before = {queue: dict(held) for queue, held in letters.messages.items()}
    result = run("replay", *words)
    assert result.exit_code == 0, result.output
    if "--json" in words:
        assert json.loads(result.stdout) == {"dead": DEAD, "replayed": 0}
    else:
        lines = ["       5 of s: archived", "   1,200 of z: no such stream", "1,205 dead events"]
        assert result.stdout.splitlines() == lines
    assert letters.messages == before
    assert letters.hidden == set()


def test_a_replay_sends_what_is_confirmed_and_nothing_else(letters: Queues) -> None:
    refused = run("replay", input="n\n")
    assert refused.exit_code == 1
    assert "Send 1,205 events back?" in refused.output
    assert (len(letters.messages["dead"]), letters.messages["overflow"]) == (3, {})
    done = run("replay", input="y\n")
    assert done.exit_code == 0
    assert "1,205 events are sent to the overflow again" in done.output
    assert (letters.messages["dead"], len(letters.messages["overflow"])) == ({}, 3)


@pytest.mark.parametrize("words", [["--yes"], ["--json"]])
def test_a_replay_for_programs_does_not_ask(letters: Queues, words: list[str]) -> None:
    result = run("replay", *words)
    assert result.exit_code == 0, result.output
    if "--json" in words:
        assert json.loads(result.stdout) == {"dead": DEAD, "replayed": 1205}
    else:
        assert result.stdout.splitlines()[-1] == "1,205 events are sent to the overflow again"
    assert (letters.messages["dead"], len(letters.messages["overflow"])) == ({}, 3)


def test_a_replay_of_nothing_does_not_ask(scripted: Scripted) -> None:
    result = run("replay")
    assert (result.exit_code, result.stdout) == (0, "0 dead events\n")


QUEUE = "arn:aws:sqs:eu-central-1:123456789012:orders"
CHANGES = [
    {"feed": "s", "target": "", "reason": "damaged", "changes": 1},
    {"feed": "s", "target": QUEUE, "reason": "gone", "changes": 3},
]


@pytest.fixture
def changes(scripted: Scripted) -> Queues:
    """Three letters of feeds: two for a target, one of a record that could not be read."""
    bodies = (
        ('{"id":"a","n":1.50}\n{"id":"b"}', "gone", QUEUE),
        ('{"table":"t"}', "damaged", ""),
        ('{"id":"c"}', "gone", QUEUE),
    )
    held = scripted.queues.messages.setdefault("changes", {})
    for index, (body, reason, target) in enumerate(bodies):
        texts = {"feed": "s", "target": target, "reason": reason}
        attributes = {name: {"StringValue": text} for name, text in texts.items() if text}
        held[str(index)] = {"MessageId": str(index), "Body": body, "MessageAttributes": attributes}
    return scripted.queues


@pytest.mark.parametrize("words", [["--dry-run"], ["--dry-run", "--json"]])
def test_a_dry_replay_of_feeds_sends_nothing(changes: Queues, words: list[str]) -> None:
    result = run("replay", "--feed", *words)
    assert result.exit_code == 0, result.output
    if "--json" in words:
        assert json.loads(result.stdout) == {"dead": CHANGES, "replayed": 0, "failures": []}
    else:
        lines = ["       1 of s to no target: damaged", f"       3 of s to {QUEUE}: gone", "4 dead changes"]
        assert result.stdout.splitlines() == lines
    assert (len(changes.messages["changes"]), changes.hidden) == (3, set())


def test_a_replay_of_feeds_deletes_what_its_target_took_and_nothing_else(changes: Queues, scripted: Scripted) -> None:
    refused = run("replay", "--feed", input="n\n")
    assert (refused.exit_code, len(changes.messages["changes"])) == (1, 3)
    failure = {"errorMessage": "stream s has no such target: the record could not be read"}
    scripted.answers = [{"delivered": 2}, failure, {"delivered": 1}]
    scripted.failing = {1}
    result = run("replay", "--feed", "--yes")
    assert result.exit_code == 1
    assert "3 changes were taken" in result.output
    assert "not taken: sending changes of s again failed: stream s has no such target" in result.output
    assert scripted.calls == [
        ("feed", {"feed": "s", "target": QUEUE, "changes": ['{"id":"a","n":1.50}', '{"id":"b"}']}),
        ("feed", {"feed": "s", "target": "", "changes": ['{"table":"t"}']}),
        ("feed", {"feed": "s", "target": QUEUE, "changes": ['{"id":"c"}']}),
    ]
    assert list(changes.messages["changes"]) == ["1"]
    assert changes.hidden - {"0", "2"} == set(), "what was not taken can be received again"


def test_a_replay_of_no_changes_does_not_ask(scripted: Scripted) -> None:
    scripted.queues.messages["changes"] = {}
    result = run("replay", "--feed")
    assert (result.exit_code, result.stdout) == (0, "0 dead changes\n")


def test_a_letter_that_comes_after_the_question_is_not_sent(
    changes: Queues, scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = changes.change_message_visibility
    late = {"MessageId": "9", "Body": '{"id":"z"}', "MessageAttributes": {}}

    def release_and_receive(ReceiptHandle: str, **options: Any) -> None:  # noqa: N803 - boto3's names
        release(ReceiptHandle, **options)
        changes.messages["changes"]["9"] = late

    monkeypatch.setattr(changes, "change_message_visibility", release_and_receive)
    scripted.answers = [{"delivered": 2}, {"delivered": 1}, {"delivered": 1}]
    result = run("replay", "--feed", "--yes")
    assert (result.exit_code, len(scripted.calls)) == (0, 3), result.output
    assert changes.messages["changes"] == {"9": late}


def test_a_sweep_says_what_went_and_a_dry_sweep_what_would(scripted: Scripted) -> None:
    scripted.answers = [SWEPT, SWEPT, SWEPT]
    assert run("sweep").stdout.splitlines() == ["1,500 objects seen; removed: 4 of no event, 3 of deleted periods"]
    dry = run("sweep", "--dry-run").stdout.splitlines()
    assert dry == ["1,500 objects seen; would be removed: 4 of no event, 3 of deleted periods"]
    assert json.loads(run("sweep", "--json").stdout) == SWEPT
    assert [payload for _, payload in scripted.calls] == [{"dry_run": False}, {"dry_run": True}, {"dry_run": False}]


def test_a_dry_sweep_goes_on_until_everything_is_counted(scripted: Scripted) -> None:
    parts = [SWEPT | {"finished": False, "position": number, "keys": [str(number)]} for number in (1, 2)]
    scripted.answers = [*parts, SWEPT | {"keys": ["3"]}] * 2
    said = run("sweep", "--dry-run").stdout.splitlines()
    assert said == ["4,500 objects seen; would be removed: 12 of no event, 9 of deleted periods"]
    shown = json.loads(run("sweep", "--dry-run", "--json").stdout)
    assert shown == SWEPT | {"seen": 4500, "orphans": 12, "expired": 9, "keys": ["1", "2", "3"]}
    payloads = [payload for _, payload in scripted.calls[:3]]
    assert payloads == [{"dry_run": True}, *({"dry_run": True, "position": number} for number in (1, 2))]


def test_a_sweep_says_what_stays_what_failed_and_that_there_is_more(scripted: Scripted) -> None:
    scripted.answers = [SWEPT | {"unknown": 1001, "failures": ["s 2026-03-15T09: throttled"], "finished": False}]
    assert run("sweep").stdout.splitlines()[1:] == [
        "1,001 belong to no period that the catalog knows, and are kept",
        "could not be checked: s 2026-03-15T09: throttled",
        "The time was up; run the command again to continue.",
    ]


def test_a_period_that_another_run_archives_has_to_wait(scripted: Scripted) -> None:
    reason = "period 2026-03-15T09 of s is being archived by another run"
    scripted.answers = [{"stream": "s", "period": "2026-03-15T09", "state": "busy", "reason": reason}]
    result = run("archive", "s", "2026-03-15T09")
    assert (result.exit_code, f"archiving s 2026-03-15T09 has to wait: {reason}" in result.stderr) == (1, True)


@pytest.mark.parametrize(("option", "task", "says"), [("--pause", "pause", "rests"), ("--resume", "resume", "goes on")])
@pytest.mark.parametrize(("stream", "named"), [("s", "s"), ("*", "all streams")])
def test_the_archiving_of_a_stream_rests_until_it_may_go_on(
    scripted: Scripted, stream: str, named: str, option: str, task: str, says: str
) -> None:
    scripted.answers = [{"stream": stream, "paused": task == "pause"}]
    shown = run("archive", stream, option)
    assert (shown.exit_code, scripted.calls) == (0, [("archiver", {task: stream})])
    assert f"the archiving of {named} {says}" in shown.output


def test_archive_without_a_period_shows_how_far_archives_are(scripted: Scripted, stage: Stage) -> None:
    assert "no period of s is being archived" in run("archive", "s").output
    for number in range(3):
        memo = f'{{"count":3,"readers":2,"columns":{{}},"events":{1000 * number}}}'
        stage.work.add("archive", f"s#2026-03-01#1773964800000#{number:05d}", memo)
    now = stage.clock.now()
    for number, done in enumerate((True, False)):
        claim = stage.work.claim("archive", f"s#2026-03-01#1773964800000#{number:05d}", "one", now, now, added=True)
        assert claim is not None
        stage.work.release(claim, claim.memo, done=done, problem="" if done else "no answer")
    shown = run("archive", "s")
    assert "s 2026-03-01: 1 of 3 segments are done, 0 running, 3,000 events are archived and verified" in shown.output
    assert "no answer" in shown.output
    assert json.loads(run("archive", "s", "--json").stdout) == [
        {
            "stream": "s",
            "period": "2026-03-01",
            "segments": 3,
            "done": 1,
            "running": 0,
            "events": 3000,
            "problem": "no answer",
        }
    ]
    assert scripted.calls == []
