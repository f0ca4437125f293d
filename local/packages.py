"""The packages of the functions: fetched before they are needed, and found by programs that do not have them."""

from __future__ import annotations

import subprocess
import zipfile
from contextlib import suppress
from pathlib import Path
from threading import Thread

from cdk.packages import Packages
from local.processes import ROOT


def begin_fetch() -> None:
    """Begin to fetch the functions' packages, unless they are there.

    The synth waits for them. It also shows a failure: it then fetches them itself.
    """

    def fetch() -> None:
        with suppress(subprocess.CalledProcessError):
            Packages(ROOT, local=True).install_all()

    Thread(target=fetch).start()


def find_bundle(output: Path, package: str) -> Path:
    """Find the folder of the functions' code that has a package; ``output`` is the folder of the synthesised stack.

    RuntimeError if no function has the package.
    """
    for file in sorted(output.glob("asset.*.zip")):
        with zipfile.ZipFile(file) as packed:
            # The asset of a local stage is one file with the path of the code's folder (infra/assets.py).
            entries = packed.namelist()
            folder = Path(packed.read(entries[0]).decode()) if len(entries) == 1 else None
        if folder is not None and (folder / package).is_dir():
            return folder
    raise RuntimeError(f"no function of {output} has the package {package}")
