"""Work side by side. Who builds a use case hands in its pools, like its clock: so a simulation repeats itself exactly."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor

# Makes a pool that does up to so many pieces of work at once. The caller closes the pool.
Pools = Callable[[int], Executor]
