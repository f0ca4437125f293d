"""One word for one thing: in `lambdas/` no two public classes have one name, and few modules do."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.worlds.breaches import ROOT, find_files

FILES = find_files("lambdas", 300)


def list_classes(sources: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """The public classes of modules, each with the name of its module."""
    for name, text in sources.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, name


def find_shared(pairs: Iterable[tuple[str, str]], most: int) -> dict[str, list[str]]:
    """The names that more than ``most`` places have."""
    places = defaultdict(list)
    for name, place in pairs:
        places[name].append(place)
    return {name: held for name, held in places.items() if len(held) > most}


def test_a_name_of_two_classes_is_found() -> None:
    sources = {"a.py": "class Row: ...\nclass _Own: ...", "b.py": "class Row: ...\nclass _Own: ...\nclass Page: ..."}
    assert find_shared(list_classes(sources), 1) == {"Row": ["a.py", "b.py"]}


def test_no_two_public_classes_have_one_name() -> None:
    sources = {str(file.relative_to(ROOT)): file.read_text() for file in FILES}
    assert find_shared(list_classes(sources), 1) == {}


def test_at_most_two_modules_have_one_name() -> None:
    modules: list[Path] = [file for file in FILES if file.name != "__init__.py"]
    assert find_shared(((file.name, str(file.parent.relative_to(ROOT))) for file in modules), 2) == {}
