"""Find packages in the code of the deployed functions, for programs whose own environment does not have them."""

from __future__ import annotations

import zipfile
from pathlib import Path


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
