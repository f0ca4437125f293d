"""The path path of a query into a period, and the conditions that remain as filters."""

import pytest

from tidetable.conditions import Condition, NameConditions
from tidetable.layout import Index, Layout
from tidetable.query.access_path import choose_access_path, suggest_index


def way(shards: int, *conditions: Condition, low: bool = False, consistent: bool = False, replica: bool = False):  # type: ignore[no-untyped-def]
    """The path path into a period that is partitioned by time, with an index over ``kind`` of ``shards`` suffixes."""
    indexes = (Index("by_kind", "kind", shards), *([Index("copy", replica=True)] if replica else []))
    layout = Layout("time", 4, "id", 3_600, indexes)
    path = choose_access_path(layout, NameConditions(), conditions, consistent=consistent, low=low)
    assert path is not None
    return (
        None if path.index is None else path.index.name,
        list(path.partitions),
        [condition.field for condition in path.conditions],
    )


@pytest.mark.parametrize(
    ("values", "shards", "index"),
    [(1, 256, "by_kind"), (20, 10, "by_kind"), (21, 10, None), (30, 6, "by_kind"), (30, 7, None), (2, 101, None)],
)
def test_values_are_looked_for_in_an_index_as_long_as_that_is_at_most_200_ranges(
    values: int, shards: int, index: str | None
) -> None:
    """For a single value all suffixes are read, whatever their number."""
    names = tuple(f"k{number}" for number in range(values))
    index_name, partitions, filtered = way(shards, Condition("kind", "in", names))
    assert index_name == index
    assert partitions == (list(names) if index else [])
    assert filtered == ([] if index else ["kind"])


@pytest.mark.parametrize(
    ("value", "partitions", "filtered"),
    [
        ("x", ["x"], []),
        ("1.5", ["1.5"], []),
        ("1.50", ["1.50", "1.5"], ["kind"]),
        ("1e2", ["1e2", "100"], ["kind"]),
        ("é" * 1_000, ["é" * 1_000], []),
        ("é" * 1_000 + "x", [], []),
    ],
    ids=["text", "a number", "a number with a zero", "with an exponent", "2,000 bytes", "no key has room for it"],
)
def test_a_number_in_another_form_is_looked_for_in_both_and_compared_again(
    value: str, partitions: list[str], filtered: list[str]
) -> None:
    """The number 1.5 equals 1.50; the text 1.5 does not."""
    assert way(2, Condition("kind", "eq", (value,))) == ("by_kind", partitions, filtered)


def test_a_consistent_query_takes_the_table_and_one_of_low_priority_the_replica() -> None:
    condition = Condition("kind", "eq", ("x",))
    assert way(2, condition, consistent=True) == (None, [], ["kind"])
    assert way(2, low=True, replica=True) == ("copy", [], [])
    assert way(2, low=True, consistent=True, replica=True) == (None, [], [])
    assert way(2, low=True) == (None, [], [])


def test_a_query_of_a_small_part_reads_the_table_rather_than_gather_a_value() -> None:
    """A value's events are all read, in any order of time, if a query names not every level: that suits long ranges."""
    layout = Layout("time", 4, "id", 3_600, (Index("places", "*", 2, levels=("state", "status")),))
    condition = Condition("state", "eq", ("CA",))
    for share, index in ((1.0, "places"), (0.15, "places"), (0.1, "places"), (0.09, None)):
        path = choose_access_path(layout, NameConditions(), (condition,), consistent=False, low=False, share=share)
        assert path is not None
        assert (None if path.index is None else path.index.name) == index


@pytest.mark.parametrize(("value", "heads"), [("CA", 1), ("5", 2)])
def test_a_value_is_looked_for_by_levels_whatever_the_number_of_shards(value: str, heads: int) -> None:
    """The text of a number stands for the number, too, which are two ranges for each shard."""
    layout = Layout("time", 4, "id", 3_600, (Index("places", "*", 150, levels=("state",)),))
    path = choose_access_path(
        layout, NameConditions(), (Condition("state", "eq", (value,)),), consistent=False, low=False
    )
    assert path is not None
    assert (None if path.index is None else path.index.name, len(path.heads)) == ("places", heads)


@pytest.mark.parametrize(("values", "index"), [(30, "places"), (31, None)])
def test_thirty_values_are_looked_for_by_levels_and_no_more(values: int, index: str | None) -> None:
    layout = Layout("time", 1, "id", 3_600, (Index("places", "*", 1, levels=("state",)),))
    states = Condition("state", "in", tuple(f"s{number}" for number in range(values)))
    path = choose_access_path(layout, NameConditions(), (states,), consistent=False, low=False)
    assert path is not None
    assert (None if path.index is None else path.index.name) == index


def test_no_global_index_answers_a_consistent_query() -> None:
    """AWS: a global index is read eventually, and DynamoDB refuses ConsistentRead of it."""
    layout = Layout("series", 1, "id", 0, (Index("all", "*", 2),))
    assert choose_access_path(layout, NameConditions(), (), consistent=True, low=False) is None
    path = choose_access_path(layout, NameConditions(), (), consistent=False, low=False)
    assert path is not None
    assert path.index is not None
    assert (path.index.name, list(path.partitions)) == ("all", ["*"])


@pytest.mark.parametrize(("values", "index"), [(20, "places"), (21, None)])
def test_values_are_looked_for_by_levels_as_long_as_that_is_at_most_200_ranges(values: int, index: str | None) -> None:
    layout = Layout("time", 1, "id", 3_600, (Index("places", "*", 10, levels=("state",)),))
    states = Condition("state", "in", tuple(f"s{number}" for number in range(values)))
    path = choose_access_path(layout, NameConditions(), (states,), consistent=False, low=False)
    assert path is not None
    assert (None if path.index is None else path.index.name) == index


def test_without_series_a_small_part_is_gathered_too() -> None:
    """A table that is partitioned by series cannot be read instead."""
    layout = Layout("series", 1, "id", indexes=(Index("places", "*", 2, levels=("state", "status")),))
    condition = Condition("state", "eq", ("CA",))
    path = choose_access_path(layout, NameConditions(), (condition,), consistent=False, low=False, share=0.01)
    assert path is not None
    assert path.index is not None
    assert (path.index.name, path.gathers) == ("places", True)


@pytest.mark.parametrize(
    ("index", "served"),
    [
        (Index("places", "*", 1, levels=("country", "region")), True),
        (Index("places", "", 1, levels=("country", "region"), local=True), False),
    ],
    ids=["global", "local"],
)
def test_no_index_that_needs_a_series_is_proposed_to_a_query_without_series(index: Index, served: bool) -> None:
    text = suggest_index("s", Layout("series", 1, "id", indexes=(index,)), ())
    assert ("where.country is served now" in text) is served
