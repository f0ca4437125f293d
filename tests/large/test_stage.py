"""Large events, cold fields and versions through the whole pipeline, on the strict service; and a kill after every call."""

import json
from base64 import b64encode
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from tests.fakes.noise import noise
from tests.fakes.stage import Stage
from tests.worlds.killed import killed_after_every_call
from tests.worlds.large import CONFIG, DAY, NOON, orphan
from tidetable.catalog import Entry, State
from tidetable.config import parse
from tidetable.errors import ArchiveFailed, StoreUnavailable
from tidetable.ingest.request import Outcome
from tidetable.keys import Key
from tidetable.large import sweep as sweeping
from tidetable.ports import Blob
from tidetable.problems import ProblemError
from tidetable.query import get_event, parse_query, run_query
from tidetable.times import to_text

STREAMS = ("chunked", "stored", "kept", "texts")


def built() -> Stage:
    stage = Stage(NOON, CONFIG)
    stage.part_bytes = 10**7
    ready(stage)
    return stage


def ready(stage: Stage) -> None:
    """Run the lifecycle until nothing is left to do: AWS takes so many creations at a time, and no more."""
    while stage.run_lifecycle().done:
        stage.clock.sleep(10)


def event(number: int, data: dict[str, Any], series: str = "a") -> dict[str, Any]:
    return {"series": series, "id": f"e{number}", "time": to_text(NOON - timedelta(minutes=number)), "data": data}


SENT = [
    event(0, {"kind": "small", "n": 1}),
    event(1, {"kind": "loose", "text": "tide " * 1000, "raw": "cold " * 400}),
    event(2, {"kind": "large", "text": noise(900_000), "raw": noise(600)}),
    event(3, {"kind": "large", "text": noise(500_000, 3), "list": [1, 2.5, None]}),
]


def send(stage: Stage, stream: str, *events: dict[str, Any]) -> Outcome:
    return stage.send(stream, json.dumps(events).encode())


def ask(stage: Stage, stream: str, **parameters: str) -> list[dict[str, Any]]:
    """Every event of a query, page by page."""
    stage.settle()
    policy, now, found = stage.config.streams[stream], stage.clock.now(), list[dict[str, Any]]()
    given = {"from": [to_text(NOON - timedelta(days=1))], "to": [to_text(NOON + timedelta(days=1))], "series": ["a"]}
    given |= {name: [value] for name, value in parameters.items()}
    while True:
        query = parse_query(policy, given, now, stage.seal)
        answer: Any = run_query(query, policy, stage.reader(), now, lambda: 100.0).document()
        found += answer["events"]
        if answer["next"] is None:
            return found
        given = {"cursor": [answer["next"]], "limit": given.get("limit", ["100"])}


def plain(events: list[dict[str, Any]], *without: str) -> list[dict[str, Any]]:
    """Events as they were sent, newest first."""
    return [
        {**one, "data": {name: value for name, value in one["data"].items() if name not in without}}
        for one in ({name: found[name] for name in ("series", "id", "time", "data")} for found in events)
    ]


@pytest.mark.parametrize("stream", STREAMS)
def test_large_events_come_back_whole_from_table_archive_and_restored_table(stream: str) -> None:
    stage = built()
    outcome = send(stage, stream, *SENT)
    assert (outcome.accepted, outcome.rejections, outcome.queued) == (4, [], 0)
    cold = ["raw"] if stream in ("chunked", "texts") else []

    def check(state: State) -> None:
        entry = next(one for one in stage.catalog.entries(stream, consistent=True) if one.period.label == DAY)
        assert entry.state is state
        assert plain(ask(stage, stream)) == plain(SENT, *cold)
        assert plain(ask(stage, stream, fields="*", limit="1")) == plain(SENT)
        assert [one["data"] for one in ask(stage, stream, fields="n,raw")] == [
            {name: one["data"][name] for name in ("n", "raw") if name in one["data"]} for one in SENT
        ]
        assert [one["id"] for one in ask(stage, stream, **{"where.kind": "large"})] == ["e2", "e3"]
        ref = outcome.refs[2]
        assert ref is not None
        shown = get_event(stage.config.streams[stream], ref, stage.reader(), {"fields": ["*"]})
        assert shown["data"] == SENT[2]["data"]

    check(State.OPEN)
    stage.clock.sleep(7 * 86_400)
    for _ in range(40):
        stage.run_lifecycle()
        stage.clock.sleep(300)
    assert not [name for name in stage.dynamo.account.tables if DAY in name]
    check(State.DELETED)
    assert stage.restore(stream, DAY).next is None
    check(State.CLOSED)
    stage.clock.sleep(9 * 86_400)
    for _ in range(40):
        stage.run_lifecycle()
        stage.clock.sleep(300)
    check(State.DELETED)


