"""Unusual but legal queries: each was answered wrongly, or not at all, before its test existed."""

import tracemalloc
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, cast

import msgspec
import pytest

from aws.arrow import encode_stream
from tests.fakes import SEAL
from tests.query.stored_events import BY_SERIES, DAYS, NOW, SERIAL, START, TIMELY, StoredEvents, stream
from tidetable.archive import reading
from tidetable.catalog import Entry, State
from tidetable.config import Stream, parse
from tidetable.events import Event
from tidetable.layout import Key
from tidetable.periods import Kind, find_containing
from tidetable.ports import ArchivePage, ArchiveRange, EventVersion
from tidetable.problems import ProblemError
from tidetable.query import AnswerForm, parse_query, render_answer, run_query
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.query.plan import plan_query
from tidetable.query.rankings import find_top, parse_ranking
from tidetable.times import to_text

SPAN = {"from": to_text(START), "to": to_text(START + timedelta(days=DAYS))}
LIMIT = 6 * 1024 * 1024


def make_parameters(**parameters: str) -> dict[str, list[str]]:
    return {name: [value] for name, value in ({} if "cursor" in parameters else SPAN).items()} | {
        name: [value] for name, value in parameters.items()
    }


def ask(base: StoredEvents, remaining: Callable[[], float] | None = None, /, **parameters: str) -> Any:
    query = parse_query(base.policy, make_parameters(**parameters), NOW, SEAL)
    return run_query(query, base.policy, base.reader, NOW, remaining or (lambda: 100.0))


def read_ids(base: StoredEvents, **parameters: str) -> list[str]:
    return [row["id"] for row in ask(base, None, **parameters).document()["events"]]


def make_event(day: float, number: int, **data: Any) -> Event:
    return Event(f"s{number % 3}", START + timedelta(days=day, seconds=number), f"{day}-{number}", data)


def timely(events: Sequence[Event]) -> StoredEvents:
    return StoredEvents(TIMELY, events, [TIMELY.layout] * DAYS)


@pytest.mark.parametrize(("low", "high"), [("where.mag:ge", "where.mag:le"), ("where.mag:gt", "where.mag")])
def test_bounds_that_no_number_meets_find_nothing(low: str, high: str) -> None:
    base = timely([make_event(1, n, mag=n) for n in range(20)])
    parameters = make_parameters(index="best_of_all", **{low: "10", high: "5"})
    top = find_top(parse_ranking(TIMELY, parameters, NOW, SEAL), TIMELY, base.reader, NOW, lambda: 100.0)
    assert (top.rows, top.next, top.cost.requests) == ([], None, 2)  # the two archives


def test_values_that_no_key_has_room_for_find_nothing() -> None:
    base = timely([make_event(1, 1, status="x", mag=1)])
    assert read_ids(base, **{"where.status": "#" * 1000}) == []
    parameters = make_parameters(index="best", value="#" * 1000)
    assert find_top(parse_ranking(TIMELY, parameters, NOW, SEAL), TIMELY, base.reader, NOW, lambda: 100.0).rows == []
    with pytest.raises(ProblemError, match="1024 bytes"):
        parse_ranking(TIMELY, make_parameters(index="best", value="x" * 1025), NOW, SEAL)


@pytest.mark.parametrize("text, count", [("10", 2), ("10.0", 1), ("1e1", 1)])
def test_a_number_in_another_form_is_no_text_of_its_usual_one(text: str, count: int) -> None:
    """In tables and in the archive."""
    base = timely([make_event(day, n, status=value, mag=1) for day in (0, 1) for n, value in enumerate(["10", 10])])
    assert len(read_ids(base, **{"where.status": text})) == 2 * count
    top = find_top(
        parse_ranking(TIMELY, make_parameters(index="best", value=text), NOW, SEAL),
        TIMELY,
        base.reader,
        NOW,
        lambda: 100.0,
    )
    assert len(top.rows) == 2 * count


