"""The documents hold: links, commands, test vectors, routes."""

import re
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bench import bill, suffixes
from cli.timeline import Day, simulate
from tests.fakes import SEAL
from tidetable.catalog import Entry, State
from tidetable.config import Stream, load, parse
from tidetable.keys import suffix_of
from tidetable.periods import Kind, containing
from tidetable.query import parse_query
from tidetable.query.plan import plan_query
from tidetable.times import to_text

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", document.read_text())
    assert all((document.parent / link).exists() for link in links)


def test_every_make_command_of_the_readme_exists() -> None:
    rules = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"make ([a-z]+)", (ROOT / "README.md").read_text()))
    assert {"demo", "test", "deploy", "destroy", "stop"} <= named <= rules


@pytest.mark.parametrize("example", ["orders", "scores", "jobs", "telemetry"])
def test_an_example_is_deployed_by_the_command_of_its_readme(example: str) -> None:
    """As far as that goes without AWS: what make would run, and a configuration that can be used."""
    readme = (ROOT / "examples" / example / "README.md").read_text()
    (command,) = re.findall(r"^    make (deploy .*)$", readme, re.MULTILINE)
    done = subprocess.run(["make", "-n", *command.split()], cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603, S607
    (file,) = re.findall(r"cdk deploy -c stage=dev -c config=(\S+)", done.stdout)
    assert load(ROOT / file).streams


def test_the_published_vectors_are_what_the_code_calculates() -> None:
    rows = re.findall(r"^\| `(.*)` \| ([\d |]+) \|$", (ROOT / "docs" / "suffix.md").read_text(), re.MULTILINE)
    assert len(rows) == 5
    for value, numbers in rows:
        assert [int(one) for one in numbers.split("|")] == [suffix_of(value, n) for n in (1, 2, 4, 10, 16, 256)]


def test_the_api_description_names_every_route_and_no_other() -> None:
    described = set(re.findall(r"^## ([A-Z]+ /\S+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE))
    source = (ROOT / "lambdas" / "handlers" / "query.py").read_text()
    routes = {f"GET {path}" for path in re.findall(r'^    "(/v1/\S*)": \w+,$', source, re.MULTILINE)}
    assert described == routes | {"POST /v1/streams/{stream}/events"}


def test_every_parameter_is_described() -> None:
    from tidetable.query.parse import KNOWN

    text = (ROOT / "docs" / "api.md").read_text()
    assert all(f"`{name}`" in text for name in KNOWN)


def test_every_alarm_names_a_section_of_the_runbook() -> None:
    headings = re.findall(r"^## (\w+)$", (ROOT / "docs" / "runbook.md").read_text(), re.MULTILINE)
    source = (ROOT / "infra" / "alarms.py").read_text()
    alarms = re.findall(r'self\._alarm\(\s*"(\w+)"', source)
    assert len(alarms) > 5
    assert set(alarms) == set(headings)


def test_the_published_bill_is_what_the_bench_prints_and_draws() -> None:
    found = bill.bills_of(bill.EXAMPLE)
    assert bill.markdown(found) in (ROOT / "docs" / "cost.md").read_text()
    assert bill.markdown(found) in (ROOT / "docs" / "packs.md").read_text()
    assert bill.svg(found) == (ROOT / "docs" / "cost.svg").read_text()


def test_the_published_price_of_an_idle_stage_is_what_simulate_prints() -> None:
    """Of the example, once all its tables are there: only its first stream has provisioned units."""
    text = (ROOT / "docs" / "cost.md").read_text()
    days = {name: _settled(stream) for name, stream in load(ROOT / "tidetable.toml").streams.items()}
    quakes = days.pop("quakes")
    assert (quakes.open, quakes.ahead, quakes.closed, quakes.write, quakes.read) == (8, 2, 7, 49, 56)
    assert f"| {quakes.dollars / 24 * 730:.2f} |" in text
    assert "| 29.73 |" in text
    assert {day.dollars for day in days.values()} == {0}


def _settled(stream: Stream) -> Day:
    return list(simulate(stream, datetime(2026, 3, 2, 12, tzinfo=UTC), 100))[-1]


@pytest.mark.parametrize(
    ("period", "tables", "row"),
    [
        ("day", 8, '| by day, `late = "7d"`, write and read | 8 | 64 | $6.40 |'),
        ("hour", 170, '| by hour, `late = "7d"`, write and read | 170 | 1,360 | $136.00 |'),
    ],
)
def test_the_published_alarms_of_auto_scaling_are_those_of_the_open_tables(period: str, tables: int, row: str) -> None:
    late = f'period = "{period}"\nlate = "7d"\nretention = 200\n[streams.s.key]\npartition_by = "series"\n'
    assert _settled(parse(f"[streams.s]\n{late}").streams["s"]).open == tables
    assert row in (ROOT / "docs" / "cost.md").read_text()


@pytest.mark.parametrize(("layout", "count"), [("by time", 1), ("by time", 8), ("by series, only one", 4)])
def test_the_published_rates_are_what_the_bench_prints(layout: str, count: int) -> None:
    text = (ROOT / "docs" / "suffix.md").read_text()
    header = next(line for line in text.splitlines() if line.startswith("| suffixes | ideal |"))
    row = next(
        line for line in text.splitlines() if line.startswith(f"| {count} |") and line.count("|") == header.count("|")
    )
    column = [one.strip() for one in header.split("|")].index(layout)
    assert row.split("|")[column].strip() == f"{suffixes.sustained(layout, count):,}"


def test_the_published_requests_by_bucket_and_shards_are_those_of_the_planner() -> None:
    rows = (ROOT / "docs" / "choose.md").read_text().splitlines()
    published = {
        (cells[1].strip(' `"'), int(cells[2])): [int(cell.replace(",", "")) for cell in cells[3:6]]
        for cells in (row.split("|") for row in rows)
        if len(cells) == 7 and cells[2].strip().isdigit()
    }
    assert published == {
        (bucket, shards): _requests(bucket, shards) for bucket in ("1h", "6h", "24h") for shards in (1, 4)
    }
    assert published["6h", 4] == [16, 112, 496]


def _requests(bucket: str, shards: int) -> list[int]:
    """The fewest requests for a day, a week and a month of 31 days, each read to its end, of tables by day."""
    key = f'key = {{ partition_by = "time", bucket = "{bucket}", shards = {shards} }}'
    stream = parse(f'[streams.s]\nperiod = "day"\nlate = "1h"\nretention = 40\n{key}').streams["s"]
    end = datetime(2026, 11, 1, tzinfo=UTC)
    days = [containing(end - timedelta(days=day), Kind.DAY) for day in range(31, 0, -1)]
    entries = [Entry("s", day, f"t.{day.label}", stream.layout, State.OPEN, day.start) for day in days]
    found = []
    for length in (1, 7, 31):
        given = {"from": [to_text(end - timedelta(days=length))], "to": [to_text(end)]}
        plan = plan_query(parse_query(stream, given, end, SEAL), entries)
        found.append(sum(scan.count for scan in plan.scans))
    return found
