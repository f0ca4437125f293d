"""Sixty simulated days: what was acknowledged is there, exactly once, however it is asked for.

``TIDETABLE_SEED=7 make test`` runs another life, ``TIDETABLE_DAYS=10`` a shorter one.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from tests.conftest import DAYS, SEED
from tests.timelapse.lapse import START, Lapse
from tidetable.errors import StoreUnavailable
from tidetable.query import Reader, get_event, parse_query, run_query
from tidetable.times import to_text

# Late events of the first day happened before it.
BEGINNING = to_text(START - timedelta(days=2))


@pytest.fixture(scope="module")
def lapse() -> Lapse:
    print(f"time-lapse of {DAYS} days with seed {SEED}")
    lapse = Lapse(SEED, DAYS)
    lapse.run()
    print(dict(sorted(lapse.outcomes.items())))
    return lapse


def walk(lapse: Lapse, reader: Reader, stream: str, **parameters: str) -> Iterator[dict[str, Any]]:
    """Every event of a query, by its cursors; a table short of read units is asked again a minute later."""
    policy, clock = lapse.stage.config.streams[stream], lapse.stage.clock
    asked = {name.rstrip("_"): [value] for name, value in parameters.items()}
    while True:
        query = parse_query(policy, asked, clock.now(), reader.seal)
        try:
            answer = run_query(query, policy, reader, clock.now(), lambda: 1000.0)
        except StoreUnavailable as error:
            if error.code != "ProvisionedThroughputExceededException":
                raise
            clock.sleep(60)
            continue
        document: Any = answer.document()
        yield from document["events"]
        if document["next"] is None:
            return
        asked = {"cursor": [document["next"]], "limit": ["1000"]}


def check(lapse: Lapse, stream: str, found: list[dict[str, Any]], kind: str | None = None) -> None:
    """What was found is what was acknowledged, and nothing twice."""
    counts = Counter((stream, str(event["id"])) for event in found)
    promised = {
        key: event
        for key, event in lapse.sent.events.items()
        if key[0] == stream and kind in (None, event["data"].get("kind"))
    }
    assert [key for key, count in counts.items() if count > 1] == []
    assert sorted(promised.keys() - counts.keys()) == []
    assert sorted(counts.keys() - promised.keys() - lapse.sent.maybe) == []
    for event in found:
        sent = promised.get((stream, event["id"]))
        assert sent is None or {name: event[name] for name in sent} == sent


def test_nothing_was_done_that_must_not_be(lapse: Lapse) -> None:
    assert lapse.complaints == []
    assert lapse.stage.queue.dead == []
    assert lapse.stage.queue.messages == []


@pytest.mark.skipif(DAYS < 60, reason="a shorter life sees less")
def test_the_life_was_full_enough_to_prove_something(lapse: Lapse) -> None:
    for what, least in {
        "acknowledged": 5000,
        "queued": 100,
        "throttled": 100,
        "deletions checked": 1200,
        "ladder checked": 500,
        "lifecycle killed": 50,
        "create done": 1400,
        "archive failed": 1,
        "ingest failed": 1,
    }.items():
        assert lapse.outcomes[what] >= least, what


def test_every_event_is_found_once_by_range(lapse: Lapse) -> None:
    end = to_text(lapse.stage.clock.now())
    found = list(walk(lapse, lapse.stage.reader(), "daily", from_=BEGINNING, to=end, limit="1000"))
    assert [event["time"] for event in found] == sorted((event["time"] for event in found), reverse=True)
    check(lapse, "daily", found)


@pytest.mark.parametrize("stream", ["hourly", "daily"])
def test_every_event_is_found_once_by_series(lapse: Lapse, stream: str) -> None:
    end, reader = to_text(lapse.stage.clock.now()), lapse.stage.reader()
    found: list[dict[str, Any]] = []
    for number in range(1, 7):
        series = f"station/{number}#"
        own = list(walk(lapse, reader, stream, from_=BEGINNING, to=end, series=series, order="asc", limit="1000"))
        assert {event["series"] for event in own} <= {series}
        found += own
    check(lapse, stream, found)


def test_every_event_of_a_kind_is_found_once_by_the_index_that_came_later(lapse: Lapse) -> None:
    end, reader = to_text(lapse.stage.clock.now()), lapse.stage.reader()
    asked = {"from_": BEGINNING, "to": end, "where.kind": "storm", "order": "asc", "limit": "1000"}
    found = list(walk(lapse, reader, "hourly", **asked))
    assert [event["time"] for event in found] == sorted(event["time"] for event in found)
    check(lapse, "hourly", found, "storm")


def test_the_index_of_each_table_holds_what_the_table_holds(lapse: Lapse) -> None:
    account = lapse.stage.dynamo.account
    indexed = [name for name, table in account.tables.items() if table.indexes]
    assert indexed
    for name in indexed:
        table, by_kind = (
            account.engine.call("Scan", {"TableName": name, **index})["Items"]
            for index in ({}, {"IndexName": "by_kind"})
        )
        plain = [item for item in table if "S" in item["data"]["M"].get("kind", {})]
        assert sorted(item["sk"]["S"] for item in by_kind) == sorted(item["sk"]["S"] for item in plain)


def test_every_event_is_found_by_its_ref(lapse: Lapse) -> None:
    reader = lapse.stage.reader()
    assert lapse.sent.refs.keys() == lapse.sent.events.keys()
    for key, ref in lapse.sent.refs.items():
        try:
            shown = get_event(lapse.stage.config.streams[key[0]], ref, reader)
        except StoreUnavailable:
            lapse.stage.clock.sleep(300)
            shown = get_event(lapse.stage.config.streams[key[0]], ref, reader)
        sent = lapse.sent.events[key]
        assert {name: shown[name] for name in sent} == sent
