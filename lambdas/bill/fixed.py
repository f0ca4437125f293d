"""The fixed costs of a stage, which follow from its configuration and not from its events: metrics, alarms, a KMS key."""

from __future__ import annotations

from bill import prices
from bill.amounts import Line
from bill.work import price_scheduler
from tidetable.config import Config

# Custom metrics that a stage sends in most hours of a month (docs/design/cost.md): the lifecycle's, those of a stage with
# traffic, those of rollups and the feed's.
_METRICS_IDLE, _METRICS_BUSY, _METRICS_ROLLUPS, _METRICS_FEED = 10, 20, 8, 4
# Alarms that every stage has, and those of rollups (infra/alarms.toml; tests/infra/test_alarms.py compares the numbers).
_ALARMS, _ALARMS_ROLLUPS = 27, 6


def count_alarms(config: Config) -> int:
    """Count the alarms of a stage. Application Auto Scaling makes further alarms while tables are open."""
    count = _ALARMS + config.api.by_key + (config.api.by_key and config.api.by_signature) + config.doors.any
    # Values that do not fit their columns, and columns that an Iceberg table cannot have.
    count += 2 * any(stream.archive.columns for stream in config.streams.values())
    return count + (_ALARMS_ROLLUPS if config.is_refreshed else 0)


def count_queues(config: Config) -> int:
    """Count the queues whose messages call functions: the overflow, and those of work in the background."""
    return 5 + config.is_refreshed


def count_metrics(config: Config, *, busy: bool) -> int:
    """Count the custom metrics that a stage sends, about; ``busy`` says whether it has traffic."""
    count = _METRICS_BUSY if busy else _METRICS_IDLE
    count += _METRICS_ROLLUPS if config.is_refreshed else 0
    return count + (_METRICS_FEED if any(stream.feed for stream in config.streams.values()) else 0)


def price_fixed(config: Config, *, busy: bool) -> list[Line]:
    """List the lines of the fixed costs of a stage; ``busy`` says whether it has traffic."""
    metrics, alarms = count_metrics(config, busy=busy), count_alarms(config)
    lines = [
        Line("metrics", metrics * prices.METRIC, f"about {metrics} custom metrics at ${prices.METRIC:.2f}"),
        Line("alarms", alarms * prices.ALARM, f"{alarms} alarms at ${prices.ALARM:.2f}"),
    ]
    queues = count_queues(config)
    how = (
        f"{queues} queues that call functions, each polled 15 times per minute at ${prices.SQS_MILLION:.2f} per million"
    )
    lines += [*price_scheduler(config), _price_drain()]
    lines.append(Line("queues", queues * prices.QUEUE_POLLS * prices.SQS_MILLION / 1e6, how))
    if config.observability.addresses:
        how = "a key for the topic of the e-mail addresses in notify; its requests are some cents at most"
        lines.append(Line("KMS key", prices.KMS_KEY, how))
    return lines


def _price_drain() -> Line:
    """Price the scheduled runs of the drain, which look every minute for saved messages, also while there are none."""
    runs = prices.HOURS * 60
    lists = runs * prices.DRAIN_LISTS
    dollars = runs * prices.price_call(prices.DRAIN_SECONDS, prices.DRAIN_GB) + lists * prices.S3_THOUSAND / 1000
    how = (
        f"{runs:,} runs per month at 1,024 MB, assumed: {prices.DRAIN_SECONDS * 1000:.0f} ms; {lists:,} lists of the bucket at"
        f" ${prices.S3_THOUSAND:g} per thousand"
    )
    return Line("drain, schedule", dollars, how)
