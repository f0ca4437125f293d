"""The modules of the console that need no page, run by Node."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

from local.processes import ROOT, drop_clock

# What these modules use of a browser.
_BROWSER = """
globalThis.location = new URL("https://stage.example/console");
globalThis.localStorage = { getItem: () => "ZONE" };
"""


def evaluate(module: str, expression: str, zone: str = "") -> Any:
    """The value of a JavaScript expression as JSON; the names that ``module`` exports are those of ``m``.

    ``zone`` is the local zone, in which the page shows times; without it, it shows UTC.
    """
    path = (ROOT / "console" / "js" / module).as_uri()
    browser = _BROWSER.replace("ZONE", "local" if zone else "utc")
    script = f"""{browser}
        const m = await import({json.dumps(path)});
        process.stdout.write(JSON.stringify({expression}));"""
    environment = drop_clock(os.environ) | {"LC_ALL": "en_US.UTF-8", "TZ": zone or "UTC"}
    command = ["node", "--no-warnings", "--experimental-default-type=module", "--input-type=module", "--eval", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)  # noqa: S603
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
