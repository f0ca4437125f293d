"""`query` and `tail`: rows as a table, a chart, CSV, NDJSON, Parquet; new events as they come."""

import csv
import json
from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet
from typer.testing import Result

from cli import connection
from tests.api.gateway import NOON
from tests.worlds.commands import run
from tests.worlds.served import Served, serve
from tidetable_client import Client, Clock


class Quick(Clock):
    """Waits that only move the clock, and call what shall happen meanwhile."""

    meanwhile: list[Any] = []  # noqa: RUF012 - one test fills it

    def __init__(self) -> None:
        self.seconds = 0.0

    def read(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        assert self.seconds < 10_000
        if self.meanwhile:
            self.meanwhile.pop(0)()


def write(served: Served, events: list[dict[str, Any]], stream: str = "stations") -> None:
    with Client(served.url, "k", background=False) as client:
        client.write(stream, events)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    for served in serve(tmp_path_factory.mktemp("served")):
        write(
            served,
            [
                {
                    "series": "boiler",
                    "id": f"e{number}",
                    "time": NOON - timedelta(minutes=20 * number),
                    "data": {"celsius": 10 + number, "place": {"state": "CA"}, "note": "=1+1" if number == 0 else "ok"},
                }
                for number in range(6)
            ],
        )
        yield served


@pytest.fixture(autouse=True)
def inline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def make(*arguments: Any, **options: Any) -> Client:
        return Client(*arguments, background=False, clock=Quick(), random=lambda: 0.0, **options)

    monkeypatch.setattr(connection, "Client", make)
    monkeypatch.chdir(tmp_path)


def call(served: Served, *words: str) -> Result:
    done = run(*words, "--url", served.url, "--key", "k")
    assert done.exit_code == 0, done.output
    return done


BOILER = "query", "stations", "--series", "boiler", "--from", "-3h"


def test_a_table_has_a_column_per_field(served: Served) -> None:
    text = call(served, *BOILER, "--limit", "2", "--order", "asc").output
    heading, *_ = (line for line in text.splitlines() if "celsius" in line)
    assert [word for word in heading.replace("┃", " ").split() if word] == [
        "series",
        "time",
        "id",
        "celsius",
        "place.state",
        "note",
    ]
    assert ("e5" in text, "e4" in text, "e3" in text) == (True, True, False)
    assert "no rows" in call(served, "query", "stations", "--series", "nobody", "--from", "-3h").output


def test_conditions_narrow_a_query(served: Served) -> None:
    words = "--where", "celsius:ge=12", "--where", "celsius:lt=14", "--form", "ndjson"
    rows = [json.loads(line) for line in call(served, *BOILER, *words).stdout.splitlines()]
    assert sorted(row["id"] for row in rows) == ["e2", "e3"]
    wrong = run(*BOILER, "--where", "celsius", "--url", served.url, "--key", "k")
    assert "write FIELD=VALUE" in wrong.output


def test_csv_is_safe_for_spreadsheets(served: Served, tmp_path: Path) -> None:
    rows = list(csv.DictReader(StringIO(call(served, *BOILER, "--form", "csv").stdout)))
    assert [row["data.celsius"] for row in rows] == ["10", "11", "12", "13", "14", "15"]
    assert rows[0]["data.note"] == "'=1+1"
    file = tmp_path / "events.csv"
    assert "6 rows in" in call(served, *BOILER, "--out", str(file)).output
    assert len(file.read_text().splitlines()) == 7


def test_parquet_has_a_type_per_column(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "events.parquet"
    call(served, *BOILER, "--out", str(file), "--limit", "0")
    table = parquet.read_table(file)
    (celsius,) = (name for name in table.column_names if name.removeprefix("data.") == "celsius")
    assert sorted(table.column(celsius).to_pylist()) == [10, 11, 12, 13, 14, 15]
    assert table.column("time").to_pylist()[0] == NOON


def test_an_aggregate_is_a_table_or_a_chart(served: Served) -> None:
    words = "--stat", "max,count", "--field", "celsius", "--step", "1h"
    rows = json.loads(call(served, *BOILER, *words, "--form", "json").stdout)
    assert [(row["max"], row["count"]) for row in rows] == [(15, 2), (13, 3), (10, 1)]
    chart = call(served, *BOILER, *words, "--form", "chart").output.splitlines()
    bars = [line.count("█") for line in chart if "2026-03-15" in line]
    assert bars[0] == 50
    assert bars[0] > bars[1] > bars[2] > 30


def test_a_chart_of_an_aggregate_draws_every_statistic_with_its_name(served: Served) -> None:
    words = "--stat", "max,count", "--field", "celsius", "--step", "1h"
    lines = [line.strip() for line in call(served, *BOILER, *words, "--form", "chart").output.splitlines()]
    assert [line for line in lines if "2026" not in line] == ["max", "count"]
    numbers = [line.split()[1] for line in lines if "2026" in line]
    assert numbers == ["15", "13", "10", "2", "3", "1"]
    # Each statistic has a scale of its own.
    assert [line.count("\u2588") for line in lines if "2026" in line][4] == 50


def test_the_first_groups_of_an_aggregate_and_filled_steps(served: Served) -> None:
    words = "--stat", "max", "--field", "celsius", "--by", "note", "--top", "1", "--form", "json"
    assert [row["group"] for row in json.loads(call(served, *BOILER, *words).stdout)] == [{"note": "ok"}]
    words = "--stat", "count", "--step", "10m", "--fill", "zero", "--to", "now", "--form", "json"
    counts = [row["count"] for row in json.loads(call(served, *BOILER, *words).stdout)]
    assert (counts.count(0) > 5, sum(counts) >= 5) == (True, True)


def test_events_of_an_id(served: Served) -> None:
    words = "--id", "e2", "--id", "e4", "--form", "ndjson"
    rows = [json.loads(line) for line in call(served, *BOILER, *words).stdout.splitlines()]
    assert [row["id"] for row in rows] == ["e2", "e4"]


@pytest.mark.parametrize("words", [(), ("--stat", "count", "--step", "1h")])
def test_an_explanation_reads_nothing(served: Served, words: tuple[str, ...]) -> None:
    served.requests.clear()
    plan = json.loads(call(served, *BOILER, *words, "--explain").stdout)
    assert {"query", "estimate"} <= plan.keys() or "sections" in plan, plan.keys()
    (request,) = served.requests
    assert "explain=true" in request


@pytest.mark.parametrize(
    "words",
    [("--latest", "--explain"), ("--latest", "--id", "e1"), ("--fill", "zero"), ("--top", "x", "--id", "e1")],
)
def test_options_that_have_no_effect_together_are_refused(served: Served, words: tuple[str, ...]) -> None:
    assert run(*BOILER, *words, "--url", served.url, "--key", "k").exit_code == 64


def test_a_zone_shows_local_times_and_local_days(served: Served) -> None:
    zone = "--tz", "Asia/Kolkata", "--form", "json"
    words = "query", "stations", "--series", "boiler", "--from", "2026-03-15", "--to", "2026-03-15T17:30:00.000001"
    rows = json.loads(call(served, *words, *zone).stdout)
    assert (len(rows), rows[0]["time"]) == (6, "2026-03-15T17:30:00.000000+05:30")
    (day,) = json.loads(call(served, *words, *zone, "--step", "1d").stdout)
    assert (day["start"], day["count"]) == ("2026-03-15T00:00:00.000000+05:30", 6)
    whole = json.loads(call(served, *BOILER, "--step", "1h", "--align", "--form", "json").stdout)
    assert [row["start"][11:16] for row in whole] == ["10:00", "11:00"]
    (latest,) = json.loads(call(served, "query", "stations", "--series", "boiler", "--latest", *zone).stdout)
    assert latest["time"] == rows[0]["time"]


def test_a_zone_that_there_is_not_is_refused(served: Served) -> None:
    wrong = run("query", "stations", "--series", "boiler", "--tz", "Berlin", "--url", served.url, "--key", "k")
    assert (wrong.exit_code, "did you mean Europe/Berlin?" in " ".join(wrong.output.split())) == (1, True)


def test_a_chart_names_the_statistics_that_it_does_not_draw(served: Served) -> None:
    shown = run(
        *(*BOILER, "--step", "1h", "--stat", "count,last_at", "--form", "chart"),
        *("--url", served.url, "--key", "k"),
    )
    assert (shown.exit_code, shown.output.count("█") > 20) == (0, True)
    assert "last_at is a time, which a chart does not draw: use --form table" in shown.output


def test_a_chart_of_events_needs_a_field(served: Served) -> None:
    assert call(served, *BOILER, "--form", "chart", "--field", "celsius").output.count("█") > 200
    without = run(*BOILER, "--form", "chart", "--url", served.url, "--key", "k")
    assert (without.exit_code, "a chart needs --field" in without.output) == (1, True)
    nothing = run(*BOILER, "--form", "chart", "--field", "note", "--url", served.url, "--key", "k")
    assert "no row has a number in note" in nothing.output


def test_the_latest_event_of_each_series(served: Served) -> None:
    words = "query", "stations", "--latest", "--series", "boiler", "--series", "nobody", "--form", "ndjson"
    (line,) = call(served, *words).stdout.splitlines()
    assert json.loads(line)["id"] == "e0"
    wrong = run("query", "stations", "--latest", "--url", served.url, "--key", "k")
    assert wrong.exit_code == 64


def test_a_refusal_of_the_api_is_shown(served: Served) -> None:
    wrong = run("query", "stations", "--url", served.url, "--key", "k")
    assert wrong.exit_code == 1
    assert "400 needs_series" in wrong.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--form", "xml"], "use table, chart"),
        (["--form", "parquet"], "add --out events.parquet"),
        (["--out", "events.xls"], "does not show the format"),
    ],
)
def test_a_wrong_form_says_what_to_write(served: Served, words: list[str], message: str) -> None:
    wrong = run(*BOILER, *words, "--url", served.url, "--key", "k")
    assert (wrong.exit_code, message in wrong.output) == (1, True)


def test_tail_shows_new_events_as_they_come_and_each_once(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    def event(number: int) -> dict[str, Any]:
        return {"series": "live", "id": f"l{number}", "time": NOON + timedelta(seconds=number), "data": {"n": number}}

    write(served, [event(1), event(3)], "quakes")
    # While the command waits after its first reading: one that is late, and one that is sent again.
    nothing = list[Any]
    monkeypatch.setattr(Quick, "meanwhile", [nothing, lambda: write(served, [event(2), event(3)], "quakes")])
    served.troubles = [(503, {}, False)]
    words = "--series", "live", "--overlap", "600", "--count", "3"
    lines = call(served, "tail", "quakes", *words).stdout.splitlines()
    assert [line.split()[1:] for line in lines] == [["live", "l1", "n=1"], ["live", "l3", "n=3"], ["live", "l2", "n=2"]]
    plain = call(served, "tail", "quakes", *words, "--json").stdout.splitlines()
    assert [json.loads(line)["id"] for line in plain] == ["l1", "l2", "l3"]
