"""The configuration: ``tidetable.toml`` parsed into frozen, typed, validated structures."""

from tidetable.config.load import load, parse
from tidetable.config.model import (
    ArchivePolicy,
    Autoscaling,
    Capacity,
    Config,
    FeedPolicy,
    Keeping,
    LifecyclePolicy,
    Range,
    RollupPolicy,
    Step,
    Stream,
    TableClass,
    Units,
)

__all__ = [
    "ArchivePolicy",
    "Autoscaling",
    "Capacity",
    "Config",
    "FeedPolicy",
    "Keeping",
    "LifecyclePolicy",
    "Range",
    "RollupPolicy",
    "Step",
    "Stream",
    "TableClass",
    "Units",
    "load",
    "parse",
]
