"""The functions' code in the package: every file once, joined to one ZIP file per kind of function, the same each time."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import aws_cdk as cdk
import pytest
from aws_cdk import aws_lambda as lambda_

from cdk.bundle import pack_files, read_files, refuse_large, write_zip
from infra import UsageError
from infra.bundles import MANIFEST, Bundles, join_files
from tests.infra.synth import temporary_folder

ARM, INTEL = lambda_.Architecture.ARM_64, lambda_.Architecture.X86_64
CONTENT = {
    "arm64/slim": {"handlers/ingest.py": "code", "lib.so": "for arm"},
    "arm64/archive": {"handlers/ingest.py": "code", "lib.so": "for arm", "pyarrow.so": "for arm"},
    "x86_64/slim": {"handlers/ingest.py": "code", "lib.so": "for intel"},
    "x86_64/archive": {"handlers/ingest.py": "code", "lib.so": "for intel", "pyarrow.so": "for intel"},
}


def lay_out(folder: Path) -> dict[str, Path]:
    """The folders of the bundles above."""
    for bundle, files in CONTENT.items():
        for name, text in files.items():
            path = folder / bundle / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return {bundle: folder / bundle for bundle in CONTENT}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package's folder of bundles for both of Lambda's architectures."""
    folder = tmp_path / "package"
    zips = pack_files(lay_out(tmp_path / "built"), folder)
    digests = {file.name: file.name * 2 for file in folder.glob("*.zip")}
    manifest = {"platforms": ["arm64", "x86_64"], "bundles": zips, "digests": digests}
    (folder / MANIFEST).write_text(json.dumps(manifest))
    return folder


def content_of(code: lambda_.Code, architecture: lambda_.Architecture = ARM) -> tuple[str, dict[str, str]]:
    """The name of the asset of a function with this code, and its files."""
    out = temporary_folder("bundles")
    app = cdk.App(outdir=out)
    lambda_.Function(
        cdk.Stack(app, "S"),
        "F",
        runtime=lambda_.Runtime.PYTHON_3_13,
        handler="handlers.ingest.handler",
        code=code,
        architecture=architecture,
    )
    (file,) = Path(out).glob("asset.*.zip")
    with zipfile.ZipFile(file) as packed:
        assert packed.testzip() is None
        return file.name, {name: packed.read(name).decode() for name in packed.namelist()}


def test_every_file_is_packed_once(tmp_path: Path) -> None:
    zips = pack_files(lay_out(tmp_path / "built"), tmp_path / "package")
    packed = [name for file in (tmp_path / "package").glob("*.zip") for name in zipfile.ZipFile(file).namelist()]
    assert sorted(packed) == ["handlers/ingest.py", "lib.so", "lib.so", "pyarrow.so", "pyarrow.so"]
    for bundle, files in CONTENT.items():
        found = {
            name: zipfile.ZipFile(tmp_path / "package" / file).read(name).decode()
            for file in zips[bundle]
            for name in zipfile.ZipFile(tmp_path / "package" / file).namelist()
        }
        assert found == files


def test_the_same_files_make_the_same_zip_files(tmp_path: Path) -> None:
    built = lay_out(tmp_path / "built")
    for name in ("one", "two"):
        pack_files(built, tmp_path / name)
        for path in (tmp_path / "built").rglob("*.so"):
            path.touch()
    one, two = ({file.name: file.read_bytes() for file in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert one == two


def test_joined_files_are_whole_and_readable_by_the_functions_user(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a" * 5000)
    (tmp_path / "b.py").write_text("b")
    files = read_files(tmp_path)
    for name in ("a", "b"):
        write_zip({f"{name}.py": files[f"{name}.py"]}, tmp_path / f"{name}.zip")
    join_files([tmp_path / "a.zip", tmp_path / "b.zip"], tmp_path / "joined.zip")
    with zipfile.ZipFile(tmp_path / "joined.zip") as joined:
        assert joined.testzip() is None
        assert joined.namelist() == ["a.py", "b.py"]
        assert (joined.read("a.py"), joined.read("b.py")) == (b"a" * 5000, b"b")
        assert {entry.external_attr >> 16 for entry in joined.infolist()} == {0o100644}


def test_a_part_that_is_damaged_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a")
    write_zip({"a.py": tmp_path / "a.py"}, tmp_path / "a.zip")
    (tmp_path / "cut.zip").write_bytes((tmp_path / "a.zip").read_bytes()[:-3])
    with pytest.raises(UsageError, match=r"cut\.zip is not a whole ZIP file"):
        join_files([tmp_path / "a.zip", tmp_path / "cut.zip"], tmp_path / "joined.zip")


@pytest.mark.parametrize(
    ("architecture", "stage", "expected"),
    [(ARM, "prod", "arm64"), (INTEL, "prod", "x86_64"), (INTEL, "local", "x86_64")],
)
def test_a_function_gets_the_code_of_its_architecture_with_the_configuration(
    package: Path, architecture: lambda_.Architecture, stage: str, expected: str
) -> None:
    bundles = Bundles(b"a = 1", stage, architecture, folder=package)
    _, files = content_of(bundles.make_code("archive"), architecture)
    assert files == CONTENT[f"{expected}/archive"] | {"tidetable.toml": "a = 1"}


def test_the_name_of_an_asset_follows_from_code_and_configuration(package: Path) -> None:
    def name(config: bytes, architecture: lambda_.Architecture = ARM) -> str:
        return content_of(Bundles(config, "prod", architecture, folder=package).make_code("slim"), architecture)[0]

    assert name(b"a = 1") == name(b"a = 1")
    assert len({name(b"a = 1"), name(b"a = 2"), name(b"a = 1", INTEL)}) == 3


def test_an_architecture_that_the_package_lacks(package: Path) -> None:
    manifest = json.loads((package / MANIFEST).read_text())
    (package / MANIFEST).write_text(json.dumps(manifest | {"platforms": ["arm64"]}))
    with pytest.raises(UsageError, match="architecture x86_64: this package has code for arm64; choose one of them"):
        Bundles(b"", "prod", INTEL, folder=package).make_code("slim")


def test_a_package_that_the_index_does_not_take_is_not_built(tmp_path: Path) -> None:
    """100 MB, of which 2 are for the rest of the wheel; a wheel with the code for emulators is not for the index."""
    both = ["x86_64", "arm64"]
    for number in (1, 2):
        with (tmp_path / f"part-{number}.zip").open("wb") as file:
            file.truncate(49 * 1024**2)
    refuse_large(tmp_path, both)
    with (tmp_path / "part-2.zip").open("ab") as file:
        file.write(b"1")
    with pytest.raises(SystemExit, match=r"the bundles have 98\.0 MB, and a wheel of at most 100 MB has room for 98"):
        refuse_large(tmp_path, both)
    refuse_large(tmp_path, [*both, "local"])
    refuse_large(tmp_path, ["arm64"])
