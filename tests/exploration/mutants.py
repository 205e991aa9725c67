"""Small faults planted in the production code, one at a time: an explorer that finds none of them would prove nothing.

They are made mechanically from the source: a comparison turned, a condition left out, a statement dropped, a verdict
turned round. Only the code object of the one function is exchanged, so whoever has imported it gets the mutant as well.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator
    from types import CodeType, FunctionType, ModuleType

_TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}


class Mutant(NamedTuple):
    """One planted fault."""

    function: FunctionType
    code: CodeType
    name: str

    @contextlib.contextmanager
    def planted(self) -> Iterator[None]:
        was = self.function.__code__
        self.function.__code__ = self.code
        try:
            yield
        finally:
            self.function.__code__ = was


def mutants_of(function: Any, only: Container[str] | None = None) -> Iterator[Mutant]:
    """Every mutant of one function, or those with one of the names."""
    module = inspect.getmodule(function)
    assert module is not None
    for number in range(10_000):
        tree = ast.parse(_source(module))
        found = _function(tree, function.__qualname__)
        changes = list(_changes(found))
        if number >= len(changes):
            return
        before, change = changes[number]
        change()
        name = f"{function.__qualname__}: {before} → {_LAST[-1]}"
        if only is not None and name not in only:
            continue
        code = _code(compile(ast.fix_missing_locations(tree), "<mutant>", "exec"), function.__qualname__)
        if code.co_freevars == function.__code__.co_freevars:
            yield Mutant(function, code, name)


@cache
def _source(module: ModuleType) -> str:
    assert module.__file__ is not None
    return Path(module.__file__).read_text()


def _function(tree: ast.AST, qualname: str) -> Any:
    node: Any = tree
    for name in qualname.split("."):
        node = next(
            child
            for child in ast.walk(node)
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and child.name == name
        )
    return node


def _code(code: CodeType, qualname: str) -> CodeType:
    found = [code]
    for inner in found:
        if inner.co_qualname == qualname:
            return inner
        found.extend(const for const in inner.co_consts if hasattr(const, "co_qualname"))
    raise LookupError(qualname)


_LAST: list[str] = []


def _changes(function: ast.AST) -> Iterator[tuple[str, Callable[[], None]]]:
    """What could be changed, as text and as an action on the tree."""
    for parent in ast.walk(function):
        for field, value in ast.iter_fields(parent):
            if isinstance(value, list):
                for index, node in enumerate(value):
                    yield from _of_node(node, _setter(value, index), isinstance(node, ast.stmt))
            elif isinstance(value, ast.AST):
                yield from _of_node(value, _attribute(parent, field), False)


def _setter(values: list[Any], index: int) -> Callable[[Any], None]:
    def put(node: Any) -> None:
        values[index] = node

    return put


def _attribute(parent: Any, field: str) -> Callable[[Any], None]:
    return lambda node: setattr(parent, field, node)


def _of_node(
    node: Any, put: Callable[[Any], None], is_statement: bool
) -> Iterator[tuple[str, Callable[[], None]]]:
    def to(new: Any) -> Callable[[], None]:
        def change() -> None:
            text = "nothing" if isinstance(new, ast.Pass) else ast.unparse(new).splitlines()[0]
            _LAST[:] = [text]
            put(new)

        return change

    text = ast.unparse(node).splitlines()[0] if isinstance(node, ast.expr | ast.stmt) else ""
    match node:
        case ast.Compare(left, [op], comparators) if type(op) in _TURNED:
            yield text, to(ast.Compare(left, [_TURNED[type(op)]()], comparators))
        case ast.BoolOp(op, values):
            for index in range(len(values)):
                rest = [*values[:index], *values[index + 1 :]]
                yield text, to(rest[0] if len(rest) == 1 else ast.BoolOp(op, rest))
        case ast.UnaryOp(ast.Not(), operand):
            yield text, to(operand)
        case ast.If(_, body, orelse):
            yield text, to(ast.If(ast.Constant(False), body, orelse))
        case ast.Return(ast.Constant(bool() as value)):
            yield text, to(ast.Return(ast.Constant(not value)))
        case ast.Expr(ast.Call()) | ast.AugAssign() | ast.Assign([ast.Attribute()]) if is_statement:
            yield text, to(ast.Pass())
        case _:
            pass
