"""Queries: a query string becomes ordered events, across suffixes, buckets, periods and archives.

The steps of a query are parse, plan, scan (with merge and hydrate), page, render; ``model.py`` has its types. Rankings,
aggregates and listings are packages inside this package, and are imported when they are needed.
"""

from tidetable.query.confine import confine_parameters, confine_query
from tidetable.query.cursor import Seal
from tidetable.query.events import run_query
from tidetable.query.explain import explain_query
from tidetable.query.get import get_event
from tidetable.query.latest import find_latest
from tidetable.query.model import Cost, Reader, Selection
from tidetable.query.page import Answer
from tidetable.query.parse import FORMAT, parse_query, refuse_unwritable
from tidetable.query.periods import describe_periods, describe_streams, parse_periods
from tidetable.query.render import AnswerForm, choose_form, render_answer

__all__ = [
    "FORMAT", "Answer", "Cost", "AnswerForm", "Reader", "Seal", "Selection", "confine_parameters", "confine_query",
    "describe_periods", "describe_streams", "explain_query", "find_latest", "choose_form", "get_event",
    "parse_periods", "parse_query", "refuse_unwritable", "render_answer", "run_query",
]  # fmt: skip
