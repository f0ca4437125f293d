"""The body of a pack: equal events give equal bytes, and decoding gives the events back."""

from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.packs.table import write_lines
from tidetable.exact_json import canonical_json, decode_json
from tidetable.ingest.verdicts import hash_content
from tidetable.packs import DamagedPack, decode_body, encode_body
from tidetable.packs.body import DECODE
from tidetable.packs.partial import PartialPack

T = "2026-03-05T12:00:00.000000Z"


def body(*rows: tuple[str, str, str, dict[str, Any]]) -> bytes:
    return encode_body(*[list(column) for column in zip(*rows, strict=True)])


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ('{"v":19.0}', '{"v":19}'),
        ('{"v":1.50}', '{"v":1.5}'),
        ('{"v":-0.0}', '{"v":0}'),
        ('{"v":1E+3}', '{"v":1000}'),
        ('{"v":1e-7}', '{"v":0.0000001}'),
        ('{"v":12345678901234567890123456789012345678}', '{"v":12345678901234567890123456789012345678}'),
        ('{"v":100}', '{"v":100}'),
        ('{"v":"1.50"}', '{"v":"1.50"}'),
        ('{"v":{"b":[1.50,null,true],"a":"x"}}', '{"v":{"a":"x","b":[1.5,null,true]}}'),
        ('{"b":1,"a":2}', '{"a":2,"b":1}'),
        ('{"a%s":"%d"}', '{"a%s":"%d"}'),
        ('{"é\\"":"line\\nline"}', '{"é\\"":"line\\nline"}'),
        ("{}", "{}"),
    ],
)
def test_data_comes_back_as_dynamodb_answers_it(sent: str, kept: str) -> None:
    decoded = decode_body(body((T, "s", "a", decode_json(sent))))
    assert list(decoded.texts) == [kept]


def test_events_of_different_kinds_keep_their_own_fields() -> None:
    kinds: list[dict[str, Any]] = [{"a": 1}, {"b": "x", "a": 2}, {}, {"a": 3}, {"a": 4, "b": "y"}]
    decoded = decode_body(body(*[(T, "s", str(n), data) for n, data in enumerate(kinds)]))
    assert list(decoded.texts) == ['{"a":1}', '{"a":2,"b":"x"}', "{}", '{"a":3}', '{"a":4,"b":"y"}']


def test_events_that_are_all_different_are_kept_as_rows() -> None:
    decoded = decode_body(body(*[(T, "s", str(n), {f"f{n}": n}) for n in range(20)]))
    assert list(decoded.texts) == [f'{{"f{n}":{n}}}' for n in range(20)]


@pytest.mark.parametrize(
    "ids",
    [
        ["a", "b", "c"],
        ["line\nline", "é", "#%"],
        ["0123456789abcdef0123456789abcdef", "ffffffffffffffffffffffffffffffff", "00000000000000000000000000000000"],
        ["6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6ba7b811-9dad-11d1-80b4-00c04fd430c8", "6ba7b812-9dad-11d1-80b4-00c04fd430c8"],
        ["6BA7B810-9DAD-11D1-80B4-00C04FD430C8", "6ba7b811-9dad-11d1-80b4-00c04fd430c8", "6ba7b812-9dad-11d1-80b4-00c04fd430c8"],
        ["6ba7b8109-dad-11d1-80b4-00c04fd430c8", "6ba7b811-9dad-11d1-80b4-00c04fd430c8", "6ba7b812-9dad-11d1-80b4-00c04fd430c8"],
        ["6ba7b810-9dad-11d1-80b4-00c04fd430c", "6ba7b811-9dad-11d1-80b4-00c04fd430c8a", "6ba7b812-9dad-11d1-80b4-00c04fd430c8"],
        ["0123456789ABCDEF0123456789ABCDEF", "0123456789abcdef0123456789abcdef", "x"],
        ["a" * 31, "b" * 33, "0123456789abcdef0123456789abcdef"],
        ["\u0660" * 32, "0123456789abcdef0123456789abcdef", "0123456789abcdef0123456789abcdef"],
    ],
)  # fmt: skip
def test_ids_of_every_form_come_back(ids: list[str]) -> None:
    assert list(decode_body(body(*[(T, "s", id, {"v": 1}) for id in ids])).ids) == ids


def test_ids_that_ingest_derives_take_no_room() -> None:
    rows = [(f"2026-03-05T12:00:{n:02d}.000000Z", "s#é", {"v": n, "text": 'a"b'}) for n in range(50)]
    derived = [(time, series, hash_content(series, time, data), data) for time, series, data in rows]
    timeless = [(time, series, hash_content(series, None, data), data) for time, series, data in rows]
    random = [(time, series, f"{n * 7919:032x}", data) for n, (time, series, data) in enumerate(rows)]
    for some in (derived, timeless):
        assert list(decode_body(body(*some)).ids) == [id for _, _, id, _ in some]
        assert len(body(*random)) - len(body(*some)) == 50 * 16 + 1


