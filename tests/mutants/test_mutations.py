"""The sampler of mutations: what it changes, what it leaves as it is, and that a change reaches the import."""

from pathlib import Path

import pytest

from tests.mutants.__main__ import list_files, read_equivalent, sample_mutations
from tests.mutants.mutations import Mutation, find_mutations
from tests.mutants.rooms import ROOMS, find_room
from tests.mutants.runner import ROOT, _MutantFinder

CASES = [
    ("x = a < b", {"comparison: a < b -> (a <= b)"}),
    ("x = a is None", {"comparison: a is None -> (a is not None)"}),
    ("x = a and b", {"and-or: a and b -> (a or b)"}),
    ("x = not a", {"not: not a -> (a)"}),
    ("x = a - b", {"arithmetic: a - b -> (a + b)"}),
    ("x = 'a ' + b", set()),
    ("x = 3", {"constant: 3 -> 4"}),
    ("x = True", {"constant: True -> False"}),
    ("x = 'state'", {"constant: 'state' -> 'state~'"}),
    ("x = 'a sentence is no name'", set()),
    ("write(a)", {"dropped call: write(a) -> pass"}),
    ("x = write(a, b)", {"swapped arguments: write(a, b) -> write(b, a)"}),
    ("x = write(a, a)", set()),
    ("x = write(a, now=b)", {"lost keyword argument: write(a, now=b) -> write(a)"}),
    ("try:\n    a\nexcept KeyError:\n    b", {"removed handler: b -> raise"}),
    ('def read(a: "str") -> "int":\n    """Read 3."""\n    return a', set()),
    ("logger.info('started', extra=a)", {"dropped call: logger.info('started', extra=a) -> pass"}),
    ("from a import b\nassert a < b", set()),
    ("x = zip(a, b, strict=True)", {"swapped arguments: zip(a, b, strict=True) -> zip(b, a, strict=True)"}),
    ("@dataclass(frozen=True, slots=True)\nclass A:\n    a: 'int'", set()),
    ("x = TypeVar('T')", set()),
    ("x = max(a, b)", set()),
]


@pytest.mark.parametrize("source, expected", CASES)
def test_each_kind_of_node_is_changed_in_its_way(tmp_path: Path, source: str, expected: set[str]) -> None:
    file = tmp_path / "module.py"
    file.write_text(source)
    shown = {mutation.show().partition(" ")[2] for mutation in find_mutations(file, "module.py")}
    assert shown == expected


def test_only_the_piece_itself_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text("x = 'ä'\ny = [1, a < b]\n")
    (mutation,) = (found for found in find_mutations(file, "module.py") if found.kind == "comparison")
    assert mutation.apply_to(file.read_bytes()).decode() == "x = 'ä'\ny = [1, (a <= b)]\n"


def test_a_seed_gives_the_same_sample_each_time_and_another_seed_another_one() -> None:
    paths = ["lambdas/tidetable/query"]
    assert sample_mutations(paths, 7, 40) == sample_mutations(paths, 7, 40)
    assert sample_mutations(paths, 7, 40) != sample_mutations(paths, 8, 40)


def test_the_changed_source_is_imported_in_place_of_the_file() -> None:
    path = "lambdas/tidetable/window.py"
    source = (ROOT / path).read_bytes()
    mutation = Mutation(path, "constant", 1, len(source), len(source), "", "\nMUTATED = 1\n")
    spec = _MutantFinder(mutation).find_spec("tidetable.window", [str(ROOT / "lambdas/tidetable")])
    assert spec is not None
    assert spec.loader is not None
    code = spec.loader.get_code("tidetable.window")  # type: ignore[attr-defined]
    assert "MUTATED" in code.co_names
    assert _MutantFinder(mutation).find_spec("tidetable.values", [str(ROOT / "lambdas/tidetable")]) is None


def test_every_module_of_the_functions_has_a_room_and_every_room_exists() -> None:
    assert {find_room(file) for file in list_files(["lambdas"])} <= {*ROOMS.values()}
    missing = {name for names in ROOMS.values() for name in names if not (ROOT / "tests" / name).is_dir()}
    assert missing == set()


def test_each_mutation_that_is_known_as_equivalent_still_fits_its_file_and_has_a_reason() -> None:
    known = read_equivalent()
    paths = {path for path, _, _ in known}
    found = {mutation.describe() for path in paths for mutation in find_mutations(ROOT / path, path)}
    assert known.keys() - found == set()
    assert all(len(reason.split()) > 3 for reason in known.values())


def test_the_same_change_of_another_line_is_another_mutation(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text("a = 'x'\nb = 'x'\n")
    first, second = find_mutations(file, "module.py")
    assert first.describe() == ("module.py", "a = 'x'", "'x' -> 'x~'")
    assert second.describe() == ("module.py", "b = 'x'", "'x' -> 'x~'")
