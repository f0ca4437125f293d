"""The options of `cost` and `simulate`: each is part of the workload that is priced, and the bill is summed up."""

import json
from pathlib import Path
from typing import Any

import pytest

from bill.amounts import Bill, Line
from bill.prices import TableCost
from bill.workload import Workload
from bill.workload_bill import WholeBill
from cli import estimate
from cli.workload import read_shares
from tests.worlds.commands import run
from tests.worlds.estimates import ON_DEMAND
from tidetable.config import Config, Stream, parse

FIELDS = (
    "events_per_second", "event_bytes", "reads_per_second", "read_bytes", "old_reads_per_second", "batch", "archive_days",
    "index_shares", "packed_bytes", "by_key", "groups",
)  # fmt: skip
PLAIN: dict[str, Any] = {
    "events_per_second": [5.0] * 24,
    "event_bytes": 1000,
    "reads_per_second": 1.0,
    "read_bytes": 8192,
    "old_reads_per_second": 0.0,
    "batch": 100,
    "archive_days": None,
    "index_shares": {},
    "packed_bytes": None,
    "by_key": True,
    "groups": 100,
}


@pytest.fixture
def priced(monkeypatch: pytest.MonkeyPatch) -> list[Workload]:
    """The workloads that were priced; the bill is a made-up one."""
    seen: list[Workload] = []

    def price(workload: Workload, _: Config) -> WholeBill:
        seen.append(workload)
        lines = [Line("one", 1200.5, "x"), Line("two", 0.25, "y")]
        return WholeBill(
            lines,
            {"rolling": Bill(TableCost(1.0, 2.0, 3.0), transfer=0.5)},
            ["retries"],
            ["send batches"],
            [Line("alarms", 2.5, "z")],
        )

    monkeypatch.setattr(estimate, "compute_whole_bill", price)
    return seen


def fields_of(workload: Workload) -> dict[str, Any]:
    return {name: getattr(workload, name) for name in FIELDS}


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        ((), {}),
        (
            ("--bytes", "700", "--reads", "2.5", "--read-bytes", "9000", "--old-reads", "0.5", "--batch", "40"),
            {"event_bytes": 700, "reads_per_second": 2.5, "read_bytes": 9000, "old_reads_per_second": 0.5, "batch": 40},
        ),
        (
            ("--archive-days", "30", "--packed-bytes", "120", "--in-index", "by_error=0.5", "--groups", "7"),
            {"archive_days": 30, "packed_bytes": 120.0, "index_shares": {"by_error": 0.5}, "groups": 7},
        ),
        (("--night", "1"), {"events_per_second": [1.0] * 7 + [5.0] * 16 + [1.0]}),
    ],
)
def test_each_option_of_cost_is_part_of_the_workload(
    file: Path, priced: list[Workload], words: tuple[str, ...], changed: dict[str, Any]
) -> None:
    assert run("cost", str(file), "--rate", "5", *words).exit_code == 0
    (workload,) = priced
    assert fields_of(workload) == PLAIN | changed


WORKLOAD = """
events_per_second = [%s]
event_bytes = 500
reads_per_second = 2.0
read_bytes = 4096
old_reads_per_second = 0.25
"""


def test_a_folder_has_its_workload_and_options_say_the_rest(tmp_path: Path, priced: list[Workload]) -> None:
    (tmp_path / "tidetable.toml").write_text(ON_DEMAND)
    (tmp_path / "workload.toml").write_text(WORKLOAD % ", ".join(["3.0"] * 24))
    words = "--batch", "7", "--archive-days", "9", "--in-index", "slowest=0"
    assert run("cost", str(tmp_path), *words).exit_code == 0
    own = {
        "events_per_second": [3.0] * 24,
        "event_bytes": 500,
        "reads_per_second": 2.0,
        "read_bytes": 4096,
        "old_reads_per_second": 0.25,
        "batch": 7,
        "archive_days": 9,
        "index_shares": {"slowest": 0.0},
        "by_key": False,
    }
    assert fields_of(priced[0]) == PLAIN | own
    (tmp_path / "workload.toml").write_text(WORKLOAD % "3.0" + "colour = 1")
    assert run("cost", str(tmp_path)).exit_code == 1
    (tmp_path / "workload.toml").write_text("[")
    assert run("cost", str(tmp_path)).exit_code == 64


def test_the_bill_is_summed_up(file: Path, priced: list[Workload]) -> None:
    rows = [line.strip("│┃ ").split() for line in run("cost", str(file), "--rate", "5").stdout.splitlines()]
    words = [[word for word in row if word not in "│┃"] for row in rows]
    assert ["one", "1,200.50", "x"] in words
    assert ["the", "stream", "1,200.75"] in words
    assert ["alarms", "2.50", "z"] in words
    assert ["in", "all", "1,203.25"] in [row[:3] for row in words]
    # Without copies the transfer has no column of its own.
    assert ["rolling", "1.00", "2.00", "3.00", "6.50"] in words
    assert ["send", "batches"] in words
    document = json.loads(run("cost", str(file), "--rate", "5", "--json").stdout)
    assert (document["not_priced"], document["advice"]) == (["retries"], ["send batches"])
    assert [line["dollars"] for line in document["lines"]] == [1200.5, 0.25]


@pytest.mark.parametrize(
    ("word", "share"),
    [
        ("by_error=0", 0.0),
        ("by_error=1", 1.0),
        ("by_error=1e-3", 0.001),
        ("by_error=1.01", None),
        ("by_error=-0.1", None),
        ("by_error=x", None),
        ("by_error=nan", None),
        ("by_error", None),
    ],
)
def test_a_share_of_an_index_is_from_nothing_to_all(word: str, share: float | None) -> None:
    stream: Stream = parse(ON_DEMAND).streams["access"]
    if share is None:
        with pytest.raises(ValueError, match=r"write the share of the events that are in it, such as by_error=0\.01"):
            read_shares(stream, [word])
    else:
        assert read_shares(stream, [word]) == {"by_error": share}


def test_simulate_takes_the_workload_of_its_options(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Any = []
    monkeypatch.setattr(estimate, "simulate_days", lambda _, *given: seen.append(given) or ())
    words = "--days", "3", "--bytes", "700", "--batch", "40", "--reads", "2.5", "--read-bytes", "9000", "--night", "1"
    assert run("simulate", "--config", str(file), *words, "--rate", "5", "--json").exit_code == 0
    ((start, days, workload),) = seen
    assert (start.hour, start.minute, start.second, start.microsecond, days) == (12, 0, 0, 0, 3)
    own = {"events_per_second": [1.0] * 7 + [5.0] * 16 + [1.0], "event_bytes": 700, "reads_per_second": 2.5}
    assert fields_of(workload) == PLAIN | own | {"read_bytes": 9000, "batch": 40, "by_key": False}
    assert run("simulate", "--config", str(file), "--json").exit_code == 0
    assert seen[1][1:] == (90, None)
