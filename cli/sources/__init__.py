"""Files as rows of events: NDJSON, CSV and Parquet. Columns are mapped to the fields of an event."""

from cli.sources.columns import Columns
from cli.sources.open import Source, open_source
from cli.sources.row import Row, SourceError

__all__ = ["Columns", "Row", "Source", "SourceError", "open_source"]
