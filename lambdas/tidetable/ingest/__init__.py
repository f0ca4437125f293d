"""Ingest: from a request's bytes to events that are durable, with a verdict on each."""

from tidetable.ingest.outcome import Outcome
from tidetable.ingest.request import IngestRequest, ingest, ingest_values

__all__ = ["IngestRequest", "Outcome", "ingest", "ingest_values"]
