"""Packs of a busy span: which of them are opened, and how a query ends whose time or memory is not enough for them."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from aws.zstd import Zstd
from tests.fakes.refresher import refresh_rollups
from tests.fakes.stage import Stage
from tests.worlds.busy import MINUTE, START, make_events, make_stage
from tidetable.events import Event
from tidetable.layout import Key
from tidetable.ports import RangeRead
from tidetable.problems import ProblemError
from tidetable.query import parse_query, run_query
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.query.listings import find_listing, parse_fields
from tidetable.query.lookups import LookupTable
from tidetable.query.packs import opening, walk
from tidetable.query.packs.opening import PackOpener
from tidetable.query.packs.scan import PackScan
from tidetable.query.packs.walk import find_newest
from tidetable.query.page import Events
from tidetable.query.readings import choose_reading
from tidetable.query.session import ReadSession
from tidetable.query.units import OutOfTime
from tidetable.rollups.run import RefreshReport
from tidetable.times import to_text

RANGE = {"from": to_text(START), "to": to_text(START + MINUTE)}
LENGTH = timedelta(minutes=6)
# Every event meets this condition.
CONDITION = {"where.state:ne": "stopped"}


class Counting(Zstd):
    """A compressor that counts the packs that are opened, and the events in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = 0

    def expand(self, body: bytes) -> bytes:
        self.opened += 1
        return super().expand(body)


