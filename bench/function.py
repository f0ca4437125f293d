"""The process of a function: its environment, which is set before its modules are imported, and a context."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "lambdas")]
os.environ.update(
    AWS_ACCESS_KEY_ID="bench",
    AWS_SECRET_ACCESS_KEY="bench",
    AWS_DEFAULT_REGION="us-east-1",
    POWERTOOLS_SERVICE_NAME="bench",
    POWERTOOLS_METRICS_NAMESPACE="bench",
    POWERTOOLS_LOG_LEVEL="ERROR",
    TIDETABLE_STAGE="bench",
    TIDETABLE_CATALOG_TABLE="bench-catalog",
    TIDETABLE_OVERFLOW_QUEUE_URL="https://127.0.0.1/queue",
)


class Context:
    """The context that Lambda passes to a handler."""

    function_name = "bench"
    memory_limit_in_mb = 512
    invoked_function_arn = "arn:aws:lambda:us-east-1:000000000000:function:bench"
    aws_request_id = "bench"

    def get_remaining_time_in_millis(self) -> int:
        return 30_000
