"""The configuration: ``tidetable.toml`` parsed into frozen, typed, validated structures."""

from tidetable.config.capacity import Autoscaling, Capacity, LadderStep, Range, TableClass, Units
from tidetable.config.load import load, parse
from tidetable.config.model import Config, Stream
from tidetable.config.stage import LifecyclePolicy
from tidetable.config.stream import ArchivePolicy, FeedPolicy, Keeping, RollupPolicy

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
    "LadderStep",
    "Stream",
    "TableClass",
    "Units",
    "load",
    "parse",
]
