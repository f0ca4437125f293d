"""The configuration: ``tidetable.toml`` parsed into frozen, typed, validated structures."""

from tidetable.config.load import load, parse
from tidetable.config.model import (
    RESERVED_COLUMNS,
    ApiPolicy,
    ArchivePolicy,
    Auth,
    Capacity,
    Config,
    LifecyclePolicy,
    Observability,
    OnExpiry,
    Removal,
    Step,
    Stream,
    TableClass,
)

__all__ = [
    "RESERVED_COLUMNS",
    "ApiPolicy",
    "ArchivePolicy",
    "Auth",
    "Capacity",
    "Config",
    "LifecyclePolicy",
    "Observability",
    "OnExpiry",
    "Removal",
    "Step",
    "Stream",
    "TableClass",
    "load",
    "parse",
]