def test_an_index_finds_packed_events() -> None:
    stage = built()
    send(stage, "chunked", *SENT)
    stage.settle()
    policy, now = stage.config.streams["chunked"], stage.clock.now()
    asked = {"from": [to_text(NOON - timedelta(days=1))], "where.kind": ["large"]}
    answer: Any = run_query(
        parse_query(policy, asked, now, stage.seal), policy, stage.reader(), now, lambda: 100.0
    ).document()
    assert plain(answer["events"]) == plain(SENT[2:], "raw")


@pytest.mark.parametrize("stream", STREAMS)
def test_a_kill_between_any_two_writes_leaves_nothing_half_visible_and_a_retry_completes_it(stream: str) -> None:
    before = event(2, {"kind": "old", "text": noise(450_000, 9), "raw": "old"})
    after = SENT[2]

    def prepare() -> Stage:
        stage = built()
        send(stage, stream, before)
        return stage

    seen = set()
    for _, stage in killed_after_every_call(prepare, lambda stage: send(stage, stream, after)):
        found = plain(ask(stage, stream, fields="*"))
        assert found in ([before], [after]), "the one or the other, and whole"
        seen.add(found == [after])
        assert send(stage, stream, after).accepted == 1
        assert plain(ask(stage, stream, fields="*")) == [after]
        if stream in ("kept", "texts"):
            everything = plain(ask(stage, stream, versions="all", fields="*"))
            assert everything == [after, before], "no version twice, and none lost"
    assert False in seen


def test_events_wait_in_the_overflow_whatever_their_size_and_drain_in_their_form() -> None:
    stage = built()
    for stream in ("chunked", "stored"):
        stage.circuit.tripped([f"tidetable-lapse.{stream}.{DAY}"])
        outcome = send(stage, stream, SENT[0], SENT[2])
        assert outcome.queued == 2
        assert ask(stage, stream) == []
    stage.clock.sleep(60)
    stage.drain()
    for stream in ("chunked", "stored"):
        assert plain(ask(stage, stream, fields="*")) == plain([SENT[0], SENT[2]])


def test_an_event_that_waited_does_not_replace_one_that_was_accepted_after_it() -> None:
    stage = built()
    table = f"tidetable-lapse.stored.{DAY}"
    stage.circuit.tripped([table])
    assert send(stage, "stored", event(0, {"n": "first"})).queued == 1
    stage.clock.sleep(60)
    assert send(stage, "stored", event(0, {"n": "second"})).accepted == 1
    stage.drain()
    assert not stage.queue.messages
    assert [one["data"] for one in ask(stage, "stored")] == [{"n": "second"}]


def test_an_event_that_waited_replaces_one_that_was_accepted_before_it() -> None:
    stage = built()
    send(stage, "stored", event(0, {"n": "first"}))
    stage.clock.sleep(60)
    stage.circuit.tripped([f"tidetable-lapse.stored.{DAY}"])
    assert send(stage, "stored", event(0, {"n": "second"})).queued == 1
    stage.clock.sleep(60)
    stage.drain()
    assert [one["data"] for one in ask(stage, "stored")] == [{"n": "second"}]


def versions(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(one["data"]["n"], one["version"], one["newest"]) for one in found]


