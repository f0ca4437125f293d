"""Send or report the remaining events when a process ends without closing its client."""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections.abc import Sequence
from typing import Protocol

from tidetable_client.errors import Failure, describe_failures

logger = logging.getLogger("tidetable_client")


class Leaver(Protocol):
    """A writer that may still hold unsent events when the process ends."""

    def leave(self) -> Sequence[Failure]:
        """Send the remaining events within ``exit_timeout``; return the events that are not acknowledged."""


# Each writer with the process that took its events: a child process has its parent's writers, but must not send their
# events.
_writers: dict[Leaver, int] = {}


def remember(writer: Leaver) -> None:
    """Remember to flush a writer when the process ends. The writer stays in memory until then, or until ``forget``."""
    _writers[writer] = os.getpid()


def forget(writer: Leaver) -> None:
    """Forget a writer, because it is closed."""
    _writers.pop(writer, None)


def report_loss(failures: Sequence[Failure]) -> None:
    """Write to the log and to stderr how many events are lost: later, nobody can know it."""
    if not failures:
        return
    text = f"tidetable_client: the process ends, and {describe_failures(failures)}"
    if logger.hasHandlers():
        logger.error(text)
    if sys.stderr is not None:
        sys.stderr.write(f"{text}\n")


@atexit.register
def _leave_all() -> None:
    for writer, process in list(_writers.items()):
        if process != os.getpid():
            continue
        try:
            failures = writer.leave()
        except Exception as error:
            sys.stderr.write(f"tidetable_client: events may be lost at the end of the process: {error!r}\n")
            continue
        report_loss(failures)
    _writers.clear()
