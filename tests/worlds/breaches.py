"""What the modules of this repository import, and what of that breaks a rule."""

import ast
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Module:
    """What the rules look at: the module's text, its imports, also those inside of functions, and names of attributes."""

    text: str
    imports: list[str]
    # The pairs of ``from module import name``.
    pairs: list[tuple[str, str]]
    attributes: set[str]


@cache
def read_module(file: Path) -> Module:
    """Parse a module once for all rules."""
    text = file.read_text()
    nodes = list(ast.walk(ast.parse(text)))
    pairs = [
        (node.module, alias.name)
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    ]
    attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return Module(text, list(name_imports(nodes)), pairs, attributes)


def imports(file: Path) -> list[str]:
    """The imports of a module, also those inside of functions."""
    return read_module(file).imports


def imports_at_once(file: Path) -> Iterator[str]:
    """The imports of a module itself: not those inside of functions, nor those for types only."""
    yield from name_imports(ast.parse(file.read_text()).body)


def name_imports(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def tops(file: Path) -> set[str]:
    return {name.partition(".")[0] for name in imports(file)}


def name(file: Path) -> str:
    return str(file.relative_to(ROOT))


def find_files(folder: str, least: int) -> list[Path]:
    """The modules of a folder and of those below it. Fails if they are fewer than expected: a rule needs files to look at."""
    files = sorted((ROOT / folder).rglob("*.py"))
    assert len(files) >= least, f"{folder} has {len(files)} modules"
    return files


def find_breaches(files: list[Path], find: Callable[[Path], Iterable[str]]) -> dict[str, list[str]]:
    """What breaks a rule, by the name of the file."""
    return {name(file): found for file in files if (found := sorted(find(file)))}


def find_foreign(*allowed: str) -> Callable[[Path], set[str]]:
    """A rule: a module imports only the standard library and the packages that are allowed."""
    return lambda file: tops(file) - sys.stdlib_module_names - set(allowed)
