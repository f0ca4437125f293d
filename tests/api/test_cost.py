"""GET /v1/cost: figures calculated by hand, the bounds of a key, and errors that say what to do."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

import settings
from bill import accounts, current_bill
from bill.consumed import ConsumedUnits, Traffic
from tests.worlds.commands import run
from tests.worlds.keyed import Answered, Door, open_door

SECRET = "abcdefghijklmnopqrstuvwxyz012345"
ALL, ONE = f"tt_alloperate_{SECRET}", f"tt_oneoperate_{SECRET}"
TODAY = "tidetable-lapse.devices.2026-03-15"
# Ten custom metrics at $0.30, 28 alarms at $0.10, five queues at $0.2628, and the drain's schedule at $0.50516; with traffic
# ten metrics more.
FIXED, FIXED_WITH_TRAFFIC = 7.61916, 10.61916
LINES = ["tables, writes", "tables, reads", "tables, storage"]


@pytest.fixture
def door(tmp_path: Any) -> Iterator[Door]:
    for opened in open_door(tmp_path):
        opened.make(ALL, can=("operate",))
        opened.make(ONE, "quakes", can=("operate",))
        yield opened


def cost(door: Door, key: str = ALL, **query: str) -> Any:
    answer = door.call("GET", "/v1/cost", key, query=query)
    assert answer.status == 200, answer.body
    return answer.body


def compare(door: Door, key: str = ALL, /, **query: str | Sequence[str]) -> Answered:
    return door.call("GET", "/v1/cost", key, query=query)


def stream_of(body: Any, name: str) -> Any:
    return next(stream for stream in body["streams"] if stream["stream"] == name)


def lines_of(bill: Mapping[str, Any]) -> dict[str, float]:
    return {line["name"]: line["dollars"] for line in bill["lines"]}


def test_tables_on_demand_cost_the_units_that_they_and_their_indexes_consumed(door: Door) -> None:
    door.stage.meters.units = {
        (TODAY, ""): ConsumedUnits(4e6, 2e6),
        (TODAY, "hottest"): ConsumedUnits(1e6, 8e6),
        ("tidetable-lapse.devices.2026-03-14", ""): ConsumedUnits(1e6, 0),
    }
    body = cost(door)
    devices = stream_of(body, "devices")
    dollars = lines_of(devices)
    # A million write units cost $0.625, a million read units $0.125.
    assert dollars["tables, writes"] == pytest.approx(5 * 0.625)
    assert dollars["tables, reads"] == pytest.approx(2 * 0.125)
    assert (dollars["indexes, writes"], dollars["indexes, reads"]) == pytest.approx((0.625, 1.0))
    prices = {period["period"]: period["dollars"] for period in devices["periods"]}
    assert prices["2026-03-15"] == pytest.approx(4 * 0.625 + 2 * 0.125 + 0.625 + 1.0)
    assert prices["2026-03-14"] == pytest.approx(0.625)
    assert prices["2026-03-16"] == 0
    assert devices["dollars"] == pytest.approx(5 * 0.625 + 0.25 + 0.625 + 1.0)
    assert [line["name"] for line in stream_of(body, "quakes")["lines"]] == LINES
    assert body["dollars"] == pytest.approx(devices["dollars"] + FIXED)


def test_copies_in_other_regions_are_lines_of_their_own(door: Door) -> None:
    catalog = door.stage.catalog
    (today,) = (entry for entry in catalog.entries("devices") if entry.table == TODAY)
    catalog.mark_copies(today, ("eu-west-1",))
    door.stage.meters.units = {(TODAY, ""): ConsumedUnits(4e6, 2e6), (TODAY, "hottest"): ConsumedUnits(1e6, 8e6)}
    body = cost(door)
    dollars = lines_of(stream_of(body, "devices"))
    # Five million write units once more; the reads are those of the stage's own Region.
    assert dollars["copies, writes"] == pytest.approx(5 * 0.625)
    assert "copies, reads" not in dollars
    # The table is not counted yet: a KB per write unit of the table, at $0.02 per GB.
    assert dollars["copies, transfer"] == pytest.approx(4.096 * 0.02)
    prices = {period["period"]: period for period in stream_of(body, "devices")["periods"]}
    assert prices["2026-03-15"]["writes"] == pytest.approx(2 * 5 * 0.625)
    assert prices["2026-03-15"]["transfer"] == pytest.approx(4.096 * 0.02)
    assert any(text.startswith("the prices of eu-west-1: ") for text in body["not_priced"])
    assert not [name for name in lines_of(stream_of(body, "quakes")) if name.startswith("copies")]


def test_a_change_that_adds_copies_is_priced(door: Door) -> None:
    query = {"stream": "quakes", "rate": "100", "bytes": "500", "reads": "0"}
    body = compare(door, change='replicas = ["eu-west-1"]', **query).body
    # 262.8 million write units at $0.625; 4.32 GB per day for 9.5 days and the day of late events at $0.25; 131.4 GB at $0.02.
    after = lines_of(body["after"])
    assert after["copies, writes"] == pytest.approx(164.25, abs=0.01)
    assert after["copies, transfer"] == pytest.approx(2.628, abs=0.001)
    assert after["copies, storage"] == pytest.approx(after["tables, storage"])
    assert body["saving"] == pytest.approx(-164.25 - 2.628 - after["tables, storage"], abs=0.01)


def test_the_stage_pays_for_its_requests(door: Door) -> None:
    door.stage.meters.counted = Traffic(requests=1e6, events=1e8, queries=2e6, read_units=4e6)
    body = cost(door)
    lines = lines_of(body["stage"])
    assert lines["API Gateway"] == pytest.approx(3 * 3.50)
    assert lines["functions, calls"] == pytest.approx(3 * 0.20)
    # 20 ms and 100 events of 0.03 ms at half a GB; 30 ms per query at 1,024 MB; $0.0000133334 per GB-second.
    seconds = 1e6 * 0.023 * 0.5 + 2e6 * 0.030
    assert lines["functions, time"] == pytest.approx(seconds * 0.0000133334)
    # The authorizer checks each request: 2 ms at half a GB.
    assert lines["functions, authorizer"] == pytest.approx(3 * 0.20 + 3e6 * 0.001 * 0.0000133334)
    # 620 bytes of access log at $0.25 per GB, and 526 bytes of metrics at $0.50, three million times.
    assert lines["logs"] == pytest.approx(3 * 0.418)
    assert body["stage"]["dollars"] == pytest.approx(sum(lines.values()))
    assert body["fixed"]["dollars"] == pytest.approx(FIXED_WITH_TRAFFIC)
    assert body["dollars"] == pytest.approx(sum(lines.values()) + FIXED_WITH_TRAFFIC)


def test_the_next_step_of_a_table_is_dated(door: Door) -> None:
    periods = {period["period"]: period["next"] for period in stream_of(cost(door), "quakes")["periods"]}
    # Kept for nine days after its own, and never changed before, as it is on demand.
    assert periods["2026-03-15"] == {"at": "2026-03-25T00:00:00.000000Z", "change": "archived"}


def test_a_key_of_one_stream_sees_its_bill_alone(door: Door) -> None:
    door.stage.meters.counted = Traffic(requests=1e6, events=1e8)
    body = cost(door, ONE)
    assert [stream["stream"] for stream in body["streams"]] == ["quakes"]
    assert body["stage"] == {"dollars": 0, "lines": []}
    assert "API Gateway, the functions, metrics and alarms: they are those of all streams" in body["incomplete"]
    assert door.stage.meters.tables
    assert all(".quakes." in table for table in door.stage.meters.tables)


def test_one_stream_is_priced_alone(door: Door) -> None:
    assert [stream["stream"] for stream in cost(door, stream="devices")["streams"]] == ["devices"]


@pytest.mark.parametrize(
    ("key", "query", "status", "detail"),
    [
        (
            ALL,
            {"stream": "quaks"},
            404,
            "there is no stream 'quaks'; there are: devices, packed, quakes; did you mean quakes?",
        ),
        (ONE, {"stream": "devices"}, 403, "this key may not operate the stream 'devices': use a key that may"),
        (
            ALL,
            {"days": "3"},
            400,
            (
                "days is not a parameter of this route; it has stream, change, in_index, rate, reads, old_reads, packed_bytes,"
                " seconds_per_request, late_share, latest, bytes, batch, read_bytes, archive_days, groups, series_per_request"
            ),
        ),
        (ALL, {"stream": ["quakes", "devices"]}, 400, "stream must be there once"),
    ],
)
def test_a_wrong_question_says_what_to_change(door: Door, key: str, query: Any, status: int, detail: str) -> None:
    answer = door.call("GET", "/v1/cost", key, query=query)
    assert (answer.status, answer.body["detail"]) == (status, detail)


def test_without_cloudwatch_the_bill_is_of_what_is_known(door: Door) -> None:
    door.stage.meters.fails = True
    body = cost(door)
    assert len(body["streams"]) == 3
    assert any("CloudWatch did not answer" in text for text in body["incomplete"])


def test_a_stage_that_is_a_minute_old_is_told_when_figures_come(door: Door) -> None:
    assert any("minutes after the first events" in text for text in cost(door)["incomplete"])
    door.stage.meters.units = {(TODAY, ""): ConsumedUnits(1, 0)}
    # An answer is kept for a minute, for callers of the same streams.
    assert any("minutes after the first events" in text for text in cost(door)["incomplete"])
    assert [stream["stream"] for stream in cost(door, ONE)["streams"]] == ["quakes"]
    door.stage.clock.sleep(60)
    assert cost(door)["incomplete"] == []


def test_prices_of_another_region_are_named(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    settings.read_settings.cache_clear()
    assert cost(door)["prices"] == {"region": "us-east-1", "month": "2026-11", "hours": 730, "note": None}
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    settings.read_settings.cache_clear()
    door.stage.clock.sleep(60)
    assert "the stage is in eu-west-1" in cost(door)["prices"]["note"]


def test_tables_and_metrics_of_an_answer_are_bounded(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "MAX_TABLES", 6)
    body = cost(door)
    assert [len(stream["periods"]) for stream in body["streams"]] == [2, 2, 2]
    # Of each stream the newest: today's and two made ahead, and yesterday's, which takes late events.
    assert "quakes: 2 tables are not counted: price this stream alone, stream=quakes" in body["incomplete"]
    assert [len(stream["periods"]) for stream in cost(door, stream="quakes")["streams"]] == [4]
    monkeypatch.setattr(current_bill, "MAX_METRICS", 6)
    door.stage.clock.sleep(60)
    body = cost(door)
    assert len(door.stage.meters.tables) == 3
    assert "the consumed units of 3 on-demand tables are not counted: price one stream alone" in body["incomplete"]


def test_the_newest_entries_of_the_catalog_are_counted_and_an_answer_says_where_they_end(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "MAX_ENTRIES", 3)
    body = cost(door, stream="quakes")
    (stream,) = body["streams"]
    assert [period["period"] for period in stream["periods"]] == ["2026-03-17", "2026-03-16", "2026-03-15"]
    before = "2026-03-15T00:00:00.000000Z"
    text = f"the periods of quakes before {before} are not counted: ask with stream=quakes and before={before}"
    assert (text in body["incomplete"], stream["next"]) == (True, before)
    page = cost(door, stream="quakes", before=before)
    (rest,) = page["streams"]
    assert ([period["period"] for period in rest["periods"]], rest["next"]) == (["2026-03-14"], None)
    assert (rest["workload"], page["stage"]["lines"], page["fixed"]["lines"]) == (None, [], [])
    # An answer for all streams has a third of the entries of each.
    assert [len(stream["periods"]) for stream in cost(door)["streams"]] == [1, 1, 1]
    assert cost(door, ONE, stream="quakes", before=before)["streams"] == page["streams"]


WRONG_PAGES = [
    ({"before": "2026-03-15"}, "before chooses a page of one stream: add stream="),
    ({"before": "soon", "stream": "quakes"}, "before: 'soon' is not an RFC 3339 time"),
    ({"before": ["2026-03-15", "2026-03-14"], "stream": "quakes"}, "before must be there once"),
    ({"before": "2026-03-15", "stream": "quakes", "rate": "1"}, "before"),
]


@pytest.mark.parametrize(("query", "why"), WRONG_PAGES, ids=[why for _, why in WRONG_PAGES])
def test_a_page_that_nobody_can_mean_is_refused(door: Door, query: dict[str, Any], why: str) -> None:
    answer = compare(door, ALL, **query)
    assert answer.status == 400
    assert why in answer.body["detail"]


def test_a_measured_workload_can_be_sent_back(door: Door) -> None:
    door.make(f"tt_writeall00_{SECRET}", can=("write",))
    events = [{"series": f"s{n}", "id": str(n), "data": {"t": n}} for n in range(100)]
    sent = door.call("POST", "/v1/streams/{stream}/events", f"tt_writeall00_{SECRET}", events, stream="devices")
    assert sent.body["accepted"] == 100
    door.stage.clock.sleep(7 * 3600)
    workload = stream_of(cost(door), "devices")["workload"]
    # A hundred events in the seven hours since noon, when the stage was made; DynamoDB has counted them by then.
    assert workload["rate"] == pytest.approx(100 / (7 * 3600), rel=0.01)
    assert workload["in_index"] == ["hottest:1"]
    assert workload["batch"] == 100, "assumed, as CloudWatch counted no request"
    query = {
        name: str(value) for name, value in workload.items() if name not in ("how", "wall", "packed_bytes", "in_index")
    }
    answer = compare(door, stream="devices", in_index=workload["in_index"], **query)
    assert answer.status == 200, answer.body
    assert answer.body["workload"]["rate"] == workload["rate"]


def test_the_bill_of_a_load_is_that_of_the_command(door: Door) -> None:
    body = compare(door, stream="devices", rate="50", bytes="500", reads="2", in_index="hottest:0.5").body
    options = ["--rate", "50", "--bytes", "500", "--reads", "2", "--in-index", "hottest=0.5"]
    printed = json.loads(run("cost", str(settings.CONFIG_FILE), "--stream", "devices", *options, "--json").stdout)
    before = body["before"]
    assert {name: printed.pop(name) for name in ("alternatives", "refused")} == {
        name: body[name] for name in ("alternatives", "refused")
    }
    assert {name: before[name] for name in printed} == printed
    assert before["lines"] == printed["lines"]
    assert (before["not_priced"], before["advice"]) == (printed["not_priced"], printed["advice"])
    assert before["dollars"] == pytest.approx(sum(line["dollars"] for line in printed["lines"]))


def test_packs_are_priced_before_and_after(door: Door) -> None:
    change = '[streams.quakes.pack]\nspan = "1h"'
    body = compare(door, stream="quakes", rate="50", bytes="500", batch="100", change=change).body
    # 131.4 million events per month, at a unit each; in packs of 100, 13 units: 12,630 bytes.
    before, after = lines_of(body["before"]), lines_of(body["after"])
    assert before["tables, writes"] == pytest.approx(131.4 * 0.625)
    assert after["tables, writes"] == pytest.approx(131.4 * 0.13 * 0.625)
    assert body["saving"] == pytest.approx(body["before"]["dollars"] - body["after"]["dollars"])
    assert body["saving"] > 70
    assert body["alternatives"] == []


def test_without_a_change_there_are_other_settings_that_can_be_sent_back(door: Door) -> None:
    body = compare(door, stream="quakes", rate="50", bytes="500").body
    assert (body["after"], body["saving"]) == (None, None)
    names = [setting["name"] for setting in body["alternatives"]]
    assert set(names) == {"packs", "provisioned", "a cheap class for old tables", "a rollup"}
    savings = [setting["saving"] for setting in body["alternatives"]]
    assert savings == sorted(savings, reverse=True)
    for setting in body["alternatives"]:
        again = compare(door, stream="quakes", rate="50", bytes="500", change=setting["toml"]).body
        assert again["saving"] == pytest.approx(setting["saving"])


def test_the_days_are_those_of_a_stage_that_fills(door: Door) -> None:
    days = compare(door, stream="quakes", rate="50", bytes="500").body["before"]["days"]
    assert days[0]["day"] == 0
    assert days[0]["tables"] == 4, "yesterday's, today's and two made ahead"
    assert days[-1]["tables"] == 12, "nine kept days, today's and two made ahead"
    assert days[-1]["dollars"] > days[0]["dollars"] > 0


@pytest.mark.parametrize(
    ("query", "status", "detail"),
    [
        ({"rate": "1"}, 400, "stream: missing; name one of quakes, packed, devices"),
        (
            {"stream": "quaks", "rate": "1"},
            404,
            "there is no stream 'quaks'; there are: devices, packed, quakes; did you mean quakes?",
        ),
        ({"stream": "quakes", "bytes": "5"}, 400, "rate: missing; add events per second, such as rate=50."),
        ({"stream": "quakes", "rate": "many"}, 400, "rate must be a number from 0 to 10,000,000"),
        ({"stream": "quakes", "rate": "nan"}, 400, "rate must be a number from 0 to 10,000,000"),
        ({"stream": "quakes", "rate": "1", "batch": "1.5"}, 400, "batch must be a whole number from 1 to 10,000"),
        ({"stream": "quakes", "rate": ["1", "2"]}, 400, "rate must be there once"),
        ({"stream": "quakes", "rate": "1", "size": "3"}, 400, "size is not a parameter of this route; it has stream,"),
        ({"stream": "devices", "rate": "1", "in_index": "hot:1"}, 400, "the indexes are hottest"),
        ({"stream": "devices", "rate": "1", "in_index": "hottest:2"}, 400, "such as by_error:0.01"),
        (
            {"stream": "quakes", "rate": "1", "change": 'late = "2d"\n[pack\nspan = "1h"'},
            400,
            'change is not TOML: Expected "]" at the end of a table declaration (at line 2, column 6)'.replace(
                '"', "'"
            ),
        ),
        (
            {"stream": "quakes", "rate": "1", "change": '[streams.quakes.pack]\nspan = "1h"\nspam = 3'},
            400,
            "streams.quakes.pack.spam: unknown key; known here: max_bytes, span; did you mean span? (line 3)",
        ),
        (
            {"stream": "quakes", "rate": "1", "change": "[streams.packed]\nretention = 3"},
            400,
            "only keys of [streams.quakes]",
        ),
        ({"stream": "quakes", "rate": "1", "change": "[api]\nrate = 3"}, 400, "streams.quakes.api: unknown key"),
        ({"stream": "quakes", "rate": "1", "change": "#" * 3001}, 400, "change has 3,001 characters"),
    ],
)
def test_a_wrong_proposal_says_what_to_change(door: Door, query: Any, status: int, detail: str) -> None:
    answer = compare(door, **query)
    assert answer.status == status
    assert detail in answer.body["detail"]


def test_a_key_of_one_stream_prices_that_alone(door: Door) -> None:
    assert compare(door, ONE, stream="quakes", rate="1").status == 200
    answer = compare(door, ONE, stream="devices", rate="1")
    assert (answer.status, answer.body["code"]) == (403, "forbidden")


def test_a_load_above_a_wall_has_no_price_but_the_wall(door: Door) -> None:
    body = compare(door, stream="devices", rate="1000000").body
    before = body["before"]
    assert (before["dollars"], before["lines"], before["days"], before["wall"]["met"]) == (None, [], [], True)
    assert (body["alternatives"], body["saving"]) == ([], None)
    assert any(" events per second: " in setting["reason"] for setting in body["refused"])
    changed = compare(door, stream="devices", rate="1000000", change="retention = 5").body
    assert (changed["after"]["dollars"], changed["saving"]) == (None, None)
    below = compare(door, stream="devices", rate="10").body["before"]
    assert (below["wall"]["met"], below["dollars"] > 0) == (False, True)


def test_a_first_rollup_brings_its_alarms_and_metrics_to_the_bill(door: Door) -> None:
    """Eight metrics at $0.30, six alarms at $0.10, a queue at $0.2628, and 43,800 runs of the scheduler of 130 ms, five reads and
    a write.
    """
    fixed = 3.2628 + 43_800 * (0.2e-6 + 0.130 * 1769 / 1024 * 0.0000133334 + 5 * 0.125e-6 + 0.625e-6)
    change = '[[streams.devices.rollup]]\nname = "hours"\nevery = "1h"\nretention = "365d"'
    body = compare(door, stream="devices", rate="10", change=change).body
    before, after = body["before"], body["after"]
    assert after["fixed"]["dollars"] - before["fixed"]["dollars"] == pytest.approx(fixed)
    assert body["saving"] == pytest.approx(before["dollars"] - after["dollars"] - fixed)
