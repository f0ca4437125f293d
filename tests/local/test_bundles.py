"""The code of functions in the emulator: one copy of each bundle's files for all processes."""

import tempfile
import zipfile
from pathlib import Path

import pytest

from local.bundles import SharedZip


def unpack(folder: Path, name: str, files: dict[str, str]) -> Path:
    """What a process of a function has as its code, as the emulator makes it."""
    with zipfile.ZipFile(folder / f"{name}.zip", "w") as packed:
        for file, text in files.items():
            packed.writestr(file, text)
    code = folder / name
    code.mkdir()
    with SharedZip(folder / f"{name}.zip") as packed:
        packed.extractall(str(code))
    return code


def test_a_file_that_names_a_folder_is_a_link_to_it(tmp_path: Path) -> None:
    asset = tmp_path / "asset-1"
    asset.mkdir()
    (asset / "settings.py").write_text("pass")
    codes = [unpack(tmp_path, name, {"tidetable-asset-folder": str(asset)}) for name in ("one", "two")]
    assert [code.resolve() for code in codes] == [asset, asset]
    assert (codes[0] / "settings.py").read_text() == "pass"


def test_a_folder_that_was_removed_is_named(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"asset-1, the code of a function, was removed: deploy the stage again"):
        unpack(tmp_path, "one", {"tidetable-asset-folder": str(tmp_path / "asset-1")})


def test_another_file_is_unpacked_once_per_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions of the CDK's own, or of a test."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    first, second, other = (
        unpack(tmp_path, name, {"target.py": text}) for name, text in (("one", "1"), ("two", "1"), ("three", "3"))
    )
    assert first.resolve() == second.resolve() != other.resolve()
    assert [(code / "target.py").read_text() for code in (first, second, other)] == ["1", "1", "3"]
