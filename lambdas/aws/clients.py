"""boto3 clients, made once per process and configured for their use.

boto3 is imported when the first client is made: the import alone takes as long as a whole answer.
"""

from __future__ import annotations

from functools import lru_cache, partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_events import EventBridgeClient
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient

# The number of requests that one function sends before it has their answers.
CONCURRENCY = 16
_LOCK = Lock()
_P = ParamSpec("_P")
_Client = TypeVar("_Client")


class _Shared(Generic[_P, _Client]):
    """Makes each client once, even if several threads need it at the same time.

    Keeps at most ``most`` clients, the newest. boto3, "Multithreading or multiprocessing with clients": the default
    session, which makes the clients, is not safe for threads. And ``lru_cache`` alone would make one client per thread
    that asks before the first client is finished.
    """

    def __init__(self, make: Callable[_P, _Client], most: int | None = None) -> None:
        self._find: Any = lru_cache(maxsize=most)(make)

    def __call__(self, *args: _P.args, **more: _P.kwargs) -> _Client:
        with _LOCK:
            client: _Client = self._find(*args, **more)
        return client

    def cache_clear(self) -> None:
        """Forget all clients."""
        self._find.cache_clear()


def _make_client(
    service: str, region: str | None = None, *, connect_timeout: float = 2, attempts: int | None = None, **config: Any
) -> Any:
    import boto3
    from botocore.config import Config

    if attempts is not None:
        config["retries"] = {"mode": "standard", "total_max_attempts": attempts}

    # Any, because boto3's type stubs have one signature per literal name of a service.
    make: Any = boto3.client
    return make(service, region_name=region, config=Config(connect_timeout=connect_timeout, **config))


def _share(service: str, **config: Any) -> Any:
    """Make the function that finds the client of a service, in the function's own Region or in the Region that it is given."""
    return _Shared(lambda region=None: _make_client(service, region, **config))


# The client that describes tables while a caller waits, and scans them for archives. It retries seldom and briefly.
find_dynamodb_client: _Shared[..., DynamoDBClient] = _share(
    "dynamodb", read_timeout=5, attempts=2, tcp_keepalive=True, max_pool_connections=CONCURRENCY
)
# The client that makes, changes and deletes tables, here or in the Region of a copy. If ten CreateTables or
# DeleteTables are sent at once, AWS refuses four, because they exceed the account's rate. That passes within a second
# (measured). Eight attempts wait for half a minute on average: standard mode pauses for up to 1, 2, 4, ... 20 s, with
# jitter.
find_control_plane_client: _Shared[..., DynamoDBClient] = _share(
    "dynamodb", read_timeout=10, attempts=8, tcp_keepalive=True, max_pool_connections=2 * CONCURRENCY
)
# The client for the overflow queue.
find_sqs_client: _Shared[[], SQSClient] = _share("sqs", read_timeout=5, attempts=3)
# The client for the archive, in the bucket's Region. No caller waits: botocore's own time-outs suffice.
find_s3_client: _Shared[..., S3Client] = _share(
    "s3", connect_timeout=60, retries={"mode": "standard"}, max_pool_connections=CONCURRENCY
)
# The client for large values, in the bucket's Region. A caller waits for them.
find_values_client: _Shared[..., S3Client] = _share("s3", read_timeout=8, attempts=2, max_pool_connections=CONCURRENCY)
# The client for notices.
find_eventbridge_client: _Shared[[], EventBridgeClient] = _share("events", read_timeout=5, attempts=2)
# The clients for Application Auto Scaling, for CloudWatch's alarms and metrics, for event source mappings, for the keys of
# API Gateway, and for Athena's tables.
find_scaling_client: _Shared[..., Any] = _share("application-autoscaling", read_timeout=5, attempts=3)
find_cloudwatch_client: _Shared[[], Any] = _share("cloudwatch", read_timeout=5, attempts=2)
find_mappings_client: _Shared[[], Any] = _share("lambda", read_timeout=10, attempts=4)
find_gateway_client: _Shared[[], Any] = _share("apigateway", read_timeout=10, attempts=5)
find_glue_client: _Shared[[], Any] = _share("glue", read_timeout=10, attempts=5)


# Nearly every call has another time-out, because a caller waits for the rest of its own time. Each time-out needs its
# own client, and a client takes megabytes. So only the two newest clients are kept.
@partial(_Shared, most=2)
def find_functions_client(seconds: int) -> LambdaClient:
    """The client that calls another function and waits ``seconds`` for it. A retry would start the work twice."""
    options: dict[str, Any] = {"retries": {"total_max_attempts": 1}, "tcp_keepalive": True}
    return cast("LambdaClient", _make_client("lambda", connect_timeout=5, read_timeout=seconds, **options))


@_Shared
def find_target_client(service: str, region: str) -> Any:
    """The client for a feed's target. A function may take a minute, and a retry would repeat its work."""
    seconds, attempts = (60, 1) if service == "lambda" else (10, 2)
    return _make_client(service, region, read_timeout=seconds, attempts=attempts)
