"""Steps of days, weeks and months in a zone, against the dates that zoneinfo shows for the events, and in DuckDB."""

import random
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tests.fakes import SEAL
from tests.query.stored_events import DAYS, NOW, START, TIMELY, StoredEvents
from tidetable.events import Event
from tidetable.problems import ProblemError
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.query.aggregates.find import Aggregate
from tidetable.query.aggregates.steps import TimeStep, find_fitting_spans, parse_step
from tidetable.times import from_text

ZONES = [
    ("Europe/Berlin", "2026-03-20"),
    ("Europe/Berlin", "2026-10-20"),
    ("America/New_York", "2026-03-01"),
    ("America/New_York", "2026-10-25"),
    ("Asia/Kolkata", "2026-01-25"),
    ("Australia/Lord_Howe", "2026-03-28"),
    ("Australia/Lord_Howe", "2026-09-28"),
    ("Pacific/Apia", "2011-12-20"),
    ("America/Sao_Paulo", "2018-10-30"),
    ("America/Havana", "2020-10-25"),
    ("Africa/Monrovia", "1971-12-28"),
    ("UTC", "2026-02-25"),
]


def begin_span(day: date, step: str) -> date:
    """The first date of the step that holds a date, for the steps of the tests, without the code under test."""
    if step.endswith("mo"):
        months = (day.year - 1970) * 12 + day.month - 1
        months -= months % int(step[:-2])
        return date(1970 + months // 12, months % 12 + 1, 1)
    if step.endswith("w"):
        weeks = (day - date(1970, 1, 5)).days // 7
        return date(1970, 1, 5) + timedelta(weeks=weeks - weeks % int(step[:-1]))
    days = (day - date(1970, 1, 1)).days
    return day - timedelta(days=days % int(step[:-1]))


@pytest.mark.parametrize(("zone", "first"), ZONES)
@pytest.mark.parametrize("step", ["1d", "2d", "1w", "2w", "1mo", "3mo", "12mo"])
def test_a_step_holds_the_instants_of_its_dates(zone: str, first: str, step: str) -> None:
    chance, parsed, local = random.Random(f"{zone}{first}{step}"), parse_step(step, local=True), ZoneInfo(zone)
    begin = datetime.fromisoformat(first).replace(tzinfo=UTC)
    for _ in range(150):
        at = begin + timedelta(seconds=chance.randrange(14 * 86_400), microseconds=chance.randrange(10**6))
        start, end = parsed.find_whole(at, zone)
        assert start <= at < end
        wanted = begin_span(at.astimezone(local).date(), step)
        shown = [begin_span(edge.astimezone(local).date(), step) for edge in (start, end - timedelta(microseconds=1))]
        assert shown == [wanted, wanted]
        # The step is whole: the instant before it has an earlier first date, and its end a later one.
        assert begin_span((start - timedelta(microseconds=1)).astimezone(local).date(), step) < wanted
        assert begin_span(end.astimezone(local).date(), step) > wanted


LENGTHS = [
    ("Europe/Berlin", "2026-03-29T12:00:00Z", 23.0),
    ("Europe/Berlin", "2026-10-25T12:00:00Z", 25.0),
    ("America/New_York", "2026-03-08T12:00:00Z", 23.0),
    ("America/New_York", "2026-11-01T12:00:00Z", 25.0),
    ("Australia/Lord_Howe", "2026-04-05T00:00:00Z", 24.5),
    ("Australia/Lord_Howe", "2026-10-04T00:00:00Z", 23.5),
    ("Asia/Kolkata", "2026-03-29T12:00:00Z", 24.0),
    ("Pacific/Apia", "2011-12-30T09:59:59Z", 24.0),
    ("Pacific/Apia", "2011-12-30T10:00:00Z", 24.0),
]


@pytest.mark.parametrize(("zone", "at", "hours"), LENGTHS)
def test_a_day_has_the_hours_of_its_zone(zone: str, at: str, hours: float) -> None:
    start, end = TimeStep(days=1).find_whole(from_text(at), zone)
    assert (end - start) / timedelta(hours=1) == hours


def test_where_the_clocks_go_back_over_midnight_steps_have_no_hole() -> None:
    # At 00:01 on 29 October 2006 the clocks of St John's went back to 23:01: the 28th returned for 59 minutes.
    edges = [
        TimeStep(days=1).find_whole(from_text(f"2006-10-29T{at}Z"), "America/St_Johns")
        for at in ("02:30", "03:29", "03:30")
    ]
    assert [edge[0].isoformat()[:16] for edge in edges] == ["2006-10-28T02:30", "2006-10-28T02:30", "2006-10-29T03:30"]
    assert edges[0][1] == edges[2][0]


def test_steps_of_any_length_end_within_the_years_of_answers() -> None:
    for text in ("9999999w", "9999999d", "99999mo"):
        for at in ("1970-01-01T00:00:00Z", "9998-12-30T23:59:59Z"):
            for zone in ("Pacific/Kiritimati", "Pacific/Pago_Pago"):
                start, end = parse_step(text, local=True).find_whole(from_text(at), zone)
                assert start <= from_text(at) < end


@pytest.mark.parametrize("text", ["1mo5", "mo", "0mo", "-1mo", "1.5mo", "1M", "100000mo", "\u0661mo", "0d", "0w", "1y"])
def test_a_text_that_is_no_step_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="such as"):
        parse_step(text, local=True)


