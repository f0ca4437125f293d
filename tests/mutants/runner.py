"""Run tests against one mutation: a fork of a process that has imported the libraries already.

A mutation is never written to disk: the child imports the changed source in place of the file.
"""

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import resource
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType

import pytest

from tests.mutants.mutations import Mutation

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
# A mutation may make a loop endless, or let a thread wait for ever. Either limit is far beyond an unchanged run's need,
# and reaching it counts as noticed.
_CPU_FACTOR, _CPU_SECONDS = 4, 30
_WALL_FACTOR, _WALL_SECONDS = 20, 120


@dataclass(frozen=True)
class Outcome:
    """``passed``, ``failed`` or ``stopped`` (a limit was reached); the first failed test; seconds of CPU."""

    result: str
    test: str
    seconds: float


def import_libraries() -> None:
    """Import what the forks share. A library that is not installed is left to the tests."""
    for name in _LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def run_tests(folder: str, mutation: Mutation | None, usual: float = 600) -> Outcome:
    """Run ``tests/folder`` until the first failure. ``usual`` is the CPU time in seconds of an unchanged run."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        _run_child(folder, mutation, writer, int(usual * _CPU_FACTOR) + _CPU_SECONDS)
    os.close(writer)
    status, seconds = _wait(child, usual * _WALL_FACTOR + _WALL_SECONDS)
    with os.fdopen(reader) as pipe:
        test = pipe.read()
    if os.WIFSIGNALED(status):
        return Outcome("stopped", test, seconds)
    return Outcome("passed" if os.WEXITSTATUS(status) == 0 else "failed", test, seconds)


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


def _run_child(folder: str, mutation: Mutation | None, writer: int, cpu_limit: int) -> None:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_limit, cpu_limit))
    silence = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(silence, descriptor)
    os.environ["CI"] = "true"  # Hypothesis then draws the same examples in each run
    os.chdir(ROOT)
    if mutation:
        sys.meta_path.insert(0, _MutantFinder(mutation))
    watcher = _Watcher()
    code = 3
    with contextlib.suppress(BaseException):
        near = _list_near_tests(folder, mutation) if mutation else []
        code = (near and _run_pytest(near, watcher)) or _run_pytest([f"tests/{folder}"], watcher)
    os.write(writer, watcher.failed.encode())
    os._exit(code)


def _run_pytest(paths: list[str], watcher: "_Watcher") -> int:
    return int(
        pytest.main(
            ["-x", "-q", "--no-header", "--tb=no", "-n", "0", "-p", "no:cacheprovider", *paths], plugins=[watcher]
        )
    )


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
