"""boto3 clients, made once per process and configured for what they are used for."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_events import EventBridgeClient
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_sqs import SQSClient

# How many requests one function has under way at once.
CONCURRENCY = 16


@cache
def dynamodb() -> DynamoDBClient:
    """For events and the catalog. Retries are few and short: what a throttled table refuses, the caller queues instead."""
    return boto3.client(
        "dynamodb",
        config=Config(
            connect_timeout=2,
            read_timeout=5,
            max_pool_connections=CONCURRENCY,
            retries={"mode": "standard", "total_max_attempts": 2},
            tcp_keepalive=True,
            # Our own checks name the event at fault, and every item has passed them; botocore checks each attribute again.
            parameter_validation=False,
        ),
    )


@cache
def control_plane() -> DynamoDBClient:
    """For making, changing and deleting tables.

    Of ten CreateTables or DeleteTables at once four are refused for the account's rate, which passes within a second
    (measured). Eight attempts wait for half a minute on average: standard mode pauses for up to 1, 2, 4, ... 20 s, with jitter.
    """
    return boto3.client(
        "dynamodb",
        config=Config(
            connect_timeout=2,
            read_timeout=10,
            max_pool_connections=2 * CONCURRENCY,
            retries={"mode": "standard", "total_max_attempts": 8},
            tcp_keepalive=True,
        ),
    )


@cache
def sqs() -> SQSClient:
    """For the overflow queue."""
    config = Config(connect_timeout=2, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 3})
    return boto3.client("sqs", config=config)


@cache
def s3() -> S3Client:
    """For the archive."""
    return boto3.client("s3", config=Config(max_pool_connections=CONCURRENCY, retries={"mode": "standard"}))


@cache
def values() -> S3Client:
    """For large values, which a caller waits for."""
    config = Config(
        connect_timeout=2,
        read_timeout=8,
        max_pool_connections=CONCURRENCY,
        retries={"mode": "standard", "total_max_attempts": 2},
    )
    return boto3.client("s3", config=config)


@cache
def events() -> EventBridgeClient:
    """For notices."""
    config = Config(connect_timeout=2, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 2})
    return boto3.client("events", config=config)


@cache
def scaling() -> Any:
    """For Application Auto Scaling."""
    config = Config(connect_timeout=2, read_timeout=5, retries={"mode": "standard", "total_max_attempts": 3})
    return boto3.client("application-autoscaling", config=config)


@cache
def functions(seconds: int) -> LambdaClient:
    """For calling another function and waiting so long for it: one attempt, as a second would do the work twice at once."""
    return boto3.client(
        "lambda",
        config=Config(connect_timeout=5, read_timeout=seconds, retries={"total_max_attempts": 1}, tcp_keepalive=True),
    )
