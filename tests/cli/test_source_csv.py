"""CSV that is damaged or odd: each row is an event, is refused with its text, or the file ends with the line."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from cli.sources import Columns, Row, SourceError, open_source


def list_rows(tmp_path: Path, content: str | bytes, **columns: Any) -> list[Row]:
    path = tmp_path / "a.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return list(open_source(path, None, Columns(**columns)).read())


def show(rows: list[Row]) -> list[Any]:
    """The data of each row, or its problem."""
    return [row.problem if row.event is None else row.event["data"] for row in rows]


HEADER = "series,time,n\n"


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ('a,1,1\na,2,"2\na,3,3\na,4,4\n', 3),  # the quote swallows the rest of the file
        ('a,1,"1', 2),
        ('a,1,1\na,2,"2\na,3,"3"\na,4,4\n', 3),  # the next quoted cell ends it
        ('a,1,"two\nlines"\na,2,"2\n', 4),
        ('a,1,1\n\n\na,2,"2\n', 5),
    ],
)
def test_a_quote_that_is_not_closed_ends_the_file_with_its_line(tmp_path: Path, content: str, line: int) -> None:
    path = tmp_path / "a.csv"
    path.write_text(HEADER + content)
    rows = open_source(path, None, Columns()).read()
    with pytest.raises(SourceError, match=rf"a\.csv, line {line}: a quote is not closed in the row that begins here"):
        list(rows)


def test_the_rows_before_an_open_quote_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(HEADER + 'a,1,1\na,2,"2\na,3,3\n')
    rows = open_source(path, None, Columns()).read()
    assert show([next(rows)]) == [{"n": 1}]


def test_lines_in_a_cell_that_are_rows_themselves_are_refused(tmp_path: Path) -> None:
    """Two lone quotes make one cell of all that lies between them."""
    rows = list_rows(tmp_path, HEADER + 'a,1000,"open\nb,2000,x\nc,3000,5"\nd,4000,4\n')
    assert show(rows) == ["a cell holds lines that are rows themselves: a quote may not be closed there", {"n": 4}]
    assert rows[0].text == b'a,1000,"open\nb,2000,x\nc,3000,5"'
    first, second = list_rows(tmp_path, HEADER + 'a,1000,"open\nb,2000,5"\nc,3000,3\n')
    assert (first.event, show([second])) == (None, [{"n": 3}])


def test_a_cell_may_have_lines_and_quotes(tmp_path: Path) -> None:
    rows = list_rows(tmp_path, HEADER + 'a,1,"one\n\ntwo, ""three""\r\nx"\na,2,5" pipe\na,3,""\n')
    assert show(rows) == [{"n": 'one\n\ntwo, "three"\r\nx'}, {"n": '5" pipe'}, {}]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("a,1", "the row has 2 cells, but the header has 3 columns"),
        ("a", "the row has 1 cells, but the header has 3 columns"),
        ("a,1,2,3", "the row has 4 cells, but the header has 3 columns"),
        ("a,1,2,", "the row has 4 cells, but the header has 3 columns"),
        ('a,1,"2"3', "line 3 is not CSV: ',' expected after '\"'"),
        ('a,1,"2" ', "line 3 is not CSV: ',' expected after '\"'"),
        ("a,1,\0", "the row has a NUL byte"),
        (b"a,1,caf\xe9", "the row is not text in UTF-8: convert the file with iconv -t UTF-8"),
        (b"a,1,\xed\xa0\x80", "the row is not text in UTF-8: convert the file with iconv -t UTF-8"),
        ("a,1," + "9" * 5000, f"n: {'9' * 40} is a number that cannot be stored: --text n keeps it as text"),
        (
            "a,1,1e999999999999999999999",
            "n: 1e999999999999999999999 is a number that cannot be stored: --text n keeps it as text",
        ),
        ("a,1," + "x" * 5_000_001, "line 3 is not CSV: field larger than field limit (5000000)"),
    ],
)
def test_a_damaged_row_is_refused_alone_with_its_text(tmp_path: Path, row: str | bytes, problem: str) -> None:
    text = row.encode() if isinstance(row, str) else row
    before, damaged, after = list_rows(tmp_path, HEADER.encode() + b"a,1,1\n" + text + b"\r\na,2,2\n")
    assert show([before, damaged, after]) == [{"n": 1}, problem, {"n": 2}]
    assert (damaged.number, damaged.text) == (1, text)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_line_end_is_one_also_if_the_last_is_missing(tmp_path: Path, end: str) -> None:
    rows = list_rows(tmp_path, end.join(["series,time,n", "a,1,1", "", "  ", "a,2,2"]))
    assert show(rows) == [{"n": 1}, {"n": 2}]


def test_other_separators_of_lines_are_text(tmp_path: Path) -> None:
    assert show(list_rows(tmp_path, HEADER + "a,1,x\u2028y\x0bz\x85\n")) == [{"n": "x\u2028y\x0bz\x85"}]


def test_a_cell_may_be_as_large_as_an_event(tmp_path: Path) -> None:
    for content in (HEADER + "a,1," + "x" * 2_500_000 + "\n", HEADER + 'a,1,"' + "x" * 2_500_000 + '"\n'):
        assert show(list_rows(tmp_path, content)) == [{"n": "x" * 2_500_000}]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("series,time,n,n\n", "line 1: two columns are called 'n': rename one"),
        ("series,time,n, n\n", "line 1: two columns are called 'n': rename one"),
        ('series,time,"n\n', "line 1: the header cannot be read"),
        (b"series,time,caf\xe9\n", "line 1: the header is not text in UTF-8"),
        ("series;time;n\na;1;1\n", "line 1: the header has one column with ';': the separator of CSV is a comma"),
        ("series\ttime\n", r"line 1: the header has one column with '\\t'"),
        ("series,time\n".encode("utf-16"), "is UTF-16 or UTF-32"),
        ("series,time\n".encode("utf-16-be"), "line 1: the header is not text in UTF-8"),
        ("series,time\n".encode("utf-32"), "is UTF-16 or UTF-32"),
    ],
)
def test_a_header_that_names_no_fields_ends_the_file(tmp_path: Path, content: str | bytes, reason: str) -> None:
    with pytest.raises(SourceError, match=reason):
        list_rows(tmp_path, content)


def test_blank_lines_before_the_header_are_left_out(tmp_path: Path) -> None:
    assert show(list_rows(tmp_path, "\n  \r\n" + HEADER + "a,1,2\n")) == [{"n": 2}]
    with pytest.raises(SourceError, match="line 3: two columns are called 'n'"):
        list_rows(tmp_path, "\n\nseries,time,n,n\n")


def test_a_blank_before_a_quote_is_refused(tmp_path: Path) -> None:
    """To the reader of CSV, the quotes are then parts of the text."""
    rows = list_rows(tmp_path, HEADER + 'a,1, "x"\na,2,\t"2" \n "a",3,3\na,4," ""y"""\na,5,"x, ""z"""\na,6, 6" \n')
    problem = "a blank stands before the quote of a cell, which is a part of the cell's text then: remove the blank"
    assert show(rows) == [problem, problem, problem, {"n": ' "y"'}, {"n": 'x, "z"'}, {"n": ' 6" '}]
    with pytest.raises(SourceError, match="line 1: a blank stands before the quote"):
        list_rows(tmp_path, 'series,time, "n"\na,1,1\n')


