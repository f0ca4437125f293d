"""The assets: stable, complete, for the machine that runs them, and small enough."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from cdk.packages import Packages
from infra.assets import Assets
from tests.infra.synth import CONFIG, ROOT

_LIMIT = 250 * 1024 * 1024  # unzipped, of Lambda
_AARCH64 = 183  # e_machine of an ELF file


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Assets:
    """A project of one module whose dependencies are installed already."""
    packages = tmp_path / "packages"
    packages.mkdir()
    (tmp_path / "lambdas" / "__pycache__").mkdir(parents=True)
    (tmp_path / "lambdas" / "settings.py").write_text("")
    (tmp_path / "lambdas" / "__pycache__" / "settings.pyc").write_text("")
    (tmp_path / "lambdas" / "requirements.txt").write_text("")
    (tmp_path / "lambdas" / "requirements.lock").write_text("")
    (tmp_path / "config.toml").write_text("a = 1")
    monkeypatch.setattr(Packages, "install", lambda _self, _requirements: packages)
    return Assets(tmp_path, tmp_path / "config.toml", "dev")


LOCK = ROOT / "lambdas" / "requirements.lock"


def test_the_same_content_is_the_same_asset(small: Assets, tmp_path: Path) -> None:
    before = small.build_asset("requirements.txt")
    os.utime(tmp_path / "lambdas" / "settings.py", (0, 0))
    (tmp_path / "lambdas" / "__pycache__" / "other.pyc").write_text("1")
    assert small.build_asset("requirements.txt") == before


@pytest.mark.parametrize("changed", ["lambdas/settings.py", "config.toml"])
def test_other_content_is_another_asset(small: Assets, tmp_path: Path, changed: str) -> None:
    before = small.build_asset("requirements.txt")
    (tmp_path / changed).write_text("b = 2")
    assert small.build_asset("requirements.txt") != before


def test_the_configuration_travels_under_the_name_that_settings_read(small: Assets) -> None:
    folder = small.build_asset("requirements.txt")
    assert (folder / "tidetable.toml").read_text() == "a = 1"
    assert {path.name for path in folder.iterdir()} - {"__pycache__"} == {"settings.py", "tidetable.toml"}


def test_the_emulators_zip_file_names_the_folder_of_the_asset(tmp_path: Path) -> None:
    """tests/local/test_bundles.py links functions to a folder of such a file."""
    asset = tmp_path / "asset-1"
    asset.mkdir()
    for _ in range(2):
        file = Assets(tmp_path, None, "local").link_asset(asset)
        assert file == tmp_path / "asset-1.link.zip"
        with zipfile.ZipFile(file) as packed:
            assert packed.namelist() == ["tidetable-asset-folder"]
            assert packed.read("tidetable-asset-folder").decode() == str(asset)


def test_pip_fetches_for_the_machine_that_runs_it(tmp_path: Path) -> None:
    aws = Packages(ROOT, local=False).make_pip_command(LOCK, tmp_path)
    here = Packages(ROOT, local=True).make_pip_command(LOCK, tmp_path)
    text = " ".join(aws)
    assert aws[:3] == here[:3] == [sys.executable, "-m", "pip"]
    assert "--platform manylinux2014_aarch64" in text
    assert "--implementation cp --python-version 3.13 --only-binary=:all:" in text
    assert "--platform" not in here
    intel = " ".join(Packages(ROOT, "x86_64", local=False).make_pip_command(LOCK, tmp_path))
    assert "--platform manylinux2014_x86_64" in intel
    assert "aarch64" not in intel


def test_the_largest_bundle_fits_lambda_and_is_for_arm() -> None:
    folder = Assets(ROOT, CONFIG, "dev").build_asset("requirements-archive.txt")
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < _LIMIT
    assert not [path for path in files if path.name.startswith("requirements")]
    assert not [path for path in files if path.parent.name in {"tests", "include"}]
    assert {int.from_bytes(path.read_bytes()[18:20], "little") for path in files if path.suffix == ".so"} == {_AARCH64}
    assert {"handlers", "aws", "tidetable", "tidetable.toml", "settings.py", "pyarrow"} <= {
        path.name for path in folder.iterdir()
    }


def test_functions_run_the_bytecode_that_ships_with_them_whatever_the_times_of_the_files(tmp_path: Path) -> None:
    """The sources would fail, so a success proves that only the bytecode is read."""
    built = Assets(ROOT, CONFIG, "local").build_asset("requirements.txt")
    asset = tmp_path / "asset"
    shutil.copytree(built, asset)
    broken = [asset / "settings.py", asset / "handlers" / "ingest.py", asset / "aws_lambda_powertools" / "__init__.py"]
    for path in broken:
        path.write_text("raise RuntimeError('compiled anew')")
    program = "import handlers.ingest, aws_lambda_powertools; print(handlers.ingest.__cached__)"
    environment = {"PYTHONPATH": str(asset), "POWERTOOLS_METRICS_NAMESPACE": "t", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", program], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for path in broken:
        compiled = Path(cache_from_source(str(path)))
        assert int.from_bytes(compiled.read_bytes()[4:8], "little") == 0b01, "by hash, and not checked"


def test_without_the_runtimes_python_the_sources_go_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(sys, "version_info", (3, 11))
    assert Packages(tmp_path, local=False).interpreter is None
    assert Packages(tmp_path, local=True).interpreter == sys.executable


def test_every_function_can_read_its_files_whatever_the_umask_of_the_builder(small: Assets, tmp_path: Path) -> None:
    (tmp_path / "lambdas" / "handlers").mkdir()
    (tmp_path / "lambdas" / "handlers" / "ingest.py").write_text("")
    (tmp_path / "lambdas" / "handlers" / "ingest.py").chmod(0o600)
    (tmp_path / "packages" / "library").mkdir(mode=0o700)
    (tmp_path / "packages" / "library" / "module.py").touch(mode=0o600)
    before = os.umask(0o077)
    try:
        built = small.build_asset("requirements.txt")
    finally:
        os.umask(before)
    modes = {str(path.relative_to(built)): path.stat().st_mode & 0o777 for path in [built, *built.rglob("*")]}
    assert {mode for name, mode in modes.items() if (built / name).is_dir()} == {0o755}
    assert {mode for name, mode in modes.items() if (built / name).is_file()} == {0o644}
    assert {"handlers/ingest.py", "library/module.py", "tidetable.toml"} <= set(modes)


def test_a_machine_without_the_runtimes_python_says_what_that_means(
    small: Assets, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Packages, "interpreter", None)
    small.make_code("slim")
    assert "no python3.13 on this machine" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["requirements", "requirements-archive", "requirements-doors", "requirements-iceberg"])
def test_everything_that_ships_is_locked_by_version_and_hash(name: str) -> None:
    lock = (ROOT / "lambdas" / f"{name}.lock").read_text()
    locked = dict(re.findall(r"^([a-z0-9._-]+)==(\S+) \\$", lock, re.MULTILINE))
    pins = (ROOT / "lambdas" / "requirements.txt").read_text()
    pins += (ROOT / "lambdas" / f"{name}.txt").read_text()
    for package, version in re.findall(r"^([a-z0-9._-]+)==(\S+)$", pins, re.MULTILINE):
        assert locked[package] == version, f"run the command at the head of {name}.lock"
    # Transitive dependencies.
    assert {"urllib3", "jmespath", "s3transfer", "python-dateutil", "six"} <= set(locked)
    assert lock.count("--hash=sha256:") >= len(locked)
    command = Packages(ROOT, local=False).make_pip_command(ROOT / "lambdas" / f"{name}.lock", Path("x"))
    assert command[-4:] == ["--require-hashes", "--no-deps", "-r", str(ROOT / "lambdas" / f"{name}.lock")]
