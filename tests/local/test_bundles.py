"""The code of functions in the emulator: one copy of each bundle's files for all processes, and how a process starts."""

import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest
from ministack.core import lambda_runtime

from local.bundles import SharedZip, start_without_botocore


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


def test_a_process_of_a_function_imports_botocore_only_for_the_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lambda_runtime, "_PYTHON_WORKER_SCRIPT", lambda_runtime._PYTHON_WORKER_SCRIPT)
    start_without_botocore()
    (tmp_path / "worker.py").write_text(lambda_runtime._PYTHON_WORKER_SCRIPT)
    (tmp_path / "target.py").write_text(
        "import sys\n\ndef handler(event, _):\n    return event, 'botocore' in sys.modules\n"
    )
    lines = [{"code_dir": str(tmp_path), "module": "target", "handler": "handler"}, {"event": 7}]
    done = subprocess.run(  # noqa: S603 - the emulator's own program
        [sys.executable, str(tmp_path / "worker.py")],
        input="".join(f"{json.dumps(line)}\n" for line in lines),
        capture_output=True,
        text=True,
        check=True,
    )
    ready, answer = map(json.loads, done.stdout.splitlines())
    assert (ready["status"], answer) == ("ready", {"status": "ok", "result": [7, False]})
    with pytest.raises(RuntimeError, match="starts functions in another way"):
        start_without_botocore()
