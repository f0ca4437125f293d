"""Values of Parquet are exact, or their row is refused with the reason. A damaged file is refused in words."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from cli.sources import Columns, Row, SourceError, open_source


def write_file(tmp_path: Path, columns: dict[str, Any], **options: Any) -> Path:
    path = tmp_path / "a.parquet"
    length = max(len(column) for column in columns.values())
    parquet.write_table(pa.table({"time": [1000] * length, **columns}), path, **options)
    return path


def list_rows(path: Path, **columns: Any) -> list[Row]:
    return list(open_source(path, None, Columns(**{"series": "=a", **columns})).read())


def show(rows: list[Row]) -> list[Any]:
    """The value ``v`` of each row, or the row's problem."""
    return [row.problem if row.event is None else row.event["data"].get("v") for row in rows]


OUTSIDE = "v: the date lies outside the years 1 to 9999"
FIRST, LAST = -62135596800, 253402300799  # seconds of 0001-01-01T00:00:00 and 9999-12-31T23:59:59


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([0, LAST, FIRST, LAST + 1, FIRST - 1, None], pa.timestamp("s"), [
            "1970-01-01T00:00:00", "9999-12-31T23:59:59", "0001-01-01T00:00:00", OUTSIDE, OUTSIDE, None,
        ]),
        ([-1, LAST * 1000 + 999, 1_500], pa.timestamp("ms", "UTC"), [
            "1969-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z", "1970-01-01T00:00:01.500Z",
        ]),
        ([LAST * 10**6 + 999_999, FIRST * 10**6, 2**63 - 1], pa.timestamp("us"), [
            "9999-12-31T23:59:59.999999", "0001-01-01T00:00:00", OUTSIDE,
        ]),
        ([1, -1, 2**63 - 1, -(2**63)], pa.timestamp("ns", "Europe/Berlin"), [
            "1970-01-01T00:00:00.000000001Z", "1969-12-31T23:59:59.999999999Z",
            "2262-04-11T23:47:16.854775807Z", "1677-09-21T00:12:43.145224192Z",
        ]),
        ([0, -719162, 2932896, 2932897, -719163, 2**31 - 1, None], pa.date32(), [
            "1970-01-01", "0001-01-01", "9999-12-31", OUTSIDE, OUTSIDE, OUTSIDE, None,
        ]),
        ([0, 86_400_000, -86_400_000], pa.date64(), ["1970-01-01", "1970-01-02", "1969-12-31"]),
        ([0, 86_399, None], pa.time32("s"), ["00:00:00", "23:59:59", None]),
        ([1, 45_296_789], pa.time32("ms"), ["00:00:00.001", "12:34:56.789"]),
        ([45_296_789_012], pa.time64("us"), ["12:34:56.789012"]),
        ([45_296_789_012_345, 86_400 * 10**9], pa.time64("ns"), [
            "12:34:56.789012345", "v: the time of day has no such hour",
        ]),
        ([2**63 - 1, -1, 0, 2_000_000_000], pa.duration("ns"), [
            Decimal("9223372036.854775807"), Decimal("-0.000000001"), 0, 2,
        ]),
        ([2**63 - 1, None], pa.duration("s"), [2**63 - 1, None]),
        ([2**64 - 1, 0], pa.uint64(), [2**64 - 1, 0]),
        ([-(2**63)], pa.int64(), [-(2**63)]),
        ([True, False, None], pa.bool_(), [True, False, None]),
        ([Decimal("99999999999999999999999999999999999.999"), None], pa.decimal128(38, 3), [
            Decimal("99999999999999999999999999999999999.999"), None,
        ]),
        ([Decimal(10) ** 75], pa.decimal256(76, 0), [Decimal(10) ** 75]),
        ([b"\x00\xff", None], pa.binary(), ["AP8=", None]),
        ([b"\x00\xff"], pa.binary(2), ["AP8="]),
        ([None, None], pa.null(), [None, None]),
        ([[1, None], [], None], pa.list_(pa.int8()), [[1, None], [], None]),
        ([[1, 2], None], pa.list_(pa.int8(), 2), [[1, 2], None]),
        ([{"a": 1, "b": "x"}, {"a": None, "b": None}, None], pa.struct([("a", pa.int8()), ("b", pa.string())]), [
            {"a": 1, "b": "x"}, {"a": None, "b": None}, None,
        ]),
        ([[("k", 1), ("l", None)], [], None], pa.map_(pa.string(), pa.int8()), [{"k": 1, "l": None}, {}, None]),
        ([[("k", 1), ("k", 2)]], pa.map_(pa.string(), pa.int8()), ["v: a map has the same key twice"]),
        ([[(1, "x"), (2, "y")]], pa.map_(pa.int8(), pa.string()), [[[1, "x"], [2, "y"]]]),
        ([[[LAST, LAST + 1]], [[0]]], pa.list_(pa.list_(pa.timestamp("s"))), [OUTSIDE, [["1970-01-01T00:00:00"]]]),
        ([{"t": LAST + 1}, {"t": 0}], pa.struct([("t", pa.timestamp("s"))]), [OUTSIDE, {"t": "1970-01-01T00:00:00"}]),
        ([[("k", LAST + 1)]], pa.map_(pa.string(), pa.timestamp("s")), [OUTSIDE]),
    ],
)  # fmt: skip
def test_a_value_is_exact_or_its_row_is_refused(
    tmp_path: Path, values: list[Any], kind: pa.DataType, expected: list[Any]
) -> None:
    array = pa.array(values, pa.int64()).cast(kind) if _is_number(values, kind) else pa.array(values, kind)
    assert show(list_rows(write_file(tmp_path, {"v": array}))) == expected


