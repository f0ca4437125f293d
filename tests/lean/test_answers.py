"""Pages from the answers of Query: plain events become columns, all others items."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from aws.dynamodb.query_answers import decode_query
from tidetable.layout import Index
from tidetable.ports import ItemColumns, KeyRange

RANGE = KeyRange("t", "p#0", None, None)
ITEMS: list[dict[str, Any]] = [
    {"pk": {"S": "p#0"}, "sk": {"S": "2026#s#1"}, "at": {"N": "1"}, "data": {"M": {"mag": {"N": "1.50"}}}},
    {"pk": {"S": "p#0"}, "sk": {"S": "2026#s#2"}, "at": {"N": "2"}, "data": {"M": {"place": {"S": "sea"}}}},
]


def body(items: list[dict[str, Any]]) -> bytes:
    return msgspec.json.encode({"Items": items, "ScannedCount": 7, "ConsumedCapacity": {"CapacityUnits": 1.5}})


def test_a_page_of_plain_events_is_columns() -> None:
    page = decode_query(RANGE, body(ITEMS), texts=True)
    texts = ['{"mag":1.50}', '{"place":"sea"}']
    assert page.columns == ItemColumns(["p#0", "p#0"], ["2026#s#1", "2026#s#2"], texts)
    assert (page.more, page.units, page.read) == (False, 1.5, 7)


@pytest.mark.parametrize(
    "more", [{"z": {"B": "AA=="}}, {"out": {"M": {}}}, {"cold": {"M": {}}}, {"version": {"N": "2"}}]
)
def test_a_page_with_one_item_that_is_more_than_a_plain_event_is_items(more: dict[str, Any]) -> None:
    page = decode_query(RANGE, body([ITEMS[0], {**ITEMS[1], **more}]), texts=True)
    assert page.columns.contents == page.items
    assert [item["sk"] for item in page.items] == ["2026#s#1", "2026#s#2"]


def test_a_page_is_items_unless_plain_ones_are_wanted() -> None:
    page = decode_query(RANGE, body(ITEMS), texts=False)
    assert [content["at"] for content in page.columns.contents if isinstance(content, dict)] == [1, 2]
    assert len(page.items) == 2


def test_a_page_whose_items_were_all_left_out_may_have_more_behind_it() -> None:
    """A filter leaves nothing of a page, and the range goes on."""
    last = {"pk": {"S": "p#0"}, "sk": {"S": "2026#s#2"}}
    empty = msgspec.json.encode({"Items": [], "ScannedCount": 9, "LastEvaluatedKey": last})
    for texts in (True, False):
        page = decode_query(RANGE, empty, texts=texts)
        assert (page.items, page.more, page.read, page.units) == ([], True, 9, 0.0)


def test_a_page_of_an_index_with_an_order_of_its_own_is_items() -> None:
    """Its columns would need the sort keys of the table."""
    items = [{**item, "sk_by_kind": {"S": f"2026#{number}"}} for number, item in enumerate(ITEMS)]
    page = decode_query(replace(RANGE, index=Index("by_kind", "kind")), body(items), texts=True)
    assert [item["sk_by_kind"] for item in page.items] == ["2026#0", "2026#1"]


def test_a_page_of_an_index_leaves_out_the_item_that_it_begins_at() -> None:
    """The condition includes the key of the last page's last item: to begin behind it would need the table's key as well."""
    index = Index("by_kind", "kind")
    items = [{**item, "sk_by_kind": {"S": f"2026#{number}"}} for number, item in enumerate(ITEMS)]
    after = KeyRange("t", "x#0", None, None, index=index, after="2026#0")
    assert [item["sk"] for item in decode_query(after, body(items), texts=False).items] == ["2026#s#2"]
    assert len(decode_query(replace(after, after=None), body(items), texts=False).items) == 2
