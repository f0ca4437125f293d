"""Line protocol at its edges: quotes, names that meet, precisions, and what an answer holds at the most."""

import zlib
from datetime import UTC, datetime
from decimal import Decimal
from time import process_time
from typing import Any

import pytest

from doors.door import DoorRequest
from doors.influx_door import InfluxDoor
from doors.parsers.lines import parse_line
from tests.worlds.doors import Doors, config
from tests.worlds.influx import OLD, V1, V2, V3, T, write
from tidetable.config.stream import InfluxPolicy
from tidetable.problems import Problem

BAD = "cpu idle="


@pytest.mark.parametrize(
    ("line", "data"),
    [
        ("cpu,load=high load=1,load_tag=2", {"load": 1, "load_tag": 2, "load_tag_tag": "high", "measurement": "cpu"}),
        ('cpu measurement="mine"', {"measurement": "mine", "measurement_name": "cpu"}),
        (
            'cpu,measurement=tag,measurement_name=n measurement="mine"',
            {
                "measurement": "mine",
                "measurement_name": "cpu",
                "measurement_tag": "tag",
                "measurement_name_tag": "n",
            },
        ),
        # The text ends with a backslash, so that the quote after it is the end of the text.
        ('log msg="first\nsecond\\\\"', {"msg": "first\nsecond\\", "measurement": "log"}),
        # The quote after a backslash is part of the text.
        ('log msg="5\\" pipe\nend"', {"msg": '5" pipe\nend', "measurement": "log"}),
        ("cpu cold=-40.5,tiny=-1e-200", {"cold": -40.5, "tiny_text": "-1e-200", "measurement": "cpu"}),
        # Java's Double.MIN_VALUE, and other numbers below 2.2e-308.
        (
            "cpu,a=5e-324 v=4.9e-324,w=-1e-310,x=1e-400,y=2.2250738585072014e-308,z=0e-999,n=1i",
            {
                "v_text": "5e-324",
                "w_text": "-1e-310",
                "x_text": "1E-400",
                "y_text": "2.2250738585072014e-308",
                "z": 0,
                "n": 1,
                "a": "5e-324",
                "measurement": "cpu",
            },
        ),
        (f"cpu v={'0.' + '0' * 330}5", {"v_text": "5E-331", "measurement": "cpu"}),
        (
            'cpu v=5e-324,s="x=5e-324, \\"y=5e-324\\"",t=1',
            {"v_text": "5e-324", "s": 'x=5e-324, "y=5e-324"', "t": 1, "measurement": "cpu"},
        ),
        # Quotes in the measurement, in tags and in names of fields are usual characters.
        ('log,size=5" v="a\nb"', {"size": '5"', "v": "a\nb", "measurement": "log"}),
        (
            'log,size=5"\\ x" v="a\n\n b\\"c",w="d\ne"',
            {"size": '5" x"', "v": 'a\n\n b"c', "w": "d\ne", "measurement": "log"},
        ),
        ('lo"g v"w="a\nb=\\"c",n=1', {'v"w': 'a\nb="c', "n": 1, "measurement": 'lo"g'}),
        ('log v="a",w="b\nc"', {"v": "a", "w": "b\nc", "measurement": "log"}),
        ('log v="a\nb",w="c\nd"', {"v": "a\nb", "w": "c\nd", "measurement": "log"}),
        # The text of a number replaces no other field, in whatever order they come.
        ('cpu v=1e200,v_text="a"', {"v_text": "a", "v_text_text": "1e+200", "measurement": "cpu"}),
        ('cpu v_text="a",v=1e200', {"v_text": "a", "v_text_text": "1e+200", "measurement": "cpu"}),
        ("cpu v_text=1.5,v=1e200", {"v_text": 1.5, "v_text_text": "1e+200", "measurement": "cpu"}),
    ],
)
def test_a_line_is_stored_whole_whatever_its_names_and_quotes(doors: Doors, line: str, data: dict[str, Any]) -> None:
    assert write(doors, f"{line} {T}\nother n=1 {T}").status == 204
    assert data in [event["data"] for event in doors.events()]
    assert len(doors.events()) == 2


def test_only_a_text_that_is_open_joins_lines(doors: Doors) -> None:
    """The second line is wrong by itself; the quotes of its neighbours are parts of tags."""
    reply = write(doors, f'log,a="b n=1 {T}\ncpu\nx,c="d n=2 {T}', V3)
    assert [line["line_number"] for line in reply.document["data"]] == [2]
    assert [event["data"]["n"] for event in doors.events()] == [1, 2]


def test_both_letters_for_micro_are_a_precision(doors: Doors) -> None:
    assert write(doors, f"cpu v=1 {T // 1000}", V1, "precision=%C2%B5").status == 204
    assert doors.events()[0]["time"] == "2026-03-01T00:04:00.000000Z"


@pytest.mark.parametrize("word", ["false", "False", "FALSE"])
def test_a_request_is_strict_however_the_word_is_written(doors: Doors, word: str) -> None:
    assert write(doors, f"cpu v=1 {T}\n{BAD}", V3, f"accept_partial={word}").status == 400
    assert doors.events() == []


