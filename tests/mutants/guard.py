"""Refuses changes of files outside of temporary folders: a mutation may turn a harmless path into any other one."""

import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# The places in the arguments of each event that are paths which the call changes.
_CHANGES = {
    "os.chmod": (0,),
    "os.chown": (0,),
    "os.link": (1,),
    "os.mkdir": (0,),
    "os.remove": (0,),
    "os.rename": (0, 1),
    "os.rmdir": (0,),
    "os.symlink": (1,),
    "os.truncate": (0,),
    "shutil.rmtree": (0,),
}


def guard_files(folder: str) -> None:
    """From now on, this process changes files only in ``folder``. Any other change raises ``PermissionError``."""
    allowed = (os.path.realpath(folder) + os.sep, str(ROOT / ".hypothesis"))

    def refuse(event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            if args[2] & _WRITES:
                check(args[0])
        elif event in _CHANGES:
            for place in _CHANGES[event]:
                check(args[place])

    def check(path: Any) -> None:
        if isinstance(path, int) or os.fspath(path) in (os.devnull, os.fsencode(os.devnull)):
            return
        # A relative path in an open folder (`dir_fd`) is below a path that was checked before.
        real = os.path.realpath(os.fsdecode(path))
        if not (real + os.sep).startswith(allowed) and not _is_bytecode(real):
            raise PermissionError(f"a test changes {real}, which is outside of {folder}")

    sys.addaudithook(refuse)


def _is_bytecode(path: str) -> bool:
    return path.startswith(str(ROOT)) and "__pycache__" in path
