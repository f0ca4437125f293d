"""Line protocol: what becomes of each point, and the answers of the three versions' routes."""

import gzip
from decimal import Decimal

import pytest

from tests.worlds.doors import Doors, config
from tests.worlds.influx import V1, V2, V3, T, write
from tidetable.config.stream import InfluxPolicy


def test_a_point_becomes_an_event_with_its_tags_and_fields(doors: Doors) -> None:
    reply = write(doors, f'cpu,host=a,region=eu idle=0.5,n=3i,u=18446744073709551615u,up=true,why="x \\"y\\"" {T}')
    assert (reply.status, reply.body) == (204, b"")
    (event,) = doors.events()
    assert (event["series"], event["time"]) == ("cpu,host=a,region=eu", "2026-03-01T00:04:00.000000Z")
    assert event["data"] == {
        "measurement": "cpu",
        "host": "a",
        "region": "eu",
        "idle": Decimal("0.5"),
        "n": 3,
        "u": 18446744073709551615,
        "up": True,
        "why": 'x "y"',
    }


def test_the_same_lines_again_change_nothing_and_other_fields_of_the_point_are_kept_beside(doors: Doors) -> None:
    for _ in range(2):
        assert write(doors, f"cpu,host=a idle=1 {T}").status == 204
    write(doors, f"cpu,host=a user=2 {T}")
    write(doors, f"cpu,host=a idle=3 {T}")
    assert [event["data"].get("idle", event["data"].get("user")) for event in doors.events()] in ([3, 2], [2, 3])


def test_lines_of_one_point_in_one_request_are_one_event(doors: Doors) -> None:
    write(doors, f"cpu,host=a idle=1 {T}\ncpu,host=b idle=5 {T}\ncpu,host=a user=2 {T}\ncpu,host=a idle=4 {T}\n")
    first, second = doors.events()
    assert first["data"] == {"measurement": "cpu", "host": "a", "idle": 4, "user": 2}
    assert second["data"] == {"measurement": "cpu", "host": "b", "idle": 5}


def test_points_of_one_microsecond_are_kept_apart_by_their_nanoseconds(doors: Doors) -> None:
    write(doors, f"cpu idle=1 {T + 1}\ncpu idle=2 {T + 999}\ncpu idle=3 {T}")
    ids = [event["id"] for event in doors.events()]
    assert sorted(id.partition("-")[2] for id in ids) == ["", "001", "999"]
    assert len({id.partition("-")[0] for id in ids}) == 1


def test_order_of_tags_and_fields_does_not_matter(doors: Doors) -> None:
    write(doors, f"cpu,a=1,b=2 x=1,y=2 {T}")
    write(doors, f"cpu,b=2,a=1 y=3,x=4 {T}")
    (event,) = doors.events()
    assert (event["data"]["x"], event["data"]["y"]) == (4, 3)