def ask(stage: Stage, remaining: Callable[[], float] = lambda: 100.0, /, **parameters: str) -> Events:
    given = {name: [value] for name, value in ((RANGE if "cursor" not in parameters else {}) | parameters).items()}
    stream, now = stage.config.streams["s"], stage.clock.now()
    return run_query(parse_query(stream, given, now, stage.seal), stream, stage.reader(), now, remaining)


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_a_page_opens_only_the_packs_of_its_events(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest events are settled when the packs of one span are read. They need not be opened for that."""
    stage = make_stage(4, make_events(12_000), span="1m")
    counting, reader = Counting(), stage.reader()
    reader.unpacker.compressor = counting
    monkeypatch.setattr(stage, "reader", lambda: reader)
    page = ask(stage, order=order, limit="100")
    assert page.count == 100
    assert counting.opened <= 8


def test_every_event_comes_once_and_in_order_whatever_is_opened_late() -> None:
    events = make_events(2_000)
    stage = make_stage(3, events, span="1m", batch=50)
    expected = [event.id for event in events]
    rows, cursor = list[str](), {"order": "asc"}
    for _ in range(30):
        page = ask(stage, limit="100", **cursor)
        rows += [row["id"] for row in page.document()["events"]]
        if page.next is None:
            break
        cursor = {"cursor": page.next}
    assert rows == expected


def test_a_copy_exactly_one_span_before_the_next_pack_is_opened_in_time() -> None:
    """The second pack begins with a copy of an event of the first, exactly one span before the end of the third."""

    def event(seconds: float, id: str, value: int = 0) -> Event:
        return Event("a", START + timedelta(seconds=seconds), id, {"v": value})

    pairs = [
        (event(0, "first"), event(5, "copied", 1)),
        (event(5, "copied", 2), event(15, "third")),
        (event(64, "fourth"), event(65, "fifth")),
        (event(66, "sixth"), event(67, "seventh")),
    ]
    stage = make_stage(1, [each for pair in pairs for each in pair], span="1m", batch=2)
    rows = ask(stage, order="asc", to=to_text(START + 2 * MINUTE)).document()["events"]
    assert [row["id"] for row in rows] == ["first", "copied", "third", "fourth", "fifth", "sixth", "seventh"]


@pytest.fixture(scope="module")
def crowded() -> Stage:
    """600 packs within one minute; their span is an hour, so nothing is settled before all of them are read."""
    return make_stage(4, make_events(3_000), span="1h", batch=5, rollup=True)


def test_the_oldest_events_are_refused_if_their_span_takes_too_long(
    crowded: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without time, a page looks at 600 packs and opens 21 of them, unless fewer may be taken."""
    assert ask(crowded, lambda: 0.0, order="asc", limit="100").count == 100
    monkeypatch.setattr(opening, "_TAKEN_ANYWAY", 500)
    with pytest.raises(ProblemError) as error:
        ask(crowded, lambda: 0.0, order="asc", limit="100")
    assert (error.value.problem.status, error.value.problem.code) == (422, "too_much")
    assert "order=desc" in str(error.value)
    assert "[streams.s.pack]" in str(error.value)


def test_a_pass_without_time_goes_on_until_it_has_advanced_or_has_taken_many_packs(crowded: Stage) -> None:
    """A pack that is opened counts as 25 packs: 5,000 packs are 200 that are opened."""
    (entry,) = [entry for entry in crowded.catalog.entries("s", consistent=True) if START in entry.period]
    scan = PackScan.of(entry, START, START + MINUTE, [entry.layout.name_partition(START, "")])
    (page, *_) = crowded.store.query_many([RangeRead(keys, 1) for keys in scan.ranges], ascending=True)
    assert page is not None
    (item,) = page.items
    late, timely = (
        PackOpener(scan, ReadSession(crowded.reader(), lambda: 0.0)),
        PackOpener(scan, ReadSession(crowded.reader())),
    )
    for opener in (late, timely):
        opener.check_time(has_advanced=False)
        assert opener.may_hold(item)
        for _ in range(199):
            opener.open(item)
        opener.taken += 24
        opener.check_time(has_advanced=False)
        assert opener.may_hold(item)
    with pytest.raises(OutOfTime):
        late.check_time(has_advanced=False)
    late.taken = 0
    with pytest.raises(OutOfTime):
        late.check_time(has_advanced=True)
    timely.check_time(has_advanced=True)


def test_no_range_goes_on_behind_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS: a query whose start lies outside of its range is refused. The first pack has the page, and the second lies more
    than a span after it.
    """
    pairs = [
        Event("a", START + number * 2 * MINUTE + second, f"{number}", {})
        for number in range(4)
        for second in (timedelta(0), timedelta(seconds=1))
    ]
    stage = make_stage(1, pairs, span="1m", batch=2)
    reads, query_many = list[RangeRead](), stage.store.query_many

    def note(asked: Sequence[RangeRead], **options: Any) -> Any:
        reads.extend(asked)
        return query_many(asked, **options)

    monkeypatch.setattr(stage.store, "query_many", note)
    assert ask(stage, order="asc", limit="1", to=to_text(START + 10 * MINUTE)).count == 1
    assert [keys.start for keys, _ in reads] == [None]


def test_the_same_page_is_answered_in_time(crowded: Stage) -> None:
    assert ask(crowded, order="asc", limit="100").count == 100


def test_the_newest_events_come_page_by_page_without_any_time(crowded: Stage) -> None:
    """Each page ends in a cursor that goes on."""
    ids, cursor = set[str](), {"order": "desc", "from": to_text(START + MINUTE / 2)}
    for _ in range(1_000):
        page = ask(crowded, lambda: 0.0, limit="1000", **cursor)
        ids |= {row["id"] for row in page.document()["events"]}
        if page.next is None:
            break
        cursor = {"cursor": page.next}
    assert len(ids) == 1_500


def test_memory_bounds_a_walk(crowded: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A condition on data is checked on the copy that counts. So all packs of the span wait, and each may be needed."""
    monkeypatch.setattr(walk, "_MOST_PENDING_BYTES", 20_000)
    with pytest.raises(ProblemError, match="memory"):
        ask(crowded, order="asc", limit="100", **CONDITION)
    assert ask(crowded, order="asc", limit="100").count == 100
    assert ask(crowded, order="desc", limit="100").count == 100


def test_opened_events_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pack holds an event of the first instant: all packs are opened for it, and no event is settled before."""
    events = make_events(300)
    mixed = [event for each in events for event in (Event("a", START, f"first-{each.id}", {}), each)]
    stage = make_stage(1, mixed, span="1h", batch=2)
    assert ask(stage, order="asc", limit="10", **CONDITION).count == 10
    monkeypatch.setattr(walk, "_MOST_UNSETTLED", 100)
    with pytest.raises(ProblemError, match="memory"):
        ask(stage, order="asc", limit="10", **CONDITION)
    assert ask(stage, order="asc", limit="10").count == 10


def test_a_walk_that_has_advanced_ends_with_a_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pack has an old and a new event: the new events wait in memory while the old ones are answered."""
    events = make_events(600)
    mixed = [event for pair in zip(events[:300], events[300:], strict=True) for event in pair]
    stage = make_stage(1, mixed, span="1h", batch=2)
    monkeypatch.setattr(walk, "_MOST_UNSETTLED", 100)
    page = ask(stage, order="asc", limit="1000", **CONDITION)
    assert [row["id"] for row in page.document()["events"]] == [event.id for event in events[:101]]
    assert page.next is not None


def test_an_aggregate_and_a_listing_without_time_are_refused(crowded: Stage) -> None:
    stream, now = crowded.config.streams["s"], crowded.clock.now()
    given: dict[str, Any] = {name: [value] for name, value in RANGE.items()}
    aggregation = parse_aggregation(stream, given | {"stat": ["count"], "rollups": ["false"]}, now, crowded.seal)
    with pytest.raises(ProblemError, match="too little time") as error:
        find_aggregate(aggregation, stream, crowded.reader(), now, lambda: 0.0)
    assert error.value.problem.code == "too_much"
    listing = parse_fields(stream, given, now, crowded.seal)
    with pytest.raises(ProblemError, match="the time does not suffice") as error:
        find_listing(listing, stream, crowded.reader(), now, lambda: 0.0)
    assert error.value.problem.code == "too_much"


def test_the_refresher_leaves_a_bucket_that_takes_too_long_to_its_next_run(crowded: Stage) -> None:
    """Enough time to begin the bucket; it is used up while the packs are read."""
    pipeline, left = crowded.pipeline, [100.0]
    reads = crowded.store.query_many

    def read_slowly(*given: Any, **options: Any) -> Any:
        left[0] -= 30.0
        return reads(*given, **options)

    services = pipeline.refresher(lambda: max(left[0], 0.0))
    services.reader.store.query_many = read_slowly  # type: ignore[method-assign]
    before = crowded.rollups.read_state("s").edges
    try:
        report = refresh_rollups(pipeline.definitions, services, "run", LENGTH)
    finally:
        services.reader.store.query_many = reads  # type: ignore[method-assign]
    assert isinstance(report, RefreshReport)
    assert (report.finished, report.failed) == (False, [])
    (edge,) = crowded.rollups.read_state("s").edges
    assert edge.sealed <= START < edge.sealed + timedelta(hours=3)
    assert edge.start == before[0].start


def test_the_latest_event_of_a_busy_series_is_refused_rather_than_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without time, nobody knows whether one of the packs holds an event."""
    stage = make_stage(2, make_events(400), span="1h", batch=4)
    (entry,) = [entry for entry in stage.catalog.entries("s", consistent=True) if START in entry.period]
    # All packs are newer than the range, so none of them may be opened.
    scan = PackScan.of(entry, START - timedelta(seconds=1), START, [entry.layout.name_partition(START, "")])
    reader = stage.reader()
    session = ReadSession(reader, lambda: 0.0)
    monkeypatch.setattr(opening, "_TAKEN_ANYWAY", 20)
    with pytest.raises(OutOfTime):
        list(find_newest([(scan, ["s"])], session, consistent=True))
    assert list(find_newest([(scan, ["s"])], ReadSession(reader), consistent=True)) == [("s", (None, False))]
    key, names = Key(f"{scan.partitions[0]}#0", "unknown"), (START - timedelta(seconds=1), "s", "e")
    with pytest.raises(ProblemError, match="422 too_much: a request has too little time for the packs of one span"):
        choose_reading(entry.layout).find_event(LookupTable(entry, session, consistent=True), key, names)
