"""Build the Lambda assets: this project's code, its configuration and its dependencies, without Docker."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from aws_cdk import AssetHashType
from aws_cdk import aws_lambda as lambda_

from .console import collect_files
from .function import Kind

RUNTIME = "3.13"
# The packages of every function.
_SLIM = "requirements.txt"
# The lists of packages: of the functions on the hot path, with pyarrow for Parquet, and with the parsers of other
# programs' protocols for the doors.
REQUIREMENTS = {"slim": _SLIM, "archive": "requirements-archive.txt", "doors": "requirements-doors.txt"}
# pip's names for Lambda's architectures.
MACHINES = {"arm64": "aarch64", "x86_64": "x86_64"}
# Files that functions do not need. Without them pyarrow fits into Lambda's 250 MB, and the package of the construct
# into the 100 MB of the Python Package Index. pyarrow needs Flight and S3 only if a program imports them; the archive's
# functions read and write bytes. The linker loads a library by its name with one version number, so the library's files
# with other names are not needed. CPython uses the C extension of zstandard, not cffi.
_CLUTTER = (
    *("__pycache__", "tests", "include", "bin"),
    *("libarrow_flight*", "libarrow_python_flight*", "_flight.*.so", "libarrow_s3*", "_s3fs.*.so"),
    *("libarrow_python*.so", "libarrow_python*.so.*.*.*", "_cffi.*.so"),
)
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
        self._architecture = architecture
        # The emulator runs functions with the interpreter that runs the emulator, on this machine.
        self._local = stage == "local"
        self._made: dict[Kind, lambda_.Code] = {}

    def make_code(self, kind: Kind) -> lambda_.Code:
        """Return the asset of a bundle. Functions that use the same bundle share it."""
        if kind not in self._made:
            if kind == "slim" and self.interpreter is None:
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
            folder = self._root / ".build" / f"console-{_hash_contents(content)}"
            if not folder.exists():
                with _build_folder(folder) as partial:
                    shutil.copytree(built, partial, dirs_exist_ok=True)
                    _make_readable(partial)
        return folder

    def make_pip_command(self, lock: Path, target: Path) -> list[str]:
        """Make the pip command that fetches all packages of a lock file, with its versions and hashes."""
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install"]
        command += ["--quiet", "--quiet", "--no-compile"]
        platform = [] if self._local else self._target
        locked = ["--require-hashes", "--no-deps", "-r", str(lock)]
        return [*command, *platform, "--target", str(target), *locked]

    @property
    def _target(self) -> list[str]:
        """pip's options for the platform of the functions, whatever machine runs the synth."""
        machine = MACHINES[self._architecture]
        return [
            *("--platform", f"manylinux2014_{machine}", "--platform", f"manylinux_2_28_{machine}"),
            *("--implementation", "cp", "--python-version", RUNTIME, "--only-binary=:all:"),
        ]

    @property
    def _bytecode(self) -> bytes:
        """A mark in the asset's hash: assets with and without bytecode are different assets."""
        return b"compiled" if self.interpreter is not None else b"sources alone"

    @property
    def _lambdas(self) -> Path:
        return self._root / "lambdas"

    def build_asset(self, requirements: str) -> Path:
        """Return the folder of an asset. Build the folder unless one with the same content exists."""
        packages, sources = self._install_packages(requirements), self._read_sources()
        config = [self._config.read_bytes()] if self._config is not None else []
        content = [packages.name.encode(), *config, self._bytecode, b"readable"]
        content += sources
        folder = self._root / ".build" / f"asset-{_hash_contents(content)}"
        if not folder.exists():
            with _build_folder(folder) as partial:
                # The files are linked, not copied: the packages are large, and nothing writes to them.
                for part in (packages, self._compile_sources(sources)):
                    shutil.copytree(part, partial, symlinks=True, copy_function=os.link, dirs_exist_ok=True)
                if self._config is not None:
                    shutil.copy(self._config, partial / "tidetable.toml")
                _make_readable(partial)
        return folder

    def _read_sources(self) -> list[bytes]:
        """Read the name and content of each file of the project's code."""
        paths = sorted(path for path in self._lambdas.rglob("*") if path.suffix in {".py", ".toml", ".txt"})
        return [str(path.relative_to(self._lambdas)).encode() + path.read_bytes() for path in paths]

    def _compile_sources(self, sources: list[bytes]) -> Path:
        """Return the folder of the project's code with its bytecode; build it if it is missing.

        All assets share this folder, because the compilation takes longer than everything else of a build.
        """
        version = str(sys.version_info[:2]) if self._local else RUNTIME
        folder = self._root / ".build" / f"code-{_hash_contents([version.encode(), self._bytecode, *sources])}"
        if not folder.exists():
            with _build_folder(folder) as partial:
                shutil.copytree(self._lambdas, partial, dirs_exist_ok=True, ignore=_IGNORED)
                self._compile_folder(partial, partial)
                _make_readable(partial)
        return folder

    def link_asset(self, folder: Path) -> Path:
        """Make the ZIP file of an asset for the emulator. It holds only the path of the asset's folder.

        ``local/bundles.py`` links functions to that folder. A ZIP file of a whole asset has up to 72 MB. The emulator
        would write it to the disk for each process that it starts, some hundred times per run of the tests, and the CDK
        would compress it for each configuration.
        """
        file = folder.with_name(f"{folder.name}.link.zip")
        with _build_folder(file) as partial:
            partial.rmdir()
            with zipfile.ZipFile(partial, "w") as packed:
                packed.writestr(FOLDER_ENTRY, str(folder.resolve()))
        return file

    def _install_packages(self, requirements: str) -> Path:
        pins = [(self._lambdas / name_lock_file(requirements)).read_bytes()]
        machine = f"{sys.platform}-{sys.version_info[:2]}" if self._local else f"{self._architecture}-{RUNTIME}"
        content = [requirements.encode(), machine.encode(), self._bytecode, *map(str.encode, _CLUTTER), *pins]
        folder = self._root / ".build" / f"packages-{_hash_contents(content)}"
        if not folder.exists():
            with _build_folder(folder) as partial:
                shared, more = self._split_list(requirements)
                self._fetch_packages(more, partial)
                if shared:
                    shutil.copytree(
                        self._install_packages(shared),
                        partial,
                        symlinks=True,
                        copy_function=os.link,
                        dirs_exist_ok=True,
                    )
        return folder

    def _split_list(self, requirements: str) -> tuple[str, str]:
        """Split a list of packages: the list that it extends, or "", and the text of its lock file without that list.

        To fetch and compile the packages of all functions once for each list took most of the time of a first deployment.
        """
        whole = (self._lambdas / name_lock_file(requirements)).read_text()
        if requirements == _SLIM:
            return "", whole
        packages, slim = _read_lock(whole), _read_lock((self._lambdas / name_lock_file(_SLIM)).read_text())
        if not slim <= packages:
            return "", whole
        return _SLIM, "".join(sorted(packages - slim))

    def _fetch_packages(self, lock: str, target: Path) -> None:
        """Fetch and compile the packages of the text of a lock file, without the files that functions do not need."""
        if not lock:
            return
        with TemporaryDirectory() as name:
            file = Path(name) / "requirements.lock"
            file.write_text(lock)
            subprocess.run(self.make_pip_command(file, target), check=True)  # noqa: S603 - our own command
        for pattern in _CLUTTER:
            for path in list(target.rglob(pattern)):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        self._compile_folder(target, target)

    def _compile_folder(self, path: Path, folder: Path) -> None:
        """Compile in place, to bytecode that Python uses without a check of the source's time.

        Functions cannot write files. A source that is newer than its bytecode, as in an unpacked archive, would be
        compiled at every cold start. The file names in the bytecode are relative to the asset's folder, so the same
        sources make the same bytecode on every machine.
        """
        interpreter = self.interpreter
        if interpreter is None or not path.exists():
            return
        command = [interpreter, "-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash"]
        command += ["-s", str(folder), str(path)]
        # Some packages have modules for other versions of Python: they do not compile, but nothing imports them.
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL)  # noqa: S603 - our own command

    @cached_property
    def interpreter(self) -> str | None:
        """Find a Python of the functions' version; None if this machine does not have it.

        Bytecode fits only one version.
        """
        if self._local:
            return sys.executable
        if sys.version_info[:2] == tuple(map(int, RUNTIME.split("."))):
            return sys.executable
        command = shutil.which(f"python{RUNTIME}")
        # A version manager may provide the command although this version is not installed: the command then fails.
        works = command and subprocess.run([command, "-c", ""], check=False, capture_output=True).returncode == 0  # noqa: S603
        return command if works else None


def name_lock_file(requirements: str) -> str:
    """Name the lock file of a requirements file, such as ``requirements.lock``: it has versions and hashes of all
    packages.
    """
    return requirements.removesuffix(".txt") + ".lock"


def _read_lock(text: str) -> set[str]:
    """Read the entries of a lock file: a package with its version, and its hashes in the lines below."""
    return set(re.findall(r"^[^#\s].*\n(?:[ \t]+.*\n)*", f"{text}\n", re.MULTILINE))


def _make_readable(folder: Path) -> None:
    folder.chmod(_FOLDER_MODE)
    for path in folder.rglob("*"):
        if not path.is_symlink():
            path.chmod(_FOLDER_MODE if path.is_dir() else _FILE_MODE)


@contextmanager
def _build_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder to build in. It gets its final name when it is complete. If two builds run at once, one is kept."""
    folder.parent.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix=f"{folder.name}.", dir=folder.parent) as name:
        partial = Path(name) / "built"
        partial.mkdir()
        yield partial
        try:
            partial.rename(folder)
        except OSError:
            if not folder.exists():
                raise


def _hash_contents(contents: list[bytes]) -> str:
    total = sha256()
    for content in contents:
        total.update(sha256(content).digest())
    return total.hexdigest()
