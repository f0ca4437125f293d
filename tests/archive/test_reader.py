"""The archive reader's handler: it reads the requested range and counts its reads."""

import importlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest

import settings
import wiring
from aws.archive.column_read import ColumnsPage
from tests.api.gateway import Context
from tidetable.archive.wire import decode_columns, encode_page, encode_request, encode_whole_request
from tidetable.events import Event
from tidetable.ports import ArchiveColumns, ArchivePage, ArchiveRange, WholeRange
from wiring_upkeep import Upkeep

EVENTS = [Event("a", datetime(2026, 3, 1, tzinfo=UTC), str(number), {"n": number}) for number in range(3)]


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The handler's module, which reads the environment when it is imported."""
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "test")
    monkeypatch.setenv("TIDETABLE_STAGE", "lapse")
    settings.read_settings.cache_clear()
    yield importlib.import_module("handlers.archive_reader")
    settings.read_settings.cache_clear()


@pytest.mark.parametrize(("limit", "ascending"), [(7, True), (100, False)])
def test_a_page_of_the_range_is_read_in_its_order_and_counted(
    reader: Any, monkeypatch: pytest.MonkeyPatch, limit: int, ascending: bool
) -> None:
    read: list[Any] = []
    counted: dict[str, float] = {}

    def answer(keys: ArchiveRange, parts: object, *, limit: int, ascending: bool) -> ArchivePage:
        read.append((keys, parts, limit, ascending))
        return ArchivePage(EVENTS, more=True)

    monkeypatch.setattr(reader, "read_archive", answer)
    monkeypatch.setattr("handlers._observe.metrics.add_metric", lambda name, _, value: counted.update({name: value}))
    keys = ArchiveRange("manifest", "low", "high", "a", "after")
    sent = json.loads(json.dumps({"keys": msgspec.to_builtins(keys), "limit": limit, "ascending": ascending}))
    assert sent == json.loads(json.dumps(encode_request(keys, limit, ascending=ascending)))
    with wiring.serve_pipeline(Upkeep(part_reader="parts")):
        found = reader.handler(sent, Context())
    assert read == [(keys, "parts", limit, ascending)]
    assert found == encode_page(ArchivePage(EVENTS, more=True))
    assert counted["ArchivedEventsRead"] == 3


def test_a_page_of_columns_is_read_and_counted(reader: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = WholeRange("manifest", "2026-03-01T00:00:00.000000Z", "2026-03-02T00:00:00.000000Z", ("n",), ids=False)
    text = (
        '{"reached":null,"skip":0,"read":3,"times":["t","u"],"names":["b","a"],"which":[1,0],"ids":[],'
        '"values":{"n":[1.5,null]}}'
    )
    counted: dict[str, float] = {}

    class Parts:
        def read_whole(self, asked: WholeRange) -> tuple[str, int]:
            assert asked == keys
            return ColumnsPage(text, 2)

    monkeypatch.setattr("handlers._observe.metrics.add_metric", lambda name, _, value: counted.update({name: value}))
    with wiring.serve_pipeline(Upkeep(part_reader=Parts())):
        found = reader.handler(json.loads(json.dumps(encode_whole_request(keys))), Context())
    assert decode_columns(json.loads(json.dumps(found))) == ArchiveColumns(
        ["t", "u"], ["a", "b"], [], {"n": [Decimal("1.5"), None]}, None, 0, 3
    )
    assert counted["ArchivedEventsRead"] == 2
