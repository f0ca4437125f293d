"""Find the partition keys with the most writes: from Contributor Insights if it is on, otherwise from a sample of
items.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime, timedelta
from math import inf
from typing import Any

from tidetable.catalog import Entry
from tidetable.times import to_text

_RULE = "DynamoDBContributorInsights-PKC"
_DAY = timedelta(days=1)
# AWS: a report has at most 100 contributors.
_CONTRIBUTORS = 100
# The sample: the length of its slice of time, and the greatest number of items per suffix. Each suffix is read by one
# page, which has at most 1 MB (128 read units).
_SLICE, _SAMPLED = timedelta(minutes=1), 1000


def read_shares(dynamodb: Any, metrics: Any, entry: Entry, now: datetime) -> Mapping[str, float] | None:
    """Read the shares of a table's partition keys, the heaviest first; None if they cannot be found.

    ``entry`` is the table that gets the writes now. Contributor Insights counts reads, too. Only a table that is
    partitioned by time can be sampled: the sample counts the events of a minute by suffix.
    """
    described = dynamodb.describe_contributor_insights(TableName=entry.table)
    rules = [name for name in described.get("ContributorInsightsRuleList", ()) if name.startswith(_RULE)]
    if described.get("ContributorInsightsStatus") == "ENABLED" and rules:
        return _read_report(metrics, rules[0], entry, now)
    if entry.layout.partition_by == "time" and entry.layout.shards > 1:
        return _sample_shares(dynamodb, entry, now)
    return None


def _read_report(metrics: Any, rule: str, entry: Entry, now: datetime) -> Mapping[str, float] | None:
    end = now.replace(minute=0, second=0, microsecond=0)
    start = max(end - _DAY, entry.period.start)
    if start >= end:
        return None
    report = metrics.get_insight_rule_report(
        RuleName=rule, StartTime=start, EndTime=end, Period=3600, MaxContributorCount=_CONTRIBUTORS, OrderBy="Sum"
    )
    counts = {own["Keys"][0]: float(own["ApproximateAggregateValue"]) for own in report.get("Contributors", ())}
    if entry.layout.partition_by == "series":
        return share_out(counts, float(report.get("AggregateValue") or 0.0))
    return share_out(take_heaviest_bucket(counts))


def take_heaviest_bucket(counts: Mapping[str, float]) -> dict[str, float]:
    """Return the counts by suffix of the bucket with the highest sum; keys are ``<bucket>#<suffix>``."""
    buckets: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for key, count in counts.items():
        bucket, _, suffix = key.rpartition("#")
        buckets[bucket][suffix] = count
    return max(buckets.values(), key=lambda bucket: sum(bucket.values()), default={})


def share_out(counts: Mapping[str, float], whole: float = 0.0) -> dict[str, float] | None:
    """Convert counts to shares of ``whole``, or of their sum if that is greater, the heaviest first; None without
    counts.
    """
    whole = max(whole, sum(counts.values()))
    if not whole:
        return None
    return {key: count / whole for key, count in sorted(counts.items(), key=lambda pair: -pair[1])}


def _sample_shares(dynamodb: Any, entry: Entry, now: datetime) -> dict[str, float] | None:
    """Sample the shares of the events of a recent minute by suffix, with one query per suffix.

    If a suffix has too many items in the slice of time, a slice of a quarter of that length is tried.
    """
    slice_, end = _SLICE, min(now - _SLICE, entry.period.end)
    while slice_ >= timedelta(milliseconds=50):
        counts = {
            str(suffix): _count_events(dynamodb, entry, suffix, end - slice_, end)
            for suffix in range(entry.layout.shards)
        }
        if inf not in counts.values():
            return share_out(counts)
        slice_ /= 4
    return None


def _count_events(dynamodb: Any, entry: Entry, suffix: int, start: datetime, end: datetime) -> float:
    """Count the events of a slice of time in a suffix, also those in packs; infinite if a page does not hold all items."""
    values = {
        ":pk": {"S": f"{entry.layout.name_partition(start, '')}#{suffix}"},
        ":low": {"S": to_text(start)},
        ":high": {"S": to_text(end)},
    }
    answer = dynamodb.query(
        TableName=entry.table,
        KeyConditionExpression="pk = :pk AND sk BETWEEN :low AND :high",
        ExpressionAttributeValues=values,
        # A pack has the number of its events.
        ProjectionExpression="#n",
        ExpressionAttributeNames={"#n": "n"},
        Limit=_SAMPLED,
    )
    # A page also ends at 1 MB.
    if len(answer["Items"]) == _SAMPLED or "LastEvaluatedKey" in answer:
        return inf
    return sum(float(item["n"]["N"]) if "n" in item else 1.0 for item in answer["Items"])