def test_zeros_are_counted_only_for_derived_ids() -> None:
    rows = [(T, "s", f"{number:032x}", {"v": decode_json("1.50")}) for number in range(3)]
    assert DECODE(body(*rows)).zeros == []


def test_an_id_of_its_own_among_derived_ones_takes_its_own_room_alone() -> None:
    """Its 16 bytes, and the number of its event; the other 49 ids take none."""
    rows = [(f"2026-03-05T12:00:{n:02d}.000000Z", "s", {"v": n}) for n in range(50)]
    derived = [(time, series, hash_content(series, time, data), data) for time, series, data in rows]
    mixed = [(*derived[0][:2], "0123456789abcdef0123456789abcdef", derived[0][3]), *derived[1:]]
    assert list(decode_body(body(*mixed)).ids) == [id for _, _, id, _ in mixed]
    assert len(body(*mixed)) - len(body(*derived)) == 16 + 1


@pytest.mark.parametrize(
    ("sent", "kept", "zeros", "ids"),
    [
        (["18.5", "19.0", "19.50", "20"], ["18.5", "19", "19.5", "20"], [b"\0\1\1\0"], 0),
        (["1.0", "-2.00", "0.0", "100"], ["1", "-2", "0", "100"], [b"\1\2\1\0"], 0),
        (["1.5", "2.500", "null", '"3.0"'], ["1.5", "2.5", "null", '"3.0"'], [b"\0\2\0\0"], 0),
        (["1.5", "2.5", "30", "40"], ["1.5", "2.5", "30", "40"], [], 0),
        # An exponent, a sign of zero, and a number inside of a list are not described by zeros.
        (["1.5", "1E+3", "2.50", "4"], ["1.5", "1000", "2.5", "4"], [b"\0\0\1\0"], 1),
        (["1.5", "-0.0", "2.50", "4"], ["1.5", "0", "2.5", "4"], [b"\0\0\1\0"], 1),
        (["1.5", "[2.50]", "3", "4"], ["1.5", "[2.5]", "3", "4"], [], 1),
        # More zeros than a byte counts.
        (["1.5", f"1.{'0' * 256}", "3", "4"], ["1.5", "1", "3", "4"], [], 1),
        (["1.5", f"1.{'0' * 255}", "3", "4"], ["1.5", "1", "3", "4"], [b"\0\xff\0\0"], 0),
    ],
    ids=["both", "whole", "others", "none", "exponent", "sign", "inside", "too many", "many"],
)
def test_ids_are_derived_from_numbers_as_they_were_sent(
    sent: list[str], kept: list[str], zeros: list[bytes], ids: int
) -> None:
    """Ingest derives ids from the sent text, but 19.0 is answered as 19."""
    datas = [decode_json(f'{{"v":{text}}}') for text in sent]
    rows = [(f"2026-03-05T12:00:0{n}.000000Z", "s", data) for n, data in enumerate(datas)]
    encoded = body(*[(time, series, hash_content(series, time, data), data) for time, series, data in rows])
    decoded = decode_body(encoded)
    assert list(decoded.ids) == [hash_content(series, time, data) for time, series, data in rows]
    assert list(decoded.texts) == [f'{{"v":{text}}}' for text in kept]
    assert DECODE(encoded).zeros == zeros
    assert len(DECODE(encoded).id_bytes) == 16 * ids
    partial = PartialPack(encoded, 2)
    assert (list(partial.ids), list(partial.texts)) == (list(decoded.ids), list(decoded.texts))
    if not any("[" in text for text in sent):
        assert [str(value) for value in partial.read_field("v")] == [
            {"null": "None"}.get(text, text.strip('"')) for text in kept
        ]


@pytest.mark.parametrize("digits", [1, 32])
def test_ids_that_are_not_derived_need_no_zeros(digits: int) -> None:
    datas = [decode_json(text) for text in ('{"v":18.50}', '{"v":19.0}')]
    encoded = body(*[(T, "s", f"{n:0{digits}x}", data) for n, data in enumerate(datas)])
    assert DECODE(encoded).zeros == []
    assert list(decode_body(encoded).texts) == ['{"v":18.5}', '{"v":19}']


@pytest.mark.parametrize("zeros", [[b"\1"], [b"\1\0\1"], [b"\1\0", b"\1\0"]])
def test_zeros_of_other_lines_are_damage(zeros: list[bytes]) -> None:
    datas = [decode_json(text) for text in ('{"v":18.50}', '{"v":19.0}')]
    encoded = body(*[(T, "s", hash_content("s", T, data), data) for data in datas])
    assert DECODE(encoded).zeros == [b"\1\1"]
    damaged = msgspec.msgpack.encode(replace(DECODE(encoded), zeros=zeros))
    with pytest.raises(DamagedPack, match="its body cannot be read"):
        decode_body(damaged)
    with pytest.raises(DamagedPack, match="its body cannot be read"):
        PartialPack(damaged, 2)