def _is_number(values: list[Any], kind: pa.DataType) -> bool:
    return pa.types.is_timestamp(kind) and isinstance(values[0], int)


@pytest.mark.parametrize("value", [0.1, 65504.0, -0.0, 5.960464477539063e-08])
def test_floats_of_every_width_are_exact(tmp_path: Path, value: float) -> None:
    import struct

    for kind, letter in ((pa.float16(), "e"), (pa.float32(), "f"), (pa.float64(), "d")):
        (exact,) = struct.unpack(letter, struct.pack(letter, value))
        assert show(list_rows(write_file(tmp_path, {"v": pa.array([value], kind)}))) == [exact]


def test_dictionaries_and_views_are_read_as_their_values(tmp_path: Path) -> None:
    for array in (
        pa.array(["x", None, "x"]).dictionary_encode(),
        pa.array(["x", None, "x"], pa.string_view()),
        pa.array(["x", None, "x"], pa.large_string()),
    ):
        assert show(list_rows(write_file(tmp_path, {"v": array}))) == ["x", None, "x"]


def test_a_uuid_is_its_usual_text(tmp_path: Path) -> None:
    array = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(range(16)), None], pa.binary(16)))
    assert show(list_rows(write_file(tmp_path, {"v": array}))) == ["00010203-0405-0607-0809-0a0b0c0d0e0f", None]


@pytest.mark.parametrize(
    ("instant", "expected"),
    [
        ("9999-12-31T00:00:00.000001", "9999-12-31T00:00:00.000001"),
        ("9999-12-31T00:00:00", "9999-12-31T00:00:00"),
        ("1816-03-29T05:56:08.066277376", "1816-03-29T05:56:08.066277376"),
        ("2026-03-15T12:00:00.123456789", "2026-03-15T12:00:00.123456789"),
        ("0001-01-01T00:00:00", "0001-01-01T00:00:00"),
    ],
)
def test_int96_is_exact_in_every_year(tmp_path: Path, instant: str, expected: str) -> None:
    """pyarrow writes INT96 from the range of nanoseconds only, so the file is changed afterwards."""
    path = write_int96(tmp_path, [instant])
    assert [row.event and row.event["time"] for row in list_rows(path, time="at", utc=True)] == [f"{expected}Z"]
    rows = list(open_source(path, None, Columns(series="=a", time="time")).read())
    assert [row.event and row.event["data"] for row in rows] == [{"at": expected}]


def test_int96_outside_of_every_calendar_is_refused(tmp_path: Path) -> None:
    path = write_int96(tmp_path, ["2026-03-15T12:00:00", "2026-03-16T12:00:00"])
    body = path.read_bytes()
    # The last four bytes of an INT96 are its Julian day.
    day = (2_440_588 + 20_528).to_bytes(4, "little")
    assert day in body
    path.write_bytes(body.replace(day, (2**31 - 1).to_bytes(4, "little")))
    first, second = list_rows(path, time="at", utc=True)
    assert first.event is not None
    assert second.problem == "at: the date lies outside the years 1 to 9999"


