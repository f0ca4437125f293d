"""Opening a pack for some series gives the events that opening all of it gives of them, and finds the same damage."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.packs.table import NOON, TIMELY, ZSTD, event
from tests.worlds.packing import make_packs
from tests.worlds.places import stored_time
from tidetable.forms.packed import open_item as open_columns
from tidetable.layout.pack import PackName, hash_body, make_pack_key
from tidetable.packs import OpenedItem, open_item
from tidetable.packs.items import pack_item

_DATA = st.dictionaries(st.sampled_from(["a", "c"]), st.one_of(st.integers(0, 3), st.text(max_size=3)), max_size=2)
_EVENT = st.tuples(st.integers(0, 9), st.sampled_from(["s", "t#", "é%"]), st.sampled_from(["a", "b#", "f" * 32]), _DATA)


@settings(deadline=None)
@given(
    st.lists(_EVENT, min_size=1, max_size=20),
    st.lists(st.sampled_from(["s", "t#", "é%", "absent"]), min_size=1, max_size=3),
    st.integers(1, 2),
)
def test_only_the_events_of_the_named_series_are_opened(sent: list[Any], series: list[str], times: int) -> None:
    events = [event(seconds, name, id, **data) for seconds, name, id, data in sent]
    items = [TIMELY.make_item(each, at=5 + number % times) for number, each in enumerate(events)]
    (pack,) = make_packs(items, TIMELY, ZSTD).packs
    whole, found = open_item(pack.item, TIMELY, ZSTD), open_item(pack.item, TIMELY, ZSTD, series)
    wanted = [number for number, place in enumerate(whole.places) if TIMELY.parse_names("p#0", place)[1] in series]
    expected = whole._replace(
        places=[whole.places[number] for number in wanted],
        values=[whole.values[number] for number in wanted],
        ats=None if whole.ats is None else [whole.ats[number] for number in wanted],
    )
    assert _show(found) == _show(expected)
    columns = open_columns(pack.item, ("a",), TIMELY, ZSTD, series)
    assert columns is not None
    assert len(columns.columns) == (len(whole.places) if wanted else 0)
    assert len(columns.columns.values["a"]) == len(columns.columns)


def _show(opened: OpenedItem) -> Any:
    return [list(value) if isinstance(value, list | tuple) else value for value in opened[:-2]], list(opened.ats or ())


@pytest.mark.parametrize("series", [(), ("s",), ("absent",)])
def test_a_damaged_pack_is_damaged_whatever_series_it_is_opened_for(series: tuple[str, ...]) -> None:
    """Its columns are missing."""
    (pack,) = make_packs([TIMELY.make_item(event(0, v=1))], TIMELY, ZSTD).packs
    parts = msgspec.msgpack.decode(ZSTD.expand(pack.item["pack"]))
    parts[11] = []
    body = msgspec.msgpack.encode(parts)
    key = make_pack_key(stored_time(NOON), PackName(stored_time(NOON), hash_body(body)), TIMELY, "s")
    item = pack_item(key, 5, 1, stored_time(NOON), ZSTD.compress(body))
    opened = open_item(item, TIMELY, ZSTD, series)
    assert (list(opened.places), opened.problem is not None) == ([], True)
    assert open_columns(item, ("v",), TIMELY, ZSTD, series) is None
