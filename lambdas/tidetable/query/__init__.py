"""Queries: from a query string to ordered events, across suffixes, buckets, periods and archives."""

from tidetable.query.aggregates import Aggregate, find_aggregate, parse_aggregation
from tidetable.query.answer import Answer
from tidetable.query.cursor import Seal
from tidetable.query.formats import FORMAT, Form, fits, form_of, rendered
from tidetable.query.get import get_event
from tidetable.query.latest import find_latest
from tidetable.query.params import parse_query
from tidetable.query.rankings import Top, explain_top, find_top, parse_ranking
from tidetable.query.read import Cost, Reader
from tidetable.query.run import explain_query, run_query
from tidetable.query.streams import describe_periods, describe_streams

__all__ = [
    "FORMAT",
    "Aggregate",
    "Answer",
    "Cost",
    "Form",
    "Reader",
    "Seal",
    "Top",
    "describe_periods",
    "describe_streams",
    "explain_query",
    "explain_top",
    "find_aggregate",
    "find_latest",
    "find_top",
    "fits",
    "form_of",
    "get_event",
    "parse_aggregation",
    "parse_query",
    "parse_ranking",
    "rendered",
    "run_query",
]
