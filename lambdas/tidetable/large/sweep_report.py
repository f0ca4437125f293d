"""The report of a sweep, and the positions where sweeps end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

import msgspec


class SweepPosition(msgspec.Struct, frozen=True):
    """The position of a sweep over the live periods: the stream, and the last key that was checked in it.

    ``looked`` has, by stream, the instant up to which sweeps have looked for expired archives.
    """

    stream: str = ""
    key: str = ""
    looked: Mapping[str, datetime] = {}


class DryPosition(msgspec.Struct, frozen=True):
    """The position where a dry run ended. ``counted`` says that the objects of deleted periods have been counted, so that
    the position is that of the live periods.
    """

    at: SweepPosition = SweepPosition()
    counted: bool = False


@dataclass(slots=True)
class Swept:
    """The report of a sweep: the numbers of objects that were seen and removed, and the bytes of the removed objects.

    ``unknown`` counts objects whose period is not in the catalog, ``lapsed`` archives that the bucket's rules deleted.
    ``failures`` names objects that could not be checked. ``position`` is where an unfinished dry run ended.
    """

    dry_run: bool
    seen: int = 0
    orphans: int = 0
    expired: int = 0
    bytes: int = 0
    unknown: int = 0
    lapsed: int = 0
    finished: bool = True
    keys: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    position: Any = None

    def document(self) -> dict[str, Any]:
        """Return the report as JSON, with the first 20 keys and failures."""
        report = asdict(self) | {"keys": self.keys[:20], "failures": self.failures[:20]}
        if self.position is None:
            del report["position"]
        return report
