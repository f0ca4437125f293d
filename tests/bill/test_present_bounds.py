"""What the bill of a stage's tables leaves out, for whom, and what it says of that."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bill import accounts, current_bill
from bill.consumed import ConsumedUnits, Traffic
from tests.worlds.billed import INDEX, ROLLUP, TODAY, YESTERDAY, BilledStage, table
from tidetable.catalog import ArchiveFacts, RecordedPolicy, State
from tidetable.errors import Outage, StoreUnavailable
from tidetable.problems import ProblemError


def test_what_all_streams_share_is_priced_only_for_who_sees_all_of_them() -> None:
    stage = BilledStage(more=ROLLUP)
    stage.meters.counted = Traffic(requests=2e6, events=1e8, queries=1e6)
    shared = "API Gateway, the functions, metrics and alarms: they are those of all streams"
    for bill in (stage.bill(only="s"), stage.bill(sees=lambda name: name == "s")):
        assert [stream["stream"] for stream in bill["streams"]] == ["s"]
        assert bill["stage"] == bill["fixed"] == {"dollars": 0, "lines": []}
        assert shared in bill["incomplete"]
    with pytest.raises(ProblemError, match=r"there is no stream 'x'; there are: s$") as caught:
        stage.bill(only="x", sees=lambda name: name == "s")
    assert caught.value.problem.status == 404


def test_tables_are_described_while_there_is_time() -> None:
    """Eight seconds are kept for CloudWatch and for the answer."""
    stage = BilledStage()
    for label in (TODAY, YESTERDAY, "2026-03-13"):
        stage.add(label, table(size_bytes=10**9))
    found = stage.bill(seconds=iter([8.0, 7.9, 1.0]))
    assert [period["storage"] for period in found["streams"][0]["periods"]] == [0.25, 0.0, 0.0]
    assert "s: 2 tables are not counted: price this stream alone, stream=s" in found["incomplete"]


@pytest.mark.parametrize(("chunked", "most", "shown"), [(False, 3, 3), (True, 3, 1), (True, 1, 1), (True, 4, 2)])
def test_the_tables_of_chunks_count_to_those_of_an_answer(
    chunked: bool, most: int, shown: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounts, "MAX_TABLES", most)
    stage = BilledStage()
    for label in (TODAY, YESTERDAY, "2026-03-13", "2026-03-12"):
        stage.add(label, table(), chunks=table() if chunked else None)
    found = stage.bill()
    assert [period["period"] for period in found["streams"][0]["periods"]] == [TODAY, YESTERDAY, "2026-03-13"][:shown]
    before = f"2026-03-{16 - shown}T00:00:00.000000Z"
    text = f"the periods of s before {before} are not counted: ask with stream=s and before={before}"
    assert (text in found["incomplete"], found["streams"][0]["next"]) == (True, before)


def test_each_stream_has_an_equal_share_of_the_tables_of_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "MAX_TABLES", 5)
    stage = BilledStage(more=ROLLUP)
    for label in (TODAY, YESTERDAY, "2026-03-13"):
        for stream in ("s", "s-hours"):
            stage.add(label, table(), stream=stream)
    assert [len(stream["periods"]) for stream in stage.bill()["streams"]] == [2, 2]
    assert [len(stream["periods"]) for stream in stage.bill(only="s")["streams"]] == [3]


def test_an_answer_has_a_thousand_tables_and_two_thousand_metrics() -> None:
    """Four metrics of each table with an index, so those of 500."""
    stage, first = BilledStage(period="hour", retention=24, more=INDEX), datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(1001):
        stage.add(f"{first + timedelta(hours=number):%Y-%m-%dT%H}", table())
    found = stage.bill()
    assert (len(found["streams"][0]["periods"]), len(stage.meters.tables)) == (1000, 500)
    assert found["streams"][0]["next"] == "2026-01-01T01:00:00.000000Z"


@pytest.mark.parametrize(
    ("most", "measured", "left_out"),
    [
        (100, {"s.2026-03-15": ["status"], "s.2026-03-15.parts": [], "s.2026-03-13": ["status"], "s.2026-03-14": ["status"]}, 0),
        (10, {"s.2026-03-15": ["status"], "s.2026-03-15.parts": [], "s.2026-03-13": ["status"]}, 0),
        # A table with an index has four metrics; the next one finds room in what is left.
        (8, {"s.2026-03-15": ["status"], "s.2026-03-15.parts": []}, 1),
        (3, {"s.2026-03-15.parts": []}, 2),
        (1, {}, 3),
    ],
)  # fmt: skip
def test_the_newest_tables_on_demand_are_measured_first(
    most: int, measured: dict[str, list[str]], left_out: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The units of a provisioned table are known, so that nothing is missing without its metrics."""
    monkeypatch.setattr(current_bill, "MAX_METRICS", most)
    stage = BilledStage(more=INDEX)
    stage.add(TODAY, table(), chunks=table())
    stage.add(YESTERDAY, table(1, 1))
    stage.add("2026-03-13", table())
    notes = stage.bill()["incomplete"]
    assert stage.meters.tables == measured
    missing = [text for text in notes if text.startswith("the consumed units of")]
    text = f"the consumed units of {left_out} on-demand tables are not counted: price one stream alone"
    assert missing == ([text] if left_out else [])