@pytest.mark.parametrize(
    ("route", "precision", "stamp"),
    [
        (V2, "", T),
        (V2, "ns", T),
        (V2, "us", T // 10**3),
        (V2, "ms", T // 10**6),
        (V2, "s", T // 10**9),
        (V1, "", T),
        (V1, "n", T),
        (V1, "u", T // 10**3),
        (V1, "ms", T // 10**6),
        (V1, "s", T // 10**9),
        (V1, "m", T // (60 * 10**9)),
        (V3, "", T),
        (V3, "", T // 10**3),
        (V3, "", T // 10**6),
        (V3, "", T // 10**9),
        (V3, "auto", T // 10**6),
        (V3, "nanosecond", T),
        (V3, "microsecond", T // 10**3),
        (V3, "millisecond", T // 10**6),
        (V3, "second", T // 10**9),
    ],
)
def test_each_version_knows_its_precisions(doors: Doors, route: str, precision: str, stamp: int) -> None:
    reply = write(doors, f"cpu idle=1 {stamp}", route, f"precision={precision}" if precision else "")
    assert (reply.status, [event["time"] for event in doors.events()]) == (204, ["2026-03-01T00:04:00.000000Z"])


@pytest.mark.parametrize(
    ("stamp", "time"),
    [
        (4_999_999_999, "2128-06-11T08:53:19.000000Z"),
        (5_000_000_000, "1970-02-27T20:53:20.000000Z"),
        (4_999_999_999_999, "2128-06-11T08:53:19.999000Z"),
        (5_000_000_000_000, "1970-02-27T20:53:20.000000Z"),
        (4_999_999_999_999_999, "2128-06-11T08:53:19.999999Z"),
        (5_000_000_000_000_000, "1970-02-27T20:53:20.000000Z"),
    ],
)
def test_version_3_guesses_the_unit_of_a_time_by_its_size(doors: Doors, stamp: int, time: str) -> None:
    """Such times are outside of the window, so the refusal says how each was read."""
    reply = write(doors, f"cpu idle=1 {stamp}", V3)
    assert reply.status == 400
    assert reply.document["data"][0]["error_message"].startswith(f"{time} is ")


def test_hours_are_a_precision_of_version_1(doors: Doors) -> None:
    assert write(doors, f"cpu idle=1 {T // (3600 * 10**9)}", V1, "precision=h").status == 204
    assert doors.events()[0]["time"] == "2026-03-01T00:00:00.000000Z"


def test_a_line_without_a_time_has_the_time_of_its_arrival(doors: Doors) -> None:
    write(doors, "cpu idle=1\ncpu idle=2")
    assert [(event["time"], event["data"]["idle"]) for event in doors.events()] == [("2026-03-01T00:05:00.000000Z", 2)]


def test_texts_may_hold_ends_of_lines_and_any_quotes(doors: Doors) -> None:
    body = f'log msg="first\nsecond, \\"third\\"\n\n# no comment" {T}\nlog,host=a"b n=1 {T}\r\n'
    body += f'# a comment\n\nother m="x",o="y\nz" {T}\n'
    assert write(doors, body).status == 204
    datas = [event["data"] for event in doors.events()]
    assert {"measurement": "log", "msg": 'first\nsecond, "third"\n\n# no comment'} in datas
    assert {"measurement": "log", "host": 'a"b', "n": 1} in datas
    assert {"measurement": "other", "m": "x", "o": "y\nz"} in datas


def test_a_line_with_a_lone_quote_does_not_take_its_neighbours_along(doors: Doors) -> None:
    reply = write(doors, f'log m="open {T}\nlog,a=1 n=1 {T}\nlog,a=2 n=2 {T}\nlog p="also open {T}')
    assert reply.status == 400
    assert [event["data"]["n"] for event in doors.events()] == [1, 2]
    assert reply.document["line"] == 1


def test_a_field_and_a_tag_of_one_name_are_both_kept(doors: Doors) -> None:
    write(doors, f"cpu,load=high,measurement=m load=0.5 {T}")
    assert doors.events()[0]["data"] == {
        "load": Decimal("0.5"),
        "load_tag": "high",
        "measurement": "cpu",
        "measurement_tag": "m",
    }


def test_numbers_that_dynamodb_cannot_hold_are_kept_as_text(doors: Doors) -> None:
    write(doors, f"cpu big=1e200,small=1e-200,edge=9.9e125,zero=0 {T}")
    assert doors.events()[0]["data"] == {
        "measurement": "cpu", "big_text": "1e+200", "small_text": "1e-200", "edge": Decimal("9.9E+125"), "zero": 0,
    }  # fmt: skip


def test_a_template_makes_the_series_and_the_id_still_tells_the_points_apart() -> None:
    doors = Doors(config(influx=InfluxPolicy(series="{measurement}/{host}")))
    reply = write(doors, f"cpu,host=a,core=1 v=1 {T}\ncpu,host=a,core=2 v=2 {T}\ncpu,core=3 v=3 {T}")
    assert (reply.status, reply.document["line"]) == (400, 3)
    assert "'host'" in reply.document["message"]
    assert [event["series"] for event in doors.events()] == ["cpu/a", "cpu/a"]


def test_a_long_series_is_cut_and_stays_a_name_of_its_own(doors: Doors) -> None:
    tags = ",".join(f"tag{n}={'x' * 30}" for n in range(20))
    assert write(doors, f"cpu,{tags},z=1 v=1 {T}\ncpu,{tags},z=2 v=2 {T}").status == 204
    names = {event["series"] for event in doors.events()}
    assert len(names) == 2
    assert all(name.startswith("cpu,tag0=xxxx") and len(name) < 130 for name in names)


def test_a_bucket_may_be_followed_by_a_retention_policy(doors: Doors) -> None:
    assert doors.call("POST", V2, f"cpu v=1 {T}", query="bucket=quakes/autogen").status == 204


def test_bodies_are_plain_or_gzip_of_several_members(doors: Doors) -> None:
    body = gzip.compress(f"cpu a=1 {T}\n".encode()) + gzip.compress(f"mem b=2 {T}\n".encode())
    assert write(doors, body, content_encoding="gzip").status == 204
    assert len(doors.events()) == 2
