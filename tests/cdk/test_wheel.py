"""The wheel, and the example of a user's own app with the wheel installed: synthesised, and deployed into the emulator."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from local import Deployed, Emulator
from local.emulator import REGION
from local.http import Api
from local.stack import _run_cdk, find_stage
from tests.cdk.wheels import build_wheel, install
from tests.infra.synth import JSII_CACHE, ROOT

APP = ROOT / "examples" / "own-app"
# Its wheel brings no text of its licence, Apache-2.0, which its METADATA names.
UNLICENSED = {"nanoarrow-0.9.0.dist-info"}
LICENCE = re.compile(r"(LICEN[CS]E|COPYING|NOTICE)", re.IGNORECASE)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(wheel, tmp_path_factory.mktemp("user") / "venv")


@pytest.fixture(scope="module")
def app(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example in a folder of its user, far from the checkout."""
    folder = tmp_path_factory.mktemp("shop") / "own-app"
    shutil.copytree(APP, folder)
    settings = json.loads((folder / "cdk.json").read_text())
    assert settings["app"] == "python app.py"
    (folder / "cdk.json").write_text(json.dumps(settings | {"app": f"{python} app.py"}))
    return folder


def run(python: Path, program: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program in the user's environment, without credentials, and with no way to a network."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CDK_", "PYTHON", "VIRTUAL"))
    }
    nowhere = "http://127.0.0.1:9"
    environment |= {"http_proxy": nowhere, "https_proxy": nowhere, "HOME": str(folder), **JSII_CACHE, **variables}
    command = [str(python), "-W", "ignore", "-c", program] if program else [str(python), "app.py"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)  # noqa: S603


def test_the_wheel_fits_into_the_index(wheel: Path) -> None:
    """Both of Lambda's platforms in 100 MB: each has libraries of its own, and they share all that has no platform."""
    own = shared = 0
    with zipfile.ZipFile(wheel) as packed:
        for part in (name for name in packed.namelist() if name.endswith(".zip")):
            with packed.open(part) as file, zipfile.ZipFile(file) as bundle:
                for entry in bundle.infolist():
                    is_own = entry.filename.endswith(".so") or ".so." in entry.filename
                    own, shared = own + is_own * entry.compress_size, shared + (not is_own) * entry.compress_size
    assert own > 20e6, "the libraries were found"
    # Libraries for arm64 are smaller. Bytecode and the names of files in the ZIP files' directories come on top.
    assert 2 * own + shared + 3 * 1024**2 < 100 * 1024**2
    names = [Path(name).name for name in bundled_names(wheel)]
    assert [name for name in names if name.startswith(("libarrow_s3", "libarrow_flight", "_cffi."))] == []


def bundled_names(wheel: Path) -> Iterator[str]:
    """The files of all bundles in a wheel."""
    with zipfile.ZipFile(wheel) as packed:
        for part in (name for name in packed.namelist() if name.endswith(".zip")):
            with packed.open(part) as file, zipfile.ZipFile(file) as bundle:
                yield from bundle.namelist()


