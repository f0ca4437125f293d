"""The parameters of a simulation: defaults, bounds, and what a caller may see."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.lifecycle.world import NOON, configuration
from tidetable.bill.change import Proposal, parse_change, parse_proposal, simulate_change
from tidetable.bill.workload import Workload, by_hour
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
    assert (workload.batch, workload.archive_days, workload.packed_bytes) == (100, 365, None)
    assert (found.groups, found.change, workload.index_shares) == (100, "", {})


@pytest.mark.parametrize(
    ("name", "value", "fine"),
    [
        ("rate", "0", True),
        ("rate", "10000000", True),
        ("rate", "10000001", False),
        ("rate", "-1", False),
        ("rate", "nan", False),
        ("reads", "1000000", True),
        ("reads", "1000001", False),
        ("bytes", "1", True),
        ("bytes", "0", False),
        ("bytes", "400000", True),
        ("bytes", "400001", False),
        ("bytes", "1.5", False),
        ("batch", "10000", True),
        ("batch", "10001", False),
        ("archive_days", "36500", True),
        ("archive_days", "36501", False),
        ("groups", "100000", True),
        ("groups", "100001", False),
        ("packed_bytes", "400000", True),
        ("packed_bytes", "400001", False),
        ("in_index", "status:0.5", True),
        ("in_index", "other:0.5", False),
        ("in_index", "status:1.5", False),
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


@pytest.mark.parametrize(
    ("stream", "status", "detail"),
    [
        ("", 400, "stream: missing; name one of s$"),
        ("hidden", 403, "may not operate the stream 'hidden'"),
        ("other", 404, "there is no stream 'other'"),
        ("s-hours", 400, "is a rollup of s"),
    ],
)
def test_a_stream_that_cannot_be_simulated_is_named(stream: str, status: int, detail: str) -> None:
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
    ],
)
def test_a_change_is_of_one_stream_alone(text: str) -> None:
    with pytest.raises(ProblemError, match=r"write only keys of \[streams.s\]"):
        parse_change(text, "s")
    assert parse_change("[streams.s]\nretention = 3", "s") == parse_change("retention = 3", "s") == {"retention": 3}


@pytest.fixture
def simulate(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, Any]]:
    """A simulation without the days of its tables, which take longest."""
    monkeypatch.setattr("tidetable.bill.change._live", lambda *_: ())
    plain = configuration(capacity='mode = "on-demand"', more=INDEX, retention=2)
    stream = plain.streams["s"]
    found = Workload(by_hour(1.0, None), 700, 0.0, 4096, 0.0, stream, index_shares={"status": 0.5})
    return lambda change: simulate_change(plain, Proposal(found, 100, change), NOON, "us-east-1")


def test_a_saving_is_what_the_bill_is_less(simulate: Callable[[str], dict[str, Any]]) -> None:
    """A stream is cheaper without its index."""
    found = simulate("index = []")
    assert found["saving"] > 0
    assert found["saving"] == pytest.approx(found["before"]["dollars"] - found["after"]["dollars"])
    assert found["ideas"] == []


def test_the_line_at_fault_is_named(simulate: Callable[[str], dict[str, Any]]) -> None:
    with pytest.raises(ProblemError, match=r"retention.*\(line 2\)"):
        simulate("late = '1d'\nretention = 'much'")


def test_ideas_are_listed_by_their_saving(simulate: Callable[[str], dict[str, Any]]) -> None:
    found = simulate("")
    savings = [idea["saving"] for idea in found["ideas"]]
    assert len(savings) > 2
    assert savings == sorted(savings, reverse=True)
    assert savings[0] > savings[-1]
    assert (found["after"], found["saving"]) == (None, None)


def test_streams_that_a_key_may_not_see_are_not_named() -> None:
    with pytest.raises(ProblemError, match=r"name one of $"):
        parse(lambda _: False, stream="")
