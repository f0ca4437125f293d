"""How long a request waits for archives, and that no read which was begun ahead is waited for at its end."""

from concurrent.futures import Future
from datetime import timedelta
from typing import Any

import pytest

from tests.fakes import SEAL
from tests.fakes.serial import Serial, Silent, Unanswered
from tests.query.stored_events import BY_TIME, DAYS, NOW, START, TIMELY, StoredEvents, stream
from tidetable.archive import reading
from tidetable.errors import ArchiveBusy
from tidetable.events import Event
from tidetable.problems import ProblemError
from tidetable.query import index_scans, parse_query, run_query, whole
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.query.rankings import find_top, parse_ranking
from tidetable.times import to_text

SPAN = {"from": [to_text(START)], "to": [to_text(START + timedelta(days=DAYS))]}


class Watched(Serial):
    """A pool that notes how long each wait may take, and how it was shut down."""

    waits: list[float | None]
    ends: list[tuple[bool, bool]]

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self.ends.append((wait, cancel_futures))

    def submit(self, *args: Any, **kwargs: Any) -> "Future[Any]":
        done, waits = super().submit(*args, **kwargs), self.waits

        class Noted(Future[Any]):
            def result(self, timeout: float | None = None) -> Any:
                waits.append(timeout)
                return done.result()

        return Noted()


def watch() -> type[Watched]:
    return type("Noting", (Watched,), {"waits": [], "ends": []})


def stored() -> StoredEvents:
    """Five days, of which the first and the third are archived, with an event each."""
    events = [Event("a", START + timedelta(days=day), str(day), {"mag": day}) for day in range(DAYS)]
    return StoredEvents(TIMELY, events, [TIMELY.layout] * DAYS)


@pytest.mark.parametrize(("left", "wait"), [(10.0, 7.0), (3.05, 0.1)])
def test_an_archive_is_waited_for_up_to_three_seconds_before_the_end_of_the_request(left: float, wait: float) -> None:
    """These seconds are for merging and encoding. A wait has at least a tenth of a second."""
    base, pools = stored(), watch()
    base.reader.pools = pools
    query = parse_query(TIMELY, SPAN, NOW, SEAL)
    assert run_query(query, TIMELY, base.reader, NOW, lambda: left).count == DAYS
    assert pools.waits == pytest.approx([wait, wait])
    pools.waits.clear()
    ranking = parse_ranking(TIMELY, SPAN | {"index": ["best_of_all"]}, NOW, SEAL)
    assert len(find_top(ranking, TIMELY, base.reader, NOW, lambda: left).rows) == DAYS
    assert pools.waits == pytest.approx([wait, wait])


def test_reads_that_were_begun_ahead_are_cancelled_and_not_waited_for() -> None:
    """A page of one event ends before the archive that was begun with its table."""
    base, pools = stored(), watch()
    base.reader.pools = pools
    query = parse_query(TIMELY, SPAN | {"limit": ["1"]}, NOW, SEAL)
    assert run_query(query, TIMELY, base.reader, NOW, lambda: 100.0).count == 1
    assert pools.ends == [(False, True)]
    pools.ends.clear()
    ranking = parse_ranking(TIMELY, SPAN | {"index": ["best_of_all"]}, NOW, SEAL)
    find_top(ranking, TIMELY, base.reader, NOW, lambda: 100.0)
    assert pools.ends == [(False, True)]


