"""Remembers an emulator that was left up, so that `make stop` finds it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from local.emulator import ROOT, Emulator, end_group

_FILE = ROOT / ".demo" / "emulator.json"


def remember(emulator: Emulator) -> None:
    """Write down which process group and folder to remove."""
    _FILE.parent.mkdir(exist_ok=True)
    _FILE.write_text(json.dumps({"pid": emulator.pid, "folder": str(emulator.folder)}))


def stop() -> bool:
    """End the emulator that was remembered; False if there is none."""
    if not _FILE.exists():
        return False
    kept = json.loads(_FILE.read_text())
    end_group(kept["pid"])
    shutil.rmtree(Path(kept["folder"]), ignore_errors=True)
    _FILE.unlink()
    return True
