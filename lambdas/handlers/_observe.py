"""Logs and metrics, the same for every function."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from logging import getLogger
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

if TYPE_CHECKING:
    from tidetable.query import Cost

# Service, namespace and level come from POWERTOOLS_* variables, which infra/ sets. Lambda reads the level of a line only if
# the line's timestamp has the form of RFC 3339.
logger = Logger(use_rfc3339=True)
# Powertools prefers Lambda's own level (AWS_LAMBDA_LOG_LEVEL), which infra/function.py never sets above INFO: Lambda counts
# lines without a level, such as metrics, as INFO, and would drop them.
getLogger(logger.name).setLevel(os.environ.get("POWERTOOLS_LOG_LEVEL", "INFO"))
metrics = Metrics()
# Most calls of the authorizer publish no metric. Powertools would write a warning about it into each process's log.
warnings.filterwarnings("ignore", message="No application metrics to publish")

Handler = Callable[[Any, LambdaContext], Any]


def observe(handler: Handler) -> Handler:
    """Give each invocation a structured log with its request id, and its metrics."""
    wrapped: Handler = logger.inject_lambda_context(clear_state=True)(metrics.log_metrics()(handler))
    return wrapped


def pause_collector(handler: Handler) -> Handler:
    """Turn the garbage collector off during an invocation.

    A request makes no reference cycles, and the search for them would take a tenth of its time. A worker that sealed
    events for a virtual hour left 46,385 objects in cycles, with those of the test around it. Between invocations the
    collector is on again, for the objects that were made since the process began.
    """
    gc.freeze()

    def entry(event: Any, context: LambdaContext) -> Any:
        gc.disable()
        try:
            return handler(event, context)
        finally:
            gc.enable()

    return entry


def make_countdown(context: LambdaContext, reserve: float = 0.0) -> Callable[[], float]:
    """Make a function that returns the seconds that are left for this invocation, less a reserve."""
    return lambda: context.get_remaining_time_in_millis() / 1000 - reserve


def measure(unit: MetricUnit, **numbers: float) -> None:
    """Add numbers to the metrics of the invocation, by the names of the metrics."""
    for name, number in numbers.items():
        metrics.add_metric(name, unit, number)


# Adds counts to the metrics of the invocation, by the names of the metrics.
count = partial(measure, MetricUnit.Count)


def count_any(**numbers: float) -> None:
    """Add the counts that are not 0. A stage in which they are always 0 has no such metrics, and does not pay for them."""
    count(**{name: number for name, number in numbers.items() if number})


def report_query(
    route: str, stream: str, cost: Cost, *, shown: int, conditions: str = "", losses: Sequence[str] = ()
) -> None:
    """Report what a query cost and used: its cost as metrics, its fields and their operators in the metrics' log line.

    ``tidetable advise`` reads these lines: it finds which index would be worth its price, and where shards or buckets
    are too many.
    """
    count(ReadUnits=cost.units, EventsRead=cost.read)
    use = {"stream": stream, "route": route.rpartition("/")[2], "conditions": conditions}
    for name, value in (*use.items(), ("requests", cost.requests), ("shown", shown)):
        metrics.add_metadata(name, value)
    if losses:
        report_losses(losses)


def report_losses(losses: Sequence[str]) -> None:
    """Count and log an incomplete answer. Its caller may not notice it, and only an operator can repair the cause."""
    logger.warning("incomplete answer", extra={"losses": losses[:20]})
    count(IncompleteAnswers=1)
