"""The parameters of a load: defaults, bounds, and what a caller may see."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from bill.compare import Proposal, compare_change, parse_change, parse_proposal
from bill.workload import Workload, spread_by_hour
from tests.lifecycle.world import NOON, configuration
from tidetable.problems import ProblemError

INDEX = '[[streams.s.index]]\nname = "status"\npartition_by = "status"'
ROLLUP = '[[streams.s.rollup]]\nname = "hours"\nevery = "1h"\nby = ["series"]\nretention = "365d"'
CONFIG = configuration(capacity='mode = "on-demand"', more=f"{INDEX}\n{ROLLUP}")


def parse(sees: Any = lambda _: True, **query: str | list[str]) -> Proposal:
    known = {"stream": "s", "rate": "50"} | query
    values = {name: value if isinstance(value, list) else [value] for name, value in known.items()}
    return parse_proposal(CONFIG, values, sees)


def test_only_the_stream_and_its_rate_are_required() -> None:
    found = parse()
    workload = found.workload
    assert workload.events_per_second == [50.0] * 24
    assert (workload.event_bytes, workload.reads_per_second, workload.old_reads_per_second) == (1000, 1.0, 0.0)
    assert workload.read_bytes == 8192
    assert (workload.batch, workload.kept_archive_days, workload.packed_bytes) == (100, 365, None)
    assert (workload.groups, found.change, workload.index_shares) == (100, "", {})


@pytest.mark.parametrize(
    ("name", "value", "fine"),
    [
        ("rate", "0", True),
        ("rate", "10000000", True),
        ("rate", "10000001", False),
        ("rate", "-1", False),
        ("rate", "nan", False),
        ("rate", "fast", False),
        ("reads", "0", True),
        ("reads", "1000000", True),
        ("reads", "1000001", False),
        ("bytes", "1", True),
        ("bytes", "0", False),
        ("bytes", "400000", True),
        ("bytes", "400001", False),
        ("bytes", "1.5", False),
        ("bytes", "000000700", True),
        ("bytes", "0000000700", False),
        ("bytes", "1e3", False),
        ("batch", "1", True),
        ("batch", "10000", True),
        ("batch", "10001", False),
        ("batch", "0", False),
        ("reads", "-0.5", False),
        ("old_reads", "-0.5", False),
        ("packed_bytes", "-0.5", False),
        ("old_reads", "1000000", True),
        ("old_reads", "1000001", False),
        ("read_bytes", "1", True),
        ("read_bytes", "10000000", True),
        ("read_bytes", "10000001", False),
        ("read_bytes", "0", False),
        ("archive_days", "0", False),
        ("archive_days", "1", True),
        ("groups", "0", False),
        ("groups", "1", True),
        ("bytes", "-1", False),
        ("packed_bytes", "0", True),
        ("archive_days", "36500", True),
        ("archive_days", "36501", False),
        ("groups", "100000", True),
        ("groups", "100001", False),
        ("packed_bytes", "400000", True),
        ("packed_bytes", "400001", False),
        ("in_index", "status:0.5", True),
        ("in_index", "other:0.5", False),
        ("in_index", "status:0", True),
        ("in_index", "status:1", True),
        ("in_index", "status:1.0", True),
        ("in_index", "status:1.5e-05", True),
        ("in_index", "status:1.5", False),
        ("in_index", "status:1.1", False),
        ("in_index", "status:-0.5", False),
        ("in_index", "status:10e-1", True),
        ("in_index", "status:99e-1", False),
        ("in_index", "status:1.2.3e-5", False),
        ("in_index", "status:.e-5", False),
        ("in_index", "status:00.5", True),
        ("in_index", "status", False),
        ("change", "x" * 3000, True),
        ("change", "x" * 3001, False),
        ("rate", ["1", "2"], False),
        ("colour", "red", False),
    ],
)
def test_each_parameter_has_its_bounds(name: str, value: Any, fine: bool) -> None:
    if fine:
        assert parse(**{name: value})
        return
    with pytest.raises(ProblemError, match=name) as caught:
        parse(**{name: value})
    assert caught.value.problem.status == 400


def test_a_workload_is_what_the_parameters_say() -> None:
    found = parse(
        reads="2.5", old_reads="0.5", bytes="700", read_bytes="9000", batch="40", archive_days="30", groups="7",
        packed_bytes="120", in_index=["status:0.5"], change=" \n late = '2d'\n ",
    )  # fmt: skip
    rates = [50.0] * 24
    stream = CONFIG.streams["s"]
    wanted = Workload(rates, 700, 2.5, 9000, 0.5, stream, 40, 30, {"status": 0.5}, 120.0, by_key=True, groups=7)
    assert (found.workload, found.change) == (wanted, "late = '2d'")


def test_only_keys_are_checked_by_the_authorizer() -> None:
    signed = msgspec.structs.replace(CONFIG, api=msgspec.structs.replace(CONFIG.api, auth="iam"))
    assert parse().workload.by_key
    assert not parse_proposal(signed, {"stream": ["s"], "rate": ["1"]}, lambda _: True).workload.by_key


def test_each_index_has_a_share_of_its_own() -> None:
    two = configuration(capacity='mode = "on-demand"', more=f"{INDEX}\n{INDEX.replace('status', 'kind')}")
    parameters = {"stream": ["s"], "rate": ["1"], "in_index": ["status:0.5", "kind:0.25", "status:1e-05"]}
    found = parse_proposal(two, parameters, lambda _: True)
    assert found.workload.index_shares == {"status": 1e-05, "kind": 0.25}


@pytest.mark.parametrize("values", [{"x" * 65: "1"}, {"in_index": "x" * 65}, {"stream": "x" * 65}])
def test_what_a_caller_sent_is_quoted_up_to_64_characters(values: dict[str, str]) -> None:
    with pytest.raises(ProblemError) as caught:
        parse(lambda name: name == "s", **values)
    assert "x" * 64 in caught.value.problem.detail
    assert "x" * 65 not in caught.value.problem.detail


@pytest.mark.parametrize(
    ("stream", "status", "detail"),
    [
        ("", 400, "stream: missing; name one of s$"),
        ("hidden", 403, "may not operate the stream 'hidden'"),
        ("other", 404, "there is no stream 'other'"),
        ("s-hours", 400, "is a rollup of s"),
    ],
)
def test_a_stream_that_cannot_be_priced_is_named(stream: str, status: int, detail: str) -> None:
    stream = next(name for name in CONFIG.streams if name != "s") if stream == "s-hours" else stream
    with pytest.raises(ProblemError, match=detail) as caught:
        parse(lambda name: name != "hidden", stream=stream)
    assert caught.value.problem.status == status


@pytest.mark.parametrize(
    "text",
    [
        "[streams.other]\nperiod = 'day'",
        "[streams.s]\nx = 1\n[streams.other]\nx = 1",
        "[api]\nx = 1\n[streams.s]\ny = 1",
        "streams = 3",
        "streams.s = 3",
    ],
)
def test_a_change_is_of_one_stream_alone(text: str) -> None:
    with pytest.raises(ProblemError, match=r"write only keys of \[streams.s\]"):
        parse_change(text, "s")
    assert parse_change("[streams.s]\nretention = 3", "s") == parse_change("retention = 3", "s") == {"retention": 3}


@pytest.mark.parametrize(
    "text", ["x = " + "[" * 1_400 + "]" * 1_400, "x = " + "{a=" * 700 + "1" + "}" * 700, "x = " + "[" * 21]
)
def test_a_change_that_is_nested_too_deeply_is_the_callers_mistake(text: str) -> None:
    with pytest.raises(ProblemError) as caught:
        parse_change(text, "s")
    assert (caught.value.problem.status, caught.value.problem.detail) == (400, "change is nested too deeply")
    assert parse_change("x = " + "[" * 20 + "]" * 20 + "\ny = [1]", "s")["y"] == [1]


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, Any]]:
    """The comparison without the days of its tables, which take longest."""
    monkeypatch.setattr("bill.compare._list_days", lambda *_: ())
    plain = configuration(capacity='mode = "on-demand"', more=INDEX, retention=2)
    stream = plain.streams["s"]
    found = Workload(spread_by_hour(1.0, None), 700, 0.0, 4096, 0.0, stream, 100, 30, {"status": 0.5}, groups=70)
    found = replace(found, series_per_request=1, seconds_per_request=1.0)
    return lambda change: compare_change(plain, Proposal(found, change), NOON, "us-east-1")


def test_a_saving_is_what_the_bill_is_less(compare: Callable[[str], dict[str, Any]]) -> None:
    """A stream is cheaper without its index."""
    found = compare("index = []")
    assert found["saving"] > 0
    assert found["saving"] == pytest.approx(found["before"]["dollars"] - found["after"]["dollars"])
    assert found["alternatives"] == []


def test_the_line_at_fault_is_named(compare: Callable[[str], dict[str, Any]]) -> None:
    with pytest.raises(ProblemError, match=r"retention.*\(line 2\)"):
        compare("late = '1d'\nretention = 'much'")


@pytest.mark.parametrize(
    ("change", "details"),
    [
        (
            "late = 'x'\nretention = 'much'",
            ['streams.s.late: "x" is not a duration', "(line 1); streams.s.retention: expected", "(line 2)"],
        ),
        # A key is no other key's end.
        ("relate = 1\nlate = 'x'", ['streams.s.late: "x" is not a duration', "(line 2)"]),
        ("pack = {span = 'x'}", ["streams.s.pack.span: ", "(line 1)"]),
        ("\n[pack]\nspan = 'x'", ["streams.s.pack.span: ", "(line 3)"]),
        ("# none\n[lifecycle]\nstagger = 'x'", ["streams.s.lifecycle: unknown key", "(line 2)"]),
    ],
)
def test_each_problem_has_its_line(compare: Callable[[str], dict[str, Any]], change: str, details: list[str]) -> None:
    with pytest.raises(ProblemError) as caught:
        compare(change)
    assert [text for text in details if text not in caught.value.problem.detail] == []


def test_the_answer_says_what_was_priced(compare: Callable[[str], dict[str, Any]]) -> None:
    found = compare("retention = 3")
    assert (found["stream"], found["change"]) == ("s", "retention = 3")
    assert (found["workload"]["groups"], found["workload"]["archive_days"]) == (70, 30)
    # Without its note, that the stage is in another Region.
    assert found["prices"]["note"] is None
    assert found["workload"]["in_index"] == ["status:0.5"]


def test_other_settings_are_listed_by_their_saving(compare: Callable[[str], dict[str, Any]]) -> None:
    found = compare("")
    savings = [setting["saving"] for setting in found["alternatives"]]
    assert len(savings) > 2
    assert savings == sorted(savings, reverse=True)
    assert savings[0] > savings[-1]
    assert (found["after"], found["saving"]) == (None, None)


def test_a_setting_that_the_configuration_cannot_have_says_why(compare: Callable[[str], dict[str, Any]]) -> None:
    """Packs save units here: the events of a request are of one series."""
    (refused,) = compare("")["refused"]
    assert refused["name"] == "packs"
    assert refused["reason"].startswith("streams.s.index.status: an index has no keys for the events inside a pack")


def test_a_rollup_is_priced_with_the_groups_of_the_question(compare: Callable[[str], dict[str, Any]]) -> None:
    (setting,) = (setting for setting in compare("")["alternatives"] if setting["name"] == "a rollup")
    found = compare(setting["toml"])
    assert setting["dollars"] == pytest.approx(found["after"]["dollars"])
    assert setting["saving"] == pytest.approx(found["saving"])
    # 70 cells of 20 bytes, and 130 of the pack: two units and the edge's.
    (line,) = (line for line in found["after"]["lines"] if line["name"] == "rollup s-hours, writes")
    assert line["how"] == "24 buckets per day of 70 groups, 2 write units each, the edge included"


EARLY = NOON.replace(hour=3, minute=30)


def live(at: datetime = EARLY, **changes: Any) -> list[dict[str, Any]]:
    """The days of the tables of a stream, by default from half past three in the morning on."""
    config = configuration(**changes)
    workload = Workload(spread_by_hour(1.0, None), 700, 0.0, 4096, 0.0, config.streams["s"])
    found = compare_change(config, Proposal(workload, "premake = 2"), at, "")
    days: list[dict[str, Any]] = found["before"]["days"]
    return days


@pytest.mark.parametrize(
    ("changes", "days"),
    [
        # Two days that are kept, the one of late events, and two.
        ({"retention": 2}, [0, 1, 2, 3, 4, 5]),
        ({"retention": 2, "late": "2d"}, [0, 1, 2, 3, 4, 5, 6]),
        # About a dozen of them, and the last.
        ({"retention": 12}, [0, 2, 4, 6, 8, 10, 12, 14, 15]),
        # No more than 400 days, however long the tables are kept.
        ({"period": "month", "retention": 24}, [*range(0, 375, 34), 400]),
        # More than 500 tables: the days of none.
        ({"period": "hour", "retention": 500}, []),
    ],
)
def test_the_days_reach_until_the_number_of_tables_stays_the_same(changes: Any, days: list[int]) -> None:
    found = live(capacity='mode = "on-demand"', **changes)
    assert [day["day"] for day in found] == days
    if changes == {"retention": 2}:
        # At noon: yesterday's table and today's, and two ahead; at last two that are kept.
        assert [day["tables"] for day in found] == [4, 5, 5, 5, 5, 5]


def test_a_day_has_the_units_of_all_tables_at_noon() -> None:
    """Today's table, yesterday's for late events, and two ahead that stand by with one unit each."""
    ladder = 'mode = "provisioned"\nladder = [{ age = 0, write = 9, read = 8 }, { age = "late", write = 2, read = 5 }]'
    first = live(capacity=ladder, retention=2)[0]
    assert [first[name] for name in ("ahead", "open", "late", "closed", "write", "read", "infrequent")] == [
        2, 2, 1, 0, 9 + 2 + 2, 8 + 5 + 2, 0,
    ]  # fmt: skip


def test_the_tables_are_counted_at_noon_exactly() -> None:
    """At noon the hour that ends then is still open. A microsecond later it is closed."""
    for later in (timedelta(minutes=1), timedelta(seconds=1), timedelta(microseconds=1)):
        at = NOON.replace(minute=0, second=0, microsecond=0) + later
        tomorrow = live(at, period="hour", late="0s", retention=30, capacity='mode = "on-demand"')[1]
        assert (tomorrow["day"], tomorrow["open"]) == (1, 2)
    # At noon yesterday's table is closed. It was open until six.
    assert live(NOON.replace(hour=3), late="6h", retention=2, capacity='mode = "on-demand"')[1]["open"] == 1


def test_streams_that_a_key_may_not_see_are_not_named() -> None:
    with pytest.raises(ProblemError, match=r"name one of $"):
        parse(lambda _: False, stream="")
