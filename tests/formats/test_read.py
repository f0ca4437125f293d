"""What earlier code stored is read exactly: events, aggregates, cursors, refs, keys, and the catalog's records."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.worlds import formats_events as events
from tests.worlds import formats_records as records
from tests.worlds.entries import change_entry
from tests.worlds.formats import FormatStage
from tests.worlds.formats_asked import WHOLE, ask_page, read_events, read_ref, strip_refs
from tidetable.config.record import parse_policy
from tidetable.credentials.decide import Call, decide
from tidetable.errors import InvalidCursor
from tidetable.ports import Edge, Mark
from tidetable.problems import ProblemError

FINAL_TIMES = [
    *(event for event in events.TIMES if event["id"] != "2"),
    events.REPLACED,
    events.LATE,
    *events.TIMES_NEXT,
    *events.TIMES_OPEN,
]
RAW = [
    {**event, "data": {name: value for name, value in event["data"].items() if name != "raw"}} for event in events.LARGE
]


def newest_first(listed: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(listed, key=lambda event: (event["time"], event["series"], event["id"]), reverse=True)


@pytest.mark.parametrize(
    ("stream", "parameters", "expected"),
    [
        ("times", {}, FINAL_TIMES),
        ("times", {"where_kind": "order"}, [e for e in FINAL_TIMES if e["data"].get("kind") == "order"]),
        ("times", {"where_kind": "order", "where_customer": "c2"}, [events.TIMES[2]]),
        ("times", {"where_kind": "refund", "where_staff.name": "s#1"}, [events.REPLACED]),
        ("times", {"where_country": "DE", "where_town:prefix": "U"}, [events.TIMES[0], events.TIMES_OPEN[0]]),
        ("times", {"priority": "low"}, FINAL_TIMES),
        # An id, or a series, decides which shard is read.
        *[("times", {"id": event["id"]}, [event]) for event in FINAL_TIMES if event["id"] != "8"],
        ("names", {"series": "kept", "id": "1"}, events.NAMES_VERSIONS[1:]),
        ("objects", {"series": "o"}, events.OBJECTS),
        ("names", {"series": "kept"}, [events.NAMES_VERSIONS[1], events.NAMES[1]]),
        ("names", {"series": "other#%"}, [events.NAMES[2]]),
        ("large", {"series": "l"}, RAW),
        ("objects", {}, events.OBJECTS),
        ("packs", {}, [*events.PACKS, *events.PACKS_OPEN]),
        ("series_packs", {"series": "p"}, events.SERIES_PACKS[:2]),
        ("series_packs", {"series": "q#%"}, events.SERIES_PACKS[2:]),
        ("sensors", {}, [*events.SENSORS[:2], events.SENSORS_AGAIN]),
        ("sensors", {"series": "abc"}, [events.SENSORS[0], events.SENSORS_AGAIN]),
    ],
)
def test_events_are_read(stage: FormatStage, stream: str, parameters: dict[str, str], expected: events.Events) -> None:
    assert read_events(stage, stream, **parameters) == newest_first(expected)


def test_cold_fields_are_read(stage: FormatStage) -> None:
    (cold,) = read_events(stage, "large", series="l", id="cold", fields="raw,n")
    assert cold["data"] == {"n": 1, "raw": "seldom read"}


def test_every_version_is_read(stage: FormatStage) -> None:
    found = read_events(stage, "names", series="kept", id="1", versions="all")
    assert [(event["version"], event["data"], event["newest"]) for event in found] == [
        (3, {"v": 3}, True),
        (2, {"v": 2}, False),
        (1, {"v": 1}, False),
    ]


STATS = ("count", "sum", "min", "max", "first", "last")
HOURS = [
    ("2026-03-09T10", "order", (2, 15, 7, 8, 7, 8)),
    ("2026-03-09T10", "refund", (1, *[Decimal("-2.75")] * 5)),
    ("2026-03-09T11", "order", (1, 7, 7, 7, 7, 7)),
    ("2026-03-09T13", None, (1, 100, 100, 100, 100, 100)),
    ("2026-03-10T00", "order", (2, 23, 11, 12, 11, 12)),
    ("2026-03-12T13", "order", (2, 4, 1, 3, 1, 3)),
    ("2026-03-12T14", "refund", (1, 2, 2, 2, 2, 2)),
]


def test_aggregates_are_read_from_sealed_buckets(stage: FormatStage) -> None:
    asked = WHOLE | {"from": "2026-03-09T10:00:00Z"}
    answer = ask_page(stage, "aggregate", "times", **asked, step="1h", by="kind", field="n", stat=",".join(STATS))
    found = [
        (row["start"][:13], row["group"]["kind"], tuple(row[stat] for stat in STATS)) for row in answer["aggregates"]
    ]
    assert found == HOURS
    # The bucket of 13:00 has a mark, and the bucket of 14:00 is not sealed: both are read from their events.
    assert answer["sources"] == [
        {"period": "2026-03", "from": "table", "rollup": "times-hours"},
        {"period": "2026-03-12", "from": "table"},
    ]


def test_percentiles_are_read_from_sealed_buckets(stage: FormatStage) -> None:
    asked = WHOLE | {"from": "2026-03-09T10:00:00Z", "to": "2026-03-09T14:00:00Z"}
    answer = ask_page(stage, "aggregate", "times", **asked, step="1h", by="kind", field="n", stat="p1,p99")
    found = [(float(row["p1"]), float(row["p99"])) for row in answer["aggregates"]]
    assert found == [pytest.approx(pair, rel=0.01) for pair in [(7, 7), (-2.75, -2.75), (7, 7), (100, 100)]]
    assert answer["sources"] == [{"period": "2026-03", "from": "table", "rollup": "times-hours"}]


def test_aggregates_by_series_are_read_from_sealed_buckets(stage: FormatStage) -> None:
    asked = {"from": "2026-03-12T10:00:00Z", "to": "2026-03-12T11:00:00Z"}
    answer = ask_page(stage, "aggregate", "names", **asked, step="15m", by="series")
    rows = [(row["start"][11:16], row["group"]["series"], row["count"]) for row in answer["aggregates"]]
    assert rows == [("10:00", "kept", 1), ("10:15", "kept", 1), ("10:15", "other#%", 1)]
    assert answer["sources"] == [{"period": "2026-03-12", "from": "table", "rollup": "names-quarters"}]


def test_a_cursor_of_events_continues_in_the_archive(stage: FormatStage, texts: Any) -> None:
    rest = ask_page(stage, "events", "times", cursor=texts["cursors"]["events"], limit="10")
    assert [event["id"] for event in strip_refs(rest)] == ["3", "6", "2", "1"]
    assert rest["next"] is None


def test_a_cursor_of_a_ranking_continues(stage: FormatStage, texts: Any) -> None:
    rest = ask_page(stage, "top", "times", cursor=texts["cursors"]["top"], limit="10")
    assert [(row["value"], row["id"]) for row in rest["top"]] == [
        (11, "7"),
        (8, "6"),
        (7, "3"),
        (7, "1"),
        (3, "9"),
        (2, "10"),
        (1, "11"),
        (Decimal("-2.75"), "2"),
    ]


def test_a_cursor_of_an_aggregate_continues(stage: FormatStage, texts: Any) -> None:
    rest = ask_page(stage, "aggregate", "times", cursor=texts["cursors"]["aggregate"], limit="10")
    rows = [(row["start"][8:13], row["group"]["kind"], row["count"]) for row in rest["aggregates"]]
    assert rows == [
        ("09T11", "order", 1),
        ("09T12", 5, 1),
        ("09T13", None, 1),
        ("10T00", "order", 2),
        ("12T13", "order", 2),
        ("12T14", "refund", 1),
    ]


def test_a_cursor_of_a_listing_continues(stage: FormatStage, texts: Any) -> None:
    rest = ask_page(stage, "series", "names", cursor=texts["cursors"]["series"])
    assert [row["series"] for row in rest["series"]] == ["other#%"]


def test_a_changed_cursor_is_refused(stage: FormatStage, texts: Any) -> None:
    cursor = texts["cursors"]["events"]
    with pytest.raises((InvalidCursor, ProblemError)):
        ask_page(stage, "events", "times", cursor=cursor[:-4] + "AAAA")


@pytest.mark.parametrize(
    ("name", "stream", "expected"),
    [
        ("archived", "times", events.TIMES[4]),
        ("packed", "packs", events.PACKS[2]),
        ("open", "times", events.TIMES_OPEN[2]),
        ("pack", "packs", events.PACKS_OPEN[1]),
    ],
)
def test_a_ref_names_its_event(stage: FormatStage, texts: Any, name: str, stream: str, expected: Any) -> None:
    found = read_ref(stage, texts["refs"][name], stream)
    # The ref of an event in an archived pack does not name the pack any more.
    assert found.pop("ref")
    assert found == expected


def test_a_ref_has_the_versions_of_its_event(stage: FormatStage, texts: Any) -> None:
    found = read_ref(stage, texts["refs"]["versions"], "names", versions="all")
    assert found["data"] == {"v": 3}
    assert [version["data"] for version in found["versions"]] == [{"v": 2}, {"v": 1}]


@pytest.mark.parametrize(
    ("text", "stream", "method", "hours", "refusal"),
    [
        (records.EVERYTHING, "times", "POST", 0, ""),
        (records.EVERYTHING[:-1] + "6", "times", "POST", 0, "wrong secret of key everything"),
        (records.TENANT, "times", "GET", 0, ""),
        (records.TENANT, "times", "POST", 0, "needs write"),
        (records.TENANT, "packs", "GET", 0, "another stream"),
        (records.REVOKED, "times", "GET", 0, "revoked"),
        (records.EXPIRED, "times", "GET", 0, ""),
        (records.EXPIRED, "times", "GET", 24, "expired"),
        (records.ROTATED, "times", "GET", 0, ""),
        (records.ROTATED, "times", "GET", 24, "rotated"),
        (records.ROTATED_NEW, "times", "GET", 24, ""),
        (records.OF_GATEWAY, "packs", "POST", 0, ""),
        (records.OF_GATEWAY, "names", "POST", 0, "another stream"),
    ],
)
def test_a_key_is_accepted_or_refused(
    stage: FormatStage, text: str, stream: str, method: str, hours: int, refusal: str
) -> None:
    stage.restart()
    call = Call(method, "/v1/streams/{stream}/events", stream, {"x-api-key": [text]})
    assert decide(call, stage.key_ring, stage.clock.now() + timedelta(hours=hours)).refusal == refusal


def test_keys_have_their_facts(stage: FormatStage) -> None:
    assert {record.id: record for record in stage.keys.all()} == {record.id: record for record in records.KEYS}


def test_entries_of_every_state_are_read(stage: FormatStage) -> None:
    found = list(stage.catalog.entries(records.FORMER, consistent=True))
    noted = found[1]
    assert (noted.capacity.seen, noted.capacity.scaled, noted.capacity.policy) == (records.SEEN, True, "policy-1")
    plain = change_entry(noted, seen=None, scaled=False, policy="")
    assert [found[0], plain, *found[2:]] == sorted(records.ENTRIES, key=lambda entry: entry.period.start)


def test_the_other_records_of_the_catalog_are_read(stage: FormatStage) -> None:
    catalog = stage.catalog
    assert list(catalog.backfills(records.FORMER)) == [records.BACKFILL]
    horizon = catalog.read_horizon(records.FORMER)
    assert (horizon.at, [period.label for period in horizon.far]) == (
        records.NOON, [f"2026-02-{day}" for day in ("01", "02", "03", "04", "05", "07", "09")],
    )  # fmt: skip
    assert catalog.is_deployed()
    policies = {policy.stream: policy for policy in catalog.list_policies()}
    assert policies.pop(records.FORMER) == records.POLICY
    assert {name: parse_policy(name, policy.policy) for name, policy in policies.items()} == stage.config.streams


def test_a_lease_is_held_until_its_end(changing: FormatStage) -> None:
    end = records.NOON + timedelta(minutes=5)
    assert not changing.catalog.acquire("upgrade", "owner-2", end - timedelta(seconds=1), timedelta(minutes=5))
    assert changing.catalog.acquire("upgrade", "owner-2", end, timedelta(minutes=5))


def test_the_state_of_rollups_is_read(stage: FormatStage) -> None:
    former, hour = stage.rollups.read_state(records.FORMER), records.HOUR
    event = ("tidetable-lapse.former.2026-03", "2026-03-12T15:00:00.000000Z#1", "sort key")
    assert former.marks == [
        Mark(records.OVER, 1_000, hour, 1_000),
        Mark(records.NEW, 1_000, hour, 1_000, event=event),
    ]
    assert former.rested == [Mark(records.RESTED, 0, hour, 0, 2_000, 1)]
    assert former.lost == [Mark(records.LOST, 0, hour, lost=True)]
    assert former.over == [("hours", records.OVER)]
    assert former.noting is not None
    assert (former.noting.since, former.noting.stopped) == (records.NOON, True)
    assert stage.rollups.read_state("times").edges == [
        Edge(
            "hours",
            datetime(2026, 3, 8, 9, tzinfo=UTC),
            datetime(2026, 3, 12, 13, tzinfo=UTC),
            '{"by":["kind"],"every":3600,"fields":["n"],"stats":'
            '["count","first","last","max","min","percentiles","sum"]}',
        )
    ]
