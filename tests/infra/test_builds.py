"""How an asset is built: what pip fetches, which files stay, when an asset is built anew, and the console's asset."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from threading import Barrier, Event

import pytest
from aws_cdk import aws_lambda as lambda_

from aws import clients, feed_targets
from cdk.packages import SERVICES, Packages, build_once
from infra.assets import Assets
from infra.function import Kind
from tests.infra.synth import ROOT

# The packages that pip fetches, as paths. The functions need the first files, and not the others.
NEEDED = {
    *("pyarrow/lib.cpython-313-aarch64-linux-gnu.so", "pyarrow/libarrow.so.2100", "pyarrow/libarrow_python.so.2100"),
    *("pyarrow/parquet/core.py", "pyarrow/libparquet.so.2100", "zstandard/backend_c.cpython-313-aarch64-linux-gnu.so"),
    *("botocore/data/s3/2006-03-01/service-2.json.gz", "botocore/data/endpoints.json", "botocore/client.py"),
}
CLUTTER = {
    *("bin/f2py", "numpy/tests/test_a.py", "pyarrow/include/api.h", "six/__pycache__/six.pyc"),
    *("pyarrow/libarrow_flight.so.2100", "pyarrow/libarrow_python_flight.so.2100", "pyarrow/_flight.cpython-313.so"),
    *("pyarrow/libarrow_s3.so.2100", "pyarrow/_s3fs.cpython-313.so"),
    *("pyarrow/libarrow_python.so", "pyarrow/libarrow_python.so.2100.0.0", "zstandard/_cffi.cpython-313.so"),
    *("botocore/data/ec2/2016-11-15/service-2.json.gz", "botocore/data/s3control/2018-08-20/service-2.json.gz"),
}
# The lock file of the packages of all functions; those of the archive and of the doors have one more package each.
SLIM = "a==1 \\\n    --hash=sha256:1\n"
# A compiler that says how it was called, in a file named by the kind of folder that it compiles, and then fails.
COMPILER = """#!/bin/sh
for folder; do :; done
kind=$(basename "$(dirname "$folder")")
echo "$*" > "$folder/compiled-${kind%%-*}"
exit 1
"""


def write(folder: Path, *names: str) -> None:
    """Write files whose content is their name."""
    for name in names:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)


def list_files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lock files that were fetched: a copy of a folder takes the place of pip."""
    names: list[str] = []

    def copy(self: Packages, lock: Path, target: Path) -> list[str]:
        names.append(lock.read_text())
        if "a==" not in names[-1]:
            return ["touch", f"{target}/{names[-1].partition('=')[0]}.py"]
        return ["cp", "-r", f"{self._root}/fetched/.", str(target)]

    monkeypatch.setattr(Packages, "make_pip_command", copy)
    monkeypatch.setattr(Packages, "interpreter", None)
    return names


@pytest.fixture
def project(tmp_path: Path, fetched: list[str]) -> Path:
    assert not fetched
    write(tmp_path / "fetched", *NEEDED, *CLUTTER)
    write(tmp_path / "lambdas", "settings.py", "__pycache__/settings.pyc")
    for kind in ("", "-archive", "-doors", "-iceberg"):
        own = f"{kind[1:]}==1 \\\n    --hash=sha256:2\n" if kind else ""
        (tmp_path / "lambdas" / f"requirements{kind}.lock").write_text(f"# comment\n{SLIM}{own}")
    return tmp_path


def test_files_that_no_function_needs_are_left_out(project: Path) -> None:
    built = Assets(project, None, "dev").build_asset("requirements-archive.txt")
    assert list_files(built) == NEEDED | {"settings.py", "archive.py"}
    # Nothing of an unfinished build stays.
    assert {path.name.partition("-")[0] for path in (project / ".build").iterdir()} == {"asset", "code", "packages"}
    assert len(list((project / ".build").iterdir())) == 4


def test_each_kind_of_code_has_the_packages_of_its_own_list(project: Path, fetched: list[str]) -> None:
    assets = Assets(project, None, "dev")
    kinds: tuple[Kind, ...] = "slim", "archive", "doors", "slim"
    made = [assets.make_code(kind) for kind in kinds]
    # The packages of all functions are fetched once.
    more = [f"{name}==1 \\\n    --hash=sha256:2\n" for name in ("archive", "doors")]
    assert fetched == [SLIM, *more]
    made.append(Assets(project, None, "local").make_code("slim"))
    paths = [code.path for code in made if isinstance(code, lambda_.AssetCode)]
    # The emulator gets a file that names the folder.
    assert [path.endswith(".link.zip") for path in paths] == [False, False, False, False, True]


