"""CPU per event of the ingest function against the textbook handler, in one process, the network answering at once.

The baseline is what a tutorial would write: Powertools' resolver, ``json`` with Decimal and boto3's ``Table.batch_writer``.
Both run every layer of botocore down to the socket, which is replaced. Prints microseconds of CPU per event and the ratio.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "lambdas")]
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

import boto3
from aws_lambda_powertools.event_handler import APIGatewayRestResolver
from botocore.awsrequest import AWSResponse

import settings
import wiring
from aws import clients
from handlers import ingest
from tidetable.catalog import Entry, State
from tidetable.config import load
from tidetable.names import table_name
from tidetable.periods import covering

EVENTS = 500
ROUNDS = 15
STREAM = "quakes"


class _Context:
    function_name = "bench"
    memory_limit_in_mb = 512
    invoked_function_arn = "arn:aws:lambda:us-east-1:000000000000:function:bench"
    aws_request_id = "bench"

    def get_remaining_time_in_millis(self) -> int:
        return 30_000


class _Raw:
    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, **_: Any) -> Any:
        yield self._body


def _instant_answer(request: Any, **_: Any) -> Any:
    body = b'{"UnprocessedItems": {}, "ConsumedCapacity": []}'
    headers: Any = {"content-type": "application/x-amz-json-1.0"}
    return AWSResponse(request.url, 200, headers, _Raw(body))


def _request(now: datetime) -> dict[str, Any]:
    events = [
        {
            "series": f"station-{index % 40}",
            "time": (now - timedelta(seconds=index)).isoformat(),
            "id": f"event-{index:06d}",
            "data": {"mag": 1.25, "place": "10 km NE of Somewhere, California", "status": "reviewed", "depth": 4.2},
        }
        for index in range(EVENTS)
    ]
    return {
        "httpMethod": "POST",
        "path": f"/v1/streams/{STREAM}/events",
        "resource": "/v1/streams/{stream}/events",
        "headers": {"Content-Type": "application/json"},
        "pathParameters": {"stream": STREAM},
        "requestContext": {"requestId": "bench", "stage": "v1"},
        "body": json.dumps(events),
        "isBase64Encoded": False,
    }


class _OneCatalog:
    """A catalog that knows the periods around now; both sides are spared its look-up alike."""

    def __init__(self, now: datetime) -> None:
        stream = settings.config().streams[STREAM]
        periods = covering(now - stream.late, now + stream.ahead, stream.period)
        self._entries = [
            Entry(STREAM, one, table_name("bench", STREAM, one), stream.layout, State.OPEN, now) for one in periods
        ]

    def entries(self, *_: Any, **__: Any) -> list[Entry]:
        return self._entries


def _textbook() -> Callable[[dict[str, Any]], dict[str, Any]]:
    table = boto3.resource("dynamodb").Table("bench")
    table.meta.client.meta.events.register("before-send.dynamodb.*", _instant_answer)
    app = APIGatewayRestResolver()

    @app.post("/v1/streams/<stream>/events")
    def put(stream: str) -> dict[str, Any]:
        events = json.loads(app.current_event.body or "", parse_float=Decimal)
        with table.batch_writer() as batch:
            for event in events:
                batch.put_item(
                    Item={"pk": stream, "sk": f"{event['time']}#{event['series']}#{event['id']}", "data": event["data"]}
                )
        return {"accepted": len(events)}

    return lambda event: app.resolve(event, _Context())  # type: ignore[arg-type]


def _ours(now: datetime) -> Callable[[dict[str, Any]], dict[str, Any]]:
    clients.dynamodb().meta.events.register("before-send.dynamodb.*", _instant_answer)
    parts = wiring.ingest()
    parts.catalog = _OneCatalog(now)  # type: ignore[assignment]
    return lambda event: ingest.handler(event, _Context())  # type: ignore[arg-type]


def _cpu(handler: Callable[[dict[str, Any]], dict[str, Any]], event: dict[str, Any]) -> float:
    begun = time.process_time()
    answer = handler(event)
    spent = time.process_time() - begun
    assert answer["statusCode"] == 200, answer
    assert json.loads(answer["body"])["accepted"] == EVENTS
    return spent / EVENTS * 1e6


def main() -> None:
    """Measure the two in turn and print the medians."""
    logging.disable(logging.CRITICAL)
    now = datetime.now(UTC)
    with mock.patch.object(settings, "CONFIG_FILE", Path(__file__).parents[1] / "tidetable.toml"):
        load(settings.CONFIG_FILE)
        ours, textbook = _ours(now), _textbook()
        event = _request(now)
        with mock.patch("sys.stdout.write", lambda text: len(text)):  # the metrics' lines
            _cpu(ours, event), _cpu(textbook, event)
            pairs = [(_cpu(textbook, event), _cpu(ours, event)) for _ in range(ROUNDS)]
    base, mine = median(pair[0] for pair in pairs), median(pair[1] for pair in pairs)
    ratio = median(pair[0] / pair[1] for pair in pairs)
    print(f"ingest, {EVENTS} events a request, CPU per event: textbook {base:.0f} us, ours {mine:.0f} us")
    print(f"ingest_cpu_textbook_over_ours {ratio:.2f}")


if __name__ == "__main__":
    main()
