"""The packages of the functions: fetched by pip for the functions' platform, compiled, and kept under .build/.

It imports nothing of the CDK, so that a fetch can begin before a synth does.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from base64 import urlsafe_b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from tempfile import TemporaryDirectory

RUNTIME = "3.13"
_SLIM = "requirements.txt"
# The lists of packages: of the functions on the hot path, with pyarrow for Parquet, with the parsers of other programs'
# protocols for the doors, and with pyiceberg for the tables.
REQUIREMENTS = {
    "slim": _SLIM,
    "archive": "requirements-archive.txt",
    "doors": "requirements-doors.txt",
    "iceberg": "requirements-iceberg.txt",
}
# pip's names for Lambda's architectures.
MACHINES = {"arm64": "aarch64", "x86_64": "x86_64"}
# Files that functions do not need. Without them pyarrow fits into Lambda's 250 MB, and the package of the construct
# into the 100 MB of the Python Package Index. pyarrow needs Flight and S3 only if a program imports them; the archive's
# functions read and write bytes. The linker loads a library by its name with one version number, so the library's files
# with other names are not needed. CPython uses the C extension of zstandard, not cffi.
# pyiceberg needs the packages of the last line for Hive's catalog, for its own command line and for files that delete rows.
_CLUTTER = (
    *("__pycache__", "tests", "include", "bin"),
    *("libarrow_flight*", "libarrow_python_flight*", "_flight.*.so", "libarrow_s3*", "_s3fs.*.so"),
    *("libarrow_python*.so", "libarrow_python*.so.*.*.*", "_cffi.*.so"),
    *("hive_metastore", "fb303", "pygments", "markdown_it", "pyroaring*.so"),
)

# The services of AWS that functions call (lambdas/aws/clients.py; a feed's targets); "sts" is for credentials. botocore
# describes 430 services, which take 14 MB of the wheel.
SERVICES = frozenset(
    {
        *("apigateway", "application-autoscaling", "cloudwatch", "dynamodb", "events", "firehose", "glue", "kinesis"),
        *("lambda", "s3", "sqs", "sts"),
    }
)


class Packages:
    """Keeps a folder of packages per list, named by the hash of what is in it."""

    def __init__(self, root: Path, architecture: str = "arm64", *, local: bool) -> None:
        """``architecture`` is ``arm64`` or ``x86_64``. If ``local``, the packages are for this machine and Python."""
        self._root = root
        self._architecture = architecture
        self._local = local

    def install_all(self) -> None:
        """Fetch and compile the packages of all lists, at the same time."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(self.install, REQUIREMENTS.values()))

    def install(self, requirements: str) -> Path:
        """Return the folder of a list's packages. Fetch and compile them unless the folder exists."""
        pins = [(self._root / "lambdas" / name_lock_file(requirements)).read_bytes()]
        machine = f"{sys.platform}-{sys.version_info[:2]}" if self._local else f"{self._architecture}-{RUNTIME}"
        left_out = map(str.encode, (*_CLUTTER, *sorted(SERVICES)))
        content = [requirements.encode(), machine.encode(), self.bytecode, *left_out, *pins]

        def fill(partial: Path) -> None:
            shared, more = self._split_list(requirements)
            with ThreadPoolExecutor(1) as pool:
                common = pool.submit(self.install, shared) if shared else None
                self._fetch_packages(more, partial)
            if common is not None:
                copied = common.result()
                shutil.copytree(copied, partial, symlinks=True, copy_function=os.link, dirs_exist_ok=True)

        return build_once(self._root / ".build" / f"packages-{hash_contents(content)}", fill)

    def _split_list(self, requirements: str) -> tuple[str, set[str]]:
        """Split a list of packages: the list that it extends, or "", and the entries of its lock file without that list.

        To fetch and compile the packages of all functions once for each list took most of the time of a first deployment.
        """
        packages, slim = self._read_lock(requirements), self._read_lock(_SLIM)
        if requirements == _SLIM or not slim <= packages:
            return "", packages
        return _SLIM, packages - slim

    def _fetch_packages(self, entries: set[str], target: Path) -> None:
        """Fetch and compile the packages of a lock file's entries, without the files that functions do not need."""
        missing = sorted(entry for entry in entries if not (self._local and _copy_installed(entry, target)))
        with TemporaryDirectory() as name:
            file = Path(name) / "requirements.lock"
            file.write_text("".join(missing))
            if missing:
                subprocess.run(self.make_pip_command(file, target), check=True)  # noqa: S603 - our own command
        for pattern in _CLUTTER:
            for path in list(target.rglob(pattern)):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        for service in target.glob("botocore/data/*/"):
            if service.is_dir() and service.name not in SERVICES:
                shutil.rmtree(service)
        self.compile_folder(target)

    def compile_folder(self, folder: Path) -> None:
        """Compile in place, to bytecode that Python uses without a check of the source's time.

        Functions cannot write files. A source that is newer than its bytecode, as in an unpacked archive, would be
        compiled at every cold start. The file names in the bytecode are relative to the asset's folder, so the same
        sources make the same bytecode on every machine.
        """
        interpreter = self.interpreter
        if interpreter is None or not folder.exists():
            return
        command = [interpreter, "-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash"]
        command += ["-s", str(folder), str(folder)]
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

    def _read_lock(self, requirements: str) -> set[str]:
        """Read the entries of a lock file: a package with its version, and its hashes in the lines below."""
        text = (self._root / "lambdas" / name_lock_file(requirements)).read_text()
        return set(re.findall(r"^[^#\s].*\n(?:[ \t]+.*\n)*", f"{text}\n", re.MULTILINE))

    @property
    def bytecode(self) -> bytes:
        """A mark in the asset's hash: assets with and without bytecode are different assets."""
        return b"compiled" if self.interpreter is not None else b"sources alone"


