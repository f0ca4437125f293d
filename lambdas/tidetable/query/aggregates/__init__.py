"""Aggregates: statistics over steps of time and groups."""

from tidetable.query.aggregates.asked import parse_aggregation
from tidetable.query.aggregates.run import Aggregate, find_aggregate

__all__ = ["Aggregate", "find_aggregate", "parse_aggregation"]