def test_a_list_with_other_versions_than_all_functions_have_is_fetched_whole(project: Path, fetched: list[str]) -> None:
    own = "a==7 \\\n    --hash=sha256:3\narchive==1 \\\n    --hash=sha256:2\n"
    (project / "lambdas" / "requirements-archive.lock").write_text(own)
    Assets(project, None, "dev").build_asset("requirements-archive.txt")
    assert fetched == [own]


def install(folder: Path, version: str, digest: str) -> None:
    """A package of the environment: a module, a program and bytecode."""
    write(folder, "archive.py")
    info = folder / f"archive-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Name: archive\nVersion: {version}\n")
    lines = [f"archive.py,sha256={digest},10", "../bin/archive,,", "__pycache__/archive.cpython-313.pyc,,"]
    (info / "RECORD").write_text("\n".join([*lines, f"{info.name}/METADATA,,", f"{info.name}/RECORD,,"]))


# The SHA-256 of "archive.py", which is the module's content.
DIGEST = "1vTyb7zrINrctZh21BqBomXiQgI2r6JNfaJkkVfHlL0"


@pytest.mark.parametrize(
    ("stage", "version", "digest", "fetches"),
    [
        ("local", "1", DIGEST, False),
        ("local", "2", DIGEST, True),
        ("local", "1", "A" * 43, True),
        ("dev", "1", DIGEST, True),
    ],
)
def test_a_local_stage_takes_what_the_environment_has_as_the_list_names_it(
    project: Path,
    fetched: list[str],
    monkeypatch: pytest.MonkeyPatch,
    stage: str,
    version: str,
    digest: str,
    fetches: bool,
) -> None:
    install(project / "site", version, digest)
    monkeypatch.syspath_prepend(project / "site")
    built = Assets(project, None, stage).build_asset("requirements-archive.txt")
    assert sorted(fetched) == [SLIM, *["archive==1 \\\n    --hash=sha256:2\n"] * fetches]
    assert "archive.py" in list_files(built)
    assert ("archive-1.dist-info/METADATA" in list_files(built)) is not fetches


