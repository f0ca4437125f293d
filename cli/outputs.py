"""Write a file whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
