"""Columns of a pack as lines of JSON: numbers as DynamoDB answers them, and ids in the form that takes the least room."""

from decimal import Decimal

import pytest
from msgspec import Raw

from tests.ingest.streams import NOW, QUAKES
from tests.packs.table import TIMELY, ZSTD, event, write_lines
from tests.worlds.packing import make_packs
from tidetable.ingest.batches import SentBatch, check_batch
from tidetable.ingest.bodies import Sent
from tidetable.ingest.context import RequestContext, StreamRules
from tidetable.ingest.verdicts import hash_content
from tidetable.layout import Layout
from tidetable.packs import encode_body, open_item, walk_packs
from tidetable.window import Window

TIME = "2026-03-05T12:00:00.000000Z"
# Values as they were sent, and each line as DynamoDB would answer its value.
SENT: dict[str, tuple[list[bytes], list[bytes]]] = {
    "texts": ([b'"a"', b'"1.50"', b'"-0"', b'"1e3"'], [b'"a"', b'"1.50"', b'"-0"', b'"1e3"']),
    "texts with escapes": ([b'"a\\/b"', b'"\\u00e9"'], [b'"a/b"', '"é"'.encode()]),
    "a text and a number": ([b'"a"', b"1.50"], [b'"a"', b"1.5"]),
    "a number and a text": ([b"1.50", b'"a"'], [b"1.5", b'"a"']),
    "numbers": ([b"1.50", b"2", b"30.0", b"100", b"0.10"], [b"1.5", b"2", b"30", b"100", b"0.1"]),
    "exponents": ([b"1e3", b"15E-1", b"2"], [b"1000", b"1.5", b"2"]),
    "zeros": ([b"-0", b"-0.0", b"0", b"0.000"], [b"0", b"0", b"0", b"0"]),
    "small numbers": ([b"0.0000001", b"0.00000010"], [b"0.0000001", b"0.0000001"]),
    "words": ([b"true", b"false", b"null", b"7"], [b"true", b"false", b"null", b"7"]),
    "objects": ([b'{"b":1.50,"a":2}', b"{}"], [b'{"a":2,"b":1.5}', b"{}"]),
    "an object after a number": ([b"1", b'{"b":1,"a":2}'], [b"1", b'{"a":2,"b":1}']),
    "an object after a text": ([b'"x"', b'{"b":1,"a":2}'], [b'"x"', b'{"a":2,"b":1}']),
    "lists": ([b"[1.50, -0 ]", b"[ ]", b'["x",2.0]'], [b"[1.5,0]", b"[]", b'["x",2]']),
    "a list after a number": ([b"1", b"[ 1.50]"], [b"1", b"[1.5]"]),
}


@pytest.mark.parametrize("name", SENT)
def test_values_that_were_not_decoded_are_kept_as_they_would_be_answered(name: str) -> None:
    sent, kept = SENT[name]
    values = [Sent("s", data={"z": Raw(b"1.0"), "v": Raw(value)}) for value in sent]
    context = RequestContext(QUAKES, StreamRules.of(QUAKES, QUAKES.layout), Window.of(QUAKES, NOW), NOW)
    rows = check_batch(context, SentBatch.of_values(values)).datas
    assert write_lines([row["v"] for row in rows]).split(b"\n") == [*kept, b""]
    assert write_lines(rows).split(b"\n") == [*[b'{"v":%s,"z":1}' % value for value in kept], b""]


def test_values_that_were_decoded_are_kept_as_they_would_be_answered() -> None:
    values = [
        Decimal("1.50"),
        2,
        "1.50",
        True,
        None,
        Decimal("1E-7"),
        Decimal("-0.0"),
        [Decimal("2.0")],
        {"b": 1, "a": 2},
    ]
    lines = ["1.5", "2", '"1.50"', "true", "null", "0.0000001", "0", "[2]", '{"a":2,"b":1}', ""]
    assert write_lines(values).decode().split("\n") == lines
    assert write_lines([1, None, True, "x"]) == b'1\nnull\ntrue\n"x"\n'


def encode_ids(*ids: str) -> bytes:
    count = len(ids)
    return encode_body([TIME] * count, ["s"] * count, ids, [{"v": number} for number in range(count)])


def test_a_uuid_takes_sixteen_bytes() -> None:
    ids = ("6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6ba7b811-9dad-11d1-80b4-00c04fd430c8")
    digits = "6ba7b8109dad11d180b400c04fd430c8" + "6ba7b8119dad11d180b400c04fd430c8"
    assert bytes.fromhex(digits) in encode_ids(*ids)
    assert b"6ba7b810-" in encode_ids(ids[0], ids[1].upper())
    assert b"6ba7b810-" in encode_ids(ids[0], "6ba7b8119-dad-11d1-80b4-00c04fd430c8")


@pytest.mark.parametrize(("place", "spared"), [(7, 16), (8, 0)])
def test_an_id_among_the_first_eight_shows_that_ids_are_derived(place: int, spared: int) -> None:
    """The others are not looked at if none of these follows from its event."""
    own = [f"{number + 1:032x}" for number in range(9)]
    derived = [*own[:place], hash_content("s", TIME, {"v": place}), *own[place + 1 :]]
    # The other eight events are listed by their numbers, a byte each.
    assert len(encode_ids(*own)) - len(encode_ids(*derived)) == (spared - 8 if spared else 0)


def test_a_plain_item_is_a_pack_of_one_event() -> None:
    item = TIMELY.make_item(event(0, "a", "x", v=Decimal("1.50")), at=7)
    opened = open_item(item, TIMELY, ZSTD)
    assert (opened.newest, opened.oldest, opened.places, opened.values, opened.at, opened.hash) == (
        TIME,
        TIME,
        ["2026-03-05T12:00:00.000000Z#a#x"],
        ['{"v":1.5}'],
        7,
        "",
    )


def test_a_pack_under_the_key_of_a_plain_item_is_a_problem_of_its_time() -> None:
    item = {"pk": "2026-03-05T12:00:00.000000Z#0", "sk": "2026-03-05T12:00:00.000000Z#a#x", "pack": b""}
    opened = open_item(item, TIMELY, ZSTD)
    assert (opened.newest, opened.oldest, opened.places) == (TIME, TIME, [])
    assert opened.problem == f"the pack {item['pk']}, {item['sk']} has the key of a plain item"


def test_a_layout_without_packs_makes_none() -> None:
    with pytest.raises(ValueError, match="the layout has no packs"):
        make_packs([], Layout("time", 1, "id", 3600), ZSTD)


@pytest.mark.parametrize("ascending", [True, False])
def test_a_range_that_begins_inside_a_pack_has_the_data_of_its_own_events(ascending: bool) -> None:
    plain = [TIMELY.make_item(event(n, "s", str(n), v=n), at=10 + n) for n in range(5)]
    (pack,) = make_packs(plain, TIMELY, ZSTD).packs
    places = [f"2026-03-05T12:00:0{n}.000000Z#s#{n}" for n in range(5)]
    opened = [open_item(pack.item, TIMELY, ZSTD)]
    (run,) = walk_packs(opened, span=60, ascending=ascending, low=places[2], high=places[4])
    found = [(place, copy.value, copy.at) for place, copy in zip(run.places, run.copies, strict=True)]
    wanted = [(places[2], '{"v":2}', 12), (places[3], '{"v":3}', 13)]
    assert found == (wanted if ascending else wanted[::-1])