def test_int96_within_lists_and_objects_is_exact(tmp_path: Path) -> None:
    """The far instant is in the second file only: its Julian day is written over that of the year 2026."""
    kind = pa.timestamp("ns")
    near = 1_773_576_000_000_000_001  # 2026-03-15T12:00:00.000000001
    nested = pa.array([[{"t": near}, {"t": None}], None, []], pa.list_(pa.struct([("t", kind)])))
    options: dict[str, Any] = {"use_deprecated_int96_timestamps": True, "use_dictionary": False, "compression": "none"}
    path = write_file(tmp_path, {"v": nested}, **options, write_statistics=False)
    assert show(list_rows(path)) == [[{"t": "2026-03-15T12:00:00.000000001"}, {"t": None}], None, []]
    body = path.read_bytes()
    day, far = (2_440_588 + 20_527).to_bytes(4, "little"), (2_440_588 + 2_932_896).to_bytes(4, "little")
    assert body.count(day) == 1
    path.write_bytes(body.replace(day, far))
    assert show(list_rows(path)) == [[{"t": "9999-12-31T12:00:00.000000001"}, {"t": None}], None, []]


def write_int96(tmp_path: Path, instants: list[str]) -> Path:
    """Write instants as INT96: nanoseconds of the day in 8 bytes, and the Julian day in 4 bytes."""
    import numpy as np

    path = tmp_path / "int96.parquet"
    stand_ins = [1000 + number for number in range(len(instants))]
    options: dict[str, Any] = {"use_deprecated_int96_timestamps": True, "use_dictionary": False}
    options |= {"compression": "none", "write_statistics": False}
    table = pa.table({"time": [1000] * len(instants), "at": pa.array(stand_ins, pa.timestamp("ns"))})
    parquet.write_table(table, path, **options)
    body = path.read_bytes()
    for stand_in, instant in zip(stand_ins, instants, strict=True):
        day = np.datetime64(instant[:10], "D")
        of_day = int((np.datetime64(f"1970-01-01{instant[10:]}", "ns") - np.datetime64("1970-01-01", "ns")).astype(int))
        old = stand_in.to_bytes(8, "little") + (2_440_588).to_bytes(4, "little")
        assert body.count(old) == 1
        body = body.replace(
            old, of_day.to_bytes(8, "little") + (2_440_588 + int(day.astype(int))).to_bytes(4, "little")
        )
    path.write_bytes(body)
    return path


def test_text_that_is_not_utf_8_spoils_its_row_alone(tmp_path: Path) -> None:
    raw = pa.array([b"good", b"\xff", b"fine"], pa.binary())
    text = pa.StringArray.from_buffers(3, *raw.buffers()[1:])
    first, second, third = show(list_rows(write_file(tmp_path, {"v": text})))
    assert (first, third) == ("good", "fine")
    assert "v: the value cannot be read: 'utf-8' codec can't decode byte 0xff" in second


def test_the_text_of_a_refused_row_has_its_other_values(tmp_path: Path) -> None:
    array = pa.array([LAST + 1], pa.int64()).cast(pa.timestamp("s"))
    (row,) = list_rows(write_file(tmp_path, {"n": [float("nan")], "v": array}))
    assert row.text == b'{"time": 1000, "n": NaN, "v": "(the date lies outside the years 1 to 9999)"}'


def test_series_and_ids_that_are_bytes_are_text(tmp_path: Path) -> None:
    path = write_file(tmp_path, {"s": pa.array([b"x", b"\xff"], pa.binary()), "i": pa.array([b"1", b"2"], pa.binary())})
    good, bad = list_rows(path, series="s", id="i")
    assert good.event == {"series": "x", "time": 1000, "id": "1", "data": {}}
    assert "s: the value cannot be read" in bad.problem