def test_the_newest_tables_of_every_stream_come_before_older_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current_bill, "MAX_METRICS", 4)
    stage = BilledStage(more=ROLLUP)
    for stream in ("s", "s-hours"):
        for label in (TODAY, YESTERDAY):
            stage.add(label, table(), stream=stream)
    stage.bill()
    assert stage.meters.tables == {"s.2026-03-15": [], "s-hours.2026-03-15": []}


def test_a_local_index_has_no_metrics() -> None:
    """AWS: its reads and writes are those of its table."""
    stage = BilledStage(more=INDEX + '[[streams.s.index]]\nname = "near"\nlocal = true\nsort_by = "mag"\n')
    stage.add(TODAY, table())
    stage.bill()
    assert stage.meters.tables == {"s.2026-03-15": ["status"]}


@pytest.mark.parametrize("units", [ConsumedUnits(1, 0), ConsumedUnits(0, 1)])
def test_nobody_is_told_to_wait_once_a_unit_was_counted(units: ConsumedUnits) -> None:
    stage = BilledStage()
    stage.add(TODAY, table())
    (waits,) = stage.bill()["incomplete"]
    assert "they appear some minutes after the first events" in waits
    stage.meters.units["s.2026-03-15", ""] = units
    assert stage.bill()["incomplete"] == []
    # Another table without a unit changes nothing.
    stage.meters.units["s.2026-03-14", ""] = ConsumedUnits(0, 0)
    stage.add(YESTERDAY, table())
    assert stage.bill()["incomplete"] == []


def test_policies_that_cannot_be_read_are_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = BilledStage()

    def fail() -> Any:
        raise StoreUnavailable(Outage.OTHER, "DynamoDB did not answer", "catalog")

    monkeypatch.setattr(stage.catalog, "list_policies", fail)
    (missing,) = stage.bill()["incomplete"]
    assert missing.startswith("the recorded policies could not be read: ")


def test_without_cloudwatch_the_tables_are_priced_by_their_storage() -> None:
    stage = BilledStage()
    stage.add(TODAY, table(size_bytes=10**9))
    stage.meters.fails = True
    bill = stage.bill()
    (missing,) = bill["incomplete"]
    assert missing.startswith("CloudWatch did not answer: on-demand tables are priced by their storage alone")
    assert (bill["dollars"], bill["stage"]["dollars"]) == (pytest.approx(0.25 + 5.8 + 1.314 + 0.50516), 0)


