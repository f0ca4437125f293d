"""The sizes at which an item with entries in local indexes changes its form, to the byte."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.fakes import FakeValues, large_values
from tests.worlds.large import make_entry
from tidetable.events import Event, Item
from tidetable.large.shrink import Shrinker
from tidetable.layout import Index, Layout
from tidetable.values import count_item_bytes
from tidetable.versions.writing import make_first_version

TIME = datetime(2026, 3, 1, 12, tzinfo=UTC)
WHOLE = Index("whole", sort_by="n", local=True)
KEYS = Index("keys", sort_by="n", local=True, project=())
SOME = Index("some", sort_by="n", local=True, project=("kind",))


class Doubling:
    """A compressor that makes everything larger."""

    def compress(self, value: bytes) -> bytes:
        return value + value

    def expand(self, value: bytes) -> bytes:
        return value[: len(value) // 2]


def make_item(layout: Layout, size: int) -> Item:
    """An item of exactly this number of bytes, without its entries."""

    def make(text: str) -> Item:
        data: dict[str, Any] = {"n": 5, "kind": "k", "text": text}
        item = layout.make_item(Event("a", TIME, "id", data), at=7)
        return make_first_version(item, data) if layout.versioned else item

    return make("x" * (size - count_item_bytes(make(""))))


def choose_form(layout: Layout, size: int, beyond: str = "s3") -> str:
    services = large_values(FakeValues())
    shrinker = Shrinker(None, beyond, (), Doubling(), services.unique)
    put = shrinker.shrink_item(make_item(layout, size), make_entry(layout))
    return "refused" if put is None else "outside" if put.outside else "whole"


@pytest.mark.parametrize(
    ("indexes", "versioned", "most"),
    [
        ((), False, 409_600),
        ((WHOLE,), False, 204_800),
        ((WHOLE, WHOLE), False, 136_533),
        ((WHOLE,) * 5, False, 68_266),
        # An entry has the names and values of pk, sk and sk_keys: 2 + 3, 2 + 30 and 7 + 3 bytes.
        ((KEYS,), False, 409_600 - 47),
        # And in_some with a map of a name and a value: 7 + 3 + 1 + 4 + 1.
        ((SOME,), False, 409_600 - 63),
        # Three times an item and twice the sum with its entries are 500,000 bytes: 5, 7, 9 and 15 times the item.
        ((), True, 100_000),
        ((WHOLE,), True, 71_428),
        ((WHOLE, WHOLE), True, 55_555),
        ((WHOLE,) * 5, True, 33_333),
    ],
)
def test_an_item_stays_whole_up_to_this_size(indexes: tuple[Index, ...], versioned: bool, most: int) -> None:
    layout = Layout("series", 2, "id", 0, indexes, versioned=versioned)
    assert [choose_form(layout, most + more) for more in (0, 1)] == ["whole", "outside"]
    if not versioned:
        assert [choose_form(layout, most + more, "refuse") for more in (0, 1)] == ["whole", "refused"]


def test_an_item_that_is_in_no_local_index_counts_alone() -> None:
    layout = Layout("series", 2, "id", 0, (Index("other", sort_by="m", local=True),))
    assert [choose_form(layout, 409_600 + more) for more in (0, 1)] == ["whole", "outside"]
