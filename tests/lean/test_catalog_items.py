"""The items of the catalog: what is written is read again, what older releases wrote too, and every read's consistency."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from aws.dynamodb.catalog_items import (
    bound_entries,
    make_attributes,
    make_backfill_key,
    make_far_item,
    make_horizon_item,
    make_lease_item,
    make_opened_item,
    make_period_key,
    make_policy_item,
    read_backfill,
    read_entry,
    read_policy,
    read_secret,
)
from aws.dynamodb.wire import decode_item
from tests.worlds.codec import to_wire
from tests.worlds.entries import change_entry
from tidetable.catalog import ArchiveFacts, Backfill, Entry, Opening, RecordedPolicy, SeenTable, State
from tidetable.config import TableClass
from tidetable.errors import StoreUnavailable
from tidetable.events import Item
from tidetable.layout import Index, Layout, Packing
from tidetable.periods import parse_label

NOON = datetime(2026, 3, 5, 12, tzinfo=UTC)
DAY = timedelta(days=1)
EPOCH = "1970-01-01T00:00:00.000000Z"
# The week of 1970-01-01 begins on 1969-12-29.
FIRST = "1969-12-25T00:00:00.000000Z"
PLAIN = Entry("quakes", parse_label("2026-03-05"), "t", Layout("time", 4, "series", 21_600), State.OPEN, NOON)
INDEXES = (
    Index("by_status", "status", 4),
    Index("best", "*", 2, "mag", project=("mag", "place")),
    Index("keys", "status", 1, project=()),
    Index("kinds", "", 3, kind="kind", kinds=(("new", "n"), ("x", "a.b"))),
    Index("again", replica=True),
    Index("places", "*", 2, levels=("country", "city")),
    Index("near", local=True, sort_by="mag"),
)
FULL = change_entry(
    PLAIN,
    layout=replace(PLAIN.layout, indexes=INDEXES, versioned=True, parts=True, pack=Packing(3600, 9_000)),
    state=State.CLOSED,
    archive=ArchiveFacts("m.json", 12, 3456, NOON + DAY, NOON + 2 * DAY),
    deleted_at=NOON + 3 * DAY,
    keep_until=NOON + 4 * DAY,
    opened=Opening(NOON + 5 * DAY, 7, 8),
    active=("eu-west-1",),
    replicas=("us-west-2", "eu-west-1"),
    begun=("us-west-2", NOON + 6 * DAY),
)


def stored(item: Item) -> Item:
    """An item as it comes back: every number is a Decimal."""
    return decode_item(to_wire(item))


@pytest.mark.parametrize(
    "entry",
    [
        PLAIN,
        FULL,
        replace(PLAIN, layout=Layout("series", 1, "id")),
        replace(PLAIN, archive=ArchiveFacts("m.json", 12, 3456, NOON), opened=Opening(NOON, None, None)),
        *(replace(PLAIN, layout=replace(PLAIN.layout, indexes=(index,))) for index in INDEXES),
    ],
)
def test_an_entry_is_read_as_it_was_recorded(entry: Entry) -> None:
    found = read_entry(stored(make_period_key("quakes", entry.period) | make_attributes(entry)))
    assert found == entry
    # Its counts are whole numbers again.
    assert repr(found) == repr(entry)


def test_an_entry_of_an_older_release_is_read() -> None:
    """It had fewer attributes, and its indexes were all sorted by time; a release that knows no more can read them."""
    item = stored(make_attributes(PLAIN))
    item["layout"] = {"partition_by": "time", "shards": 4, "shard_by": "series", "bucket": 21_600}
    assert read_entry(item) == PLAIN
    item["layout"] |= {"indexes": [["by_status", "status", 4]], "pack": None}
    item["seen"] = {"write": 5, "read": 6, "class": "standard"}
    found = read_entry(item)
    assert found.layout.indexes == (Index("by_status", "status", 4),)
    assert (found.layout.pack, found.capacity.scaled, found.capacity.policy) == (None, False, "")
    assert found.capacity.seen == SeenTable(5, 6, TableClass.STANDARD)
    written = make_attributes(FULL)["layout"]["indexes"]
    assert [len(index) for index in written] == [8, 8, 8, 8, 8, 10, 10]
    assert written[0] == ["by_status", "status", 4, "time", None, "", [], False]
    assert written[6] == ["near", "", 1, "mag", None, "", [], False, [], True]


def test_what_is_not_known_has_no_attribute() -> None:
    assert set(make_attributes(PLAIN)) == {"stream", "label", "table", "state", "format", "created_at", "layout"}
    assert "pack" not in make_attributes(PLAIN)["layout"]


@pytest.mark.parametrize("format, read", [(None, True), (1, True), (2, True), (3, False), (10, False)])
def test_an_entry_that_newer_code_wrote_is_refused_and_never_misread(format: int | None, *, read: bool) -> None:
    item = make_attributes(PLAIN) | {"format": format}
    if format is None:
        del item["format"]
    if read:
        assert read_entry(stored(item)) == PLAIN
        return
    with pytest.raises(
        StoreUnavailable, match=f"quakes 2026-03-05 has format {format}, and Tidetable .* reads format 2"
    ):
        read_entry(stored(item))


def test_every_key_of_the_catalog_is_written_out() -> None:
    start = "2026-03-05T12:00:00.000000Z"
    midnight = "2026-03-05T00:00:00.000000Z"
    assert make_period_key("quakes", PLAIN.period) == {"pk": "stream#quakes", "sk": f"{midnight}#2026-03-05"}
    assert make_lease_item("lifecycle") == {"pk": "lease#lifecycle", "sk": "lease"}
    assert make_horizon_item("quakes") == {"pk": "horizons", "sk": "quakes"}
    far = {"pk": "horizons", "sk": "quakes#2026-03-04T00:00:00.000000Z#2026-03-04", "at": "2026-03-04T00:00:00.000000Z"}
    assert make_far_item("quakes", parse_label("2026-03-04")) == far
    backfill = Backfill("quakes", NOON, NOON + DAY, Opening(NOON + DAY, 5, 6))
    key = {"pk": "backfills", "sk": f"quakes#{start}#2026-03-06T12:00:00.000000Z"}
    assert make_backfill_key(backfill) == key
    assert read_backfill(stored(key | {"opened": make_opened_item(backfill.opened)})) == backfill
    for recorded in (RecordedPolicy("quakes", "{}"), RecordedPolicy("quakes", "{}", NOON)):
        item = make_policy_item(recorded)
        assert (item["pk"], item["sk"]) == ("policies", "quakes")
        assert read_policy(stored(item)) == recorded


@pytest.mark.parametrize(
    ("start", "end", "bounds"),
    [
        (None, None, (FIRST, "", "9999~")),
        (NOON, NOON + DAY, (FIRST, "2026-03-05T12:00:00.000000Z", "2026-03-06T12:00:00.000000Z~")),
        # DynamoDB refuses a range that ends before it begins.
        (datetime(1969, 1, 1, tzinfo=UTC), datetime(1969, 1, 2, tzinfo=UTC), (FIRST, EPOCH, EPOCH)),
    ],
)
def test_a_range_of_entries_lies_between_keys_that_dynamodb_takes(
    start: Any, end: Any, bounds: tuple[str, ...]
) -> None:
    assert bound_entries(start, end) == bounds


def test_without_a_secret_the_store_is_not_available() -> None:
    assert read_secret([{"secret": "00ff"}]) == b"\x00\xff"
    with pytest.raises(StoreUnavailable, match=r"^no secret: the lifecycle has not made the secret"):
        read_secret([])
