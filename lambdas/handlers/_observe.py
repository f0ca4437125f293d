"""Logs, metrics and traces, the same for every function."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.utilities.typing import LambdaContext

from settings import read_settings

# Service, namespace and level come from POWERTOOLS_* variables, which infra/ sets.
logger = Logger()
metrics = Metrics()
# Most calls of the authorizer publish no metric. Powertools would write a warning about it into each process's log.
warnings.filterwarnings("ignore", message="No application metrics to publish")

Handler = Callable[[Any, LambdaContext], Any]


def observe(handler: Handler) -> Handler:
    """Give each invocation a structured log with its request id, its metrics, and a trace where tracing is on."""
    wrapped: Handler = logger.inject_lambda_context(clear_state=True)(metrics.log_metrics()(handler))
    traced: list[Handler] = []

    def entry(event: Any, context: LambdaContext) -> Any:
        # Decided on the first call: importing a handler needs no environment, and the X-Ray SDK costs 0.4 s to import.
        if not traced:
            traced.append(_add_tracing(wrapped) if read_settings().tracing else wrapped)
        return traced[0](event, context)

    return entry


def pause_collector(handler: Handler) -> Handler:
    """Turn the garbage collector off during an invocation.

    A request makes no reference cycles, and the search for them would take a tenth of its time. Between invocations the
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


def _add_tracing(handler: Handler) -> Handler:
    from aws_lambda_powertools import Tracer

    return Tracer().capture_lambda_handler(handler, capture_response=False)


def make_countdown(context: LambdaContext, reserve: float = 0.0) -> Callable[[], float]:
    """Make a function that returns the seconds that are left for this invocation, less a reserve."""
    return lambda: context.get_remaining_time_in_millis() / 1000 - reserve
