"""Dialects: protocols that other programs speak, turned into events and answered in their own words.

Each dialect reads a body into a ``Reading``, the one use case of ingest takes its events, and the dialect renders the outcome.
"""