def test_version_2_names_the_malformed_line_even_after_one_outside_the_window(doors: Doors) -> None:
    reply = write(doors, f"cpu v=1 {OLD}\ncpu idle= {T}")
    assert (reply.status, reply.document["code"], reply.document["line"]) == (400, "invalid", 2)


def test_version_3_quotes_a_thousand_characters_of_a_line_without_its_end(doors: Doors) -> None:
    reply = write(doors, f"{BAD}\r\n{BAD}{'x' * 2000}\n", V3)
    short, long = (line["original_line"] for line in reply.document["data"])
    assert short == BAD
    assert long == BAD + "x" * (1000 - len(BAD))


def test_version_3_calls_a_write_partial_if_its_other_lines_are_queued(doors: Doors) -> None:
    doors.store.throttles = {"tidetable-t.quakes.2026-03-01"}
    reply = write(doors, f"cpu v=1 {T}\n{BAD}", V3, seconds=14)
    assert (reply.status, reply.document["error"]) == (400, "partial write of line protocol occurred")


def test_refused_lines_are_listed_in_their_order_though_a_point_has_several(doors: Doors) -> None:
    reply = write(doors, f"cpu a=1 {OLD}\nmem a=1 {OLD}\ncpu b=1 {OLD}", V3)
    assert [line["line_number"] for line in reply.document["data"]] == [1, 2, 3]


@pytest.mark.parametrize(("count", "more"), [(3, False), (4, True)])
def test_three_reasons_are_in_a_message_and_the_others_are_counted(doors: Doors, count: int, more: bool) -> None:
    message = write(doors, f"{BAD}\n" * count).document["message"]
    assert "line 3: " in message
    assert "line 4: " not in message
    assert ("and 1 more lines" in message, "more lines" in message) == (more, more)


def test_the_header_of_version_1_is_a_line_of_ascii_of_at_most_500_characters() -> None:
    doors = Doors(config(influx=InfluxPolicy(series="{höst}" + "x" * 300)))
    header = write(doors, f"cpu v=1 {T}\ncpu v=2 {T}\ncpu v=3 {T}", V1).headers["x-influxdb-error"]
    assert header.startswith("partial write: line 1: series: there is no 'h?st'")
    assert len(header) == 500


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, "invalid"), (401, "unauthorized"), (415, "invalid"), (429, "too many requests"), (500, "internal error"),
     (504, "internal error")],
)  # fmt: skip
def test_version_2_has_a_code_for_every_status(status: int, code: str) -> None:
    request = DoorRequest(V2, datetime(2026, 3, 1, tzinfo=UTC))
    answer = InfluxDoor(parse_line).refuse(request, Problem(status, "x", "detail", headers={"Retry-After": "7"}))
    assert (answer.status, answer.headers) == (status, {"Retry-After": "7"})
    assert answer.body == f'{{"code":"{code}","message":"detail"}}'.encode()


@pytest.mark.parametrize("encoding", ["x-gzip", " GZIP ", "Identity"])
def test_encodings_have_two_names_and_any_case(doors: Doors, encoding: str) -> None:
    assert write(doors, f"cpu v=1 {T}", content_encoding=encoding).status == 204


@pytest.mark.parametrize("encoding", ["identity", "gzip", ""])
def test_a_body_that_begins_like_deflate_is_not_inflated_by_itself(doors: Doors, encoding: str) -> None:
    """The letter x and a circumflex are the first bytes of some zlib streams."""
    assert write(doors, f"x^2 v=1 {T}", content_encoding=encoding).status == 204


@pytest.mark.parametrize("level", [0, 1, 5, 6, 9])
def test_deflate_of_any_level_is_inflated(doors: Doors, level: int) -> None:
    body = zlib.compress(f"cpu v=1 {T}".encode(), level)
    assert write(doors, body, content_encoding="deflate").status == 204


def test_ten_thousand_lines_are_the_most_whatever_the_configuration_says() -> None:
    doors = Doors(config({"max_events": 2000}))
    assert write(doors, "a b=1\n" * 10_000).status == 204
    assert write(doors, "a b=1\n" * 10_001).status == 413


@pytest.mark.parametrize("text", ["", "x" * 40])
def test_an_encoding_that_is_not_understood_is_cut_in_the_error(doors: Doors, text: str) -> None:
    reply = write(doors, f"cpu v=1 {T}", content_encoding="br" + text)
    assert (reply.status, reply.document["message"]) == (
        415,
        f"Content-Encoding {('br' + text)[:32]!r} is not understood: send gzip, or none",
    )


def test_a_body_that_is_no_deflate_after_all_is_damaged(doors: Doors) -> None:
    """Its first two bytes are those of a zlib stream."""
    reply = write(doors, b"\x78\x9cno deflate", content_encoding="deflate")
    assert (reply.status, reply.document["message"][:21]) == (400, "the body is damaged: ")