def test_hours_are_lengths_of_time_in_every_zone() -> None:
    assert parse_step("24h", local=True) == TimeStep(timedelta(hours=24))
    assert parse_step("1d", local=True) == TimeStep(days=1)
    assert parse_step("1w", local=True) == TimeStep(days=7)
    assert parse_step("1d", local=False) == TimeStep(timedelta(days=1))
    assert parse_step("1mo", local=False) == TimeStep(months=1)


FITTING = [
    ("Asia/Kolkata", 15, "all"), ("Asia/Kolkata", 30, "all"), ("Asia/Kolkata", 60, "none"), ("Asia/Kolkata", 1440, "none"),
    ("Asia/Kathmandu", 15, "all"), ("Asia/Kathmandu", 30, "none"),
    ("Europe/Berlin", 60, "all"), ("Europe/Berlin", 1440, "none"), ("UTC", 1440, "all"), ("", 1440, "all"),
    ("Europe/London", 1440, "until 2026-03-29T00:00"), ("Australia/Lord_Howe", 60, "until 2026-04-04T13:00"),
    ("Australia/Lord_Howe", 30, "all"),
]  # fmt: skip


@pytest.mark.parametrize(("zone", "minutes", "fitting"), FITTING)
def test_a_rollup_fits_where_its_buckets_have_the_edges_of_steps(zone: str, minutes: int, fitting: str) -> None:
    start, end = datetime(2026, 3, 20, tzinfo=UTC), datetime(2026, 4, 20, tzinfo=UTC)
    spans = find_fitting_spans(TimeStep(days=1), zone, start, end, timedelta(minutes=minutes))
    if fitting == "none":
        assert spans == []
    else:
        ((first, last),) = spans
        assert first <= start
        assert last >= end if fitting == "all" else last.isoformat()[:16] == fitting.removeprefix("until ")


def make_base(events: list[Event]) -> StoredEvents:
    return StoredEvents(TIMELY, events, [TIMELY.layout] * DAYS)


def ask(base: StoredEvents, now: datetime = NOW, /, **parameters: str) -> Aggregate:
    query = parse_aggregation(TIMELY, {name: [value] for name, value in parameters.items()}, now, SEAL)
    return find_aggregate(query, TIMELY, base.reader, now, lambda: 100.0)


def read_pages(base: StoredEvents, **parameters: str) -> Iterator[dict[str, object]]:
    found = ask(base, **parameters)
    yield from found.rows
    while found.next is not None:
        found = ask(base, cursor=found.next, limit=parameters["limit"])
        yield from found.rows