def test_the_wheel_has_its_types_its_licence_and_the_version_of_the_project(wheel: Path) -> None:
    version = "0.1.0.dev0"
    assert wheel.name == f"tidetable_cdk-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
        assert {"tidetable_cdk/__init__.py", "tidetable_cdk/py.typed", "tidetable/py.typed"} <= names
        folder = f"tidetable_cdk-{version}.dist-info"
        assert packed.read(f"{folder}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
        assert json.loads(packed.read("tidetable_cdk/bundles/manifest.json"))["version"] == version
        # Nothing else is put into a user's environment, whose own packages may be called infra or lambdas.
        assert {name.partition("/")[0] for name in names} == {"tidetable_cdk", "tidetable", folder}
        assert not [name for name in names if "__pycache__" in name]
        metadata = packed.read(f"{folder}/METADATA").decode()
    assert set(re.findall(r"^Requires-Dist: ([a-z-]+)", metadata, re.MULTILINE)) == {
        "aws-cdk-lib",
        "constructs",
        "msgspec",
    }


def test_every_package_in_the_functions_code_keeps_its_licence(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path)
    folder = tmp_path / "tidetable_cdk" / "bundles"
    manifest = json.loads((folder / "manifest.json").read_text())
    for bundle, parts in manifest["bundles"].items():
        names = [name for part in parts for name in zipfile.ZipFile(folder / part).namelist()]
        assert len(names) == len(set(names)), "each file is in one part"
        infos = {name.partition("/")[0] for name in names if ".dist-info/" in name}
        assert len(infos) >= 13
        metadata = {name for name in names if name.endswith(".dist-info/METADATA")}
        assert {name.partition("/")[0] for name in metadata} == infos
        licensed = {name.partition("/")[0] for name in names if ".dist-info/" in name and LICENCE.search(name)}
        assert infos - licensed <= UNLICENSED, bundle
        for part in parts:
            with zipfile.ZipFile(folder / part) as packed:
                for name in metadata & set(packed.namelist()):
                    assert re.search(
                        rb"^(License|License-Expression|Classifier: License)\b", packed.read(name), re.MULTILINE
                    ), name
    with zipfile.ZipFile(folder / "console.zip") as console:
        assert "site/uplot-license.txt" in console.namelist()


def test_an_installed_package_is_all_that_a_synth_needs(python: Path, app: Path) -> None:
    program = "import tidetable_cdk, tidetable.config, importlib.util as u; print(tidetable_cdk.__file__, u.find_spec('infra'))"
    done = run(python, program, app)
    assert done.returncode == 0, done.stderr
    assert str(python.parents[1]) in done.stdout
    assert done.stdout.endswith(" None\n")
    out = app / "out"
    done = run(python, "", app, CDK_OUTDIR=str(out), CDK_CONTEXT_JSON=json.dumps({"stage": "local"}))
    assert done.returncode == 0, done.stderr
    template = json.loads((out / "Shop.template.json").read_text())
    functions = [
        resource["Properties"]
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::Lambda::Function"
    ]
    keys = {
        function["Handler"]: function["Code"]["S3Key"]
        for function in functions
        if function["Handler"].startswith("handlers.")
    }
    assert len(set(keys.values())) == 4, "the hot path, the archive, the Iceberg tables and the console"
    packed = {key: zipfile.ZipFile(out / f"asset.{key}") for key in set(keys.values())}
    for zipped in packed.values():
        assert len(zipped.namelist()) == len(set(zipped.namelist()))
        assert zipped.testzip() is None
    for handler, key in keys.items():
        assert handler.replace(".handler", ".py").replace(".", "/", 1) in packed[key].namelist(), handler
    for handler in ("handlers.ingest.handler", "handlers.archiver.handler"):
        assert packed[keys[handler]].read("tidetable.toml") == (APP / "tidetable.toml").read_bytes()
    assert "pyarrow/__init__.py" in packed[keys["handlers.archiver.handler"]].namelist()


def test_the_same_configuration_is_the_same_asset_and_another_is_another(python: Path, app: Path) -> None:
    program = """
import pathlib, sys, aws_cdk as cdk
from tidetable_cdk import Config, Tidetable
for stage, more in (("a", ""), ("b", ""), ("c", "# changed")):
    app = cdk.App(outdir=f"out-{stage}")
    Tidetable(cdk.Stack(app, "S"), "E", stage=stage, config=Config.text(pathlib.Path("tidetable.toml").read_text() + more),
              architecture=cdk.aws_lambda.Architecture.X86_64 if stage == "never" else None)
"""
    done = run(python, program, app)
    assert done.returncode == 1
    assert "architecture arm64: this package has code for local; choose one of them" in done.stderr
    done = run(
        python,
        program.replace('("a", ""), ("b", ""), ("c", "# changed")', '("local", ""), ("local", "# changed")').replace(
            "out-{stage}", "out-{len(more)}"
        ),
        app,
    )
    assert done.returncode == 0, done.stderr
    first, other = ({path.name for path in (app / f"out-{length}").glob("asset.*.zip")} for length in (0, 9))
    assert len(first) == len(other) == 4
    assert len(first & other) == 1, "the console, which reads no configuration"


@pytest.fixture(scope="module")
def shop(app: Path) -> Iterator[Deployed]:
    """The example, deployed with the CDK's command line."""
    with Emulator() as emulator:
        _run_cdk(emulator, "bootstrap", f"aws://000000000000/{REGION}")
        file = emulator.folder / "outputs.json"
        _run_cdk(emulator, "deploy", "--require-approval", "never", "--outputs-file", str(file), app=app)
        yield find_stage(emulator, json.loads(file.read_text())["Shop"])


def test_the_deployed_app_stores_events_and_answers_queries(shop: Deployed) -> None:
    api = Api(shop)
    events = [{"series": "c1", "id": f"o{n}", "data": {"total": n}} for n in range(3)]
    sent = api.send("orders", json.dumps(events).encode())
    assert (sent.status, sent.body["accepted"]) == (200, 3)
    found = api.query("orders", series="c1", start="-1h")
    assert {event["id"] for event in found.body["events"]} == {"o0", "o1", "o2"}


def test_the_deployed_stage_keeps_its_archive_in_the_shops_bucket(shop: Deployed) -> None:
    buckets = {bucket["Name"] for bucket in shop.make_client("s3").list_buckets()["Buckets"]}
    assert shop.outputs["ArchiveBucket"] in buckets
    assert not [name for name in buckets if name.startswith("tidetable-")]
    environment = shop.make_client("lambda").get_function_configuration(FunctionName=shop.outputs["ArchiverFunction"])[
        "Environment"
    ]
    assert environment["Variables"]["TIDETABLE_ARCHIVE_BUCKET"] == shop.outputs["ArchiveBucket"]


def test_the_command_line_finds_the_stage_in_the_shops_stack(shop: Deployed) -> None:
    command = [str(ROOT / "bin" / "tidetable"), "status", "--json"]
    environment = os.environ | shop.environment | {"TIDETABLE_STACK": "Shop"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    assert "orders" in done.stdout
