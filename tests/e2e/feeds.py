"""What the feed of the stations does in the deployed stage: its mappings, and the changes that reach its queue."""

import json
from typing import Any

from local import Deployed
from tests.e2e.conftest import CHANGES


def mapped_tables(deployed: Deployed) -> set[str]:
    """The tables whose change streams are mapped to the feed's function."""
    pages = deployed.make_client("lambda").list_event_source_mappings(FunctionName=deployed.outputs["FeedFunction"])
    return {mapping["EventSourceArn"].split("/")[1] for mapping in pages["EventSourceMappings"]}


def receive_changes(deployed: Deployed, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the changes that wait in the queue to those that were found, and remove them from it."""
    queues = deployed.make_client("sqs")
    url = queues.get_queue_url(QueueName=CHANGES)["QueueUrl"]
    while messages := queues.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", []):
        for message in messages:
            found.append(json.loads(message["Body"]))
            queues.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return found
