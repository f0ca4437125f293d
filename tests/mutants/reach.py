"""Which tests reach which lines of the functions: measured once per folder, so that a mutation runs only those tests."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from coverage import Coverage

from tests.mutants.mutations import Mutation

ROOT = Path(__file__).parents[2]
# The name of what a fixture of a whole folder or run reaches: each test may depend on it.
_EVERY_TEST = "*"


@dataclass(frozen=True)
class Reach:
    """The tests, by node id, that reach each line of each file. ``*`` stands for every test, ``file.py`` for a module."""

    lines: dict[str, dict[int, list[str]]]

    def list_tests(self, mutation: Mutation) -> frozenset[str] | None:
        """The tests that reach a mutation; none if any test might, as the code runs when its module is imported."""
        lines = find_lines(ast.parse((ROOT / mutation.path).read_bytes()), mutation)
        if lines is None:
            return None
        reached = self.lines.get(mutation.path, {})
        tests = frozenset(test for line in lines for test in reached.get(line, ()))
        return None if _EVERY_TEST in tests else tests


def find_lines(tree: ast.Module, mutation: Mutation) -> range | None:
    """The lines of a mutation and of its statement; none if a function does not hold them, or remembers its results."""
    last = mutation.line + mutation.before.count("\n")
    inner: ast.stmt | None = None
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef) or not function.body[0].lineno <= mutation.line:
            continue
        if (function.end_lineno or 0) < last:
            continue
        if any("cache" in ast.unparse(decorator) for decorator in function.decorator_list):
            return None
        for statement in _list_statements(function):
            if statement.lineno <= mutation.line and last <= (statement.end_lineno or 0):
                inner = statement
    return range(inner.lineno, last + 1) if inner else None


def _list_statements(function: ast.FunctionDef) -> Iterator[ast.stmt]:
    """All statements of a function, an outer one before its inner ones."""
    for statement in function.body:
        yield from (node for node in ast.walk(statement) if isinstance(node, ast.stmt))


class Recorder:
    """A plugin of pytest: records the lines that each test and each fixture reaches."""

    def __init__(self) -> None:
        self.coverage = Coverage(data_file=None, source=[str(ROOT / "lambdas")], messages=False, config_file=False)
        self.test = ""

    def pytest_sessionstart(self) -> None:
        self.coverage.start()
        self.coverage.switch_context(_EVERY_TEST)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self.test = item.nodeid
        self.coverage.switch_context(self.test)
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        if fixturedef.scope == "function":
            return (yield)
        wide = fixturedef.scope in ("session", "package")
        self.coverage.switch_context(_EVERY_TEST if wide else self.test.partition("::")[0])
        try:
            return (yield)
        finally:
            self.coverage.switch_context(self.test)

    def read(self) -> Reach:
        """What was recorded, by paths from the project's root."""
        self.coverage.stop()
        data = self.coverage.get_data()
        lines = {}
        for file in data.measured_files():
            by_line = data.contexts_by_lineno(file)
            lines[Path(file).relative_to(ROOT).as_posix()] = {line: [*tests] for line, tests in by_line.items()}
        return Reach(lines)


class Selector:
    """A plugin of pytest: keeps some tests, those of the near modules first."""

    def __init__(self, tests: frozenset[str] | None, near: frozenset[str]) -> None:
        self.tests = tests
        self.near = near

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self.tests is not None:
            modules = {test for test in self.tests if "::" not in test}
            items[:] = [item for item in items if item.nodeid in self.tests or _name_module(item) in modules]
        items.sort(key=lambda item: _name_module(item) not in self.near)


def _name_module(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
