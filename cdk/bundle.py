"""Builds the functions' code for the wheel: a ZIP file per kind of function and architecture, and a manifest of them.

python -m cdk.bundle                  # arm64 and x86_64
python -m cdk.bundle local            # this machine's Python alone, for emulators
"""

from __future__ import annotations

import json
import shutil
import sys
import tomllib
import zipfile
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from infra.assets import MACHINES, RUNTIME, Assets
from infra.bundles import MANIFEST

ROOT = Path(__file__).parents[1]
BUNDLES = ROOT / ".build" / "bundles"
REQUIREMENTS = {
    "slim": "requirements.txt",
    "archive": "requirements-archive.txt",
    "doors": "requirements-doors.txt",
}
# ZIP files have no time zone and begin in 1980: a fixed time makes the same files of the same content.
_EPOCH = (1980, 1, 1, 0, 0, 0)


def build(folder: Path, platforms: Sequence[str]) -> None:
    """Fill the folder, which is made anew; ``platforms`` are ``arm64``, ``x86_64`` and ``local``."""
    shutil.rmtree(folder, ignore_errors=True)
    packages: dict[str, dict[str, str]] = {}
    for platform in platforms:
        assets = _open_assets(platform)
        for name, requirements in REQUIREMENTS.items():
            built = assets.build(requirements)
            pack(built, folder / platform / f"{name}.zip")
            packages[name] = list_packages(built)
    console = _open_assets("arm64").build_console()
    pack(console, folder / "console.zip")
    files = sorted(file for file in folder.rglob("*.zip"))
    manifest = {
        "version": tomllib.loads((ROOT / "cdk" / "pyproject.toml").read_text())["project"]["version"],
        "platforms": list(platforms),
        "digests": {str(file.relative_to(folder)): sha256(file.read_bytes()).hexdigest() for file in files},
        "packages": packages,
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")


def _open_assets(platform: str) -> Assets:
    if platform == "local":
        return Assets(ROOT, None, "local")
    assets = Assets(ROOT, None, "", platform)
    if assets.interpreter is None:
        sys.stderr.write(
            f"{platform}: there is no python{RUNTIME} on this machine, so the functions go without bytecode\n"
        )
    return assets


def pack(folder: Path, file: Path) -> None:
    """Write the files of a folder to a ZIP file, in order of their names, readable by every user."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(path.relative_to(folder).as_posix(), _EPOCH)
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(entry, path.read_bytes())


def list_packages(folder: Path) -> dict[str, str]:
    """The versions of the packages in a folder, by their names."""
    found = (path.name.removesuffix(".dist-info").partition("-") for path in sorted(folder.glob("*.dist-info")))
    return {name: version for name, _, version in found}


def main(arguments: Sequence[str]) -> None:
    """Build the bundles of the platforms that are the arguments; both of Lambda's without arguments."""
    known = [*MACHINES, "local"]
    for platform in arguments:
        if platform not in known:
            sys.exit(f"platform {platform!r}: use {', '.join(known)}")
    build(BUNDLES, arguments or list(MACHINES))
    for file in sorted(BUNDLES.rglob("*.zip")):
        sys.stdout.write(f"{file.stat().st_size / 1e6:7.1f} MB  {file.relative_to(BUNDLES)}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
