"""Questions about the events of a stage, as the query function answers them."""

from typing import Any

from tests.fakes.stage import Stage
from tidetable.query import get_event, parse_query, run_query
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.query.listings import find_listing, parse_series
from tidetable.query.rankings import find_top, parse_ranking

# A range with all events that are written.
WHOLE = {"from": "2026-03-01T00:00:00Z", "to": "2026-03-12T14:05:00Z"}
LAST_DAY = WHOLE | {"from": "2026-03-12T00:00:00Z"}
_QUESTIONS: dict[str, tuple[Any, Any]] = {
    "events": (parse_query, run_query),
    "top": (parse_ranking, find_top),
    "aggregate": (parse_aggregation, find_aggregate),
    "series": (parse_series, find_listing),
}


def ask_page(stage: Stage, question: str, stream: str, **parameters: str) -> dict[str, Any]:
    """Ask for a page; return its document. ``from_`` and ``where_NAME`` are the parameters from and where.NAME."""
    stage.settle()
    parse, find = _QUESTIONS[question]
    policy, now = stage.config.streams[stream], stage.clock.now()
    given = {name.rstrip("_").replace("where_", "where."): [value] for name, value in parameters.items()}
    document: dict[str, Any] = find(
        parse(policy, given, now, stage.seal), policy, stage.reader(), now, lambda: 100.0
    ).document()
    return document


def read_events(stage: Stage, stream: str, **parameters: str) -> list[dict[str, Any]]:
    """Read the events of all time, each without its ref; every page must be complete."""
    asked = parameters if "cursor" in parameters else {**WHOLE, "limit": "1000", **parameters}
    page = ask_page(stage, "events", stream, **asked)
    assert page["next"] is None
    return strip_refs(page)


def strip_refs(page: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events of a page without their refs."""
    return [{name: value for name, value in event.items() if name != "ref"} for event in page["events"]]


def read_ref(stage: Stage, ref: str, stream: str, **parameters: str) -> dict[str, Any]:
    """Read the event of a ref."""
    stage.settle()
    given = {name: [value] for name, value in parameters.items()}
    return get_event(stage.config.streams[stream], ref, stage.reader(), given)