def test_a_page_ends_where_an_archive_was_read_if_its_next_page_does_not_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The reader of the archive reads three events at a time. The following page begins after them."""
    monkeypatch.setattr(reading, "MAX_READ", 3)
    events = [Event("a", START + timedelta(minutes=number), str(number), {}) for number in range(7)]
    base = StoredEvents(TIMELY, events, [TIMELY.layout] * DAYS)
    asked: list[Any] = []

    class Interrupted(Serial):
        def submit(self, *args: Any, **kwargs: Any) -> "Future[Any]":
            asked.append(args)
            return super().submit(*args, **kwargs) if len(asked) == 1 else Unanswered()

    base.reader.pools = Interrupted
    parameters, shown = SPAN | {"order": ["asc"], "to": [to_text(START + timedelta(hours=1))]}, list[str]()
    for _ in range(3):
        asked.clear()
        page = run_query(parse_query(TIMELY, parameters, NOW, SEAL), TIMELY, base.reader, NOW, lambda: 100.0)
        shown += [event["id"] for event in page.document()["events"]]
        parameters = {"cursor": [page.next or ""]}
    assert (shown, page.next) == ([str(number) for number in range(7)], None)


def test_the_last_page_of_an_archive_is_the_last_page_of_the_answer_although_the_time_is_up() -> None:
    day = {"from": SPAN["from"], "to": [to_text(START + timedelta(days=1))]}
    page = run_query(parse_query(TIMELY, day, NOW, SEAL), TIMELY, stored().reader, NOW, lambda: 2.99)
    assert (page.count, page.next) == (1, None)


def test_a_ranking_of_archives_that_do_not_answer_is_refused_with_what_to_change() -> None:
    base = stored()
    base.reader.pools = Silent
    ranking = parse_ranking(TIMELY, SPAN | {"index": ["best_of_all"]}, NOW, SEAL)
    with pytest.raises(ProblemError, match="422 too_much: ranking the range's 2 archived periods takes longer"):
        find_top(ranking, TIMELY, base.reader, NOW, lambda: 100.0)


def hours(count: int) -> StoredEvents:
    """The second day, whose table has four suffixes per bucket, and an event in each minute of its first hours."""
    events = [
        Event("a", START + timedelta(days=1, minutes=n), str(n), {"mag": n, "place": {"state": "CA"}})
        for n in range(60 * count)
    ]
    return StoredEvents(TIMELY, events, [TIMELY.layout] * DAYS)


SECOND = {"from": [to_text(START + timedelta(days=1))], "to": [to_text(START + timedelta(days=2))], "order": ["asc"]}


@pytest.mark.parametrize(("left", "ends"), [(3.0, False), (2.99, True)])
def test_a_request_goes_on_while_three_seconds_are_left(
    left: float, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After that a page ends with a cursor, as soon as it holds something."""
    base = hours(8)
    query = parse_query(TIMELY, SECOND | {"limit": ["1000"]}, NOW, SEAL)
    answer = run_query(query, TIMELY, base.reader, NOW, lambda: left)
    assert (answer.count < 480, answer.next is not None) == (ends, ends)
    # Within a bucket, too: its suffixes are read a quarter of a page at a time, and a little more.
    query = parse_query(TIMELY, SECOND | {"limit": ["100"]}, NOW, SEAL)
    answer = run_query(query, TIMELY, base.reader, NOW, lambda: left)
    assert (0 < answer.count < 100, answer.next is not None) == (ends, True)
    monkeypatch.setattr(whole, "PAGES", 4)
    span = {name: value for name, value in SECOND.items() if name != "order"} | {"step": ["1h"]}
    rows = find_aggregate(parse_aggregation(TIMELY, span, NOW, SEAL), TIMELY, base.reader, NOW, lambda: left)
    assert (len(rows.rows) < 8, rows.next is not None) == (ends, ends)


@pytest.mark.parametrize(("left", "refused"), [(3.0, False), (2.99, True)])
def test_a_range_is_gathered_while_three_seconds_are_left(
    left: float, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_scans, "GATHERED", 10)
    policy = stream(BY_TIME, '\n[[streams.s.index]]\nname = "near"\nlocal = true\nsort_by = ["place.state", "x"]\n')
    base = StoredEvents(policy, hours(2).events, [policy.layout] * DAYS)
    query = parse_query(policy, SECOND | {"where.place.state": ["CA"], "limit": ["1000"]}, NOW, SEAL)
    if refused:
        with pytest.raises(ProblemError, match="422 too_much: the index near holds more events of this value"):
            run_query(query, policy, base.reader, NOW, lambda: left)
    else:
        assert run_query(query, policy, base.reader, NOW, lambda: left).count == 120


