"""Run tests against one mutation: a fork of a process that has imported the libraries already.

A mutation is never written to disk: the child imports the changed source in place of the file.
"""

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import pickle
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType

import pytest

from tests.mutants.guard import guard_files
from tests.mutants.mutations import Mutation
from tests.mutants.reach import Reach, Recorder, Selector

ROOT = Path(__file__).parents[2]
# What most tests import; a fork then begins with them. aws_cdk is left out: its Node.js process cannot be shared.
_LIBRARIES = (
    "aws_lambda_powertools",
    "boto3",
    "botocore.session",
    "duckdb",
    "google.protobuf.json_format",
    "hypothesis",
    "msgspec",
    "nanoarrow",
    "opentelemetry.proto.collector.metrics.v1.metrics_service_pb2",
    "pyarrow.parquet",
    "pydantic",
)
# A mutation may make a loop endless, or let a thread wait for ever. Each limit is far beyond an unchanged run's need, and
# reaching it counts as noticed.
_CPU_FACTOR, _CPU_SECONDS = 4, 30
_WALL_FACTOR, _WALL_SECONDS = 20, 120
# For one test. No unchanged test of a room takes a tenth; but all of them take longer while their lines are recorded, and
# on a busy machine.
_TEST_SECONDS = 200
_RECORDED_SECONDS = 1200


@dataclass(frozen=True)
class Outcome:
    """``passed``, ``failed`` or ``stopped`` (a limit was reached); the first failed test; seconds of CPU."""

    result: str
    test: str
    seconds: float
    reach: Reach | None = None


def import_libraries() -> None:
    """Import what the forks share. A library that is not installed is left to the tests."""
    for name in _LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def measure_tests(folder: str) -> Outcome:
    """Run ``tests/folder`` without a mutation, and record which lines each test reaches."""
    return _fork_run(folder, None, None, 600)


def run_tests(folder: str, mutation: Mutation, usual: Outcome) -> Outcome:
    """Run the tests of ``tests/folder`` that reach a mutation, until the first failure."""
    tests = usual.reach.list_tests(mutation) if usual.reach else None
    if tests is not None and not tests:
        return Outcome("passed", "", 0)
    return _fork_run(folder, mutation, tests, usual.seconds)


def _fork_run(folder: str, mutation: Mutation | None, tests: frozenset[str] | None, usual: float) -> Outcome:
    reader, writer = os.pipe()
    place = tempfile.mkdtemp(prefix="mutant-")
    child = os.fork()
    if not child:
        os.close(reader)
        os.environ["HOME"] = os.environ["TMPDIR"] = tempfile.tempdir = place
        _start_child(int(usual * _CPU_FACTOR) + _CPU_SECONDS)
        guard_files(place)
        _run_child(folder, mutation, tests, writer, Path(place))
    os.close(writer)
    status, seconds = _wait(child, usual * _WALL_FACTOR + _WALL_SECONDS)
    with os.fdopen(reader) as pipe:
        test = pipe.read()
    file = Path(place) / "reach"
    reach = pickle.loads(file.read_bytes()) if file.exists() else None  # noqa: S301  our own child wrote it
    shutil.rmtree(place, ignore_errors=True)
    if os.WIFSIGNALED(status) or (os.WEXITSTATUS(status) and not test):
        return Outcome("stopped", test, seconds)
    return Outcome("passed" if os.WEXITSTATUS(status) == 0 else "failed", test, seconds, reach)


def _wait(child: int, limit: float) -> tuple[int, float]:
    """The exit status and the CPU time of a child, which is killed after ``limit`` seconds."""
    end = time.monotonic() + limit
    while True:
        done, status, usage = os.wait4(child, os.WNOHANG)
        if done:
            return status, usage.ru_utime + usage.ru_stime
        if time.monotonic() > end:
            os.killpg(child, signal.SIGKILL)
            end = float("inf")
        time.sleep(0.02)


def _start_child(cpu_limit: int) -> None:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_limit, cpu_limit))
    silence = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(silence, descriptor)
    os.environ["CI"] = "true"  # Hypothesis then draws the same examples in each run
    os.chdir(ROOT)


def _run_child(folder: str, mutation: Mutation | None, tests: frozenset[str] | None, writer: int, place: Path) -> None:
    code = 3
    watcher = _Watcher()
    with contextlib.suppress(BaseException):
        if mutation:
            sys.meta_path.insert(0, _MutantFinder(mutation))
            near = frozenset(_list_near_tests(folder, mutation))
            code = _run_pytest(folder, tests, _TEST_SECONDS, [watcher, Selector(tests, near)])
        else:
            recorder = Recorder()
            code = _run_pytest(folder, None, _RECORDED_SECONDS, [watcher, recorder])
            (place / "reach").write_bytes(pickle.dumps(recorder.read()))
    os.write(writer, watcher.failed.encode())
    os._exit(code)


def _run_pytest(folder: str, tests: frozenset[str] | None, seconds: int, plugins: list[object]) -> int:
    paths = sorted({test.partition("::")[0] for test in tests}) if tests else [f"tests/{folder}"]
    limit = f"faulthandler_timeout={seconds}"
    options = ["-x", "-q", "--no-header", "--tb=no", "-n", "0", "-p", "no:cacheprovider", "-o", limit]
    return int(pytest.main([*options, *paths], plugins=plugins))


def _list_near_tests(folder: str, mutation: Mutation) -> list[str]:
    """The test modules that name the changed module. They run first, as most mutations die in them."""
    module = mutation.path.removeprefix("lambdas/").removesuffix(".py").replace("/", ".")
    stem = module.rpartition(".")[2].strip("_")
    return [
        path.relative_to(ROOT).as_posix()
        for path in sorted((ROOT / "tests" / folder).glob("test_*.py"))
        if stem in path.stem or module in path.read_text()
    ]


class _Watcher:
    """Keeps the name of the first failed test."""

    def __init__(self) -> None:
        self.failed = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid


class _MutantFinder(importlib.abc.MetaPathFinder):
    """Finds the changed module before Python does."""

    def __init__(self, mutation: Mutation) -> None:
        self.mutation = mutation
        self.file = str(ROOT / mutation.path)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of the changed module; none for all others."""
        if fullname.rpartition(".")[2] not in (Path(self.file).stem, Path(self.file).parent.name):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin != self.file:
            return None
        loader = _MutantLoader(fullname, self.file, self.mutation)
        return importlib.util.spec_from_file_location(
            fullname, self.file, loader=loader, submodule_search_locations=spec.submodule_search_locations
        )


class _MutantLoader(importlib.machinery.SourceFileLoader):
    def __init__(self, fullname: str, path: str, mutation: Mutation) -> None:
        super().__init__(fullname, path)
        self.mutation = mutation

    def get_code(self, fullname: str) -> CodeType:
        """The code of the changed source. The kept bytecode of the file is passed over."""
        source = self.mutation.apply_to(Path(self.path).read_bytes())
        return compile(source, self.path, "exec", dont_inherit=True)
