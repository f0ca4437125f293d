"""Aggregates: statistics over steps of time and groups."""

from tidetable.query.aggregates.find import Aggregate, explain_aggregate, find_aggregate
from tidetable.query.aggregates.parse import parse_aggregation

__all__ = ["Aggregate", "explain_aggregate", "find_aggregate", "parse_aggregation"]