@pytest.mark.parametrize(("left", "refused"), [(3.0, False), (2.99, True)])
def test_a_ranking_goes_on_while_three_seconds_are_left(left: float, refused: bool) -> None:
    base = hours(1)
    span = {name: value for name, value in SECOND.items() if name != "order"}
    ranking = parse_ranking(TIMELY, span | {"index": ["best_of_all"], "limit": ["5"]}, NOW, SEAL)
    if refused:
        with pytest.raises(ProblemError, match="422 too_much"):
            find_top(ranking, TIMELY, base.reader, NOW, lambda: left)
    else:
        assert len(find_top(ranking, TIMELY, base.reader, NOW, lambda: left).rows) == 5


def test_an_aggregate_whose_first_archive_does_not_answer_is_to_be_asked_again() -> None:
    """If it is not the first, the page ends before it."""
    base = stored()
    base.reader.pools = Silent
    busy = parse_aggregation(TIMELY, SPAN | {"step": ["1d"]}, NOW, SEAL)
    with pytest.raises(ArchiveBusy, match="the archive of 2026-03-01 is slow"):
        find_aggregate(busy, TIMELY, base.reader, NOW, lambda: 100.0)
    later = parse_aggregation(TIMELY, {**SPAN, "from": SECOND["from"], "step": ["1d"]}, NOW, SEAL)
    answer = find_aggregate(later, TIMELY, base.reader, NOW, lambda: 100.0)
    assert [row["start"][:10] for row in answer.rows] == ["2026-03-02"]
    assert answer.next is not None


@pytest.mark.parametrize("filling", [{"fill": ["previous"]}, {"fill": ["zero"], "by": ["series"]}], ids=str)
def test_filled_steps_that_depend_on_others_are_not_divided_when_the_time_is_up(
    filling: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next page would not know the rows of this page."""
    monkeypatch.setattr(whole, "PAGES", 4)
    span = {name: value for name, value in SECOND.items() if name != "order"} | {"step": ["1h"]}
    filled = parse_aggregation(TIMELY, span | filling, NOW, SEAL)
    with pytest.raises(ProblemError, match="422 too_much: with fill=previous, or with fill and by, one page must hold"):
        find_aggregate(filled, TIMELY, hours(8).reader, NOW, lambda: 2.99)


def test_each_page_of_an_archive_is_a_request_and_counts_the_events_that_were_read() -> None:
    """Two of the five days are archived."""
    base = stored()
    query = parse_query(TIMELY, SPAN | {"to": [to_text(START + timedelta(days=1))]}, NOW, SEAL)
    cost = run_query(query, TIMELY, base.reader, NOW, lambda: 100.0).cost
    assert (cost.units, cost.requests, cost.read) == (0.0, 1, 1)
    tables = run_query(parse_query(TIMELY, SECOND, NOW, SEAL), TIMELY, base.reader, NOW, lambda: 100.0).cost
    both = parse_query(TIMELY, SECOND | SPAN | {"to": SECOND["to"]}, NOW, SEAL)
    cost = run_query(both, TIMELY, base.reader, NOW, lambda: 100.0).cost
    assert (cost.units, cost.requests, cost.read) == (tables.units, tables.requests + 1, 2)
    ranking = parse_ranking(TIMELY, SPAN | {"index": ["best_of_all"]}, NOW, SEAL)
    ranked = find_top(ranking, TIMELY, base.reader, NOW, lambda: 100.0).cost
    later = parse_ranking(TIMELY, SPAN | {"index": ["best_of_all"], "from": SECOND["from"]}, NOW, SEAL)
    rest = find_top(later, TIMELY, base.reader, NOW, lambda: 100.0).cost
    assert (ranked.units, ranked.requests, ranked.read) == (rest.units, rest.requests + 1, rest.read + 1)
