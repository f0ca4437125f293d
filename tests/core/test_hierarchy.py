"""Joined sort keys: the order of keys is the order of tuples, and no level is taken for the beginning of another."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidetable.events import Event
from tidetable.layout import Index
from tidetable.layout.hierarchy import join_levels, make_level, make_text_level, skip_levels

NOON = datetime(2026, 3, 5, 12, tzinfo=UTC)
ORDER = "2026-03-05T12:00:00.000000Z#s#a"
# Characters that separators and escapes are made of, those that sort before "#", and the last of Unicode.
TEXTS = st.text(st.sampled_from("\x00\x01\x02\x03\x04 !#%aCé\U0010ffff"), max_size=4)
TUPLES = st.tuples(TEXTS, TEXTS, TEXTS)


@settings(deadline=None, max_examples=500)
@given(TUPLES, TUPLES)
def test_keys_sort_as_tuples_do(left: tuple[str, ...], right: tuple[str, ...]) -> None:
    """By their bytes, as DynamoDB compares text."""
    keys = [join_levels([make_text_level(text) for text in texts]).encode() for texts in (left, right)]
    assert (keys[0] < keys[1]) == (left < right)
    assert (keys[0] == keys[1]) == (left == right)


@settings(deadline=None, max_examples=500)
@given(TUPLES, TEXTS, st.text(min_size=1, max_size=3) | TEXTS.filter(bool))
def test_a_prefix_finds_what_begins_with_it_and_nothing_else(texts: tuple[str, ...], first: str, prefix: str) -> None:
    levels = [make_text_level(text) for text in texts]
    key = join_levels(levels) + ORDER
    whole = join_levels([make_text_level(first)])
    assert key.startswith(whole) == (texts[0] == first), "never half of a value"
    assert key.startswith(make_text_level(prefix)) == texts[0].startswith(prefix)
    within = join_levels(levels[:1]) + make_text_level(prefix)
    assert key.startswith(within) == texts[1].startswith(prefix)
    assert skip_levels(key, 3) == ORDER


@pytest.mark.parametrize(
    ("value", "level"),
    [
        ("California", "California"),
        ("", "\x02\x02"),
        ("a b#c%", "a b#c%"),
        ("\x00\x01\x02\x03", "\x02\x04\x02\x05\x02\x06\x03"),
        (5, "\x02\x035"),
        ("5", "5"),
        (Decimal("1.50"), "\x02\x031.5"),
        (True, "\x02\x03true"),
        ("true", "true"),
        (None, ""),
        ([1], ""),
        ({"a": 1}, ""),
    ],
)
def test_each_plain_value_has_a_level_of_its_own(value: Any, level: str) -> None:
    assert make_level(value) == level


INDEX = Index("place", "*", 1, project=("country",), levels=("country", "at.region", "city"))


@pytest.mark.parametrize(
    ("data", "key"),
    [
        ({"country": "US", "at": {"region": "CA"}, "city": "LA"}, f"US\x01CA\x01LA\x01{ORDER}"),
        ({"country": "US", "at": {"region": "CA"}}, f"US\x01CA\x01\x01{ORDER}"),
        ({"country": "US", "city": "LA"}, f"US\x01\x01LA\x01{ORDER}"),
        ({"country": "US", "at": {"region": 7}, "city": ""}, f"US\x01\x02\x037\x01\x02\x02\x01{ORDER}"),
        ({"at": {"region": "CA"}, "city": "LA"}, None),
        ({"country": None, "city": "LA"}, None),
        ({"country": ["US"]}, None),
    ],
)
def test_an_event_without_the_first_field_is_not_in_the_index(data: dict[str, Any], key: str | None) -> None:
    """Without another field it is: a query by the first alone must find it."""
    event = Event("s", NOON, "a", data)
    wanted = {} if key is None else {"pk_place": "*#0", "sk_place": key, "in_place": {"country": data["country"]}}
    assert INDEX.make_attributes(event) == wanted
    assert INDEX.find_problem(event) is None


def test_a_local_index_has_a_sort_key_alone() -> None:
    event = Event("s", NOON, "a", {"country": "US", "score": 5})
    assert Index("place", local=True, levels=("country",)).make_attributes(event) == {"sk_place": f"US\x01{ORDER}"}
    best = Index("best", local=True, sort_by="score", project=())
    assert best.make_attributes(event) == {"sk_best": 5}
    assert best.make_attributes(Event("s", NOON, "a", {"score": "5"})) == {}
    assert (best.pk, best.sk, best.ranks, best.timely) == ("pk", "sk_best", True, False)


def test_a_key_that_is_too_long_is_refused_with_its_fields() -> None:
    """1,024 bytes are the most: the order takes 31 of them here, and each of three levels its end."""
    index = Index("place", "*", 1, levels=("country", "region", "city"))
    for letter, count in (("x", 990), ("é", 495)):
        fits = Event("s", NOON, "a", {"country": letter * count})
        assert index.find_problem(fits) is None
        assert len(index.make_attributes(fits)["sk_place"].encode()) == 1024
    assert index.make_attributes(Event("s", NOON, "a", {"country": "é" * 496})) == {}
    event = Event("s", NOON, "a", {"country": "x" * 991})
    assert index.make_attributes(event) == {}
    assert index.find_problem(event) == (
        "data.country, data.region, data.city: the index place joins them with time, series and id to a key of 1025 bytes, and"
        " DynamoDB takes 1024: shorten them"
    )
