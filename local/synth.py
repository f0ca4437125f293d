"""The CDK app of a deployment that runs beside the bootstrap: it ends when the bootstrap has ended.

python -P local/synth.py FILE

At the end of the bootstrap, its outcome is written to the file: "complete" or "failed". With -P Python does not look for
modules in this folder, and the package itself is not imported, because that is slow.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

_SECONDS = 120


def wait_for_bootstrap(file: Path) -> None:
    """Wait for the file; exit with status 1 if the bootstrap failed or takes too long."""
    deadline = time.monotonic() + _SECONDS
    while not (outcome := file.read_text() if file.exists() else "") and time.monotonic() < deadline:
        time.sleep(0.05)
    if outcome != "complete":
        sys.exit("the bootstrap failed")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from app import main

    main()
    wait_for_bootstrap(Path(sys.argv[1]))
