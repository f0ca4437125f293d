"""Notices on an event bus, as they reach a queue through a rule."""

import json
from typing import Any

from botocore.exceptions import EndpointConnectionError

from aws.notices import EventBus
from local.stack import make_aws_client
from tidetable.lifecycle.report import Notice

NOTICES = [Notice("Period Table Created", {"stage": "t", "period": str(number)}) for number in range(12)]


def test_notices_reach_a_rule_of_the_default_bus(emulator: str) -> None:
    events, sqs = (make_aws_client(emulator, service) for service in ("events", "sqs"))
    queue = sqs.create_queue(QueueName="notices")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    events.put_rule(Name="tidetable", EventPattern=json.dumps({"source": ["tidetable"]}))
    events.put_targets(Rule="tidetable", Targets=[{"Id": "queue", "Arn": arn}])
    assert EventBus(events).publish(NOTICES) == 0
    notices: list[Any] = []
    for _ in range(120):
        answer = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=1)
        notices += [json.loads(message["Body"]) for message in answer.get("Messages", [])]
        if len(notices) >= 12:
            break
    assert sorted(int(notice["detail"]["period"]) for notice in notices) == list(range(12))
    assert {notice["detail-type"] for notice in notices} == {"Period Table Created"}


def test_a_bus_that_does_not_answer_loses_notices_and_raises_nothing() -> None:
    class Gone:
        def put_events(self, **_: Any) -> Any:
            raise EndpointConnectionError(endpoint_url="https://events")

    assert EventBus(Gone()).publish(NOTICES) == 12  # type: ignore[arg-type]
