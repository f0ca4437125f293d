"""Versions of events on the strict service: kept, read in order and by number, archived and restored."""

from base64 import b64encode
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from tests.fakes.noise import noise
from tests.fakes.stage import Stage
from tests.worlds.large import DAY, NOON, age, ask, built, event, send
from tidetable.catalog import State
from tidetable.problems import ProblemError
from tidetable.query import get_event, parse_query, run_query
from tidetable.times import to_text


def versions(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["data"]["n"], row["version"], row["newest"]) for row in rows]


def test_every_version_stays_and_queries_return_the_newest() -> None:
    stage = built()
    for n in ("one", "two", "two", "three", "one"):
        send(stage, "kept", event(0, {"n": n, "kind": n}), event(1, {"n": "other"}))
        stage.clock.sleep(1)
    assert [row["data"]["n"] for row in ask(stage, "kept")] == ["three", "other"]
    assert versions(ask(stage, "kept", versions="all")) == [
        ("three", 3, True), ("two", 2, False), ("one", 1, False), ("other", 1, True),
    ]  # fmt: skip
    policy = stage.config.streams["kept"]
    ref = send(stage, "kept", event(0, {"n": "three", "kind": "three"})).refs[0]
    assert ref is not None
    shown = get_event(policy, ref, stage.reader(), {"versions": ["all"]})
    assert [row["version"] for row in [shown, *shown["versions"]]] == [3, 2, 1]
    stage.settle()
    now = stage.clock.now()
    for kind, count in (("three", 1), ("two", 0)):
        parameters = {"from": [to_text(NOON - timedelta(days=1))], "where.kind": [kind]}
        answer: Any = run_query(
            parse_query(policy, parameters, now, stage.seal), policy, stage.reader(), now, lambda: 100.0
        ).document()
        assert len(answer["events"]) == count, "an index holds the newest only"


def test_versions_that_share_a_cold_value_or_a_large_one_are_read_archived_and_restored() -> None:
    """Versions of the same content refer to the same parts."""
    stage = built()
    raw, text = noise(2_000, 5), noise(450_000, 6)
    first_data = [{"n": n, "raw": raw} for n in range(3)]
    second_data = [
        {"n": 1, "text": text, "raw": raw},
        {"n": 2, "raw": raw},
        {"n": 1, "text": text, "raw": raw, "more": 1},
    ]
    for first, second in zip(first_data, second_data, strict=True):
        assert send(stage, "texts", event(0, first), event(1, second)).accepted == 2
        stage.clock.sleep(1)
    ref = send(stage, "texts", event(1, second_data[2])).refs[0]
    assert ref is not None

    def check(state: State) -> None:
        entry = next(entry for entry in stage.catalog.entries("texts", consistent=True) if entry.period.label == DAY)
        assert entry.state is state
        rows = ask(stage, "texts", versions="all", fields="*")
        assert [row["data"] for row in rows] == [*first_data[::-1], *second_data[::-1]]
        shown = get_event(stage.config.streams["texts"], ref, stage.reader(), {"versions": ["all"], "fields": ["*"]})
        assert [each["data"] for each in (shown, *shown["versions"])] == second_data[::-1]

    check(State.OPEN)
    stage.clock.sleep(7 * 86_400)
    age(stage)
    check(State.DELETED)
    assert stage.restore("texts", DAY).state == "closed"
    check(State.CLOSED)


@pytest.mark.parametrize("stream", ["kept", "texts", "history"])
@pytest.mark.parametrize("length", [120_000, 250_000, 330_000, 395_000])
def test_every_version_of_an_event_of_hundreds_of_kilobytes_is_stored(stream: str, length: int) -> None:
    """A partition takes 1,000 write units per second, and a transaction costs twice its items."""
    stage = built()
    data = [{"n": n, "text": dense(length, n)} for n in range(3)]
    for value in data:
        outcome = send(stage, stream, event(0, value))
        assert (outcome.accepted, outcome.queued) == (1, 0)
        stage.clock.sleep(1)
    assert [row["data"] for row in ask(stage, stream, versions="all")] == data[::-1]
    # And a version that waited in the overflow.
    stage.circuit.trip([f"tidetable-lapse.{stream}.{DAY}"])
    last = {"n": 3, "text": dense(length, 3)}
    assert send(stage, stream, event(0, last)).queued == 1
    stage.clock.sleep(60)
    stage.drain()
    assert stage.queue.messages == []
    assert [row["data"] for row in ask(stage, stream, versions="all")] == [last, *data[::-1]]


