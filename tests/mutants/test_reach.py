"""Which tests a mutation runs, what it may write, and that a run without an end is stopped."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants.mutations import Mutation
from tests.mutants.reach import Reach
from tests.mutants.runner import ROOT, Outcome, run_tests

WINDOW = "lambdas/tidetable/window.py"
TIMES = "lambdas/tidetable/times.py"


def mutate(path: str, before: str, after: str) -> Mutation:
    source = (ROOT / path).read_bytes()
    start = source.index(before.encode())
    return Mutation(path, "made", source[:start].count(b"\n") + 1, start, start + len(before.encode()), before, after)


def test_a_mutation_of_a_function_runs_the_tests_that_reach_its_lines() -> None:
    mutation = mutate(TIMES, "[:26]", "[:25]")
    reach = Reach({TIMES: {mutation.line: ["tests/a.py::b", "tests/c.py::d"], mutation.line - 20: ["tests/e.py::f"]}})
    assert reach.list_tests(mutation) == frozenset({"tests/a.py::b", "tests/c.py::d"})
    assert Reach({}).list_tests(mutation) == frozenset()


def test_every_test_runs_if_the_line_is_run_at_the_import_or_by_a_shared_fixture() -> None:
    inside = mutate(TIMES, "[:26]", "[:25]")
    assert Reach({TIMES: {inside.line: ["*", "tests/a.py::b"]}}).list_tests(inside) is None
    outside = mutate(TIMES, "from datetime", "from  datetime")
    assert Reach({TIMES: {outside.line: ["tests/a.py::b"]}}).list_tests(outside) is None


def test_a_mutation_that_no_test_reaches_survives_without_a_run() -> None:
    outcome = run_tests("core", mutate(TIMES, "[:26]", "[:25]"), Outcome("passed", "", 1, Reach({})))
    assert (outcome.result, outcome.seconds) == ("passed", 0)


# A fork of pytest inside of pytest waits for locks of the outer one, so the run has a process of its own.
_RUN = """
import sys
from tests.mutants import runner
from tests.mutants.mutations import Mutation
from tests.mutants.reach import Reach
path, line, start, end, text, short = sys.argv[1:]
runner._CPU_SECONDS, runner._WALL_SECONDS, runner._TEST_SECONDS = 8, 20, 5
mutation = Mutation(path, "made", int(line), int(start), int(end), "", text)
usual = runner.Outcome("passed", "", 0, Reach({path: {int(line): [short]}}))
print(runner.run_tests("core", mutation, usual).result)
"""


def run_short(statement: str, folder: Path) -> str:
    """Run one module of tests with a statement at the start of `to_text`, with short limits. Return what came of it."""
    before = 'return f"{text[1:27]}Z" if instant.microsecond else f"{text[1:20]}.000000Z"'
    mutation = mutate(TIMES, before, f"{statement}; return ''")
    arguments = [TIMES, mutation.line, mutation.start, mutation.end, mutation.after, "tests/core/test_times.py"]
    run = [sys.executable, "-c", _RUN, *map(str, arguments)]
    environment = {**os.environ, "TMPDIR": str(folder)}
    done = subprocess.run(run, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)  # noqa: S603
    return done.stdout.strip()


@pytest.mark.parametrize(
    "statement", ["while True: pass", "import threading; threading.Event().wait()"], ids=["loops", "waits"]
)
def test_a_mutation_without_an_end_is_stopped(tmp_path: Path, statement: str) -> None:
    body = statement if statement.startswith("import") else "[None for _ in iter(int, 1)]"
    assert run_short(body, tmp_path) == "stopped"


def test_a_mutation_cannot_change_a_file_outside_of_its_folder(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.write_text("kept")
    inside.mkdir()
    for change in ("open({0!r}, 'w')", "os.rename({0!r}, {0!r} + '2')"):
        outcome = run_short("import os; " + change.format(str(outside)), inside)
        assert outcome == "failed"
        assert outside.read_text() == "kept"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["inside", "outside"]


def test_home_and_temporary_folders_of_a_mutation_are_its_own_and_go_with_it(tmp_path: Path) -> None:
    written = "import os, tempfile; open(os.path.expanduser('~/x'), 'w').close(); tempfile.mkdtemp()"
    assert run_short(written, tmp_path) == "failed", "to_text returned nothing"
    assert [*tmp_path.iterdir()] == []
