"""Read a page of an archived period for the query function."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

import wiring_upkeep
from handlers._observe import count, observe
from tidetable.archive.reading import read_archive
from tidetable.archive.wire import decode_request, decode_whole_request, encode_columns, encode_page


@observe
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:  # noqa: ARG001 - Lambda's signature
    """Answer one page: of events in order, or of columns."""
    if (whole := decode_whole_request(event)) is not None:
        columns = wiring_upkeep.pipeline().part_reader.read_whole(whole)
        count(ArchivedEventsRead=columns.events)
        return encode_columns(columns.text)
    keys, limit, ascending = decode_request(event)
    page = read_archive(keys, wiring_upkeep.pipeline().part_reader, limit=limit, ascending=ascending)
    count(ArchivedEventsRead=len(page.events))
    return encode_page(page)
