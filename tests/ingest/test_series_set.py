"""The set of series: it never takes one series for another, and its memory is counted."""

import random

import pytest

from tidetable.ingest import series_set
from tidetable.ingest.series_set import SeriesSet


def test_a_series_that_is_a_part_of_others_is_not_in_the_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series_set, "_SLOTS", 1)
    held = SeriesSet()
    held.add(["ab", "b", "ü", "abab", "ÿ"])
    assert held.list_missing(["a", "ab", "ba", "abab", "babab", "ü", "", "ÿ", "\u00fc\u00ff"]) == [
        "a",
        "ba",
        "babab",
        "",
        "\u00fc\u00ff",
    ]


def test_many_series_are_told_apart() -> None:
    """100,000 series are about six in a slot."""
    chance = random.Random(7)
    names = [f"{chance.randrange(10 ** chance.randrange(1, 8))}/{number % 3}" for number in range(100_000)]
    added, held = set(names[::2]), SeriesSet()
    held.add(names[::2])
    assert held.list_missing(names) == [name for name in names if name not in added]
    # Up to 16,384 slots of 100 bytes, and a byte more than its text for each series.
    slots, rest = divmod(held.bytes - sum(len(name) + 1 for name in added), 100)
    assert (rest, 12_000 < slots <= 16_384) == (0, True)


def test_a_series_is_added_and_counted_once() -> None:
    held = SeriesSet()
    held.add(["a", "b", "a"])
    held.add(["b", "é"])
    assert (held.list_missing("abé"), held.bytes) == ([], 3 * 100 + 2 + 2 + 3)
