"""Remember a running stage, so that `make stop` ends it, and `make local` deploys a change over it."""

from __future__ import annotations

import json
import shutil
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from local.emulator import Emulator, Engine, make_time_environment
from local.processes import ROOT, end_group

_FILE = ROOT / ".demo" / "emulator.json"


@dataclass(frozen=True)
class RunningStage:
    """An emulator that another process started: what a deployment needs of it. ``clock`` is the file of a moved clock."""

    folder: Path
    endpoint: str
    dynamodb: str
    engine: Engine
    clock: Path | None = None

    @property
    def log(self) -> Path:
        """The emulator's log."""
        return self.folder / "emulator.log"

    @property
    def time_environment(self) -> dict[str, str]:
        """The environment variables with which another program has the emulator's time."""
        return {} if self.clock is None else make_time_environment(self.clock)


def remember_stage(emulator: Emulator) -> None:
    """Record the emulator's process groups, its folder, which ``end_remembered_stage`` removes, and its addresses."""
    _FILE.parent.mkdir(exist_ok=True)
    record = {
        "pids": emulator.pids,
        "folder": str(emulator.folder),
        "endpoint": emulator.endpoint,
        "dynamodb": emulator.dynamodb,
        "engine": emulator.engine,
        "clock": None if emulator.clock is None else str(emulator.clock),
    }
    _FILE.write_text(json.dumps(record))


def find_running_stage() -> RunningStage | None:
    """Find the remembered stage; None if no stage is remembered, or if it does not answer any more."""
    if not _FILE.exists():
        return None
    stage = json.loads(_FILE.read_text())
    if not Path(stage["folder"]).is_dir() or "endpoint" not in stage:
        return None
    try:
        with urllib.request.urlopen(f"{stage['endpoint']}/_ministack/health", timeout=5):  # noqa: S310 - our own address
            pass
    except OSError:
        return None
    clock = None if stage["clock"] is None else Path(stage["clock"])
    return RunningStage(Path(stage["folder"]), stage["endpoint"], stage["dynamodb"], stage["engine"], clock)


def end_remembered_stage() -> bool:
    """End the remembered stage; False if no stage is remembered."""
    if not _FILE.exists():
        return False
    stage = json.loads(_FILE.read_text())
    folder = Path(stage["folder"])
    # After a restart of the machine, the temporary folder does not exist any more, and other processes may have the
    # recorded process ids.
    if folder.is_dir():
        for pid in stage["pids"]:
            end_group(pid)
        shutil.rmtree(folder, ignore_errors=True)
    _FILE.unlink()
    return True
