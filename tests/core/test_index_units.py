"""The units of an index: its own, or those of its table."""

from tidetable.config.capacity import find_index_units


def test_an_index_without_units_of_its_own_has_those_of_its_table() -> None:
    own = {"by_kind": (7, 3)}
    assert find_index_units("by_kind", own, (20, 10)) == (7, 3)
    assert find_index_units("by_place", own, (20, 10)) == (20, 10)
    assert find_index_units("by_place", own, (None, None)) == (None, None)
