"""The kinds of work in the background. Whoever shows work, or sends its dead letters again, follows this table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class WorkKind(NamedTuple):
    """A kind of work: the queue whose workers do it, and the command that shows more of it and, with
    ``--pause``, lets it rest; ``{}`` is the stream.

    ``rests_with`` is the kind that a pause names to let it rest. Items of an ``added`` kind have a record before they are
    due, and are due until they are done or removed. ``of_stage`` is work of no stream. ``alarm`` rings when such work fails, and
    ``waits_alarm`` when an item has waited for a worker for an hour.
    """

    queue: str
    shown_by: str
    rests_with: str
    alarm: str
    added: bool = False
    of_stage: bool = False
    waits_alarm: str = "WorkWaiting"


_ROLLUPS = "bin/tidetable rollup {}"
KINDS: Mapping[str, WorkKind] = {
    "seal": WorkKind("Light", _ROLLUPS, "seal", "RollupsFailing"),
    "part": WorkKind("Light", _ROLLUPS, "seal", "RollupsFailing", added=True),
    "rebuild": WorkKind("Light", _ROLLUPS, "seal", "RollupsFailing", added=True),
    "archive": WorkKind(
        "Archives", "bin/tidetable archive {}", "archive", "ArchiveFailing", added=True, waits_alarm="ArchiveOverdue"
    ),
    "restore": WorkKind(
        "Restores", "bin/tidetable restore {}", "restore", "RestoresFailing", added=True, waits_alarm="RestoresWaiting"
    ),
    "table": WorkKind("Lake", "bin/tidetable archive {}", "archive", "LakeBehind", waits_alarm="LakeWaiting"),
    "sweep": WorkKind(
        "Files", "bin/tidetable sweep --dry-run", "sweep", "SweepFailing", of_stage=True, waits_alarm="SweepWaiting"
    ),
}