@pytest.mark.parametrize(
    ("array", "columns", "expected"),
    [
        (pa.array([20_528], pa.date32()), {}, "2026-03-16T00:00:00Z"),
        (pa.array([1_773_572_400_123_456_789], pa.timestamp("ns", "UTC")), {}, "2026-03-15T11:00:00.123456789Z"),
        (pa.array([1_773_572_400_123_456_789]), {"time_unit": "ns"}, "2026-03-15T11:00:00.123456789Z"),
        (pa.array([1_773_572_400], pa.timestamp("s")), {"utc": True}, "2026-03-15T11:00:00Z"),
        (pa.array([1_773_572_400.5]), {"time_unit": "s"}, 1_773_572_400_500),
        (pa.array(["2026-03-15"]), {}, "2026-03-15T00:00:00Z"),
        (pa.array([b"2026-03-15"]), {}, "2026-03-15T00:00:00Z"),
        (pa.array([20260315]), {"time_format": "%Y%m%d"}, "2026-03-15T00:00:00+00:00"),
    ],
)
def test_a_time_may_have_any_type(tmp_path: Path, array: Any, columns: dict[str, Any], expected: Any) -> None:
    (row,) = list_rows(write_file(tmp_path, {"at": array}), time="at", **columns)
    assert row.event is not None, row.problem
    assert row.event["time"] == expected


def test_a_time_of_parquet_without_an_offset_needs_the_option(tmp_path: Path) -> None:
    path = write_file(tmp_path, {"at": pa.array([datetime(2026, 3, 15, 12)])})  # noqa: DTZ001 - the point of the test
    (row,) = list_rows(path, time="at")
    assert "has no offset: --utc reads such times as UTC" in row.problem


def test_an_epoch_that_is_not_finite_is_refused(tmp_path: Path) -> None:
    rows = list_rows(write_file(tmp_path, {"at": [float("nan"), float("inf")]}), time="at")
    assert [row.problem for row in rows] == ["the time nan is not a time", "the time inf is not a time"]


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    parquet.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["n", "n"]), tmp_path / "a.parquet")
    with pytest.raises(SourceError, match="two columns are called 'n': rename one"):
        open_source(tmp_path / "a.parquet", None, Columns())


def read_words(path: Path) -> str:
    """The words with which a file is refused."""
    with pytest.raises(SourceError) as error:
        list(open_source(path, None, Columns(series="=a")).read())
    return str(error.value)


def test_a_damaged_file_is_refused_in_words(tmp_path: Path) -> None:
    path = write_file(tmp_path, {"v": list(range(5000))}, row_group_size=2000, compression="none", use_dictionary=False)
    body = path.read_bytes()
    for damaged in (b"", b"PAR1", body[:-1], body[: len(body) // 2], body[:-8] + b"\xff\xff\xff\x7fPAR1", b"x" * 5000):
        path.write_bytes(damaged)
        assert f"{path} cannot be read as Parquet: " in read_words(path)


def test_a_damaged_page_is_named_with_the_row_before_it(tmp_path: Path) -> None:
    options = {"row_group_size": 2000, "compression": "none", "use_dictionary": False, "write_page_checksum": True}
    path = write_file(tmp_path, {"v": list(range(10_000, 15_000))}, **options)
    body = path.read_bytes()
    number = (14_500).to_bytes(8, "little")
    assert body.count(number) == 1
    path.write_bytes(body.replace(number, (99).to_bytes(8, "little")))
    words = read_words(path)
    assert f"{path} cannot be read after row 4,000: " in words
    assert "CRC" in words


def test_an_encrypted_file_is_refused_in_words(tmp_path: Path) -> None:
    path = write_file(tmp_path, {"v": [1]})
    body = path.read_bytes()
    path.write_bytes(b"PARE" + body[4:-4] + b"PARE")
    assert "cannot be read as Parquet: " in read_words(path)


def test_a_file_of_rows_that_no_event_can_hold_is_not_read(tmp_path: Path) -> None:
    path = write_file(tmp_path, {"v": ["x" * 65_000_000]}, compression="zstd", use_dictionary=False)
    assert "has rows of more than 64,000,000 bytes, but an event has 2.5 MB at most" in read_words(path)


def test_no_file_changed_at_any_place_ends_in_a_traceback(tmp_path: Path) -> None:
    """Every third byte of a small file is turned over. The file is then read, refused row by row, or refused in words."""
    columns = {"s": ["x", "y"], "l": [[1], [2, 3]], "v": pa.array([1, 2], pa.timestamp("us"))}
    body = write_file(tmp_path, columns, compression="none", write_page_checksum=True).read_bytes()
    path = tmp_path / "b.parquet"
    refused = 0
    for place in range(0, len(body), 3):
        path.write_bytes(body[:place] + bytes([body[place] ^ 0xFF]) + body[place + 1 :])
        try:
            list(open_source(path, None, Columns(series="=a")).read())
        except SourceError:
            refused += 1
    assert refused > 50