def test_every_version_stays_and_queries_return_the_newest() -> None:
    stage = built()
    for n in ("one", "two", "two", "three", "one"):
        send(stage, "kept", event(0, {"n": n, "kind": n}), event(1, {"n": "other"}))
        stage.clock.sleep(1)
    assert [one["data"]["n"] for one in ask(stage, "kept")] == ["three", "other"]
    assert versions(ask(stage, "kept", versions="all")) == [
        ("three", 3, True), ("two", 2, False), ("one", 1, False), ("other", 1, True),
    ]  # fmt: skip
    policy = stage.config.streams["kept"]
    ref = send(stage, "kept", event(0, {"n": "three", "kind": "three"})).refs[0]
    assert ref is not None
    shown = get_event(policy, ref, stage.reader(), {"versions": ["all"]})
    assert [one["version"] for one in [shown, *shown["versions"]]] == [3, 2, 1]
    stage.settle()
    now = stage.clock.now()
    for kind, count in (("three", 1), ("two", 0)):
        asked = {"from": [to_text(NOON - timedelta(days=1))], "where.kind": [kind]}
        answer: Any = run_query(
            parse_query(policy, asked, now, stage.seal), policy, stage.reader(), now, lambda: 100.0
        ).document()
        assert len(answer["events"]) == count, "an index holds the newest only"


def test_versions_that_share_a_cold_value_or_a_large_one_are_read_archived_and_restored() -> None:
    """Versions of the same content refer to the same parts."""
    stage = built()
    raw, text = noise(2_000, 5), noise(450_000, 6)
    one = [{"n": n, "raw": raw} for n in range(3)]
    two = [{"n": 1, "text": text, "raw": raw}, {"n": 2, "raw": raw}, {"n": 1, "text": text, "raw": raw, "more": 1}]
    for first, second in zip(one, two, strict=True):
        assert send(stage, "texts", event(0, first), event(1, second)).accepted == 2
        stage.clock.sleep(1)
    ref = send(stage, "texts", event(1, two[2])).refs[0]
    assert ref is not None

    def check(state: State) -> None:
        entry = next(one for one in stage.catalog.entries("texts", consistent=True) if one.period.label == DAY)
        assert entry.state is state
        found = ask(stage, "texts", versions="all", fields="*")
        assert [one["data"] for one in found] == [*one[::-1], *two[::-1]]
        shown = get_event(stage.config.streams["texts"], ref, stage.reader(), {"versions": ["all"], "fields": ["*"]})
        assert [each["data"] for each in (shown, *shown["versions"])] == two[::-1]

    check(State.OPEN)
    stage.clock.sleep(7 * 86_400)
    age(stage)
    check(State.DELETED)
    assert stage.restore("texts", DAY).next is None
    check(State.CLOSED)


@pytest.mark.parametrize("stream", ["kept", "texts", "history"])
@pytest.mark.parametrize("length", [120_000, 250_000, 330_000, 395_000])
def test_every_version_of_an_event_of_hundreds_of_kilobytes_is_stored(stream: str, length: int) -> None:
    """A partition takes 1,000 write units per second, and a transaction costs twice its items."""
    stage = built()
    data = [{"n": n, "text": dense(length, n)} for n in range(3)]
    for one in data:
        outcome = send(stage, stream, event(0, one))
        assert (outcome.accepted, outcome.queued) == (1, 0)
        stage.clock.sleep(1)
    assert [one["data"] for one in ask(stage, stream, versions="all")] == data[::-1]
    # And one that waited in the overflow.
    stage.circuit.tripped([f"tidetable-lapse.{stream}.{DAY}"])
    last = {"n": 3, "text": dense(length, 3)}
    assert send(stage, stream, event(0, last)).queued == 1
    stage.clock.sleep(60)
    stage.drain()
    assert stage.queue.messages == []
    assert [one["data"] for one in ask(stage, stream, versions="all")] == [last, *data[::-1]]