def test_a_long_series_is_cut_and_stays_a_name_of_its_own(doors: Doors) -> None:
    hosts = ["h" * 600, "h" * 601]
    assert write(doors, "\n".join(f"cpu,host={host} v=1 {T}" for host in hosts)).status == 204
    names = {event["series"] for event in doors.events()}
    assert len(names) == 2
    assert all(name.startswith("cpu,host=" + "h" * 81 + "~") for name in names)


def test_a_line_has_at_most_256_tags_and_the_other_lines_are_stored(doors: Doors) -> None:
    """The library's work grows with the square of the tags, so they are counted before it begins."""
    most, more = (",".join(f"t{number}=1" for number in range(count)) for count in (256, 257))
    reply = write(doors, f"cpu,{most} v=1 {T}\n  cpu,{more} v=2 {T}\nmem v=3 {T}", V3)
    assert reply.status == 400
    assert [(line["line_number"], line["error_message"]) for line in reply.document["data"]] == [
        (2, "the line has 257 tags, more than 256: send the others as fields")
    ]
    assert [event["data"]["v"] for event in doors.events()] == [1, 3]


@pytest.mark.parametrize(
    "line",
    [
        f"cpu,a={'x' * 65_530} v=1 {T}",
        f"{'m' * 65_536} v=1 {T}",
        f"cpu,{'a' * 65_536}=1 v=1 {T}",
        # Without a space, the whole line is the measurement and its tags.
        "cpu," + "x" * 65_536,
    ],
)
def test_the_measurement_and_the_tags_have_at_most_65535_bytes_as_in_influxdb(doors: Doors, line: str) -> None:
    reply = write(doors, f"{line}\nmem v=3 {T}", V3)
    assert [(row["line_number"], row["error_message"]) for row in reply.document["data"]] == [
        (1, "the measurement and the tags have more than 65535 bytes: send shorter tags")
    ]
    assert [event["data"]["v"] for event in doors.events()] == [3]


@pytest.mark.parametrize(
    ("line", "data"),
    [
        # Fields and texts may have any number of commas; in a tag's name, a comma after a backslash is part of the name.
        (f'cpu v="{"," * 70_000}"', {"v": "," * 70_000, "measurement": "cpu"}),
        (f"cpu\\ a,t{chr(92)},=1 v=1" + "".join(f",f{n}=1" for n in range(300)), None),
        (f"cpu,{(chr(92) + ',') * 300}=1 v=1", {"," * 300: "1", "v": 1, "measurement": "cpu"}),
        ("#" + "," * 70_000 + "\ncpu v=1", {"v": 1, "measurement": "cpu"}),
    ],
)
def test_commas_that_separate_no_tags_are_not_counted(doors: Doors, line: str, data: dict[str, Any] | None) -> None:
    assert write(doors, f"{line} {T}").status == 204
    (event,) = doors.events()
    assert data is None or event["data"] == data


@pytest.mark.parametrize("value", ["1e400", "4.9e-324f", "5e-324x", "1e-9999999999", "-", "nan"])
def test_other_numbers_are_refused(doors: Doors, value: str) -> None:
    reply = write(doors, f"cpu v={value},w=5e-324 {T}\ncpu v=1 {T}", V3)
    assert [line["line_number"] for line in reply.document["data"]] == [1]
    assert [event["data"]["v"] for event in doors.events()] == [1]


def test_a_zero_beside_a_tiny_number_stays_a_usual_number() -> None:
    parsed = parse_line("cpu v=5e-324,x=1e-400,z=0e-999,y=-0.0")
    assert parsed is not None
    kinds = {name: type(value) for name, value in parsed["fields"].items()}
    assert kinds == {"v": float, "x": Decimal, "z": float, "y": float}


def test_a_text_that_does_not_end_refuses_only_its_line(doors: Doors) -> None:
    reply = write(doors, f'log v="a {T}\ncpu v=1 {T}\ncpu,t=" v=2 {T}\nlog v="a {T}', V3)
    assert [line["line_number"] for line in reply.document["data"]] == [1, 4]
    assert sorted(event["data"]["v"] for event in doors.events()) == [1, 2]


def test_byte_order_marks_in_front_of_lines_are_skipped(doors: Doors) -> None:
    """Some programs of Windows write one; files that are joined have it in front of several lines."""
    assert write(doors, f"\ufeffcpu,a=b v=1 {T}\n\ufeffmem v=2 {T}\n\ufeff# comment\n").status == 204
    assert sorted(event["series"] for event in doors.events()) == ["cpu,a=b", "mem"]


@pytest.mark.parametrize(
    "line",
    ['m v="a",w="', 'm v="', "\\a", "\t", '="', '="\\', "\\", "m v=5e-324,", "m v=0.", '"', 'm,t=" v="a'],
    ids=repr,
)
def test_no_body_takes_more_time_than_others_of_its_size(line: str) -> None:
    """Work that grew with the square of the size would take minutes: the limit leaves room for a busy machine."""
    doors = Doors(config({"max_events": 1000, "max_body": 1_000_000}))
    for body in (line * (900_000 // len(line)), (line + "\n") * 9_000, (line + "\n") * 9_000 + 'x"'):
        started = process_time()
        assert write(doors, body, V3).status in (204, 400)
        assert process_time() - started < 10
