"""A target of a feed: publishes an alert when a device's temperature reaches a limit, at most once per crossing.

A crossing is a reading at or above the limit after one below it. Deploy it as a Lambda function with the variables ``TOPIC``
(the ARN of an SNS topic), ``TABLE`` (a DynamoDB table with the partition key ``series``, a string) and ``LIMIT``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

FIELD = "temp"


class Crossings:
    """Remembers of each series whether its last reading was above the limit, in a DynamoDB table."""

    def __init__(self, client: DynamoDBClient, table: str) -> None:
        self._client = client
        self._table = table

    def begins(self, series: str, time: str, sequence: str, *, above: bool) -> bool:
        """Remember a reading; whether a crossing begins with it. Readings that are not the newest change nothing.

        The feed keeps the order of the changes of one event at the most, and not of several events: so the time decides, and of
        two states of one reading the greater ``sequence``. Both are compared as text: their lengths do not change.
        """
        try:
            before = self._client.put_item(
                TableName=self._table,
                Item={
                    "series": {"S": series},
                    "time": {"S": time},
                    "sequence": {"S": sequence},
                    "above": {"BOOL": above},
                },
                ConditionExpression="attribute_not_exists(series) OR #time < :time OR (#time = :time AND #sequence < :sequence)",
                ExpressionAttributeNames={"#time": "time", "#sequence": "sequence"},
                ExpressionAttributeValues={":time": {"S": time}, ":sequence": {"S": sequence}},
                ReturnValues="ALL_OLD",
            ).get("Attributes", {})
        except self._client.exceptions.ConditionalCheckFailedException:
            return False
        return above and not before.get("above", {}).get("BOOL", False)


def publish_alerts(
    changes: Sequence[Mapping[str, Any]], limit: float, crossings: Crossings, sns: Any, topic: str
) -> int:
    """Publish an alert for each crossing that begins with one of the changes; how many.

    The crossing is remembered before its alert is published. So a failure between the two loses the alert, and no crossing has
    two.
    """
    alerts = 0
    for change in sorted(changes, key=lambda change: (str(change["time"]), str(change["sequence"]))):
        value = (change["data"] or {}).get(FIELD)
        if not isinstance(value, int | float) or not crossings.begins(
            change["series"], change["time"], change["sequence"], above=value >= limit
        ):
            continue
        text = f"{change['series']}: {FIELD} is {value} at {change['time']}, the limit is {limit:g}"
        sns.publish(TopicArn=topic, Subject=f"{FIELD} of {change['series']}"[:100], Message=text)
        alerts += 1
    return alerts


def handler(event: Mapping[str, Any], _: object) -> None:
    """Look at the changes of an invocation; an error lets the feed send them again."""
    import boto3

    crossings = Crossings(boto3.client("dynamodb"), os.environ["TABLE"])
    publish_alerts(event["changes"], float(os.environ["LIMIT"]), crossings, boto3.client("sns"), os.environ["TOPIC"])
