"""Rollups: aggregates of buckets, kept as a stream of their own. docs/design/rollups.md says how they stay exact.

Nothing is imported here, because queries need a part of this and the refresher needs queries.
"""
