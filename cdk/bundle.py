"""Builds the functions' code for the wheel: ZIP files with every file once, and a manifest of them.

python -m cdk.bundle                  # arm64 and x86_64
python -m cdk.bundle local            # this machine's Python alone, for emulators
"""

from __future__ import annotations

import json
import shutil
import sys
import zipfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from cdk.packages import MACHINES, REQUIREMENTS, RUNTIME
from infra.assets import Assets
from infra.bundles import CONSOLE, EPOCH, MANIFEST
from tidetable.version import VERSION

ROOT = Path(__file__).parents[1]
BUNDLES = ROOT / ".build" / "bundles"
# The Python Package Index takes files of up to 100 MB without a request. The rest is for what the wheel has besides bundles: the
# constructs and the core.
PACKAGE_BYTES, REST_BYTES = 100 * 1024**2, 2 * 1024**2


def build_bundles(folder: Path, platforms: Sequence[str]) -> None:
    """Fill the folder, which is made anew; ``platforms`` are ``arm64``, ``x86_64`` and ``local``."""
    shutil.rmtree(folder, ignore_errors=True)
    bundles, packages = {}, {}
    for platform in platforms:
        assets = _open_assets(platform)
        for name, requirements in REQUIREMENTS.items():
            built = assets.build_asset(requirements)
            bundles[f"{platform}/{name}"] = built
            packages[name] = list_packages(built)
    zips = pack_files(bundles, folder)
    write_zip(read_files(_open_assets(platforms[0]).build_console()), folder / CONSOLE)
    digests = {file.name: sha256(file.read_bytes()).hexdigest() for file in sorted(folder.glob("*.zip"))}
    manifest = {
        "version": VERSION,
        "platforms": list(platforms),
        "packages": packages,
        "bundles": zips,
        "digests": digests,
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")


def pack_files(bundles: Mapping[str, Path], folder: Path) -> dict[str, list[str]]:
    """Write every file of the bundles once: a ZIP file for the files that the same bundles have.

    Return the names of the ZIP files of each bundle.
    """
    owners: dict[tuple[str, str], list[str]] = {}
    sources: dict[tuple[str, str], Path] = {}
    for bundle, built in bundles.items():
        for name, path in read_files(built).items():
            file = name, sha256(path.read_bytes()).hexdigest()
            owners.setdefault(file, []).append(bundle)
            sources[file] = path
    groups: dict[tuple[str, ...], dict[str, Path]] = {}
    for file, having in owners.items():
        groups.setdefault(tuple(having), {})[file[0]] = sources[file]
    zips: dict[str, list[str]] = {bundle: [] for bundle in bundles}
    for number, (owning, files) in enumerate(sorted(groups.items()), 1):
        write_zip(files, folder / f"files-{number}.zip")
        for bundle in owning:
            zips[bundle].append(f"files-{number}.zip")
    return zips


def _open_assets(platform: str) -> Assets:
    if platform == "local":
        return Assets(ROOT, None, "local")
    assets = Assets(ROOT, None, "", platform)
    if assets.packages.interpreter is None:
        sys.stderr.write(
            f"{platform}: there is no python{RUNTIME} on this machine, so the functions go without bytecode\n"
        )
    return assets


def read_files(folder: Path) -> dict[str, Path]:
    """The files in a folder by their names in it."""
    return {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}


def write_zip(files: Mapping[str, Path], target: Path) -> None:
    """Write a ZIP file, in order of the files' names, readable by every user."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, path in sorted(files.items()):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(entry, path.read_bytes())


def refuse_large(folder: Path, platforms: Sequence[str]) -> None:
    """Exit if the wheel of both of Lambda's platforms would be too large for the Python Package Index."""
    size = sum(file.stat().st_size for file in folder.glob("*.zip"))
    if set(platforms) == set(MACHINES) and size > PACKAGE_BYTES - REST_BYTES:
        sys.exit(
            f"the bundles have {size / 1024**2:.1f} MB, and a wheel of at most {PACKAGE_BYTES // 1024**2} MB has room for"
            f" {(PACKAGE_BYTES - REST_BYTES) // 1024**2}: look for files that no function needs (cdk/packages.py leaves"
            " some out), or ask the Python Package Index for more"
        )


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
    build_bundles(BUNDLES, arguments or list(MACHINES))
    for file in sorted(BUNDLES.glob("*.zip")):
        sys.stdout.write(f"{file.stat().st_size / 1e6:7.1f} MB  {file.name}\n")
    refuse_large(BUNDLES, arguments or list(MACHINES))


if __name__ == "__main__":
    main(sys.argv[1:])
