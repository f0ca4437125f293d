"""Write the output of a command: a file whole or not at all, and stdout with an error in words."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Yield a path beside ``path`` to write to, and rename it to ``path`` at the end.

    ValueError if the file cannot be written, for example because the disk is full. Then a file that was there before is
    unchanged. A pipe or a device is written directly.
    """
    is_file = path.is_file() or not path.exists()
    target = path.with_name(f"{path.name}.new") if is_file else path
    try:
        try:
            yield target
            if is_file:
                target.replace(path)
        except BaseException:
            if is_file:
                target.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ValueError(f"{path} cannot be written: {error.strerror or error}") from error


@contextmanager
def open_stdout() -> Iterator[IO[str]]:
    """Yield stdout, and flush it at the end. ValueError if it cannot be written, for example because the disk is full.

    A pipe whose reader has ended keeps its own error: it ends the command without a message.
    """
    try:
        yield sys.stdout
        sys.stdout.flush()
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        # The interpreter flushes stdout once more when it ends, and would print a second error.
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        raise ValueError(f"the output cannot be written: {error.strerror or error}") from error
