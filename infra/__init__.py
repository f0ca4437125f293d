"""Tidetable as a CDK construct. A checkout calls this package ``infra``, the wheel calls it ``tidetable_cdk``.

from tidetable_cdk import Config, Tidetable

Tidetable(self, "Events", stage="prod", config=Config.file("tidetable.toml"))
"""

from __future__ import annotations

from .configuration import Config
from .construct import Tidetable
from .errors import UsageError

__all__ = ["Config", "Tidetable", "UsageError"]
