"""Keys, addresses and ranges of packs."""

import pytest

from tests.packs.table import SERIAL, event
from tidetable.errors import InvalidRef
from tidetable.layout import Key, Ref
from tidetable.layout.pack import (
    PackName,
    find_key_range,
    is_address,
    make_address,
    parse_address,
    parse_sort_key,
    shift_time,
)
from tidetable.periods import parse_label

NAME = PackName("2026-03-05T12:00:01.000000Z", "mJqdp3QXtYHhRcVcTbjB8g")


@pytest.mark.parametrize("pk", ["2026-03-05T12:00:00.000000Z#12", "a%23b%25#0"])
def test_an_address_names_a_pack_and_nothing_else_does(pk: str) -> None:
    text = make_address(pk, NAME)
    assert text == f"{pk}#hgdgnfbsxs#mJqdp3QXtYHhRcVcTbjB8g"
    assert parse_address(text) == Key(pk, "2026-03-05T12:00:01.000000Z##mJqdp3QXtYHhRcVcTbjB8g")
    assert is_address(text)
    assert not is_address(pk)


@pytest.mark.parametrize(
    "text", ["", "a#0", "a#0#hgdgnfbsxs#short", "a#0##mJqdp3QXtYHhRcVcTbjB8g", "a#0#-1#mJqdp3QXtYHhRcVcTbjB8g",
             "a#0#" + "z" * 500 + "#mJqdp3QXtYHhRcVcTbjB8g", "a#0#1#hgdgnfbsxs#mJqdp3QXtYHhRcVcTbjB8g"]
)  # fmt: skip
def test_what_names_no_pack_is_no_address(text: str) -> None:
    with pytest.raises(InvalidRef, match="does not name a pack"):
        parse_address(text)


def test_a_ref_carries_the_pack_and_the_event() -> None:
    place = "2026-03-05T12:00:00.000000Z#s#a"
    ref = Ref("quakes", parse_label("2026-03-05"), Key(make_address("2026-03-05T12:00:00.000000Z#0", NAME), place))
    decoded = Ref.decode(ref.encode())
    assert decoded == ref
    assert parse_address(decoded.key.pk).sk == NAME.sk


@pytest.mark.parametrize(("series", "escaped"), [("s", "s"), ("a#b%", "a%23b%25")])
def test_the_address_of_an_event_says_its_series(series: str, escaped: str) -> None:
    pk = f"{escaped}#1"
    for place in (pk, make_address(pk, NAME)):
        assert SERIAL.parse_names(place, "2026-03-05T12:00:00.000000Z#x%23") == (
            "2026-03-05T12:00:00.000000Z",
            series,
            "x#",
        )


def test_a_plain_items_key_is_no_packs() -> None:
    assert parse_sort_key(NAME.sk) == NAME
    for sk in ("2026-03-05T12:00:01.000000Z#s#a", "2026-03-05T12:00:01.000000Z#a", "2026-03-05T12:00:01.000000Z#%23#a"):
        assert parse_sort_key(sk) is None


def test_a_range_at_the_ends_of_time_stays_within_what_a_time_can_be() -> None:
    first, last = event(0).time.replace(year=1970), event(0).time.replace(year=9998, month=12, day=31, hour=0)
    assert find_key_range(first, last, 86_400)[1] == "9998-12-31T00:00:00.000000Z"
    assert find_key_range(first.replace(year=1969), last, 60)[0] == "1970-01-01T00:00:00.000000Z"


def test_the_address_of_a_pack_of_the_first_moment_has_a_number() -> None:
    name = PackName("1970-01-01T00:00:00.000000Z", NAME.hash)
    assert make_address("p#0", name) == "p#0#0#mJqdp3QXtYHhRcVcTbjB8g"
    assert parse_address("p#0#0#mJqdp3QXtYHhRcVcTbjB8g") == Key("p#0", name.sk)


def test_no_time_is_shifted_before_the_first_moment() -> None:
    assert shift_time("1970-01-01T00:00:10.000000Z", -10) == "1970-01-01T00:00:00.000000Z"
    assert shift_time("1970-01-01T00:00:10.000000Z", -11) == "1970-01-01T00:00:00.000000Z"
