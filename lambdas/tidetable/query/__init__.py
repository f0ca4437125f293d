"""Queries: from a query string to ordered events, across suffixes, buckets, periods and archives.

Rankings and aggregates are packages of their own within, for those who ask for them.
"""

from tidetable.query.answer import Answer
from tidetable.query.cursor import Seal
from tidetable.query.formats import FORMAT, Form, fits, form_of, rendered
from tidetable.query.get import get_event
from tidetable.query.latest import find_latest
from tidetable.query.params import parse_query, refuse_unwritable
from tidetable.query.periods import describe_periods, parse_periods
from tidetable.query.read import Cost, Reader
from tidetable.query.run import explain_query, run_query
from tidetable.query.streams import describe_streams
from tidetable.query.unavailable import unavailable

__all__ = [
    "FORMAT",
    "Answer",
    "Cost",
    "Form",
    "Reader",
    "Seal",
    "describe_periods",
    "describe_streams",
    "explain_query",
    "find_latest",
    "fits",
    "form_of",
    "get_event",
    "parse_periods",
    "parse_query",
    "refuse_unwritable",
    "rendered",
    "run_query",
    "unavailable",
]