def test_a_package_that_the_environment_has_from_a_folder_is_fetched(
    project: Path, fetched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(project / "site", "1", DIGEST)
    (project / "site" / "archive-1.dist-info" / "direct_url.json").write_text('{"url": "file:///archive"}')
    monkeypatch.syspath_prepend(project / "site")
    Packages(project, local=True).install("requirements-archive.txt")
    assert len(fetched) == 2


def test_an_asset_is_built_anew_if_anything_in_it_changes(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(requirements: str = "requirements.txt", architecture: str = "arm64") -> Path:
        return Assets(project, None, "dev", architecture).build_asset(requirements)

    built = [build(), build("requirements-doors.txt"), build(architecture="x86_64")]
    (project / "lambdas" / "requirements.lock").write_text("a==2 \\\n    --hash=sha256:9\n")
    built.append(build())
    (project / "lambdas" / "settings.py").rename(project / "lambdas" / "other.py")
    built.append(build())
    compiler = project / "compiler"
    compiler.write_text(COMPILER)
    compiler.chmod(0o755)
    monkeypatch.setattr(Packages, "interpreter", str(compiler))
    built.append(build())
    assert len({folder.name for folder in built}) == 6
    # A module that does not compile, such as one for another version of Python, ends no build.
    assert list_files(built[-1]) - list_files(built[-2]) == {"compiled-packages", "compiled-code"}
    for kind in ("packages", "code"):
        options, folder, again = (built[-1] / f"compiled-{kind}").read_text().rsplit(maxsplit=2)
        assert options == "-m compileall -q -j 0 --invalidation-mode unchecked-hash -s"
        assert folder == again


def test_packages_that_pip_could_not_fetch_make_no_asset(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Packages, "make_pip_command", lambda *_: ["false"])
    with pytest.raises(subprocess.CalledProcessError):
        Assets(project, None, "dev").build_asset("requirements.txt")
    assert list((project / ".build").iterdir()) == []


def test_of_two_builds_at_once_the_second_waits_for_the_first(tmp_path: Path) -> None:
    folder = tmp_path / ".build" / "asset-1"
    begun, may_end = Event(), Event()

    def fill_slowly(partial: Path) -> None:
        begun.set()
        assert may_end.wait(10)
        write(partial, "first")

    def fail(partial: Path) -> None:
        raise AssertionError(partial)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(build_once, folder, fill_slowly)
        assert begun.wait(10)
        second = pool.submit(build_once, folder, fail)
        assert not wait([second], 0.1).done
        may_end.set()
        assert first.result() == second.result() == folder
    assert list_files(tmp_path / ".build") == {"asset-1/first"}


def test_a_build_that_fails_leaves_nothing_and_another_may_build(tmp_path: Path) -> None:
    folder = tmp_path / ".build" / "asset-2"
    with pytest.raises(FileNotFoundError):
        build_once(folder, lambda partial: partial.rmdir())
    assert list((tmp_path / ".build").iterdir()) == []

    def overtake(partial: Path) -> None:
        write(partial, "second")
        write(folder, "first")

    assert build_once(folder, overtake) == folder
    assert list_files(tmp_path / ".build") == {"asset-2/first"}


def test_the_packages_of_all_lists_are_fetched_at_the_same_time(
    project: Path, fetched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    together = Barrier(4, timeout=10)
    fetch = Packages._fetch_packages

    def meet(self: Packages, entries: set[str], target: Path) -> None:
        together.wait()
        fetch(self, entries, target)

    monkeypatch.setattr(Packages, "_fetch_packages", meet)
    packages = Packages(project, local=True)
    packages.install_all()
    assert len(fetched) == 4
    assert {"archive.py", "pyarrow/lib.cpython-313-aarch64-linux-gnu.so"} <= list_files(
        packages.install("requirements-archive.txt")
    )
    assert len(fetched) == 4


def test_pip_fetches_the_locked_wheels_of_the_functions_platform(tmp_path: Path) -> None:
    command = Packages(ROOT, local=False).make_pip_command(ROOT / "lambdas" / "requirements-doors.lock", tmp_path)
    assert command == [
        *(sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--quiet", "--no-compile"),
        *("--platform", "manylinux2014_aarch64", "--platform", "manylinux_2_28_aarch64"),
        *("--implementation", "cp", "--python-version", "3.13", "--only-binary=:all:"),
        *("--target", str(tmp_path), "--require-hashes", "--no-deps"),
        *("-r", str(ROOT / "lambdas" / "requirements-doors.lock")),
    ]


@pytest.mark.parametrize(
    ("version", "found", "expected"),
    [
        ((3, 11), "/bin/true", "/bin/true"),
        # A version manager has a command for each version, which fails if the version is not installed.
        ((3, 11), "/bin/false", None),
        ((3, 13), None, sys.executable),
    ],
)
def test_bytecode_is_made_by_a_python_of_the_functions_version(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: tuple[int, int], found: str | None, expected: str | None
) -> None:
    asked: list[str] = []

    def find_command(name: str) -> str | None:
        asked.append(name)
        return found

    monkeypatch.setattr(sys, "version_info", version)
    monkeypatch.setattr(shutil, "which", find_command)
    assert Packages(tmp_path, local=False).interpreter == expected
    assert asked == (["python3.13"] if version == (3, 11) else [])


SITE = {
    "site/index.html": "console/index.html",
    "site/icon.svg": "console/icon.svg",
    "site/style.css": "console/style.css",
    "site/js/app.js": "console/js/app.js",
    "site/runbook.md": "docs/operate/runbook.md",
    "site/uplot.js": "node_modules/uplot/dist/uPlot.iife.min.js",
    "site/uplot.css": "node_modules/uplot/dist/uPlot.min.css",
    "site/uplot-license.txt": "node_modules/uplot/LICENSE",
    "handlers/__init__.py": "lambdas/handlers/__init__.py",
    "handlers/console.py": "lambdas/handlers/console.py",
}


def test_the_consoles_asset_has_the_page_its_library_and_its_handler(tmp_path: Path) -> None:
    others = ("console/js/types.d.ts", "console/package.json", "lambdas/handlers/query.py", "lambdas/settings.py")
    write(tmp_path, *SITE.values(), *others)
    (tmp_path / "console" / "index.html").chmod(0o600)
    built = Assets(tmp_path, None, "dev").build_console()
    assert {name: (built / name).read_text() for name in list_files(built)} == SITE
    assert (built / "site" / "index.html").stat().st_mode & 0o777 == 0o644
    assert Assets(tmp_path, None, "dev").build_console() == built
    (tmp_path / "console" / "style.css").rename(tmp_path / "console" / "js" / "style.css")
    write(tmp_path, "console/style.css")
    assert Assets(tmp_path, None, "dev").build_console() != built
    shutil.rmtree(tmp_path / "node_modules")
    with pytest.raises(FileNotFoundError, match="uplot is missing: run `make setup`"):
        Assets(tmp_path, None, "dev").build_console()


def test_the_packages_describe_every_service_that_functions_call() -> None:
    source = Path(clients.__file__).read_text()
    called = set(re.findall(r'_(?:share|make_client)\(\s*"([a-z0-9-]+)"', source))
    assert {"dynamodb", "s3", "apigateway", "glue"} <= called
    # Credentials may need the service that gives them.
    assert called | set(feed_targets._TARGETS) | {"sts"} == SERVICES