def test_a_column_that_should_stay_text_must_exist(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="line 1: --text zpi: the file has no such column"):
        list_rows(tmp_path, "series,time,zip\na,1,00501\n", text=("zip", "zpi"))
    (tmp_path / "a.ndjson").write_text('{"series": "a", "time": 1, "zip": 5}')
    with pytest.raises(SourceError, match="--text is for CSV"):
        open_source(tmp_path / "a.ndjson", None, Columns(text=("zip",)))


def test_a_value_in_a_column_without_a_name_is_not_lost(tmp_path: Path) -> None:
    """A file with a separator at the end of each line has an empty column. That of pandas has the row's number."""
    assert show(list_rows(tmp_path, "series,time,n,,\na,1,1,,\n")) == [{"n": 1}]
    problem = "column 1 has a value, but no name: name it in the header, or remove it"
    assert show(list_rows(tmp_path, ",series,time,n\n0,a,1,1\n")) == [problem]


def test_blanks_around_a_number_are_not_part_of_it(tmp_path: Path) -> None:
    rows = list_rows(tmp_path, "series, time, n,\tok, note, zip\na, 1, 12.5,\ttrue , x ,  7\n", text=("zip",))
    assert rows[0].event == {
        "series": "a",
        "time": 1,
        "data": {"n": 12.5, "ok": True, "note": " x ", "zip": "  7"},
    }


def test_the_columns_with_numbers_and_texts_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("series,time,n,ok,all,text\na,1,1,true,1,x\na,2,n/a,True,2,y\na,3,,,3,\na,4,.5,,4,z\nbad\n")
    source = open_source(path, None, Columns())
    for _ in range(2):  # each reading counts anew
        list(source.read())
        assert source.list_remarks() == [
            "column n: 2 cells are text, such as 'n/a', and 1 are numbers or booleans; --text n keeps all of them as text",
            "column ok: 1 cells are text, such as 'True', and 1 are numbers or booleans; --text ok keeps all of them as text",
        ]


def test_a_mark_of_the_byte_order_and_compression_change_nothing(tmp_path: Path) -> None:
    assert show(list_rows(tmp_path, b"\xef\xbb\xbf" + HEADER.encode() + b"a,1,1\n")) == [{"n": 1}]
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(HEADER.encode() + b'a,1,1\na,2,"2"3\n'))
    assert show(list(open_source(path, None, Columns()).read())) == [
        {"n": 1},
        "line 3 is not CSV: ',' expected after '\"'",
    ]


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    assert list_rows(tmp_path, "") == list_rows(tmp_path, HEADER) == []
