"""Take the functions' code from the installed package.

It is built already, so that a synth needs neither pip nor Docker.
"""

from __future__ import annotations

import atexit
import json
import shutil
import zipfile
from collections.abc import Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from aws_cdk import AssetHashType
from aws_cdk import aws_lambda as lambda_

from .errors import UsageError
from .function import Kind

FOLDER = Path(__file__).parent / "bundles"
MANIFEST, CONSOLE = "manifest.json", "console.zip"
# All files get this time, so that the same content makes the same ZIP file.
EPOCH = (1980, 1, 1, 0, 0, 0)


class Bundles:
    """The assets of one stage: ZIP files that are joined from files of the package, and hold the stage's configuration.

    Emulators run functions with this machine's Python. So a stage ``local`` takes the code for this Python, if the package
    has such code.
    """

    def __init__(self, config: bytes, stage: str, architecture: lambda_.Architecture, *, folder: Path = FOLDER) -> None:
        self._config = config
        self._folder = folder
        self._stage = stage
        self._architecture = architecture

    def make_code(self, kind: Kind) -> lambda_.Code:
        """Return the code of a bundle. The function that serves the console does not read a configuration."""
        if kind == "console":
            file, digest = self._folder / CONSOLE, self._manifest["digests"][CONSOLE]
        else:
            file, digest = self._add_configuration(kind)
        return lambda_.Code.from_asset(str(file), asset_hash_type=AssetHashType.CUSTOM, asset_hash=digest)

    @cached_property
    def _manifest(self) -> dict[str, Any]:
        file = self._folder / MANIFEST
        if not file.exists():
            raise UsageError(
                f"{file} is missing: this is not an installed package. Install the wheel that `make wheel` makes, or pass"
                " code=Assets(...) as app.py does"
            )
        manifest: dict[str, Any] = json.loads(file.read_text())
        return manifest

    @cached_property
    def _platform(self) -> str:
        built = self._manifest["platforms"]
        if self._stage == "local" and "local" in built:
            return "local"
        architecture = self._architecture.name
        if architecture not in built:
            raise UsageError(
                f"architecture {architecture}: this package has code for {', '.join(built)}; choose one of them"
            )
        return str(architecture)

    def _add_configuration(self, bundle: Kind) -> tuple[Path, str]:
        """Return the file of a bundle with the stage's configuration, and the digest of its content."""
        names = self._manifest["bundles"][f"{self._platform}/{bundle}"]
        content = [*(str(self._manifest["digests"][name]) for name in names), sha256(self._config).hexdigest()]
        digest = sha256("\n".join(content).encode()).hexdigest()
        file = self._work / f"{digest}.zip"
        if not file.exists():
            join_files([self._folder / name for name in names], file)
            with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive:
                entry = zipfile.ZipInfo("tidetable.toml", EPOCH)
                # Functions do not run as the user who owns the files, so everybody may read this file.
                entry.external_attr = 0o100644 << 16
                archive.writestr(entry, self._config)
        return file, digest

    @cached_property
    def _work(self) -> Path:
        """A folder that exists until the synth ends: the CDK copies assets into its own output."""
        folder = mkdtemp(prefix="tidetable-bundles-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return Path(folder)


def join_files(sources: Sequence[Path], target: Path) -> None:
    """Write a ZIP file with the files of all ``sources``, which are ZIP files with different files.

    Compressed bytes are copied as they are: a bundle has 70 MB, and shares many files with other bundles.
    """
    with target.open("w+b") as content, zipfile.ZipFile(content, "w") as joined:
        for path in sources:
            base = content.tell()
            try:
                with zipfile.ZipFile(path) as source:
                    entries, begins = source.infolist(), source.start_dir
            except zipfile.BadZipFile as error:
                raise UsageError(f"{path} is not a whole ZIP file: install the package again") from error
            content.write(path.read_bytes()[:begins])
            for entry in entries:
                entry.header_offset += base
                joined.filelist.append(entry)
        # The directory follows the files. Python's documentation does not name ``filelist`` and ``start_dir``: tests open
        # joined files.
        joined.start_dir = content.tell()
