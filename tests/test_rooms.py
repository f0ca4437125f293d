"""The rooms of the functions' code: modules and rooms (the folders of the core) import each other in no circle.

An import counts wherever it stands: inside of a function, or for types only. Who imports a module of a package also
imports the package, with everything that the package imports.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.worlds.breaches import ROOT, find_files, imports, read_module

LAMBDAS = ROOT / "lambdas"
FILES = find_files("lambdas", 300)
CORE = "tidetable."


def name_module(file: Path) -> str:
    return ".".join(file.relative_to(LAMBDAS).with_suffix("").parts).removesuffix(".__init__")


def list_packages(module: str) -> set[str]:
    """The packages around a module, the outermost last."""
    parts = module.split(".")
    return {".".join(parts[:count]) for count in range(1, len(parts))}


def find_arrows(modules: Mapping[str, Path]) -> dict[str, set[str]]:
    """The modules and packages that each module imports, without the packages that it is in."""
    arrows = {}
    for module, file in modules.items():
        pairs = [(source, f"{source}.{taken}") for source, taken in read_module(file).pairs]
        named = {whole if whole in modules else source for source, whole in pairs}
        named |= {imported for imported in imports(file) if imported not in {source for source, _ in pairs}}
        around = set[str]().union(*map(list_packages, named)) - list_packages(module)
        arrows[module] = (named | around) & modules.keys() - {module}
    return arrows


def find_circle(arrows: Mapping[str, set[str]]) -> list[str]:
    """The modules of circles: whoever reads one of them needs the others. Empty if imports go one way."""
    while ends := {module for module, imported in arrows.items() if not imported & arrows.keys()}:
        arrows = {module: imported for module, imported in arrows.items() if module not in ends}
    while begins := set(arrows) - {module for imported in arrows.values() for module in imported}:
        arrows = {module: imported for module, imported in arrows.items() if module not in begins}
    return sorted(arrows)


ARROWS = find_arrows({name_module(file): file for file in FILES})


def find_room(module: str) -> str:
    """The folder of the core that a module is in; empty for modules beside the folders, and outside of the core."""
    rest = module.removeprefix(CORE)
    inside = module.startswith(CORE) and (LAMBDAS / "tidetable" / rest.partition(".")[0]).is_dir()
    return rest.partition(".")[0] if inside else ""


@pytest.mark.parametrize(
    ("arrows", "circle"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}, ["b", "c"]),
    ],
    ids=["one way", "a circle of two"],
)
def test_a_circle_is_found(arrows: dict[str, set[str]], circle: list[str]) -> None:
    assert find_circle(arrows) == circle


def test_imports_inside_of_functions_and_of_packages_count(tmp_path: Path) -> None:
    texts = {
        "config": "from config.check import check",
        "config.check": "def check(): from feed.read import read",
        "feed": "",
        "feed.read": "from config import Stream",
    }
    files = {module: tmp_path / f"{module}.py" for module in texts}
    for module, file in files.items():
        file.write_text(texts[module])
    arrows = find_arrows(files)
    assert arrows["config.check"] == {"feed", "feed.read"}
    assert find_circle(arrows) == ["config", "config.check", "feed.read"]


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert find_circle(ARROWS) == []


def test_no_rooms_import_each_other() -> None:
    rooms: dict[str, set[str]] = {}
    for module, imported in ARROWS.items():
        if room := find_room(module):
            rooms.setdefault(room, set()).update({other for other in map(find_room, imported) if other} - {room})
    assert len(rooms) > 10
    assert find_circle(rooms) == []
    # The refresher reads as queries do. Rollups' model is below both.
    assert rooms["query"] & {"rollups", "lifecycle", "archive", "ingest", "feed"} == set()
    assert rooms["rollup_model"] <= {"config", "forms", "layout", "packs", "ports"}


def test_copies_in_other_regions_have_one_room_with_a_narrow_door() -> None:
    """Whoever adds a caller of the room, or asks elsewhere which Regions have copies, changes these lists on purpose."""
    outside = [file for file in FILES if LAMBDAS / "tidetable" / "copies" not in file.parents]
    doors: dict[str, set[str]] = {}
    for file in outside:
        for module, taken in read_module(file).pairs:
            if module.startswith("tidetable.copies."):
                doors.setdefault(module.rpartition(".")[2], set()).add(taken)
    assert doors == {
        "catalog_copies": {"CatalogCopy", "follow_catalog", "remove_catalog_copies"},
        "reader": {"Copies"},
        "states": {"describe_changing_copies", "list_mirrors", "list_own_copies", "refuse_changing"},
        "table_copies": {
            *("Copy", "DeleteCopy", "begin_copy", "find_lost_copies", "fit_copies", "mark_copies", "needs_look"),
            "record_regions",
        },
    }
    knows = re.compile(r"\.replicas|\breplicas[=:]|former_regions")
    assert {name_module(file) for file in outside if knows.search(read_module(file).text)} == {
        *("tidetable.config.model", "tidetable.config.stage", "tidetable.config.derive"),
        *("tidetable.config.check_copies", "tidetable.config.check_stage"),
        *("tidetable.catalog", "aws.dynamodb.catalog_items", "bill.copied", "bill.workload_bill"),
    }


def list_item_makers(text: str) -> list[int]:
    """The lines of a module that make an item from an event: by the layout, by an index, or with an item's attributes."""
    calls, dicts = list[int](), list[int]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Dict):
            names = {key.value for key in node.keys if isinstance(key, ast.Constant)}
            dicts += [node.lineno] if {"pk", "sk", "at", "data"} <= names else []
        elif isinstance(node, ast.Call):
            is_maker = ast.unparse(node.func).endswith((".make_item", "index.make_attributes"))
            calls += [node.lineno] if is_maker else []
    return calls + dicts


def test_only_forms_make_items_of_events() -> None:
    """The layout knows the keys, and the forms use it; every writer makes a batch, and asks the period's form for puts."""
    makers = {path.relative_to(LAMBDAS).as_posix() for path in FILES if list_item_makers(path.read_text())}
    assert makers == {"tidetable/forms/plain.py", "tidetable/layout/period_layout.py"}


@pytest.mark.parametrize(
    "text",
    [
        "x = layout.make_item(event, at=1)",
        "item |= index.make_attributes(e)",
        "{'pk': a, 'sk': b, 'at': 1, 'data': {}}",
    ],
)
def test_each_way_to_make_an_item_is_found(text: str) -> None:
    assert list_item_makers(f"import a\n{text}\ncatalog_items.make_attributes(e)\n{{'pk': a}}") == [2]