def dense(length: int, seed: int) -> str:
    """Text of so many bytes that takes about three quarters of them when it is compressed."""
    return b64encode(Random(seed).randbytes(length * 3 // 4)).decode()


def age(stage: Stage) -> None:
    """More than three hours of the lifecycle's runs."""
    for _ in range(40):
        stage.run_lifecycle()
        stage.clock.sleep(300)


def test_a_version_that_waited_goes_behind_those_that_were_accepted_after_it() -> None:
    stage = built()
    send(stage, "kept", event(0, {"n": "first"}))
    stage.clock.sleep(60)
    stage.circuit.tripped([f"tidetable-lapse.kept.{DAY}"])
    assert send(stage, "kept", event(0, {"n": "waited"})).queued == 1
    stage.clock.sleep(60)
    assert send(stage, "kept", event(0, {"n": "last"})).accepted == 1
    stage.drain()
    found = versions(ask(stage, "kept", versions="all"))
    assert found == [("last", 3, True), ("waited", 2, False), ("first", 1, False)]


def test_versions_of_one_request_are_all_kept_in_their_order() -> None:
    stage = built()
    outcome = send(stage, "kept", *(event(0, {"n": n}) for n in ("one", "two", "three")))
    assert outcome.accepted == 3
    assert [one[0] for one in versions(ask(stage, "kept", versions="all"))] == ["three", "two", "one"]


def test_pages_never_part_an_event_from_its_versions() -> None:
    stage = built()
    for n in range(4):
        send(stage, "kept", *(event(number, {"n": f"{number}.{n}"}) for number in range(5)))
    for limit in ("1", "3", "4", "9"):
        found = ask(stage, "kept", versions="all", limit=limit)
        assert [one["data"]["n"] for one in found] == [f"{number}.{n}" for number in range(5) for n in (3, 2, 1, 0)]
    stage.clock.sleep(7 * 86_400)
    for _ in range(20):
        stage.run_lifecycle()
        stage.clock.sleep(300)
    for limit in ("1", "4", "9"):
        found = ask(stage, "kept", versions="all", limit=limit)
        assert [one["data"]["n"] for one in found] == [f"{number}.{n}" for number in range(5) for n in (3, 2, 1, 0)]
    assert [one["data"]["n"] for one in ask(stage, "kept", limit="2")] == [f"{number}.3" for number in range(5)]


def test_every_kept_version_is_read_by_its_number_before_and_after_its_archive() -> None:
    """Six versions of 1.5 MB, of which no answer holds all: by pages over versions, each of one at the least, and one by one."""
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
            one = get(version=str(number))
            assert (one["version"], one["newest"], one["data"]["text"]) == (number, number == 6, texts[number - 1])
        with pytest.raises(ProblemError, match="no version 7 of this event"):
            get(version="7")
        numbers, asked, pages = [], {"versions": "all"}, 0
        for _ in range(10):
            page = get(**asked)
            pages += 1
            for one in (page, *page["versions"]):
                numbers.append(one["version"])
                assert one["data"]["text"] == texts[one["version"] - 1]
            if not page.get("versions_left_out"):
                break
            asked = {"versions": "all", "version": str(page["versions_left_out"])}
        assert numbers == [6, 5, 4, 3, 2, 1]
        assert 2 <= pages <= 6
        # A range says how many it has no room for, and so where to go on.
        shown = ask(stage, "kept", versions="all")
        assert [one["version"] for one in shown] == list(range(6, 6 - len(shown), -1))
        assert shown[0]["versions_left_out"] == 6 - len(shown)

    all_are_read()
    stage.clock.sleep(7 * 86_400)
    for _ in range(20):
        stage.run_lifecycle()
        stage.clock.sleep(300)
    all_are_read()


def test_an_event_of_very_many_versions_is_read_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidetable.query.get.MAX_VERSIONS", 2)
    stage = built()
    for n in range(1, 8):
        (ref,) = send(stage, "kept", event(0, {"n": n})).refs
        stage.clock.sleep(1)
    stage.settle()
    asked, found = {"versions": ["all"]}, []
    for _ in range(5):
        page = get_event(stage.config.streams["kept"], ref or "", stage.reader(), asked)
        found.append([one["data"]["n"] for one in (page, *page["versions"])])
        if "versions_left_out" not in page:
            break
        asked = {"versions": ["all"], "version": [str(page["versions_left_out"])]}
    assert found == [[7, 6, 5], [4, 3, 2], [1]]


def noted_fetches(stage: Stage, patch: pytest.MonkeyPatch) -> list[int]:
    """How many keys each request for items by their keys has from now on."""
    fetched: list[int] = []
    get_many = stage.store.get_many

    def note(table: str, keys: Any) -> Any:
        fetched.append(len(keys))
        return get_many(table, keys)

    patch.setattr(stage.store, "get_many", note)
    return fetched


def test_a_range_fetches_no_more_versions_than_its_page_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each version has 20 KB: 30 events of six versions are 3.6 MB, of which a page of half a megabyte shows four events."""
    monkeypatch.setattr("tidetable.query.answer.MAX_ANSWER_BYTES", 500_000)
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
    given = {"from": ["-1d"], "to": ["now"], "series": ["a"], "versions": ["all"], "limit": ["1000"]}
    answer: Any = run_query(
        parse_query(policy, given, now, stage.seal), policy, stage.reader(), now, lambda: 100.0
    ).document()
    assert [(one["id"], one["data"]["n"]) for one in answer["events"]] == [
        (id, n) for id in ("e0", "e1", "e2", "e3") for n in (5, 4, 3, 2, 1, 0)
    ]
    assert fetched == [100], "twenty events have a hundred earlier versions; of the other ten nothing is fetched"
    fetched.clear()
    found = ask(stage, "history", versions="all", limit="1000")
    assert [(one["id"], one["data"]["n"]) for one in found] == [
        (f"e{i}", n) for i in range(30) for n in (5, 4, 3, 2, 1, 0)
    ]


def test_of_an_event_with_very_many_versions_a_range_fetches_what_an_answer_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidetable.query.versions.BATCH", 3)
    monkeypatch.setattr("tidetable.query.versions.MAX_ANSWER_BYTES", 150_000)
    stage = built()
    for n in range(1, 31):
        stage.clock.sleep(1)
        send(stage, "history", event(0, {"n": n, "text": noise(20_000, n)}))
    # Reads that are not consistent may be seconds behind.
    stage.clock.sleep(10)
    fetched = noted_fetches(stage, monkeypatch)
    found = ask(stage, "history", versions="all", limit="1000")
    assert [one["data"]["n"] for one in found] == [30, 29, 28, 27, 26, 25, 24]
    assert found[0]["versions_left_out"] == 23, "version 23 is the latest that is not shown"
    assert fetched == [3, 3, 3]


@pytest.mark.parametrize("version", ["0", "-1", "one", "1.0", "9" * 5000])
def test_a_version_that_is_no_number_is_refused(version: str) -> None:
    stage = built()
    (ref,) = send(stage, "kept", event(0, {"n": "one"})).refs
    with pytest.raises(ProblemError, match="from 1, the oldest"):
        get_event(stage.config.streams["kept"], ref or "", stage.reader(), {"version": [version]})
    with pytest.raises(ProblemError, match="keeps no earlier versions"):
        get_event(stage.config.streams["chunked"], ref or "", stage.reader(), {"version": ["1"]})


@pytest.mark.parametrize("stream", ["chunked", "kept"])
def test_a_period_of_before_takes_what_its_layout_allows(stream: str) -> None:
    """Chunks and versions begin with the next period; compression and S3 hold at once."""
    stage = Stage(
        NOON, CONFIG.replace('"chunks"', '"refuse"').replace('cold = ["raw"]', "").replace('"keep"', '"overwrite"')
    )
    ready(stage)
    stage.config = parse(CONFIG)
    if stream == "chunked":
        with pytest.raises(ProblemError) as refused:
            send(stage, stream, SENT[2])
        assert refused.value.problem.status == 422
        assert send(stage, stream, SENT[1]).accepted == 1
        assert plain(ask(stage, stream, fields="*")) == [SENT[1]]
    else:
        for data in (SENT[2]["data"], SENT[3]["data"]):
            assert send(stage, stream, event(2, data)).accepted == 1
        assert [one["data"] for one in ask(stage, stream, versions="all")] == [SENT[3]["data"]]


def test_the_sweep_removes_what_nothing_refers_to_and_nothing_else() -> None:
    stage = built()
    for seed in (1, 2):
        send(stage, "stored", event(0, {"text": noise(900_000, seed)}))
        send(stage, "kept", event(0, {"text": noise(900_000, seed)}))
    assert len(stage.values.blobs) == 4
    assert stage.sweep().document()["orphans"] == 0, "nothing younger than a day is touched"
    stage.clock.sleep(2 * 86_400)
    dry = stage.sweep(dry_run=True)
    assert (dry.orphans, dry.expired, len(stage.values.blobs)) == (1, 0, 4)
    swept = stage.sweep()
    assert (swept.seen, swept.orphans, swept.unknown, swept.finished) == (4, 1, 0, True)
    assert stage.sweep().orphans == 0
    assert ask(stage, "stored")[0]["data"] == {"text": noise(900_000, 2)}
    both = [noise(900_000, 2), noise(900_000, 1)]
    assert [one["data"]["text"] for one in ask(stage, "kept", versions="all")] == both
    stage.clock.sleep(7 * 86_400)
    for _ in range(40):
        stage.run_lifecycle()
        stage.clock.sleep(300)
    assert stage.sweep().expired == 3
    assert not stage.values.blobs
    assert [one["data"]["text"] for one in ask(stage, "kept", versions="all")] == both, "the archive has them"


def test_a_sweep_goes_on_where_the_time_was_up_and_begins_anew_once_it_is_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = built()
    send(stage, "stored", *(event(n, {"text": noise(900_000, n)}) for n in range(3)))
    send(stage, "kept", *(event(n, {"text": noise(900_000, n)}) for n in range(2)))
    for n in range(4):
        stage.values.put(orphan(stage, "kept", n))
        stage.values.put(orphan(stage, "stored", n))
    stage.clock.sleep(2 * 86_400)
    monkeypatch.setattr(sweeping, "_BATCH", 2)
    looked: list[str] = []
    owner = stage.values.owner
    monkeypatch.setattr(stage.values, "owner", lambda key: looked.append(key) or owner(key))  # type: ignore[func-returns-value]
    everything = sorted(stage.values.blobs)
    runs = 0
    while True:
        # Time for two batches, and for what comes before them.
        budget = iter([100.0] * (lookups(stage) + 2))
        swept = stage.sweep(remaining=lambda budget=budget: next(budget, 0.0))  # type: ignore[misc]
        runs += 1
        if swept.finished:
            break
        assert runs < 10
    assert sorted(looked) == everything, "each was looked at once"
    assert runs > 2
    assert len(stage.values.blobs) == 5
    looked.clear()
    assert stage.sweep().finished
    assert len(looked) == 5, "a new round begins at the beginning"


def lookups(stage: Stage) -> int:
    """How often a sweep looks at the time before it comes to objects of live periods: once for each period."""
    return sum(len(stage.catalog.entries(stream, consistent=True)) for stream in (*STREAMS, "history"))


def test_a_killed_sweep_has_noted_how_far_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = built()
    for n in range(16):
        stage.values.put(orphan(stage, "stored", n))
    stage.clock.sleep(2 * 86_400)
    monkeypatch.setattr(sweeping, "_BATCH", 1)
    looked: list[str] = []

    def owner(key: str) -> Key | None:
        """Nobody's, so that all stay."""
        looked.append(key)
        if len(looked) == 13:
            raise KeyboardInterrupt
        return None

    monkeypatch.setattr(stage.values, "owner", owner)
    with pytest.raises(KeyboardInterrupt):
        stage.sweep()
    assert stage.sweep().finished
    assert looked[13] == looked[10], "the tenth batch was noted"
    assert len(looked) == 13 + 6


def test_what_cannot_be_looked_at_keeps_nothing_else_from_being_swept(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = built()
    for n in range(3):
        stage.values.put(orphan(stage, "stored", n))
    stage.clock.sleep(2 * 86_400)
    monkeypatch.setattr(sweeping, "_BATCH", 1)
    owner = stage.values.owner

    def refusing(key: str) -> Key | None:
        if "/11/" in key:
            raise StoreUnavailable("SlowDown", "later")
        return owner(key)

    monkeypatch.setattr(stage.values, "owner", refusing)
    swept = stage.sweep()
    assert (swept.orphans, swept.finished) == (2, True)
    assert [one.partition(": ")[0] for one in swept.failures] == [orphan(stage, "stored", 1).key]


@pytest.mark.parametrize("state", [State.ARCHIVED, State.RESTORING])
def test_objects_of_a_table_that_waits_or_is_being_restored_are_kept(state: State) -> None:
    stage = built()
    stage.config = parse(CONFIG.replace("delete_expired = true", "delete_expired = false"))
    send(stage, "stored", SENT[2])
    stage.values.put(orphan(stage, "stored", 0))
    stage.clock.sleep(7 * 86_400)
    age(stage)
    entry = next(one for one in stage.catalog.entries("stored", consistent=True) if one.period.label == DAY)
    assert entry.state is State.ARCHIVED
    if state is State.RESTORING:
        stage.catalog.move(entry, state, expected=(State.ARCHIVED,))
    before = dict(stage.values.blobs)
    assert len(before) == 2
    swept = stage.sweep()
    assert (swept.seen, swept.orphans, swept.expired, swept.finished) == (0, 0, 0, True)
    assert stage.values.blobs == before


def test_objects_of_a_table_that_is_archived_while_they_are_swept_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its items go with the table, and would no longer say which objects are needed."""
    stage = built()
    for number in range(3):
        stage.values.put(orphan(stage, "stored", number))
    stage.clock.sleep(2 * 86_400)
    monkeypatch.setattr(sweeping, "_BATCH", 1)
    owner = stage.values.owner

    def archived_meanwhile(key: str) -> Key | None:
        entry = entry_of(stage)
        stage.catalog.move(entry, State.ARCHIVED, expected=(entry.state,))
        return owner(key)

    monkeypatch.setattr(stage.values, "owner", archived_meanwhile)
    assert stage.sweep().orphans == 1
    assert len(stage.values.blobs) == 2


def test_objects_of_a_deleted_period_stay_for_a_day_and_those_of_an_unknown_period_stay() -> None:
    stage = built()
    entry = entry_of(stage)
    stage.catalog.move(entry, State.DELETED, expected=(entry.state,))
    stage.values.put(orphan(stage, "stored", 0))
    for label in ("1999-01-01", "no-period"):
        stage.values.put(Blob(f"large/stream=stored/period={label}/ab/1", b"x", Key("a#0", "x")))
    swept = stage.sweep()
    assert (swept.expired, swept.unknown, len(stage.values.blobs)) == (0, 2, 3)
    stage.clock.sleep(86_400 - 1)
    assert stage.sweep().expired == 0
    stage.clock.sleep(1)
    swept = stage.sweep()
    assert (swept.expired, swept.unknown, swept.bytes) == (1, 2, 1)
    assert sorted(stage.values.blobs) == [
        "large/stream=stored/period=1999-01-01/ab/1",
        "large/stream=stored/period=no-period/ab/1",
    ]


def test_objects_of_deleted_periods_go_first() -> None:
    stage = built()
    send(stage, "stored", SENT[2])
    stage.clock.sleep(7 * 86_400)
    age(stage)
    later = stage.clock.now()
    stage.send(
        "stored",
        json.dumps({"series": "a", "id": "new", "time": to_text(later), "data": {"t": noise(900_000)}}).encode(),
    )
    assert len(stage.values.blobs) == 2
    stage.clock.sleep(2 * 86_400)
    budget = iter([100.0] * (lookups(stage) + 1))
    swept = stage.sweep(remaining=lambda: next(budget, 0.0))
    assert (swept.expired, swept.finished) == (1, False)
    assert len(stage.values.blobs) == 1


def test_an_archive_that_has_expired_is_a_gap_with_a_reason_and_the_catalog_is_told() -> None:
    stage = built()
    kept = CONFIG.replace("[lifecycle]", '[archive]\nexpire_after = "30d"\n[lifecycle]')
    stage.config = parse(kept)
    send(stage, "stored", SENT[0])
    stage.clock.sleep(7 * 86_400)
    age(stage)
    assert plain(ask(stage, "stored")) == plain(SENT[:1])
    archived = entry_of(stage).archive
    assert archived is not None
    # The query lets two seconds pass before it reads.
    stage.clock.time = archived.at + timedelta(days=30) - timedelta(seconds=3)
    assert plain(ask(stage, "stored")) == plain(SENT[:1])
    stage.clock.sleep(1)

    def gaps() -> list[str]:
        policy, now = stage.config.streams["stored"], stage.clock.now()
        given = {"from": [f"{DAY}T00:00:00Z"], "to": [f"{DAY}T23:00:00Z"], "series": ["a"]}
        answer: Any = run_query(
            parse_query(policy, given, now, stage.seal), policy, stage.reader(), now, lambda: 100.0
        ).document()
        assert answer["events"] == []
        return [gap["reason"] for gap in answer["gaps"]]

    assert gaps() == ["archive expired"]
    with pytest.raises(ArchiveFailed, match="expired at 2026-04-2"):
        stage.restore("stored", DAY)
    assert stage.sweep().lapsed == 0, "the bucket has not deleted it yet"
    assert entry_of(stage).archived is not None
    stage.bucket.objects = {key: body for key, body in stage.bucket.objects.items() if "stored" not in key}
    assert stage.sweep(dry_run=True).lapsed >= 1
    assert entry_of(stage).archived is not None
    assert stage.sweep().lapsed >= 1
    stage.settle()
    # Keeping longer from now on does not bring it back.
    stage.config = parse(CONFIG)
    told = entry_of(stage).archive
    assert told is not None
    assert told.expired_at == archived.at + timedelta(days=30)
    assert gaps() == ["archive expired"]
    assert stage.sweep().lapsed == 0


def test_objects_of_a_stream_that_left_the_configuration_are_swept_too() -> None:
    stage = built()
    send(stage, "stored", SENT[2])
    send(stage, "stored", event(2, {"text": noise(900_000, 9)}))
    assert len(stage.values.blobs) == 2
    head, _, tail = CONFIG.partition("[streams.stored]")
    stage.config = parse(head + tail[tail.index("[streams.kept]") :])
    stage.clock.sleep(2 * 86_400)
    ready(stage)
    swept = stage.sweep()
    assert (swept.orphans, swept.failures) == (1, [])
    assert len(stage.values.blobs) == 1, "what the newest version refers to stays"


def entry_of(stage: Stage) -> Entry:
    return next(one for one in stage.catalog.entries("stored", consistent=True) if one.period.label == DAY)


def test_a_dangling_object_is_told_and_stops_the_archive() -> None:
    stage = built()
    send(stage, "stored", SENT[0], SENT[2])
    stage.values.blobs.clear()
    found = ask(stage, "stored")
    assert [one.get("incomplete") for one in found] == [None, True]
    stage.clock.sleep(7 * 86_400)
    report = stage.run_lifecycle()
    failed = [one.detail for one in report.done if one.action.name == "archive" and one.outcome == "failed"]
    assert len(failed) == 1
    assert "is not complete" in failed[0]
    assert [name for name in stage.dynamo.account.tables if f"stored.{DAY}" in name], "so nothing is deleted"


def test_data_that_is_damaged_in_its_item_is_told_and_the_others_are_shown() -> None:
    stage = built()
    refs = send(stage, "chunked", SENT[0], SENT[1]).refs
    (table,) = (name for name in stage.dynamo.account.tables if name.endswith(f"chunked.{DAY}"))
    items = stage.dynamo.account.engine.call("Scan", {"TableName": table, "ConsistentRead": True})["Items"]
    (packed,) = (item for item in items if "z" in item)
    stage.dynamo.call("PutItem", {"TableName": table, "Item": {**packed, "z": {"B": b"\x00"}}})
    found = ask(stage, "chunked")
    assert [(one["id"], one.get("incomplete"), one["data"]) for one in found] == [
        ("e0", None, SENT[0]["data"]),
        ("e1", True, {}),
    ]
    assert refs[1] is not None
    shown = get_event(stage.config.streams["chunked"], refs[1], stage.reader())
    assert (shown["incomplete"], shown["data"]) == (True, {})
