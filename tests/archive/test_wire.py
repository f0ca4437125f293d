"""The wire form between the query function and the archive reader."""

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from tidetable.archive.wire import decode_page, encode_page
from tidetable.errors import ArchiveBusy
from tidetable.events import Event
from tidetable.ports import ArchivePage, EventVersion

TIME = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
EVENTS = [Event("a#1", TIME, "x", {"mag": Decimal("1.50"), "big": 12345678901234567890123, "text": "é"})]
PAGES = [
    ArchivePage(EVENTS, more=True, reached="2026-03-01T12:00:00.250000Z#a%231#x"),
    ArchivePage(EVENTS, more=False, cut=True),
    ArchivePage([], more=True, reached="2026-03-01T13:00:00.000000Z", read=250_000),
    ArchivePage([], more=False),
    ArchivePage(EVENTS, more=False, versions=[EventVersion(3, 1_772_366_400_000, newest=True)]),
]


@pytest.mark.parametrize("page", PAGES, ids=["goes on", "is cut", "is empty and goes on", "is empty", "has versions"])
def test_a_page_is_read_back_as_it_was(page: ArchivePage) -> None:
    """Through JSON, as Lambda carries it."""
    assert decode_page(json.loads(json.dumps(encode_page(page)))) == page


def test_a_page_is_a_document_of_rows() -> None:
    assert encode_page(ArchivePage(EVENTS[:1], more=True, reached="place", cut=True)) == {
        "events": [
            ["a#1", "2026-03-01T12:00:00.250000Z", "x", '{"mag":1.50,"big":12345678901234567890123,"text":"é"}'],
        ],
        "more": True,
        "versions": None,
        "reached": "place",
        "cut": True,
        "read": 0,
    }


def test_a_reader_of_before_says_nothing_of_cuts() -> None:
    """During a deploy the query function may be newer than the archive reader."""
    page = decode_page({"events": [], "more": False})
    assert (page.cut, page.reached, page.versions, page.more, page.read) == (False, None, None, False, 0)
    rows = [["a", "2026-03-01T12:00:00.250000Z", str(number), "{}"] for number in range(3)]
    assert decode_page({"events": rows, "more": False}).read == 3


def test_a_page_of_a_reader_of_before_does_not_say_where_the_next_begins() -> None:
    """It would be read again and again; the reader is replaced within the deploy."""
    with pytest.raises(ArchiveBusy, match="the archive's reader is being deployed"):
        decode_page({"events": [], "more": True, "reached": None})
