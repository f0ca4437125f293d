"""Format and parse the names of stages, streams and tables strictly: a table with another name is not ours."""

from __future__ import annotations

import re

from tidetable.errors import InvalidName
from tidetable.periods import Period, parse_label

# "tidetable-" + 16 + "-archive-" + 12 digits of account + "-" + the longest Region stays within S3's 63 characters.
STAGE = re.compile(r"[a-z][a-z0-9-]{0,14}[a-z0-9]|[a-z]", re.ASCII)
# No dot: the dot separates the parts of a table's name.
STREAM = re.compile(r"[a-z][a-z0-9_-]{0,62}", re.ASCII)


def name_service(stage: str, handler: str) -> str:
    """Make the service name of a function's logs, traces and metrics."""
    return f"tidetable-{stage}-{handler}"


def name_rollups_table(stage: str) -> str:
    """Name the table of the rollups' state, which has no dot, so that it never looks like a period table."""
    return f"tidetable-{stage}-rollups"


def make_table_prefix(stage: str) -> str:
    """Make the prefix of every period table of a stage; its dot separates ``prod`` from ``prod-eu``."""
    return f"tidetable-{stage}."


def name_table(stage: str, stream: str, period: Period) -> str:
    """Make the period table's name: ``tidetable-<stage>.<stream>.<label>``, at most 111 of DynamoDB's 255 characters."""
    return f"{make_table_prefix(stage)}{stream}.{period.label}"


def name_lake_database(stage: str) -> str:
    """Name the Glue database of a stage's archive; Athena's names have no hyphens."""
    return f"tidetable_{stage.replace('-', '_')}"


def name_lake_table(stream: str) -> str:
    """Make the name of the Glue table of a stream's archive; Athena's names have no hyphens."""
    return stream.replace("-", "_")


def parse_table_name(stage: str, name: str) -> tuple[str, Period]:
    """Parse the stream and period of a table's name; InvalidName if ``name_table`` would not make exactly this name."""
    prefix = make_table_prefix(stage)
    parts = name.removeprefix(prefix).split(".")
    if not name.startswith(prefix) or len(parts) != 2 or not STREAM.fullmatch(parts[0]):
        raise InvalidName(f"{name!r} is not a period table of stage {stage}")
    return parts[0], parse_label(parts[1])