def test_a_bill_says_when_and_in_which_money_it_was_made_and_what_it_lacks() -> None:
    """Two million requests of a month cost $7 at the gateway, and more in the functions."""
    stage = BilledStage()
    stage.add(TODAY, table(size_bytes=10**9))
    stage.meters.counted = Traffic(requests=2e6, events=1e8, queries=0)
    bill = stage.bill()
    assert (bill["at"], bill["currency"]) == ("2026-03-15T12:00:00.000000Z", "USD")
    assert bill["stage"]["dollars"] > 7
    assert bill["dollars"] == pytest.approx(0.25 + bill["stage"]["dollars"] + 8.8 + 1.314 + 0.50516)
    named = (
        "the storage of logs",
        "the runs of the lifecycle",
        "the catalog, queues and large values in S3",
        "free tiers",
    )
    assert [text.startswith(start) for text, start in zip(bill["not_priced"], named, strict=True)] == [True] * 4
    assert bill["prices"]["note"] is None
    stage.region = "eu-west-1"
    assert stage.bill()["prices"]["note"].startswith("the stage is in eu-west-1")


def test_a_policy_that_cannot_be_read_is_named_only_to_who_sees_its_stream() -> None:
    """The stream ``secret`` left the configuration; its recorded policy is of another version of the code."""
    stage = BilledStage(more=ROLLUP)
    stage.add(TODAY, table())
    stage.meters.units = {("s.2026-03-15", ""): ConsumedUnits(1, 1)}
    stage.catalog.put_policy(RecordedPolicy("secret", '{"period": "fortnight"}', datetime(2026, 3, 1, tzinfo=UTC)))
    assert any("secret" in note for note in stage.bill()["incomplete"])
    for sees in ({"s"}, {"s", "s-hours"}):
        notes = stage.bill(sees=sees.__contains__)["incomplete"]
        assert not any("secret" in note for note in notes)
    assert any("secret" in note for note in stage.bill(sees={"s", "secret"}.__contains__)["incomplete"])


def test_the_traffic_of_the_stage_is_measured_only_for_who_sees_all_streams() -> None:
    stage = BilledStage(more=ROLLUP)
    stage.add(YESTERDAY, table(size_bytes=10**6, item_count=1000))
    stage.meters.counted = Traffic(requests=100, events=700, queries=10, read_units=4000)
    everything, mine = (
        bill["streams"][0]["workload"] for bill in (stage.bill(), stage.bill(sees=lambda name: name == "s"))
    )
    assert (everything["batch"], everything["read_bytes"]) == (7, 800 * 4096)
    assert (mine["batch"], mine["read_bytes"]) == (100, 8192)


@pytest.mark.parametrize(("entries", "tables"), [(5_000, 2), (2, 1_000), (3, 4)])
def test_the_pages_of_a_stream_are_its_whole_bill(entries: int, tables: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two pages or more; each has the tables and the archives of its own periods."""
    stage = BilledStage()
    for day in range(8, 16):
        archive = ArchiveFacts(f"{day}", 10, 10**9, datetime(2026, 3, day, tzinfo=UTC)) if day < 12 else None
        state = State.DELETED if day == 9 else State.OPEN
        stage.add(f"2026-03-{day:02}", table(size_bytes=10**9), archive=archive, state=state)
    (whole,) = stage.bill()["streams"]
    assert (whole["next"], len(whole["periods"])) == (None, 7)
    monkeypatch.setattr(accounts, "MAX_ENTRIES", entries)
    monkeypatch.setattr(accounts, "MAX_TABLES", tables)
    pages, before = list[Any](), None
    while not pages or before is not None:
        (page,) = stage.bill(only="s", before=before)["streams"]
        pages.append(page)
        before = None if page["next"] is None else datetime.fromisoformat(page["next"])
    assert len(pages) == {5_000: 4, 2: 4, 3: 3}[entries]
    assert [period["period"] for page in pages for period in page["periods"]] == [
        period["period"] for period in whole["periods"]
    ]
    assert sum(page["dollars"] for page in pages) == pytest.approx(whole["dollars"], abs=1e-9)
