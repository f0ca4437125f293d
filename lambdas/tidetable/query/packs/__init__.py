"""Reads of packs: scans, the walk in order, pages of the oldest events, and single events."""