def store_events(count: int = 300) -> list[Event]:
    chance = random.Random(count)
    seconds = DAYS * 86_400
    return [
        Event(chance.choice("ab"), START + timedelta(seconds=chance.randrange(seconds)), str(number), {"n": number})
        for number in range(count)
    ]


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "UTC"])
def test_rows_have_the_events_of_local_days(zone: str) -> None:
    events, local = store_events(), ZoneInfo(zone)
    wanted = Counter(event.time.astimezone(local).date() for event in events)
    span = {"from": START.isoformat(), "to": (START + timedelta(days=DAYS)).isoformat(), "step": "1d", "tz": zone}
    rows = ask(make_base(events), **span).rows
    assert {from_text(row["start"]).astimezone(local).date(): row["count"] for row in rows} == wanted
    assert list(read_pages(make_base(events), **span, limit="1")) == rows
    filled = ask(make_base(events), **span, fill="zero").rows
    assert [row["start"] for row in filled[1:]] == [row["end"] for row in filled[:-1]]


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/New_York", "Australia/Lord_Howe", "Europe/Berlin"])
@pytest.mark.parametrize(("step", "unit"), [("1d", "day"), ("1w", "week"), ("1mo", "month")])
def test_duckdb_counts_the_same(zone: str, step: str, unit: str) -> None:
    import duckdb

    connection, events = duckdb.connect(), store_events()
    connection.execute("load icu; create table events(time timestamptz)")
    connection.executemany("insert into events values (?)", [[event.time.isoformat()] for event in events])
    query = f"select date_trunc('{unit}', time at time zone ?)::date as start, count(*) from events group by start"  # noqa: S608
    wanted = dict(connection.execute(query, [zone]).fetchall())
    # Far edges, so that the first and the last step are whole.
    span = {"from": "2026-01-15", "to": "2026-04-10", "step": step, "tz": zone, "align": "true"}
    found = ask(make_base(events), **span).rows
    local = ZoneInfo(zone)
    assert {from_text(row["start"]).astimezone(local).date(): row["count"] for row in found} == wanted


def test_a_range_ends_now() -> None:
    now = START + timedelta(hours=30, seconds=30)
    rows = ask(make_base([]), now, **{"from": "-3m", "step": "1m", "fill": "zero"}).rows
    assert [row["start"][11:19] for row in rows] == ["05:57:30", "05:58:00", "05:59:00", "06:00:00"]
    assert rows[-1]["end"][11:19] == "06:00:30"


def test_an_aligned_range_has_whole_steps_that_have_ended() -> None:
    now = START + timedelta(hours=30, seconds=30)
    base = make_base([])
    rows = ask(base, now, **{"from": "-3m", "step": "1m", "fill": "zero", "align": "true"}).rows
    assert [row["start"][11:19] for row in rows] == ["05:57:00", "05:58:00", "05:59:00"]
    assert rows[-1]["end"][11:19] == "06:00:00"
    days = ask(base, now, **{"from": "-1d", "step": "1d", "tz": "Asia/Kolkata", "fill": "zero", "align": "true"}).rows
    assert [from_text(row["start"]).astimezone(ZoneInfo("Asia/Kolkata")).isoformat()[11:16] for row in days] == [
        "00:00"
    ]


@pytest.mark.parametrize(
    ("parameters", "detail"),
    [
        ({"align": "true"}, "add step="),
        ({"align": "yes", "step": "1m"}, "true or false"),
        ({"align": "true", "step": "1d", "from": "-1m"}, "no whole step"),
        ({"tz": "Berlin"}, "did you mean Europe/Berlin?"),
        ({"tz": "Europe/Berlin", "step": "1M"}, "1mo"),
    ],
)
def test_a_refusal_says_what_to_change(parameters: dict[str, str], detail: str) -> None:
    with pytest.raises(ProblemError) as caught:
        ask(make_base([]), START + timedelta(hours=30, minutes=2), **parameters)
    assert caught.value.problem.status == 400
    assert detail in caught.value.problem.detail


def test_a_cursor_holds_the_zone_and_the_alignment() -> None:
    base = make_base(store_events())
    span = {"from": START.isoformat(), "to": NOW.isoformat(), "step": "1d", "align": "true", "limit": "1"}
    found = ask(base, tz="Asia/Kolkata", **span)
    assert found.next is not None
    again = ask(base, cursor=found.next, tz="Asia/Kolkata", **span)
    assert again.rows == ask(base, cursor=found.next, limit="1").rows
    for changed in ({"tz": "UTC"}, {"align": "false"}, {"step": "2d"}):
        with pytest.raises(ProblemError, match="another query"):
            ask(base, cursor=found.next, **changed)
