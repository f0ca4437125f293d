"""Aggregates: statistics over steps of time and groups."""

from tidetable.query.aggregates.aggregate_parameters import parse_aggregation
from tidetable.query.aggregates.find import Aggregate, explain_aggregate, find_aggregate

__all__ = ["Aggregate", "explain_aggregate", "find_aggregate", "parse_aggregation"]
