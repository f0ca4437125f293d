"""Runs a bench with the environment variables of the deployed functions."""

from __future__ import annotations

import os
import sys

from infra.allocator import ENVIRONMENT


def restart_as_deployed(module: str) -> None:
    """Restart the program with the environment variables of the stack's functions, unless it has them already.

    Both sides of a bench use these variables.
    """
    if any(os.environ.get(name) != value for name, value in ENVIRONMENT.items()):
        os.execve(sys.executable, [sys.executable, "-m", module, *sys.argv[1:]], {**os.environ, **ENVIRONMENT})  # noqa: S606
