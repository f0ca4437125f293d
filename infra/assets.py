"""Build the Lambda assets: this project's code, its configuration and its dependencies, without Docker."""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

from aws_cdk import AssetHashType
from aws_cdk import aws_lambda as lambda_

from cdk.packages import REQUIREMENTS, RUNTIME, Packages, build_once, hash_contents

from .console import collect_files
from .function import Kind

# The modes of an asset's files and folders, whatever the umask of the machine. Functions do not run as the user who
# owns the files, and the CDK packs files with their modes (aws/aws-cdk#8233).
_FILE_MODE, _FOLDER_MODE = 0o644, 0o755
# The name of the only file in an asset for the emulator (local/bundles.py has the name, too). The file holds the path
# of the asset's folder.
FOLDER_ENTRY = "tidetable-asset-folder"
_NO_BYTECODE = (
    f"There is no python{RUNTIME} on this machine: functions are deployed without bytecode, which makes their cold starts slower."
    " A later deploy from a machine with this Python replaces all functions. Install it, or always deploy from such a machine."
)
_IGNORED = shutil.ignore_patterns("__pycache__", "requirements*.txt", "requirements*.lock")


class Assets:
    """Builds each asset once per content: in a folder under .build/, named by the hash of everything in the asset."""

    def __init__(self, root: Path, config: Path | None, stage: str, architecture: str = "arm64") -> None:
        """``config`` is None if the code gets its configuration later; ``architecture`` is ``arm64`` or ``x86_64``."""
        self._root = root
        self._config = config
        # The emulator runs functions with the interpreter that runs the emulator, on this machine.
        self._local = stage == "local"
        self.packages = Packages(root, architecture, local=self._local)
        self._made: dict[Kind, lambda_.Code] = {}

    def make_code(self, kind: Kind) -> lambda_.Code:
        """Return the asset of a bundle. Functions that use the same bundle share it."""
        if kind not in self._made:
            if kind == "slim" and self.packages.interpreter is None:
                sys.stderr.write(f"{_NO_BYTECODE}\n")
            folder = self.build_console() if kind == "console" else self.build_asset(REQUIREMENTS[kind])
            asset = self.link_asset(folder) if self._local and kind != "console" else folder
            self._made[kind] = lambda_.Code.from_asset(
                str(asset), asset_hash_type=AssetHashType.CUSTOM, asset_hash=folder.name
            )
        return self._made[kind]

    def build_console(self) -> Path:
        """Return the folder of the console's asset: its handler and the page's files, without dependencies.

        Build the folder unless one with the same content exists.
        """
        with TemporaryDirectory() as name:
            built = Path(name) / "built"
            collect_files(self._root, built / "site")
            (built / "handlers").mkdir()
            for file in ("__init__.py", "console.py"):
                shutil.copy(self._lambdas / "handlers" / file, built / "handlers" / file)
            paths = sorted(path for path in built.rglob("*") if path.is_file())
            content = [str(path.relative_to(built)).encode() + path.read_bytes() for path in paths]

            def fill(partial: Path) -> None:
                shutil.copytree(built, partial, dirs_exist_ok=True)
                _make_readable(partial)

            return build_once(self._root / ".build" / f"console-{hash_contents(content)}", fill)

    @property
    def _lambdas(self) -> Path:
        return self._root / "lambdas"

    def build_asset(self, requirements: str) -> Path:
        """Return the folder of an asset. Build the folder unless one with the same content exists."""
        packages, sources = self.packages.install(requirements), self._read_sources()
        config = [self._config.read_bytes()] if self._config is not None else []
        content = [packages.name.encode(), *config, self.packages.bytecode, b"readable"]
        content += sources

        def fill(partial: Path) -> None:
            # The files are linked, not copied: the packages are large, and nothing writes to them.
            for part in (packages, self._compile_sources(sources)):
                shutil.copytree(part, partial, symlinks=True, copy_function=os.link, dirs_exist_ok=True)
            if self._config is not None:
                shutil.copy(self._config, partial / "tidetable.toml")
            _make_readable(partial)

        return build_once(self._root / ".build" / f"asset-{hash_contents(content)}", fill)

    def _read_sources(self) -> list[bytes]:
        """Read the name and content of each file of the project's code."""
        paths = sorted(path for path in self._lambdas.rglob("*") if path.suffix in {".py", ".toml", ".txt", ".pem"})
        return [str(path.relative_to(self._lambdas)).encode() + path.read_bytes() for path in paths]

    def _compile_sources(self, sources: list[bytes]) -> Path:
        """Return the folder of the project's code with its bytecode; build it if it is missing.

        All assets share this folder, because the compilation takes longer than everything else of a build.
        """
        version = str(sys.version_info[:2]) if self._local else RUNTIME
        content = [version.encode(), self.packages.bytecode, *sources]

        def fill(partial: Path) -> None:
            shutil.copytree(self._lambdas, partial, dirs_exist_ok=True, ignore=_IGNORED)
            self.packages.compile_folder(partial)
            _make_readable(partial)

        return build_once(self._root / ".build" / f"code-{hash_contents(content)}", fill)

    def link_asset(self, folder: Path) -> Path:
        """Make the ZIP file of an asset for the emulator. It holds only the path of the asset's folder.

        ``local/bundles.py`` links functions to that folder. A ZIP file of a whole asset has up to 72 MB. The emulator
        would write it to the disk for each process that it starts, some hundred times per run of the tests, and the CDK
        would compress it for each configuration.
        """

        def fill(partial: Path) -> None:
            partial.rmdir()
            with zipfile.ZipFile(partial, "w") as packed:
                packed.writestr(FOLDER_ENTRY, str(folder.resolve()))

        return build_once(folder.with_name(f"{folder.name}.link.zip"), fill)


def _make_readable(folder: Path) -> None:
    folder.chmod(_FOLDER_MODE)
    for path in folder.rglob("*"):
        if not path.is_symlink():
            path.chmod(_FOLDER_MODE if path.is_dir() else _FILE_MODE)
