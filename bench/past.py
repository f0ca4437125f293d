"""A repeated page of closed time: CPU and read units of a kept page, and of a 304, beside those of a page that is read.

The pages have 1,000 events in ten shards, on DynamoDB Local. The function is the deployed one, from the gateway's event to
its answer. The same events are in a stream whose window is a year, so that they are not of closed time.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

from bench.function import Context

# isort: split
import settings
from aws.dynamodb.catalog import LeanCatalog
from aws.dynamodb.tables import DynamoTables
from aws.http.client import LeanClient
from bench.deployed import restart_as_deployed
from bench.fill import DAY, fill_tables
from bench.query import make_request, read_headers
from bench.results import note_ratios
from local.dynamodb_local import DynamoDBLocal
from local.stack import make_aws_client
from tidetable.config import TableClass
from tidetable.ports import TableSpec
from tidetable.query import past
from tidetable.times import to_text

EVENTS, ROUNDS, REPEATS = 1_000, 21, 5
_STREAM = """
[streams.{0}]
period = "day"
late = "{1}"
retention = 300
key = {{ partition_by = "time", bucket = "24h", shards = 10 }}
"""
CONFIG = "[api]\nmax_events = 1000\n" + _STREAM.format("closed", "1d") + _STREAM.format("open", "370d")


def measure_cpu(act: Callable[[], object]) -> float:
    """Seconds of CPU of some calls, after one that fills the caches."""
    act()
    begun = time.process_time()
    for _ in range(REPEATS):
        act()
    return time.process_time() - begun


def main() -> None:
    """Fill the tables, measure all kinds of answers alternately, and print the medians of their ratios."""
    logging.disable(logging.CRITICAL)
    from handlers import query

    with (
        TemporaryDirectory() as folder,
        DynamoDBLocal(long=True) as local,
        mock.patch.dict(os.environ, AWS_ENDPOINT_URL=local.endpoint),
        mock.patch.object(settings, "CONFIG_FILE", Path(folder) / "tidetable.toml"),
        mock.patch("sys.stdout.write", lambda text: len(text)),
    ):
        settings.CONFIG_FILE.write_text(CONFIG)
        config = settings.read_config()
        DynamoTables(make_aws_client(local.endpoint, "dynamodb")).create(
            TableSpec("bench-catalog", None, None, TableClass.STANDARD, {})
        )
        LeanCatalog(LeanClient.of_process(), "bench-catalog").ensure_secret()
        for stream in config.streams.values():
            fill_tables(stream, 1, EVENTS)
        span = {"from": to_text(DAY), "to": to_text(DAY + timedelta(days=1)), "limit": "1000"}

        def ask(stream: str, *, kept: timedelta, known: str = "", status: int = 200) -> Any:
            request = make_request(stream, **span) | {"headers": {"If-None-Match": known}}
            with mock.patch.object(past, "KEPT", kept):
                answer: Any = query.handler(request, Context())  # type: ignore[arg-type]
            if answer["statusCode"] != status:
                raise AssertionError(answer)
            return answer

        none, long = timedelta(0), timedelta(hours=1)
        first = read_headers(ask("closed", kept=none))
        acts: dict[str, Callable[[], object]] = {
            "open": lambda: ask("open", kept=none),
            "read": lambda: ask("closed", kept=none),
            "kept": lambda: ask("closed", kept=long),
            "valid": lambda: ask("closed", kept=long, known=first["ETag"], status=304),
        }
        for act in acts.values():
            measure_cpu(act)
        rounds = [{name: measure_cpu(act) for name, act in acts.items()} for _ in range(ROUNDS)]
        units = [float(read_headers(ask("closed", kept=kept))["Tidetable-Read-Units"]) for kept in (none, long)]
    for name in acts:
        print(f"{name}: {median(each[name] for each in rounds) / REPEATS * 1e6:,.0f} us of CPU")
    print(f"read units of a page that is read, and of a kept one: {units}")
    note_ratios(
        digits=3,
        past_page_cpu_over_open=median(each["read"] / each["open"] for each in rounds),
        past_kept_page_cpu_over_read=median(each["kept"] / each["read"] for each in rounds),
        past_304_cpu_over_read=median(each["valid"] / each["read"] for each in rounds),
        past_kept_page_read_units=units[1],
        past_page_read_units=units[0],
    )


if __name__ == "__main__":
    restart_as_deployed("bench.past")
    main()
