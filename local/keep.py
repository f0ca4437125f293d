"""Remembers a stage that was left up, so that `make stop` finds it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from local.emulator import Emulator
from local.processes import ROOT, end_group

_FILE = ROOT / ".demo" / "emulator.json"


def remember(emulator: Emulator) -> None:
    """Write down which process groups and folder to remove."""
    _FILE.parent.mkdir(exist_ok=True)
    _FILE.write_text(json.dumps({"pids": emulator.pids, "folder": str(emulator.folder)}))


def stop() -> bool:
    """End the stage that was remembered; False if there is none."""
    if not _FILE.exists():
        return False
    kept = json.loads(_FILE.read_text())
    folder = Path(kept["folder"])
    # A machine that was started anew has emptied its temporary folders, and given the process ids to others.
    if folder.is_dir():
        for pid in kept["pids"]:
            end_group(pid)
        shutil.rmtree(folder, ignore_errors=True)
    _FILE.unlink()
    return True
