"""Rollups: aggregates of buckets, stored as a stream of their own. docs/design/rollups.md says how they stay exact.

This file imports nothing: queries import some modules of this package, and the refresher imports queries.
"""
