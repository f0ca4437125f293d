"""The small print of parameters and prices: lengths in bytes, numbers with zeros, and the units of fetched items."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from aws.arrow import encode_stream
from tests.fakes import SEAL
from tests.query.stored_events import DAYS, START, TIMELY, StoredEvents
from tests.query.stored_events import NOW as TODAY
from tests.worlds.days import NOW, STREAM, Days
from tidetable.conditions import read_numbers
from tidetable.config import parse
from tidetable.events import Event
from tidetable.problems import ProblemError
from tidetable.query import AnswerForm, find_latest, get_event, page, parse_query, render_answer, run_query
from tidetable.query.aggregates import aggregate_run, find_aggregate, parse_aggregation
from tidetable.query.aggregates.stats import compute_stat
from tidetable.query.listings import parse_series
from tidetable.query.model import Cost
from tidetable.query.rankings import parse_ranking
from tidetable.rollup_model.numbers import Numbers
from tidetable.times import to_text

RICH = parse(
    """
    [streams.s]
    period = "day"
    late = "1d"
    retention = 9
    cold = ["raw"]
    key = { partition_by = "series" }
    [[streams.s.index]]
    name = "best"
    partition_by = "*"
    sort_by = "mag"
    [[streams.s.index]]
    name = "own"
    kind = "type"
    partition_by = { order = "customer", refund = "order" }
    sort_by = "mag"
    [[streams.s.index]]
    name = "near"
    local = true
    sort_by = "mag"
    """
).streams["s"]


def parse_own(parameters: dict[str, list[str]]) -> Any:
    return parse_query(STREAM, parameters, NOW, SEAL)


def aggregate(parameters: dict[str, list[str]]) -> Any:
    return parse_aggregation(RICH, parameters | {"series": ["a"]}, NOW, SEAL)


def rank(parameters: dict[str, list[str]]) -> Any:
    return parse_ranking(RICH, parameters, NOW, SEAL)


MANY = {f"where.f{number}": ["x"] for number in range(10)}
# What is taken, and what is refused although it is nearly the same.
EDGES: list[tuple[str, Any, dict[str, list[str]], dict[str, list[str]], str]] = [
    ("fields in bytes", parse_own, {"fields": ["é" * 512]}, {"fields": ["é" * 513]}, "fields has at most 1024 bytes"),
    ("zeros before a limit", parse_own, {"limit": ["000000007"]}, {"limit": ["000000000199999"]}, "1 to 10000"),
    (
        "nine digits",
        parse_own,
        {"limit": ["000000007"]},
        {"limit": ["0000000007"]},
        "limit must be a whole number from 1",
    ),
    (
        "the length of a ranking's value",
        rank,
        {"index": ["own"], "kind": ["order"], "value": ["é" * 512]},
        {"index": ["own"], "kind": ["order"], "value": ["é" * 512 + "e"]},
        "value has at most 1024 bytes",
    ),
    ("groups in bytes", aggregate, {"by": ["é" * 512]}, {"by": ["é" * 513]}, "at most 1024 bytes together"),
    (
        "groups and a field in bytes",
        aggregate,
        {"by": ["x" * 512], "field": ["y" * 512]},
        {"by": ["x" * 512], "field": ["y" * 513]},
        "at most 1024 bytes together",
    ),
    ("a cold group", aggregate, {"by": ["rawer"]}, {"by": ["raw.x"]}, "raw.x is a cold field of s"),
    ("a cold field", aggregate, {"field": ["rawer"]}, {"field": ["raw"]}, "raw is a cold field of s"),
    ("a path", aggregate, {"field": ["a.b"]}, {"field": ["a."]}, "field is the path of a field of data"),
    (
        "top groups",
        aggregate,
        {"by": ["x"], "top": ["1000"]},
        {"by": ["x"], "top": ["1001"]},
        "top must be a whole number from 1 to 1000",
    ),
    ("rollups", aggregate, {"rollups": ["false"]}, {"rollups": ["no"]}, "rollups is true or false"),
    (
        "a percentile",
        aggregate,
        {"stat": ["p99.999"], "field": ["n"]},
        {"stat": ["p99.9999"], "field": ["n"]},
        "stat is",
    ),
    (
        "the length of an aggregate",
        aggregate,
        {"series": ["a"]} | MANY,
        {"id": [f"{number:0480d}" for number in range(11)]},
        "bytes too long for one query",
    ),
    (
        "the value of a ranking",
        rank,
        {"index": ["best"], "where.a": ["x"]},
        {"index": ["own"], "kind": ["order"]},
        "add value=: the index own ranks the events of one customer",
    ),
    (
        "the kind of a ranking",
        rank,
        {"index": ["own"], "kind": ["order"], "value": ["c"]},
        {"index": ["own"], "kind": ["gift"], "value": ["c"]},
        "kind must be one of order, refund, of the index own",
    ),
    (
        "a missing kind",
        rank,
        {"index": ["own"], "kind": ["refund"], "value": ["7"]},
        {"index": ["own"], "value": ["c"]},
        "kind must be one of order, refund",
    ),
    (
        "the series of a local ranking",
        rank,
        {"index": ["near"], "value": ["a"]},
        {"index": ["near"], "value": [""]},
        "add value=: the index near ranks the events of one series",
    ),
]


@pytest.mark.parametrize(
    ("read", "taken", "refused", "detail"), [edge[1:] for edge in EDGES], ids=[edge[0] for edge in EDGES]
)
def test_what_is_just_within_a_limit_is_taken_and_what_is_just_beyond_it_is_refused(
    read: Any, taken: dict[str, list[str]], refused: dict[str, list[str]], detail: str
) -> None:
    read(taken)
    with pytest.raises(ProblemError) as caught:
        read(refused)
    assert (caught.value.problem.status, caught.value.problem.code) == (400, "bad_parameter")
    assert detail in caught.value.problem.detail


@pytest.mark.parametrize("name", ["where.a", "where.a:ge", "nothing"])
def test_a_route_without_conditions_refuses_a_condition(name: str) -> None:
    """A condition that is passed over would change the meaning of the answer."""
    reader, parameters = Days().reader, {name: ["1"]}
    for ask in (
        lambda: find_latest(RICH, parameters | {"series": ["a"]}, reader, NOW, lambda: 100.0),
        lambda: get_event(RICH, "ref", reader, parameters),
        lambda: parse_series(RICH, parameters, NOW, SEAL),
    ):
        with pytest.raises(ProblemError, match=f"400 unknown_parameter: unknown parameter '{name}'"):
            ask()


def test_an_aggregate_without_a_limit_has_ten_thousand_rows() -> None:
    assert aggregate({}).limit == 10_000
    assert rank({"index": ["best"]}).limit == 10


@pytest.mark.parametrize(
    ("sizes", "consistent", "most", "cost"),
    [
        ([0], False, 100, Cost(0.5, 1)),
        ([4_096], False, 100, Cost(0.5, 1)),
        ([4_097], False, 100, Cost(1.0, 1)),
        ([8_192, 1], True, 100, Cost(3.0, 1)),
        ([1] * 41, True, 40, Cost(41.0, 2)),
        ([], True, 100, Cost(0.0, 0)),
    ],
)
def test_a_fetched_item_costs_a_unit_per_4_kb_or_half_of_it(
    sizes: list[int], consistent: bool, most: int, cost: Cost
) -> None:
    """AWS bills an item that is not there as the smallest item."""
    spent = Cost()
    spent.add_fetch(sizes, consistent=consistent, most=most)
    assert spent == cost


def test_an_aggregate_goes_on_with_the_projection_of_its_needed_fields() -> None:
    """Its cursor does not hold it. The order of top groups belongs to the query, and is repeated or left out."""
    begun = aggregate({"by": ["place.state"], "field": ["mag"], "stat": ["sum"], "top": ["3"], "order": ["asc"]})
    cursor = SEAL.seal(begun.make_cursor(datetime(2026, 3, 1, tzinfo=UTC)))
    for order in ({}, {"order": ["asc"]}):
        following = parse_aggregation(RICH, {"cursor": [cursor], **order}, NOW, SEAL)
        assert following.query.projection == begun.query.projection
        assert (begun.query.projection.fields, begun.query.projection.only_fields) == (("mag", "place"), True)
        assert (following.limit, following.ascending) == (10_000, True)
    with pytest.raises(ProblemError, match="another query: repeat its order"):
        parse_aggregation(RICH, {"cursor": [cursor], "order": ["desc"]}, NOW, SEAL)


@pytest.mark.parametrize(("text", "number"), [(".5", "0.5"), ("5.", "5"), ("+5", "5"), ("-5e+1", "-50"), ("e5", None)])
def test_a_number_is_read_in_each_of_its_forms(text: str, number: str | None) -> None:
    assert read_numbers(text) == ([] if number is None else [Decimal(number)])


def test_a_sum_has_no_zeros_at_its_end() -> None:
    """A rollup keeps none, and both must give the same answer."""
    cell = Numbers()
    cell.add_all([Decimal("1.5"), Decimal("1.5")], None)
    assert (str(compute_stat(cell, "sum")), str(compute_stat(cell, "avg"))) == ("3", "1.5")


def groups(count: int) -> StoredEvents:
    """An event of another series every ten seconds of the second day."""
    events = [Event(f"s{n}", START + timedelta(days=1, seconds=10 * n), str(n), {"mag": n}) for n in range(count)]
    return StoredEvents(TIMELY, events, [TIMELY.layout] * DAYS)


def rows_of(base: StoredEvents, **parameters: str) -> Any:
    span = {"from": START, "to": START + timedelta(days=DAYS)}
    query_string = {name: [to_text(time)] for name, time in span.items()}
    query_string |= {name: [value] for name, value in parameters.items()}
    aggregation = parse_aggregation(TIMELY, query_string, TODAY, SEAL)
    return find_aggregate(aggregation, TIMELY, base.reader, TODAY, lambda: 100.0)


def test_groups_with_percentiles_are_fewer_as_each_takes_more_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregate_run, "MAX_SKETCHES", 9)
    base = groups(10)
    assert rows_of(base, by="series", stat="max", field="mag").count == 10
    with pytest.raises(ProblemError, match="422 too_many_groups: there are more than 9 groups in one step"):
        rows_of(base, by="series", stat="p50", field="mag")
    monkeypatch.setattr(aggregate_run, "MAX_SKETCHES", 10)
    assert rows_of(base, by="series", stat="p50", field="mag").count == 10


@pytest.mark.parametrize(
    ("most", "proposed"),
    [(10, "limit=4: set limit=10, or take the first groups with top="), (9, "limit=4: take the first groups")],
)
def test_a_limit_is_proposed_only_if_it_may_be_asked_for(
    most: int, proposed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aggregate_run, "MAX_ROWS", most)
    with pytest.raises(ProblemError) as caught:
        rows_of(groups(10), by="series", limit="4")
    assert proposed in caught.value.problem.detail


@pytest.mark.parametrize(("limit", "fits"), [("6", True), ("5", False)])
def test_top_groups_have_as_many_rows_as_the_limit(limit: str, fits: bool) -> None:
    """Three groups in two steps that are filled."""
    base, parameters = groups(4), {"by": "series", "top": "3", "step": "1h", "fill": "zero", "limit": limit}
    parameters |= {"from": "2026-03-02T00:00:00Z", "to": "2026-03-02T02:00:00Z"}
    if fits:
        assert rows_of(base, **parameters).count == 6
        return
    with pytest.raises(ProblemError, match="422 too_much: 6 rows, more than 5; ask for fewer groups"):
        rows_of(base, **parameters)


@pytest.mark.parametrize("flat", [True, False])
def test_a_page_of_an_aggregate_is_cut_to_what_an_answer_holds(flat: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of events surely fits as JSON, but not with its objects made flat."""
    monkeypatch.setattr(page, "MAX_BODY_BYTES", 3_000)
    base, form = groups(40), AnswerForm(flat=flat)
    first = rows_of(base, by="series", step="10s")
    rendered = render_answer(first, form, encode_stream)
    assert (first.count, rendered.answer.count < 40, rendered.answer.next is not None) == (40, True, True)
    assert len(rendered.body) <= 3_000
    rest = rows_of(base, cursor=rendered.answer.next or "")
    assert rendered.answer.count + rest.count == 40
    minute = {"from": "2026-03-02T00:00:00Z", "to": "2026-03-02T00:01:00Z"}
    monkeypatch.setattr(page, "MAX_BODY_BYTES", 700)
    with pytest.raises(ProblemError, match="422 too_much: with fill=previous"):
        render_answer(rows_of(base, by="series", step="10s", fill="previous", **minute), form, encode_stream)


def test_flat_events_are_cut_although_a_page_of_events_surely_fits_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MAX_BODY_BYTES", 3_000)
    span = {"from": [to_text(START)], "to": [to_text(START + timedelta(days=DAYS))]}
    base = groups(40)
    query = parse_query(TIMELY, span, TODAY, SEAL)
    whole = run_query(query, TIMELY, base.reader, TODAY, lambda: 100.0)
    assert render_answer(whole, AnswerForm(), encode_stream).answer.count == 40
    cut = render_answer(whole, AnswerForm(flat=True), encode_stream)
    assert (cut.answer.count < 40, cut.answer.next is not None, len(cut.body) <= 3_000) == (True, True, True)
