"""Ingest turns a request's bytes into durable events, with a verdict on each event."""

from tidetable.ingest.outcome import Outcome
from tidetable.ingest.request import IngestRequest, ingest_batch, ingest_body

__all__ = ["IngestRequest", "Outcome", "ingest_body", "ingest_batch"]
