"""Start the emulator, or the program in the argument, so that functions share one copy of each bundle's files, reads
take the units that they take on AWS (units.py), and a stack is described when it is complete (stacks.py).

Without this, the emulator unpacks the bundle for each process of a function: some 4,000 files, in 1.2 s of CPU time.
During this time it does not answer requests. A stage has a dozen functions with several processes each, but only two
bundles. Functions do not write to their code.

The emulator also imports botocore in each process of a function, to count calls of a function by itself. The functions
that answer requests do not use botocore, so this import was two fifths of their start's CPU time.
"""

import runpy
import shutil
import sys
import tempfile
import zipfile
from hashlib import sha256
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ministack.app import main
from ministack.core import lambda_runtime

_EMPTY = ("", ".")
# A bundle for this machine holds one file of this name, in which infra/assets.py writes the path of the bundle's
# folder.
FOLDER_ENTRY = "tidetable-asset-folder"
# The line with which a function's process imports botocore.
_COUNTS_CALLS = "\n    _ms_install_invoke_depth()\n"


class SharedZip(zipfile.ZipFile):
    """A ZIP file that is unpacked once per content, or never if it names a folder. The target becomes a link."""

    def extractall(self, path: Any = None, members: Any = None, pwd: Any = None) -> None:
        target = Path(path or "")
        if members is not None or pwd is not None or str(path or "") in _EMPTY:
            super().extractall(path, members, pwd)
            return
        shared = self._make_named_folder() if self.namelist() == [FOLDER_ENTRY] else self._unpack_once()
        target.rmdir()
        target.symlink_to(shared, target_is_directory=True)

    def _make_named_folder(self) -> Path:
        folder = Path(self.read(FOLDER_ENTRY).decode())
        if not folder.is_dir():
            raise RuntimeError(f"{folder}, the code of a function, was removed: deploy the stage again")
        return folder

    def _unpack_once(self) -> Path:
        # The names, sizes and checksums of all files identify the content. A hash of all 70 MB would take longer.
        entries = [f"{entry.filename} {entry.file_size} {entry.CRC}" for entry in self.infolist()]
        shared = Path(tempfile.gettempdir()) / f"bundle-{sha256(chr(10).join(entries).encode()).hexdigest()}"
        if not shared.exists():
            partial = tempfile.mkdtemp(prefix="bundle-")
            super().extractall(partial)
            try:
                Path(partial).rename(shared)
            except OSError:
                # Another thread has unpacked the same content first.
                shutil.rmtree(partial)
        return shared


def share_bundles() -> None:
    """Let the emulator unpack bundles with SharedZip."""
    lambda_runtime.zipfile = SimpleNamespace(**{**vars(zipfile), "ZipFile": SharedZip})


def start_without_botocore() -> None:
    """Leave the import of botocore out of the program that each process of a function runs."""
    script = lambda_runtime._PYTHON_WORKER_SCRIPT  # noqa: SLF001 - the emulator has no other way
    if script.count(_COUNTS_CALLS) != 1:
        raise RuntimeError("this ministack starts functions in another way: adapt local/bundles.py")
    lambda_runtime._PYTHON_WORKER_SCRIPT = script.replace(_COUNTS_CALLS, "\n")  # noqa: SLF001 - as above


def load_neighbour(name: str) -> Any:
    """Load a module of this folder by its file: with ``-P`` Python does not find the package, whose import is slow."""
    spec = spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    if spec is None or spec.loader is None:
        raise ImportError(name)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    # The environment says for the functions that they must not write bytecode. The emulator's modules are compiled once.
    sys.dont_write_bytecode = False
    share_bundles()
    start_without_botocore()
    load_neighbour("units").count_read_units()
    load_neighbour("stacks").answer_when_complete()
    program, sys.argv = sys.argv[1:], sys.argv[:1]
    if program:
        runpy.run_path(program[0], run_name="__main__")
    else:
        main()