def name_lock_file(requirements: str) -> str:
    """Name the lock file of a requirements file, such as ``requirements.lock``: it has versions and hashes of all
    packages.
    """
    return requirements.removesuffix(".txt") + ".lock"


def _copy_installed(entry: str, target: Path) -> bool:
    """Copy a package that this environment has as a lock file's entry names it. False if the package must be fetched.

    Its files must be those that were installed. pip takes seconds to read the index of all versions of some packages.
    """
    name, _, version = entry.split()[0].partition("==")
    try:
        found = distribution(name)
    except PackageNotFoundError:
        return False
    # Programs are outside of the package's folder. A module's bytecode is made anew.
    files = [file for file in found.files or () if ".." not in file.parts and file.suffix != ".pyc"]
    if found.version != version or not files or found.read_text("direct_url.json"):
        return False
    contents = {file: Path(str(file.locate())).read_bytes() for file in files}
    for file, content in contents.items():
        digest = urlsafe_b64encode(sha256(content).digest()).rstrip(b"=").decode()
        if file.hash is not None and file.hash.value != digest:
            return False
    for file, content in contents.items():
        copied = target / file
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_bytes(content)
    return True


def build_once(folder: Path, fill: Callable[[Path], None]) -> Path:
    """Return a folder, or a file. Unless it exists, ``fill`` builds it in an empty folder, which then gets this name.

    Builds of the same folder wait for one another, also those of other processes, and the first that succeeds is kept.
    """
    if folder.exists():
        return folder
    folder.parent.mkdir(exist_ok=True)
    lock = folder.with_name(f"{folder.name}.lock")
    with lock.open("w") as held, TemporaryDirectory(prefix=f"{folder.name}.", dir=folder.parent) as name:
        fcntl.flock(held, fcntl.LOCK_EX)
        try:
            if not folder.exists():
                partial = Path(name) / "built"
                partial.mkdir()
                fill(partial)
                partial.rename(folder)
        except OSError:
            # After a build that failed, two others may run at once.
            if not folder.exists():
                raise
        finally:
            # Whoever opens the file anew finds the folder, or builds it.
            lock.unlink(missing_ok=True)
    return folder


def hash_contents(contents: list[bytes]) -> str:
    total = sha256()
    for content in contents:
        total.update(sha256(content).digest())
    return total.hexdigest()
