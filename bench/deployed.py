"""A process as the functions have it."""

from __future__ import annotations

import os
import sys

from infra.allocator import ENVIRONMENT


def as_deployed(module: str) -> None:
    """Begin the program anew with the environment that the stack gives its functions, unless it has it.

    Both sides share it.
    """
    if any(os.environ.get(name) != value for name, value in ENVIRONMENT.items()):
        os.execve(sys.executable, [sys.executable, "-m", module, *sys.argv[1:]], {**os.environ, **ENVIRONMENT})  # noqa: S606
