"""The code of an installed package: ZIP files that are joined as they are, with the stage's configuration."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from aws_cdk import aws_lambda as lambda_

from infra import UsageError
from infra.bundles import Bundles, join_files

ARM, INTEL = lambda_.Architecture.ARM_64, lambda_.Architecture.X86_64
LARGE = bytes(range(256)) * 5_000


def pack(file: Path, *names: str, content: bytes | None = None, comment: bytes = b"") -> Path:
    """A ZIP file; each of its files has its name as the content, an extra field and a comment."""
    with zipfile.ZipFile(file, "w") as packed:
        for name in names:
            entry = zipfile.ZipInfo(name)
            entry.extra, entry.comment = b"\x99\x99\x02\x00ab", b"a comment"
            packed.writestr(entry, content or name.encode())
        packed.comment = comment
    return file


def test_joined_files_are_those_of_all_parts(tmp_path: Path) -> None:
    parts = [
        pack(tmp_path / "1.zip", "a.py", "b/c.py"),
        pack(tmp_path / "2.zip", "large.so", content=LARGE),
        pack(tmp_path / "3.zip", "d.py", "e.py", "f.py"),
    ]
    join_files(parts, tmp_path / "joined.zip")
    with zipfile.ZipFile(tmp_path / "joined.zip") as joined:
        assert joined.testzip() is None
        assert joined.namelist() == ["a.py", "b/c.py", "large.so", "d.py", "e.py", "f.py"]
        assert joined.read("large.so") == LARGE
        assert [joined.read(name).decode() for name in ("b/c.py", "f.py")] == ["b/c.py", "f.py"]
    whole = sum(one.stat().st_size for one in parts)
    # Of the three records at the ends of the parts, one is left.
    assert (tmp_path / "joined.zip").stat().st_size == whole - 2 * 22


def test_a_part_that_is_no_whole_zip_file_is_an_error(tmp_path: Path) -> None:
    part = pack(tmp_path / "cut.zip", "a.py")
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(UsageError, match=r"cut\.zip is not a whole ZIP file"):
        join_files([part], tmp_path / "joined.zip")


PARTS = {
    "arm64/slim": ["code.zip", "arm.zip"],
    "arm64/archive": ["code.zip", "arm.zip", "pyarrow.zip"],
    "arm64/doors": ["code.zip", "parsers.zip"],
    "x86_64/slim": ["code.zip", "intel.zip"],
    "local/slim": ["code.zip", "here.zip"],
}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package's folder. Each part has one file, of the part's name."""
    names = {name for parts in PARTS.values() for name in parts} | {"console.zip"}
    for name in names:
        pack(tmp_path / name, name.replace(".zip", ".py"))
    manifest = {"platforms": ["arm64", "x86_64", "local"], "bundles": PARTS, "digests": {name: name for name in names}}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    return tmp_path


def find_file(code: lambda_.Code) -> Path:
    assert isinstance(code, lambda_.AssetCode)
    return Path(code.path)


def list_names(code: lambda_.Code) -> list[str]:
    with zipfile.ZipFile(find_file(code)) as packed:
        return packed.namelist()


def test_a_function_gets_the_code_of_its_kind_and_platform(package: Path) -> None:
    arm = Bundles(b"a = 1", "prod", ARM, folder=package)
    toml = "tidetable.toml"
    assert list_names(arm.make_code("slim")) == ["code.py", "arm.py", toml]
    assert list_names(arm.make_code("archive")) == ["code.py", "arm.py", "pyarrow.py", toml]
    assert list_names(arm.make_code("doors")) == ["code.py", "parsers.py", toml]
    assert find_file(arm.make_code("console")) == package / "console.zip"
    assert list_names(Bundles(b"", "prod", INTEL, folder=package).make_code("slim")) == ["code.py", "intel.py", toml]
    # An emulator runs functions with the Python of its own machine.
    assert list_names(Bundles(b"", "local", INTEL, folder=package).make_code("slim")) == ["code.py", "here.py", toml]


def test_every_user_may_read_the_configuration_in_a_bundle(package: Path) -> None:
    with zipfile.ZipFile(find_file(Bundles(b"a = 1", "prod", ARM, folder=package).make_code("slim"))) as packed:
        entry = packed.getinfo("tidetable.toml")
        assert packed.read(entry) == b"a = 1"
    assert (entry.external_attr >> 16, entry.date_time) == (0o100644, (1980, 1, 1, 0, 0, 0))


def test_a_bundle_is_named_by_its_parts_and_its_configuration(package: Path) -> None:
    def name(config: bytes = b"a = 1") -> str:
        return find_file(Bundles(config, "prod", ARM, folder=package).make_code("slim")).name

    names = [name(), name(b"a = 2")]
    assert name() == names[0]
    manifest = json.loads((package / "manifest.json").read_text())
    manifest["digests"]["arm.zip"] = "newer"
    (package / "manifest.json").write_text(json.dumps(manifest))
    assert len({*names, name()}) == 3


def test_a_package_that_lacks_the_code_says_so(package: Path) -> None:
    manifest = json.loads((package / "manifest.json").read_text())
    (package / "manifest.json").write_text(json.dumps(manifest | {"platforms": ["arm64", "local"]}))
    with pytest.raises(UsageError, match="architecture x86_64: this package has code for arm64, local; choose one"):
        Bundles(b"", "prod", INTEL, folder=package).make_code("slim")
    (package / "manifest.json").unlink()
    with pytest.raises(UsageError, match=r"manifest\.json is missing: this is not an installed package"):
        Bundles(b"", "prod", ARM, folder=package).make_code("console")