def dense(length: int, seed: int) -> str:
    """Text of a length in bytes that compression reduces to about three quarters."""
    return b64encode(Random(seed).randbytes(length * 3 // 4)).decode()


def test_a_version_that_waited_goes_behind_those_that_were_accepted_after_it() -> None:
    stage = built()
    send(stage, "kept", event(0, {"n": "first"}))
    stage.clock.sleep(60)
    stage.circuit.trip([f"tidetable-lapse.kept.{DAY}"])
    assert send(stage, "kept", event(0, {"n": "waited"})).queued == 1
    stage.clock.sleep(60)
    assert send(stage, "kept", event(0, {"n": "last"})).accepted == 1
    stage.drain()
    rows = versions(ask(stage, "kept", versions="all"))
    assert rows == [("last", 3, True), ("waited", 2, False), ("first", 1, False)]


def test_versions_of_one_request_are_all_kept_in_their_order() -> None:
    stage = built()
    outcome = send(stage, "kept", *(event(0, {"n": n}) for n in ("one", "two", "three")))
    assert outcome.accepted == 3
    assert [row[0] for row in versions(ask(stage, "kept", versions="all"))] == ["three", "two", "one"]


def test_pages_never_part_an_event_from_its_versions() -> None:
    stage = built()
    for n in range(4):
        send(stage, "kept", *(event(number, {"n": f"{number}.{n}"}) for number in range(5)))
    for limit in ("1", "3", "4", "9"):
        rows = ask(stage, "kept", versions="all", limit=limit)
        assert [row["data"]["n"] for row in rows] == [f"{number}.{n}" for number in range(5) for n in (3, 2, 1, 0)]
    stage.clock.sleep(7 * 86_400)
    for _ in range(20):
        stage.run_lifecycle()
        stage.clock.sleep(300)
    for limit in ("1", "4", "9"):
        rows = ask(stage, "kept", versions="all", limit=limit)
        assert [row["data"]["n"] for row in rows] == [f"{number}.{n}" for number in range(5) for n in (3, 2, 1, 0)]
    assert [row["data"]["n"] for row in ask(stage, "kept", limit="2")] == [f"{number}.3" for number in range(5)]


def test_every_kept_version_is_read_by_its_number_before_and_after_its_archive() -> None:
    """Six versions of 1.5 MB, of which no answer holds all: they are read by pages of at least one version, and singly."""
    stage = built()
    policy, texts = stage.config.streams["kept"], [f"{n}" + "x" * 1_500_000 for n in range(1, 7)]
    for text in texts:
        (ref,) = send(stage, "kept", event(0, {"text": text})).refs
        stage.clock.sleep(1)
    assert ref is not None

    stage.settle()

    def get(**parameters: str) -> Any:
        return get_event(policy, ref or "", stage.reader(), {name: [value] for name, value in parameters.items()})

    def all_are_read() -> None:
        for number in range(1, 7):
            event = get(version=str(number))
            assert (event["version"], event["newest"], event["data"]["text"]) == (
                number,
                number == 6,
                texts[number - 1],
            )
        with pytest.raises(ProblemError, match="no version 7 of this event"):
            get(version="7")
        numbers, parameters, pages = [], {"versions": "all"}, 0
        for _ in range(10):
            page = get(**parameters)
            pages += 1
            for version in (page, *page["versions"]):
                numbers.append(version["version"])
                assert version["data"]["text"] == texts[version["version"] - 1]
            if not page.get("versions_left_out"):
                break
            parameters = {"versions": "all", "version": str(page["versions_left_out"])}
        assert numbers == [6, 5, 4, 3, 2, 1]
        assert 2 <= pages <= 6
        # A range names the newest version that has no room, where the next read continues.
        shown = ask(stage, "kept", versions="all")
        assert [row["version"] for row in shown] == list(range(6, 6 - len(shown), -1))
        assert shown[0]["versions_left_out"] == 6 - len(shown)

    all_are_read()
    stage.clock.sleep(7 * 86_400)
    for _ in range(20):
        stage.run_lifecycle()
        stage.clock.sleep(300)
    all_are_read()


def test_an_event_of_very_many_versions_is_read_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidetable.query.earlier.MAX_VERSIONS", 2)
    stage = built()
    for n in range(1, 8):
        (ref,) = send(stage, "kept", event(0, {"n": n})).refs
        stage.clock.sleep(1)
    stage.settle()
    parameters, shown = {"versions": ["all"]}, []
    for _ in range(5):
        page = get_event(stage.config.streams["kept"], ref or "", stage.reader(), parameters)
        shown.append([version["data"]["n"] for version in (page, *page["versions"])])
        if "versions_left_out" not in page:
            break
        parameters = {"versions": ["all"], "version": [str(page["versions_left_out"])]}
    assert shown == [[7, 6, 5], [4, 3, 2], [1]]


def noted_fetches(stage: Stage, patch: pytest.MonkeyPatch) -> list[int]:
    """Record the number of keys of each request for items from now on."""
    fetched: list[int] = []
    get_many = stage.store.get_many

    def note(table: str, keys: Any, *, consistent: bool = True) -> Any:
        fetched.append(len(keys))
        return get_many(table, keys, consistent=consistent)

    patch.setattr(stage.store, "get_many", note)
    return fetched


def test_a_range_fetches_no_more_versions_than_its_page_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each version has 20 KB: 30 events of six versions are 3.6 MB, of which a page of half a megabyte shows four events."""
    monkeypatch.setattr("tidetable.query.page.MAX_PAGE_BYTES", 500_000)
    stage = built()
    for n in range(6):
        stage.clock.sleep(1)
        for first in range(0, 30, 10):
            send(
                stage,
                "history",
                *(event(i, {"n": n, "text": noise(20_000, n * 100 + i)}) for i in range(first, first + 10)),
            )
    # Reads that are not consistent may be seconds behind.
    stage.clock.sleep(10)
    fetched = noted_fetches(stage, monkeypatch)
    policy, now = stage.config.streams["history"], stage.clock.now()
    parameters = {"from": ["-1d"], "to": ["now"], "series": ["a"], "versions": ["all"], "limit": ["1000"]}
    answer: Any = run_query(
        parse_query(policy, parameters, now, stage.seal), policy, stage.reader(), now, lambda: 100.0
    ).document()
    assert [(row["id"], row["data"]["n"]) for row in answer["events"]] == [
        (id, n) for id in ("e0", "e1", "e2", "e3") for n in (5, 4, 3, 2, 1, 0)
    ]
    assert fetched == [100], "twenty events have a hundred earlier versions; of the other ten nothing is fetched"
    fetched.clear()
    rows = ask(stage, "history", versions="all", limit="1000")
    assert [(row["id"], row["data"]["n"]) for row in rows] == [
        (f"e{i}", n) for i in range(30) for n in (5, 4, 3, 2, 1, 0)
    ]


def test_of_an_event_with_very_many_versions_a_range_fetches_what_an_answer_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidetable.query.earlier.GET_ITEMS", 3)
    monkeypatch.setattr("tidetable.query.page.MAX_PAGE_BYTES", 150_000)
    stage = built()
    for n in range(1, 31):
        stage.clock.sleep(1)
        send(stage, "history", event(0, {"n": n, "text": noise(20_000, n)}))
    # Reads that are not consistent may be seconds behind.
    stage.clock.sleep(10)
    fetched = noted_fetches(stage, monkeypatch)
    rows = ask(stage, "history", versions="all", limit="1000")
    assert [row["data"]["n"] for row in rows] == [30, 29, 28, 27, 26, 25, 24]
    assert rows[0]["versions_left_out"] == 23, "version 23 is the latest that is not shown"
    assert fetched == [3, 3, 3]


@pytest.mark.parametrize("version", ["0", "-1", "one", "1.0", "9" * 5000])
def test_a_version_that_is_no_number_is_refused(version: str) -> None:
    stage = built()
    (ref,) = send(stage, "kept", event(0, {"n": "one"})).refs
    with pytest.raises(ProblemError, match="version must be a whole number from 1 to 999999999"):
        get_event(stage.config.streams["kept"], ref or "", stage.reader(), {"version": [version]})
    with pytest.raises(ProblemError, match="keeps no earlier versions"):
        get_event(stage.config.streams["chunked"], ref or "", stage.reader(), {"version": ["1"]})
