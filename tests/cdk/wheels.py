"""The package as a user has it: a wheel with the code for this machine, installed into a fresh environment."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from cdk.bundle import BUNDLES, build_bundles
from tests.infra.synth import ROOT

_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")


def build_wheel(folder: Path) -> Path:
    """Build the wheel as ``make wheel PLATFORMS=local`` does."""
    build_bundles(BUNDLES, ["local"])
    command = [*_PIP, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(folder)]
    subprocess.run([*command, str(ROOT / "cdk")], check=True)  # noqa: S603 - our own command
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel: Path, folder: Path) -> Path:
    """The interpreter of a fresh environment with the wheel, from no index; its dependencies are this environment's.

    A ``.pth`` file adds them, as they are pinned and installed once; nothing of the checkout is on the path.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    command = [*_PIP, "--python", str(python), "install", "--quiet", "--no-index", "--no-deps", str(wheel)]
    subprocess.run(command, check=True)  # noqa: S603 - our own command
    packages = next(folder.glob("lib/python*/site-packages"))
    (packages / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return python
