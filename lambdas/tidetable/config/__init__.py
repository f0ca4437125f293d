"""The configuration: ``tidetable.toml`` parsed into frozen, typed, validated structures."""

from tidetable.config.load import load, parse
from tidetable.config.model import (
    RESERVED_COLUMNS,
    ApiPolicy,
    ArchivePolicy,
    Auth,
    Autoscaling,
    Capacity,
    Config,
    Keeping,
    LifecyclePolicy,
    Observability,
    OnExpiry,
    Range,
    Removal,
    Step,
    Stream,
    TableClass,
    Units,
)

__all__ = [
    "RESERVED_COLUMNS",
    "ApiPolicy",
    "ArchivePolicy",
    "Auth",
    "Autoscaling",
    "Capacity",
    "Config",
    "Keeping",
    "LifecyclePolicy",
    "Observability",
    "OnExpiry",
    "Range",
    "Removal",
    "Step",
    "Stream",
    "TableClass",
    "Units",
    "load",
    "parse",
]