@pytest.mark.parametrize("parameters", [{"where.place.state": "CA"}, {"where.type": "order", "where.customer": "c1"}])
def test_an_event_that_was_sent_again_is_not_shown_with_its_old_value(
    parameters: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index is behind the table."""
    base = timely([make_event(1, n, place={"state": "CA"}, type="order", customer="c1") for n in range(3)])
    stale = TIMELY.layout.make_key(make_event(1, 1))
    now = TIMELY.layout.make_item(make_event(1, 1, place={"state": "NV"}, type="order", customer="c2"))
    real = base.store.get_many

    def ahead(name: str, keys: Sequence[Key], *, consistent: bool = True) -> Any:
        return {key: now if key == stale else item for key, item in real(name, keys, consistent=consistent).items()}

    monkeypatch.setattr(base.store, "get_many", ahead)
    assert read_ids(base, **parameters) == ["1-2", "1-0"]


def test_an_index_of_many_suffixes_answers_a_value_and_few_values_at_once() -> None:
    wide = stream(BY_SERIES + "\n", '[[streams.s.index]]\nname = "wide"\npartition_by = "status"\nshards = 128\n')
    base = StoredEvents(wide, [make_event(1, n, status="new") for n in range(5)], [wide.layout] * DAYS)
    assert len(read_ids(base, **{"where.status": "new"})) == 5
    with pytest.raises(ProblemError, match="fewer values"):
        ask(base, None, **{"where.status:in": "new,old"})


def test_an_event_under_two_values_of_a_moment_is_shown_once() -> None:
    base = StoredEvents(SERIAL, [make_event(1, n, status="new") for n in range(4)], [SERIAL.layout] * DAYS)
    table = base.store.tables["tidetable-t.s.2026-03-02"]
    key, item = next(iter(table.items()))
    # The index still has the event under its old value.
    table[Key("elsewhere", key.sk)] = {**item, "pk_by_status": item["pk_by_status"].replace("new", "old")}
    assert len(read_ids(base, **{"where.status:in": "new,old"})) == 4


def test_a_plan_of_many_buckets_is_made_as_it_is_read() -> None:
    """A year of minutes has half a million scans: the first three are ready at once, and the others take no memory."""
    minutes = parse(
        '[streams.s]\nperiod = "month"\nlate = "1d"\nretention = 900\n'
        'key = { partition_by = "time", bucket = "1m", shards = 16 }\n'
    ).streams["s"]
    period = find_containing(START, Kind.MONTH)
    entry = Entry("s", period, "t", minutes.layout, State.OPEN, START)
    query = parse_query(minutes, {"from": [to_text(period.start)], "to": [to_text(period.end)]}, NOW, SEAL)
    tracemalloc.start()
    try:
        first = list(islice(plan_query(query, [entry]).scans, 3))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [(scan.count, scan.end - scan.start) for scan in first] == [(16, timedelta(minutes=1))] * 3
    assert first[0].end == period.end
    # 44,640 scans take 20 MB.
    assert peak < 1_000_000


BIG = {"text": '"' * 40_000}


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([make_event(0, n, **BIG) for n in range(150)], id="quotes in an archive"),
        pytest.param([make_event(1, n, **BIG) for n in range(150)], id="quotes in a table"),
        pytest.param(
            [Event("é" * 240, START + timedelta(days=1, seconds=n), f"{n:04d}" + "ü" * 230, {}) for n in range(4000)],
            id="long names",
        ),
    ],
)
@pytest.mark.parametrize("fields", [{}, {"fields": "*"}])
def test_no_page_is_more_than_a_function_may_answer(events: list[Event], fields: dict[str, str]) -> None:
    base = timely(events)
    count, parameters = 0, {"limit": "10000", **fields}
    while True:
        answer = ask(base, None, **parameters)
        read_ids, _, body, *_ = render_answer(answer, AnswerForm(), encode_stream)
        assert read_ids is answer, "a page of events is cut before it is rendered as JSON"
        assert len(body.encode()) + body.count('"') + body.count("\\") <= LIMIT
        count += len(read_ids.list_texts())
        if answer.next is None:
            break
        parameters = {"cursor": answer.next, "limit": "10000"}
    assert count == len(events)


def test_no_ranking_is_more_than_a_function_may_answer() -> None:
    base = timely([make_event(day, n, mag=n, **BIG) for day in (0, 1) for n in range(100)])
    numbers: list[Any] = []
    parameters: dict[str, str] = {"index": "best_of_all", "limit": "1000"}
    while True:
        top = find_top(
            parse_ranking(TIMELY, make_parameters(**parameters), NOW, SEAL), TIMELY, base.reader, NOW, lambda: 100.0
        )
        read_ids, _, body, *_ = render_answer(top, AnswerForm(), encode_stream)
        assert read_ids is top
        assert len(body.encode()) + body.count('"') + body.count("\\") <= LIMIT
        numbers += [row["value"] for row in top.rows]
        if top.next is None:
            break
        parameters = {"cursor": top.next, "limit": "1000"}
    assert numbers == sorted([*range(100)] * 2, reverse=True)


def test_the_pages_of_a_ranked_archive_may_be_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events that do not fit in an archive's answer are not skipped."""
    monkeypatch.setattr(reading, "MAX_ARCHIVE_PAGE_BYTES", 1000)
    base = timely([make_event(day, n, mag=n * 10 + day) for day in range(DAYS) for n in range(30)])
    numbers: list[Any] = []
    parameters: dict[str, str] = {"index": "best_of_all", "limit": "50"}
    for _ in range(200):
        top = find_top(
            parse_ranking(TIMELY, make_parameters(**parameters), NOW, SEAL), TIMELY, base.reader, NOW, lambda: 100.0
        )
        numbers += [row["value"] for row in top.rows]
        if top.next is None:
            break
        parameters = {"cursor": top.next, "limit": "50"}
    assert numbers == sorted((n * 10 + day for day in range(DAYS) for n in range(30)), reverse=True)


class Ticking:
    """An archive whose pages take time on a manual clock."""

    def __init__(self, base: StoredEvents, seconds: float) -> None:
        self._inner = base.reader.archive
        self._seconds = seconds
        self.left = 28.0

    def read(self, keys: ArchiveRange, *, limit: int, ascending: bool) -> ArchivePage:
        self.left -= self._seconds
        return self._inner.read(keys, limit=limit, ascending=ascending)


def test_a_slow_archive_ends_the_page_where_it_was_read_to() -> None:
    base = timely([make_event(0, n) for n in range(60)])
    slow = Ticking(base, 12.0)
    base.reader.archive = cast("Any", slow)
    parameters: dict[str, str] = {"order": "asc", "limit": "40"}
    ids: list[str] = []
    for _ in range(40):
        slow.left = 28.0
        answer = ask(base, lambda: slow.left, **parameters)
        assert slow.left >= -12.0, "no more than one page is begun after the time is up"
        ids += [row["id"] for row in answer.document()["events"]]
        if answer.next is None:
            break
        parameters = {"cursor": answer.next, "limit": "40"}
    assert ids == [f"0-{n}" for n in range(60)]


@pytest.fixture
def kept() -> Stream:
    return parse(
        '[streams.s]\nperiod = "day"\nlate = "5d"\nretention = 9\nversions = "keep"\n'
        'key = { partition_by = "series", shards = 1 }\n'
        '[[streams.s.index]]\nname = "by_status"\npartition_by = "status"\n'
    ).streams["s"]


def test_the_newest_version_decides_for_all_of_an_archived_event(kept: Stream) -> None:
    events = [make_event(0, 0, status="open"), make_event(0, 1, status="paid")]
    versions = {"0-0": ["open", "paid"], "0-1": ["paid", "open", "paid"]}
    placed = []
    for event in events:
        for number, status in enumerate(versions[event.id]):
            copy = Event(event.series, event.time, event.id, {"status": status})
            count = len(versions[event.id])
            placed.append((copy, EventVersion(count - number, 1, newest=number == 0)))
    base = StoredEvents(kept, [], [kept.layout] * DAYS)

    archive: Any = base.reader.archive

    class Versions:
        def manifest(self, key: str) -> Any:
            manifest = archive.manifest(key)
            return msgspec.structs.replace(manifest, parts=manifest.parts[:1])

        def events(self, *_: Any, **__: Any) -> Any:
            return iter(sorted(placed, key=lambda pair: (pair[0].time, pair[1].number)))

        def read(self, keys: ArchiveRange, *, limit: int, ascending: bool) -> ArchivePage:
            reader: Any = self
            return reading.read_archive(keys, reader, limit=limit, ascending=ascending)

    base.reader.archive = cast("Any", Versions())
    for order in ("asc", "desc"):
        for status, wanted in (("paid", ["0-1"] * 3), ("open", ["0-0"] * 2)):
            document = ask(
                base,
                None,
                **{"from": to_text(START), "to": to_text(START + timedelta(days=1)), "where.status": status},
                versions="all",
                order=order,
            ).document()
            assert [row["id"] for row in document["events"]] == wanted
            assert [row["newest"] for row in document["events"]] == [True] + [False] * (len(wanted) - 1)


def test_an_archived_event_of_many_large_versions_shows_as_many_as_a_page_of_the_archive_holds(
    kept: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page of the archive is a function's answer, which has 6 MB at most; the versions that do not fit are left out."""
    monkeypatch.setattr(reading, "MAX_ARCHIVE_PAGE_BYTES", 1300)
    placed = []
    for number in range(2):
        event = make_event(0, number)
        for version in range(5, 0, -1):
            copy = Event(event.series, event.time, event.id, {"text": "x" * 400, "version": version})
            placed.append((copy, EventVersion(version, 1, newest=version == 5)))
    base = StoredEvents(kept, [], [kept.layout] * DAYS)
    archive: Any = base.reader.archive
    pages: list[int] = []

    class Versions:
        def manifest(self, key: str) -> Any:
            manifest = archive.manifest(key)
            return msgspec.structs.replace(manifest, parts=manifest.parts[:1])

        def events(self, *_: Any, **__: Any) -> Any:
            return iter(sorted(placed, key=lambda pair: (pair[0].time, pair[1].number)))

        def read(self, keys: ArchiveRange, *, limit: int, ascending: bool) -> ArchivePage:
            reader: Any = self
            page = reading.read_archive(keys, reader, limit=limit, ascending=ascending)
            pages.append(len(page.events))
            return page

    base.reader.archive = cast("Any", Versions())
    span = {"from": [to_text(START)], "to": [to_text(START + timedelta(days=1))]}
    parameters = span | {"series": ["s0", "s1"], "versions": ["all"], "order": ["asc"], "limit": ["50"]}
    answer: Any = run_query(parse_query(kept, parameters, NOW, SEAL), kept, base.reader, NOW, lambda: 100.0)
    rows = answer.document()["events"]
    assert [(row["id"], row["version"], row.get("versions_left_out")) for row in rows] == [
        ("0-0", 5, 3), ("0-0", 4, None), ("0-1", 5, 3), ("0-1", 4, None),
    ]  # fmt: skip
    assert pages == [2, 2]


@pytest.mark.parametrize("parameters", [{"fill": "previous"}, {"fill": "zero", "by": "status"}])
def test_filled_steps_that_depend_on_others_are_not_divided(parameters: dict[str, str]) -> None:
    base = timely([make_event(day, n, mag=n) for day in range(DAYS) for n in range(3)])
    aggregation = parse_aggregation(
        TIMELY, make_parameters(step="1h", field="mag", stat="sum", limit="20", **parameters), NOW, SEAL
    )
    with pytest.raises(ProblemError, match="one page"):
        find_aggregate(aggregation, TIMELY, base.reader, NOW, lambda: 100.0)


def test_filled_top_groups_are_counted_before_they_are_made() -> None:
    base = timely([make_event(day, n, mag=n, status=f"x{n}") for day in range(DAYS) for n in range(100)])
    aggregation = parse_aggregation(
        TIMELY, make_parameters(step="10s", field="mag", stat="sum", by="status", top="100", fill="zero"), NOW, SEAL
    )
    with pytest.raises(ProblemError, match="4320000 rows"):
        find_aggregate(aggregation, TIMELY, base.reader, NOW, lambda: 100.0)


@pytest.mark.parametrize("parameters", [{"to": "9" * 4400}, {"from": "0" * 5000 + "1"}])
def test_times_beyond_all_are_refused(parameters: dict[str, str]) -> None:
    with pytest.raises(ProblemError) as caught:
        parse_query(TIMELY, {name: [value] for name, value in parameters.items()}, NOW, SEAL)
    assert caught.value.problem.status == 400


def test_an_age_beyond_all_is_the_beginning_of_time() -> None:
    assert parse_query(TIMELY, {"from": ["-9999999d"]}, NOW, SEAL).start == datetime(1970, 1, 1, tzinfo=UTC)


def test_a_step_longer_than_all_time_is_the_range() -> None:
    base = timely([make_event(1, 1, mag=1)])
    aggregation = parse_aggregation(TIMELY, make_parameters(step="9999999d"), NOW, SEAL)
    (row,) = find_aggregate(aggregation, TIMELY, base.reader, NOW, lambda: 100.0).rows
    assert (row["start"], row["end"], row["count"]) == (SPAN["from"], SPAN["to"], 1)
