"""Find what can be changed in a module, one small change at a time.

A mutation is a piece of the source and its replacement. Docstrings, annotations and the arguments of log calls stay as
they are: no result depends on them.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.Mult,
}
_NAME_LIKE = re.compile(r"[A-Za-z_#:.-][\w#:.-]{0,30}\Z")
# Keywords that change no result of a program that was right: they refuse mistakes, or save time and memory.
_NO_RESULT = {"frozen", "gc", "kw_only", "max_workers", "maxsize", "slots", "thread_name_prefix"}
_NAMING = {"NewType", "TypeVar", "cast", "logging.getLogger"}  # the first argument is for readers of the code
_SYMMETRIC = {"max", "min"}
_LOGGING = {"debug", "info", "warning", "error", "exception", "critical"}


@dataclass(frozen=True)
class Mutation:
    """One change of one file. ``start`` and ``end`` are offsets in the UTF-8 source."""

    path: str
    kind: str
    line: int
    start: int
    end: int
    before: str
    after: str
    text: str = ""
    """The line of the source on which it begins, without its indent."""

    def apply_to(self, source: bytes) -> bytes:
        """The source with this change."""
        return source[: self.start] + self.after.encode() + source[self.end :]

    def describe(self) -> tuple[str, str, str]:
        """What a list of known mutations says of one: its path, its line of the source, and what becomes what."""
        return (self.path, self.text, self.show().partition(f"{self.kind}: ")[2])

    def show(self) -> str:
        """One line: where, and what becomes what."""
        before, after = (" ".join(text.split()) for text in (self.before, self.after))
        return f"{self.path}:{self.line} {self.kind}: {before} -> {after}"


def find_mutations(path: Path, name: str) -> list[Mutation]:
    """All mutations of a file, in the order of the source. ``name`` is the path that is shown."""
    return list(_Finder(path.read_bytes(), name).find())


class _Finder:
    def __init__(self, source: bytes, name: str) -> None:
        self.source = source
        self.name = name
        self.tree = ast.parse(source)
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.fixed = set(_find_fixed(self.tree))

    def find(self) -> Iterator[Mutation]:
        """The mutations of all nodes but the fixed ones."""
        for node in ast.walk(self.tree):
            if id(node) in self.fixed:
                continue
            for kind, target, after in _change(node):
                if mutation := self._make(kind, target, after):
                    yield mutation

    def _make(self, kind: str, target: ast.expr | ast.stmt, after: str) -> Mutation | None:
        start, end = (
            self._place(target.lineno, target.col_offset),
            self._place(target.end_lineno, target.end_col_offset),
        )
        before = self.source[start:end].decode()
        text = self.source.splitlines()[target.lineno - 1].decode().strip()
        return None if before == after else Mutation(self.name, kind, target.lineno, start, end, before, after, text)

    def _place(self, line: int | None, column: int | None) -> int:
        assert line is not None
        assert column is not None
        return self.starts[line - 1] + column


def _change(node: ast.AST) -> Iterator[tuple[str, ast.expr | ast.stmt, str]]:
    """Kind, the node that is replaced, and the text that replaces it."""
    match node:
        case ast.Compare():
            yield from _change_comparison(node)
        case ast.BoolOp(op=operator, values=values):
            other = ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values)
            yield "and-or", node, f"({ast.unparse(other)})"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "not", node, f"({ast.unparse(operand)})"
        case ast.BinOp():
            yield from _change_arithmetic(node)
        case ast.Constant():
            yield from _change_constant(node)
        case ast.Call():
            yield from _change_call(node)
        case ast.Expr(value=ast.Call() | ast.YieldFrom()):
            yield "dropped call", node, "pass"
        case ast.Try(handlers=handlers):
            yield from _remove_handlers(handlers)


def _remove_handlers(handlers: list[ast.ExceptHandler]) -> Iterator[tuple[str, ast.stmt, str]]:
    for handler in handlers:
        first, last = handler.body[0], handler.body[-1]
        body = ast.Pass(lineno=first.lineno, col_offset=first.col_offset)
        body.end_lineno, body.end_col_offset = last.end_lineno, last.end_col_offset
        yield "removed handler", body, "raise"


def _change_arithmetic(node: ast.BinOp) -> Iterator[tuple[str, ast.expr, str]]:
    is_text = any(isinstance(side, ast.JoinedStr | ast.Constant) and _is_text(side) for side in (node.left, node.right))
    if type(node.op) in _ARITHMETIC and not is_text:
        yield "arithmetic", node, f"({ast.unparse(ast.BinOp(node.left, _ARITHMETIC[type(node.op)](), node.right))})"


def _is_text(node: ast.JoinedStr | ast.Constant) -> bool:
    return isinstance(node, ast.JoinedStr) or isinstance(node.value, str | bytes)


def _change_comparison(node: ast.Compare) -> Iterator[tuple[str, ast.expr, str]]:
    for place, operator in enumerate(node.ops):
        others = [*node.ops]
        others[place] = _COMPARISONS[type(operator)]()
        yield "comparison", node, f"({ast.unparse(ast.Compare(node.left, others, node.comparators))})"


def _change_constant(node: ast.Constant) -> Iterator[tuple[str, ast.expr, str]]:
    value = node.value
    if isinstance(value, bool):
        yield "constant", node, str(not value)
    elif isinstance(value, int | float):
        yield "constant", node, repr(value + 1)
    elif isinstance(value, str) and _NAME_LIKE.match(value):
        yield "constant", node, repr(value + "~")


def _change_call(node: ast.Call) -> Iterator[tuple[str, ast.expr, str]]:
    for place in range(len(node.args) - 1):
        first, second = node.args[place : place + 2]
        if (
            ast.unparse(node.func) in _SYMMETRIC
            or any(isinstance(item, ast.Starred) for item in (first, second))
            or ast.unparse(first) == ast.unparse(second)
        ):
            continue
        args = [*node.args[:place], second, first, *node.args[place + 2 :]]
        yield "swapped arguments", node, ast.unparse(ast.Call(node.func, args, node.keywords))
    for place, keyword in enumerate(node.keywords):
        if keyword.arg is not None and not _has_no_result(node, keyword):
            rest = [*node.keywords[:place], *node.keywords[place + 1 :]]
            yield "lost keyword argument", node, ast.unparse(ast.Call(node.func, node.args, rest))


def _has_no_result(node: ast.Call, keyword: ast.keyword) -> bool:
    return keyword.arg in _NO_RESULT or (keyword.arg == "strict" and ast.unparse(node.func) == "zip")


def _find_fixed(tree: ast.AST) -> Iterator[int]:
    """The ids of nodes that stay as they are, with all that is below them."""
    for node in ast.walk(tree):
        for part in _list_fixed_parts(node):
            yield from (id(below) for below in ast.walk(part))


def _list_fixed_parts(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node):
        yield node.body[0]
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):  # a docstring below a field
        yield node
    if isinstance(node, ast.AnnAssign | ast.arg) and node.annotation:
        yield node.annotation
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns:
        yield node.returns
    if isinstance(node, ast.Call | ast.keyword):
        yield from _list_parts_without_result(node)
    if isinstance(node, ast.Assert | ast.Import | ast.ImportFrom | ast.JoinedStr):
        yield node
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        yield node
    if isinstance(node, ast.Assign) and any(ast.unparse(target) == "__all__" for target in node.targets):
        yield node


def _list_parts_without_result(node: ast.Call | ast.keyword) -> Iterator[ast.AST]:
    if isinstance(node, ast.keyword):
        if node.arg in _NO_RESULT:
            yield node
        return
    yield from (keyword for keyword in node.keywords if _has_no_result(node, keyword))
    if ast.unparse(node.func) in _NAMING:
        yield from node.args[:1]
    if isinstance(node.func, ast.Attribute) and node.func.attr in _LOGGING:
        yield node


def is_python(source: bytes) -> bool:
    """Whether a changed source can be compiled."""
    try:
        compile(source, "<mutation>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True
