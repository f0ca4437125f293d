"""The columns of an archive's files: their names, and their types as the configuration writes them."""

from __future__ import annotations

import re

# The columns that the pipeline itself adds to an archive's files. In lower case, as Athena knows no upper case.
RESERVED_COLUMNS = frozenset(
    {
        "time", "series", "id", "id_hex", "shard", "data", "attributes", "stream", "period", "accepted_at", "version",
    }
)  # fmt: skip
COLUMN_TYPES = ("string", "boolean", "integer", "double")
_NAME = re.compile(r"(?!(?i:pk_))[A-Za-z][A-Za-z0-9_]{0,63}")
_DECIMAL = re.compile(r"decimal\((\d{1,2}), ?(\d{1,2})\)", re.ASCII)


def is_column_name(name: str) -> bool:
    """True if a column can have this name. Columns whose names begin with ``pk_`` are for index keys."""
    return _NAME.fullmatch(name) is not None


def parse_decimal(kind: str) -> tuple[int, int] | None:
    """Parse the precision and the scale of the type ``decimal(precision, scale)``; None for any other type."""
    match = _DECIMAL.fullmatch(kind)
    precision, scale = (0, 0) if match is None else (int(match[1]), int(match[2]))
    return (precision, scale) if 1 <= precision <= 38 and scale <= precision else None
