"""The options of `cost`: each is part of the workload that is priced, and the bill is summed up."""

import json
from pathlib import Path
from typing import Any

import pytest

from bill.amounts import Bill, Line, TableCost
from bill.workload import Workload
from bill.workload_bill import WholeBill
from cli import estimate, timeline
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


PLAIN_STREAM = """
[streams.s]
period = "day"
late = "1h"
retention = 5
key = { partition_by = "series" }
"""


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


def test_days_have_the_workload_of_the_options(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Any = []
    monkeypatch.setattr(timeline, "list_days", lambda _, *given: seen.append(given) or ())
    words = "--days", "3", "--bytes", "700", "--batch", "40", "--reads", "2.5", "--read-bytes", "9000", "--night", "1"
    assert run("cost", str(file), *words, "--rate", "5", "--json").exit_code == 0
    ((start, days, workload),) = seen
    assert (start.hour, start.minute, start.second, start.microsecond, days) == (12, 0, 0, 0, 3)
    own = {"events_per_second": [1.0] * 7 + [5.0] * 16 + [1.0], "event_bytes": 700, "reads_per_second": 2.5}
    assert fields_of(workload) == PLAIN | own | {"read_bytes": 9000, "batch": 40}
    assert run("cost", str(file), "--days", "90", "--json").exit_code == 0
    assert seen[1][1:] == (90, None)


def test_days_without_a_rate_are_those_of_a_known_stream_as_it_is(file: Path) -> None:
    assert list(json.loads(run("cost", str(file), "--days", "1", "--stream", "access", "--json").stdout)["days"]) == [
        "access"
    ]
    for words, reason in (
        (["--days", "1", "--stream", "acces"], "there are: access"),
        (["--rate", "1", "--days", "1", "--change", "retention = 3"], "leave out --days"),
        (["--rate", "1", "--svg", "x"], "add --days 90"),
        (["--change", "retention = 3"], "add --rate"),
        ([], "add --rate"),
    ):
        refused = run("cost", str(file), *words)
        assert (refused.exit_code, reason in refused.output) == (64, True)


def test_other_settings_have_a_price_and_those_that_save_have_their_lines(file: Path) -> None:
    """Of 262.8 million units packs of a hundred events of 1,000 bytes take 26 of a hundred: a request is of one series."""
    file.write_text(PLAIN_STREAM)
    words = "--rate", "100", "--reads", "0", "--series-per-request", "1"
    text = run("cost", str(file), *words).output
    assert "packs: saves $" in text
    assert '    [streams.s.pack]\n    span = "1h"\n' in text
    assert "a rollup: saves" not in text
    found = json.loads(run("cost", str(file), *words, "--json").stdout)["alternatives"]
    assert found[0]["toml"] == '[streams.s.pack]\nspan = "1h"'
    compared = json.loads(run("cost", str(file), *words, "--change", found[0]["toml"], "--json").stdout)
    assert compared["saving"] == pytest.approx(found[0]["saving"])
    writes = [line["dollars"] for plan in ("before", "after") for line in compared[plan]["lines"][:1]]
    assert writes == pytest.approx([262.8 * 0.625, 262.8 * 0.26 * 0.625])


def test_a_change_is_shown_line_by_line(file: Path) -> None:
    file.write_text(PLAIN_STREAM)
    words = "--rate", "100", "--reads", "0", "--series-per-request", "1", "--change"
    text = run("cost", str(file), *words, 'pack = { span = "1h" }').output
    assert ["tables,", "writes", "164.25", "42.70", "121.54"] in [
        line.replace("│", "").split() for line in text.splitlines()
    ]
    assert "in all" in text
    wrong = run("cost", str(file), *words, "pak = 3")
    assert (wrong.exit_code, "did you mean pack? (line 1)" in wrong.output) == (64, True)
    few = run(
        "cost", str(file), *words, 'capacity = { mode = "provisioned", ladder = [{ age = 0, write = 9, read = 9 }] }'
    )
    assert few.exit_code == 1
    assert "no price: the table's capacity takes 9 events per second" in few.output
