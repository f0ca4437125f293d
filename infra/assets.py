"""The Lambda assets: this project's code, its configuration and its dependencies, bundled without Docker."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from aws_cdk import AssetHashType
from aws_cdk import aws_lambda as lambda_

RUNTIME = "3.13"
# What pip may fetch for Lambda's arm64 machines, whatever machine runs the synth.
_TARGET = [
    *("--platform", "manylinux2014_aarch64", "--platform", "manylinux_2_28_aarch64"),
    *("--implementation", "cp", "--python-version", RUNTIME, "--only-binary=:all:"),
]
# Nothing that runs; leaving them out keeps pyarrow within Lambda's 250 MB.
_CLUTTER = ("__pycache__", "tests", "include", "bin", "libarrow_flight*")
_OWN = ("handlers", "aws", "tidetable")
# What every file of an asset may be, whatever the umask of the machine: functions run as another user than the files' owner,
# and the command line packs files with their modes (aws/aws-cdk#8233).
_FILE_MODE, _FOLDER_MODE = 0o644, 0o755
_NO_BYTECODE = (
    f"There is no python{RUNTIME} on this machine: the functions go without bytecode, which makes their cold starts slower, and a"
    f" deploy from a machine that has it replaces them all. Install it, or deploy from the same kind of machine always."
)
_IGNORED = shutil.ignore_patterns("__pycache__", "requirements*.txt", "requirements*.lock")


class Assets:
    """Builds each asset once per content: a folder under .build/ named by the hash of everything that goes into it."""

    def __init__(self, root: Path, config: Path, stage: str) -> None:
        self._root = root
        self._config = config
        # The emulator runs functions with the interpreter that runs the emulator, on this machine.
        self._local = stage == "local"

    def slim(self) -> lambda_.Code:
        """For the functions on the hot path."""
        if self.interpreter is None:
            sys.stderr.write(f"{_NO_BYTECODE}\n")
        return self._code("requirements.txt")

    def archive(self) -> lambda_.Code:
        """With pyarrow, for the functions that write and read Parquet."""
        return self._code("requirements-archive.txt")

    def pip_command(self, requirements: str, target: Path) -> list[str]:
        """The pip command that fetches an asset's dependencies: every one of them, at the version and hash of the lock file."""
        command = [
            sys.executable,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "install",
            "--quiet",
            "--quiet",
            "--no-compile",
        ]
        platform = [] if self._local else _TARGET
        locked = ["--require-hashes", "--no-deps", "-r", str(self._lambdas / lock_file(requirements))]
        return [*command, *platform, "--target", str(target), *locked]

    @property
    def _bytecode(self) -> bytes:
        """Whether there is bytecode in the assets: with and without are different assets."""
        return b"compiled" if self.interpreter is not None else b"sources alone"

    @property
    def _lambdas(self) -> Path:
        return self._root / "lambdas"

    def _code(self, requirements: str) -> lambda_.Code:
        folder = self.build(requirements)
        return lambda_.Code.from_asset(str(folder), asset_hash_type=AssetHashType.CUSTOM, asset_hash=folder.name)

    def build(self, requirements: str) -> Path:
        """The folder of an asset, built if nothing has the same content yet."""
        packages = self._packages(requirements)
        sources = sorted(path for path in self._lambdas.rglob("*") if path.suffix in {".py", ".txt"})
        content = [packages.name.encode(), self._config.read_bytes(), self._bytecode, b"readable"]
        content += [str(path.relative_to(self._lambdas)).encode() + path.read_bytes() for path in sources]
        folder = self._root / ".build" / f"asset-{_digest(content)}"
        if not folder.exists():
            with _building(folder) as partial:
                # Links, not copies: the packages are large, and nothing writes to them.
                shutil.copytree(packages, partial, symlinks=True, copy_function=os.link, dirs_exist_ok=True)
                shutil.copytree(self._lambdas, partial, dirs_exist_ok=True, ignore=_IGNORED)
                shutil.copy(self._config, partial / "tidetable.toml")
                for path in [*partial.glob("*.py"), *(partial / name for name in _OWN)]:
                    self._compile(path)
                _make_readable(partial)
        return folder

    def _packages(self, requirements: str) -> Path:
        pins = [(self._lambdas / lock_file(requirements)).read_bytes()]
        machine = f"{sys.platform}-{sys.version_info[:2]}" if self._local else f"arm64-{RUNTIME}"
        content = [requirements.encode(), machine.encode(), self._bytecode, *map(str.encode, _CLUTTER), *pins]
        folder = self._root / ".build" / f"packages-{_digest(content)}"
        if not folder.exists():
            with _building(folder) as partial:
                subprocess.run(self.pip_command(requirements, partial), check=True)  # noqa: S603 - our own command
                for pattern in _CLUTTER:
                    for path in list(partial.rglob(pattern)):
                        shutil.rmtree(path) if path.is_dir() else path.unlink()
                self._compile(partial)
        return folder

    def _compile(self, path: Path) -> None:
        """Compile in place, for a bytecode that is taken as it is: where functions run nothing can be written, and a file that is
        newer than its bytecode, as those of an archive are, would be compiled at every cold start.
        """
        interpreter = self.interpreter
        if interpreter is None or not path.exists():
            return
        command = [interpreter, "-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash", str(path)]
        # A module for another Python, of which packages have some, does not compile; it is not imported either.
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL)  # noqa: S603 - our own command

    @cached_property
    def interpreter(self) -> str | None:
        """A Python of the version that runs the functions, if this machine has one: bytecode is of one version only."""
        if self._local:
            return sys.executable
        if sys.version_info[:2] == tuple(map(int, RUNTIME.split("."))):
            return sys.executable
        found = shutil.which(f"python{RUNTIME}")
        # A version manager's command may be there without the version.
        works = found and subprocess.run([found, "-c", ""], check=False, capture_output=True).returncode == 0  # noqa: S603
        return found if works else None


def lock_file(requirements: str) -> str:
    """The file with the versions and hashes of all that a requirements file brings along, such as ``requirements.lock``."""
    return requirements.removesuffix(".txt") + ".lock"


def _make_readable(folder: Path) -> None:
    folder.chmod(_FOLDER_MODE)
    for path in folder.rglob("*"):
        if not path.is_symlink():
            path.chmod(_FOLDER_MODE if path.is_dir() else _FILE_MODE)


@contextmanager
def _building(folder: Path) -> Iterator[Path]:
    """A folder to build in, which takes its name once it is whole. Two builds at once are two builds, and one is kept."""
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


def _digest(parts: list[bytes]) -> str:
    total = sha256()
    for part in parts:
        total.update(sha256(part).digest())
    return total.hexdigest()
