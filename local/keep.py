"""Remember a running stage, so that `make stop` finds it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from local.emulator import Emulator
from local.processes import ROOT, end_group

_FILE = ROOT / ".demo" / "emulator.json"


def remember_stage(emulator: Emulator) -> None:
    """Record the emulator's process groups and its folder, which ``end_remembered_stage`` removes."""
    _FILE.parent.mkdir(exist_ok=True)
    _FILE.write_text(json.dumps({"pids": emulator.pids, "folder": str(emulator.folder)}))


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
