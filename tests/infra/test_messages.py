"""The queues: who may send to each, and who may receive from it."""

from __future__ import annotations

import re

from tests.infra.synth import Template, actions, resources

SENDS = {"sqs:SendMessage"}
# The CDK's grant to send, for the destination of failed calls.
GRANTED = {"sqs:SendMessage", "sqs:GetQueueAttributes", "sqs:GetQueueUrl"}
TAKES = {f"sqs:{action}" for action in ("ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility")}
SAVES = {"sqs:ReceiveMessage", "sqs:DeleteMessage"}
ASKS = {"sqs:GetQueueAttributes", "sqs:GetQueueUrl"}
RIGHTS = {
    "ingest": {"IngestOverflow": SENDS},
    "doors": {"IngestOverflow": SENDS},
    "drain": {
        "IngestOverflow": SENDS | TAKES | ASKS,
        "IngestDeadLetters": SENDS,
    },
    "feed": {"FeedDeadLetters": SENDS},
    # It sends beats through the overflow, and saves what waits while the drain stands still.
    "lifecycle": {
        "LifecycleDeadLetters": GRANTED,
        "IngestOverflow": SENDS | SAVES,
        "IngestDeadLetters": SAVES,
    },
    "archiver": {"WorkArchives": SENDS | TAKES | ASKS, "WorkLake": SENDS},
    "lake": {"LifecycleDeadLetters": GRANTED, "WorkLake": SENDS | TAKES | ASKS},
    "restorer": {"WorkRestores": SENDS | TAKES | ASKS},
    "sweeper": {"LifecycleDeadLetters": GRANTED, "WorkFiles": SENDS | TAKES | ASKS},
    "refresher": {"WorkLight": SENDS | TAKES | ASKS},
}


def test_a_function_may_send_to_these_queues_and_receive_from_these(rolled: Template) -> None:
    found: dict[str, dict[str, set[str]]] = {}
    for name in rolled.functions():
        for statement in rolled.statements(name):
            does = {action for action in actions(statement) if action.startswith("sqs:")}
            for text in resources(statement) if does else []:
                queue = re.fullmatch(r'\{"Fn::GetAtt": \["(\w+?)[0-9A-F]{8}", "Arn"\]\}', text)
                assert queue is not None, text
                found.setdefault(name, {}).setdefault(queue[1], set()).update(does)
    assert found == RIGHTS
