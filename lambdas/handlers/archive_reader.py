"""Reads a page of an archived period for the query function."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

import wiring_archive
from handlers._observe import metrics, observed
from tidetable.archive.reading import read_archive


@observed
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:  # noqa: ARG001 - Lambda's signature
    """Answer one page."""
    keys = wiring_archive.decode_range(event["keys"])
    page = read_archive(keys, wiring_archive.part_reader(), limit=event["limit"], ascending=event["ascending"])
    metrics.add_metric("ArchivedEventsRead", MetricUnit.Count, len(page.events))
    return wiring_archive.encode_page(page)