FORMAT_1 = (
    "9db2323032362d30332d30355431323a30303a30ab302e3030300a312e353030a43030305a92a173a17492000100c40092a161a162909191a1769091"
    "c405310a322e3590"
)
FORMAT_2 = (
    "9eb2323032362d30332d30355431323a30303a30ab302e3030300a312e353030a43030305a92a173a17492000100c40092a161a162909191a1769091"
    "c405310a322e359090"
)


@pytest.mark.parametrize(("number", "written"), [(1, FORMAT_1), (2, FORMAT_2)])
def test_the_format_is_what_earlier_versions_wrote(number: int, written: str) -> None:
    """Every written pack must stay readable; a change of the format needs a new number and a new case here."""
    rows: list[tuple[str, str, str, dict[str, Any]]] = [(T, "s", "a", {"v": 1})]
    rows.append(("2026-03-05T12:00:01.500000Z", "t", "b", {"v": Decimal("2.5")}))
    assert body(*rows).hex() == FORMAT_2
    decoded = decode_body(bytes.fromhex(written), number)
    assert [list(column) for column in decoded[:4]] == [
        ["2026-03-05T12:00:00.000000Z", "2026-03-05T12:00:01.500000Z"],
        ["s", "t"],
        ["a", "b"],
        ['{"v":1}', '{"v":2.5}'],
    ]
    assert decoded.ats is None
    assert PartialPack(bytes.fromhex(written), number).read_field("v") == [1, Decimal("2.5")]


def test_a_column_that_is_longer_than_the_others_is_damage() -> None:
    """Which value belongs to which event cannot be known."""
    decoded = DECODE(body((T, "s", "a", {"a": 1, "b": 1}), (T, "s", "b", {"a": 2, "b": 2})))
    longer = replace(decoded, columns=[decoded.columns[0] + b"\n3", decoded.columns[1]])
    with pytest.raises(DamagedPack, match="its columns differ in length"):
        decode_body(msgspec.msgpack.encode(longer))


_NAMES = st.text(min_size=1, max_size=6).filter(lambda name: name.isprintable())
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.text(max_size=8)
    | st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9, places=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip

_EVENTS = st.tuples(
    st.text(min_size=1, max_size=5), st.text(min_size=1, max_size=9), st.dictionaries(_NAMES, _VALUES, max_size=4)
)


@settings(deadline=None, max_examples=150)
@given(st.lists(_EVENTS, min_size=1, max_size=12))
def test_whatever_is_packed_comes_back(events: list[tuple[str, str, dict[str, Any]]]) -> None:
    rows = [(f"2026-03-05T12:{n:02d}:00.{n * 1001:06d}Z", *event) for n, event in enumerate(events)]
    decoded = decode_body(body(*rows))
    assert list(zip(decoded.times, decoded.series, decoded.ids, strict=True)) == [row[:3] for row in rows]
    assert [decode_json(text) for text in decoded.texts] == [data for *_, data in rows]
    assert body(*rows) == body(*[(*row[:3], dict(reversed(row[3].items()))) for row in rows])


@pytest.mark.parametrize("damage", [b"", b"\x90", b"{}", b"\xc1", bytes(50)])
def test_a_damaged_body_says_so(damage: bytes) -> None:
    with pytest.raises(DamagedPack, match="cannot be read"):
        decode_body(damage)


def test_columns_that_differ_in_length_are_damage() -> None:
    whole = body((T, "s", "a", {"v": 1}), (T, "s", "b", {"v": 2}))
    with pytest.raises(DamagedPack):
        decode_body(whole.replace(b"1\n2", b"123"))


def test_a_later_format_is_refused_by_its_number() -> None:
    with pytest.raises(
        DamagedPack, match="it is of the format 3, this reads the format 2; deploy the version that wrote it"
    ):
        decode_body(body((T, "s", "a", {})), 3)


def test_canonical_text_is_in_the_order_of_the_names() -> None:
    """The names of an event's fields must have the order of the canonical text, because ids are derived from it."""
    data = {"\U00010000": 1, "\uffff": 2, "é": 3, "a": 4, "Z": 5, "aa": 6}
    assert decode_body(body((T, "s", "a", data))).texts[0].encode() == canonical_json(data)


@pytest.mark.parametrize("values", [[Decimal("-0")], [{"n": Decimal("-0")}], [{"n": [Decimal("-0"), "x"]}]])
def test_a_zero_has_no_sign(values: list[Any]) -> None:
    """DynamoDB answers a negative zero as 0."""
    assert write_lines(values) in (b"0\n", b'{"n":0}\n', b'{"n":[0,"x"]}\n')
