"""Dead letters that are sent again: each change as it was written, also if looking at the letters took long."""

import json
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from cli.letters import find_lost_changes, find_lost_events
from tests.fakes.letters import Queues, message
from tests.worlds.commands import run

# JSON may have these characters as they are, and str.splitlines() takes each for the end of a line.
SEPARATORS = "\u2028", "\u2029", "\u0085"


class Slow(Queues):
    """A queue that shows its first message again before anybody released it, as SQS does after the visibility time-out."""

    def change_message_visibility(self, ReceiptHandle: str, **_: Any) -> None:  # noqa: N803 - boto3's names
        if ReceiptHandle == "0":
            reason = "Message does not exist or is not available for visibility timeout change."
            raise ClientError(
                {"Error": {"Code": "InvalidParameterValue", "Message": reason}}, "ChangeMessageVisibility"
            )
        super().change_message_visibility(ReceiptHandle)


@pytest.mark.parametrize("separator", SEPARATORS)
def test_a_change_with_a_separator_of_lines_in_its_data_is_sent_again_whole(separator: str) -> None:
    changes = [json.dumps({"data": {"text": f"one{separator}two"}}, ensure_ascii=False), '{"data": {}}']
    queues = Queues(("\n".join(changes), "the target is gone"))
    sent: list[list[str]] = []
    letters = find_lost_changes(queues, "dead", lambda _stream, _target, some: sent.append(some), ())
    assert letters.summarize().counts.total() == 2
    assert letters.resend(1).count == 2
    assert sent == [changes]


def test_letters_that_are_shown_again_by_themselves_are_counted_all_the_same() -> None:
    queues = Slow((message(3), "archived"), (message(2), "archived"))
    assert find_lost_events(queues, "dead", "overflow").summarize().counts == {("s", "archived"): 5}
    assert queues.hidden == {"0"}, "the other one is shown again at once"


def test_a_target_that_refuses_for_longer_than_letters_are_hidden_does_not_end_the_command() -> None:
    queues = Slow(('{"data": {}}', "gone"), ('{"data": {}}', "gone"))

    def refuse(*_: Any) -> None:
        raise TimeoutError("no answer")

    result = find_lost_changes(queues, "dead", refuse, (TimeoutError,)).resend(2)
    assert (result.count, result.failures) == (0, ["no answer", "no answer"])
    assert len(queues.messages["dead"]) == 2


def test_an_event_that_comes_after_the_question_is_not_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command sends back as many letters as it has counted."""
    queues: Any = Queues((message(3), "archived"), (message(2), "archived"))
    release = queues.change_message_visibility

    def release_and_receive(ReceiptHandle: str, **options: Any) -> None:  # noqa: N803 - boto3's names
        release(ReceiptHandle, **options)
        queues.messages["dead"]["9"] = {"MessageId": "9", "Body": message(1)}

    monkeypatch.setattr(queues, "change_message_visibility", release_and_receive)
    account: Any = SimpleNamespace(
        queues=queues, outputs={"DeadLetterQueueUrl": "dead", "OverflowQueueUrl": "overflow"}
    )
    monkeypatch.setattr(import_module("cli.replay"), "find_account", lambda *_: account)
    result = run("replay", "--yes")
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "5 events are sent to the overflow again")
    assert (list(queues.messages["dead"]), len(queues.messages["overflow"])) == (["9"], 2)


def test_dead_letters_of_workers_go_back_to_the_queue_of_their_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    bodies = [
        '{"kind":"seal","name":"quakes"}',
        '{"kind":"sweep","name":"objects"}',
        "no message",
        '{"kind":"x","name":"y"}',
    ]
    queues: Any = Queues(*((body, None) for body in bodies))
    queues.messages |= {"light": {}, "files": {}}
    outputs = {"WorkDeadLetterQueueUrl": "dead", "LightQueueUrl": "light", "FilesQueueUrl": "files"}
    account: Any = SimpleNamespace(queues=queues, outputs=outputs)
    monkeypatch.setattr(import_module("cli.replay"), "find_account", lambda *_: account)
    shown = run("replay", "--work", "--dry-run").stdout.splitlines()
    assert [" ".join(line.split()) for line in shown] == [
        "1 of ?: no message",
        "1 of seal: quakes",
        "1 of sweep: objects",
        "1 of x: y",
        "4 dead messages",
    ]
    result = run("replay", "--work", "--yes")
    assert (result.exit_code, result.stdout.splitlines()[-3:]) == (
        1,
        [
            "2 messages are sent to workers again",
            "not taken: no message: no worker takes this message",
            "not taken: y: no worker takes this message",
        ],
    )
    assert [[one["Body"] for one in queues.messages[name].values()] for name in ("light", "files")] == [
        bodies[:1],
        bodies[1:2],
    ]
    assert list(queues.messages["dead"]) == ["2", "3"]
    # A stage without rollups has no queue for them.
    del outputs["LightQueueUrl"]
    queues.messages["dead"] = {"7": {"MessageId": "7", "Body": bodies[0]}}
    assert "quakes: no worker takes this message" in run("replay", "--work", "--yes").stdout
    refused = run("replay", "--work", "--feed")
    assert (refused.exit_code, "choose --feed or --work" in refused.output) == (64, True)
