"""Finds test functions that assert nothing if what they loop over is empty, by reading their source.

An assertion is sure if it is evaluated however many rows a question gives. An assertion in the body of a `for` over
something computed is not, nor is `all(...)` over it: both hold if there are no rows. A test needs one sure assertion,
usually that the rows are there. "This list of problems is empty" is sure: that is what such a test asks.
"""

import ast
from collections.abc import Iterator
from functools import cached_property

Names = dict[str, ast.expr]  # what the names stand for that are assigned once
KEEP_LENGTH = ("enumerate", "sorted", "reversed", "list", "tuple", "set")
PARTS = ("items", "values", "keys", "split", "splitlines")


class Assertions:
    """The assertions of one module."""

    def __init__(self, source: str) -> None:
        self._tree = ast.parse(source)

    def unsure_tests(self) -> list[str]:
        """Names of the tests that assert something, but nothing for sure."""
        tests = (name for name in self._functions if name.startswith("test_"))
        return [name for name in tests if self._are_sure(name) == {False}]

    @cached_property
    def _functions(self) -> dict[str, ast.FunctionDef]:
        return {node.name: node for node in ast.walk(self._tree) if isinstance(node, ast.FunctionDef)}

    def _are_sure(self, name: str, callers: frozenset[str] = frozenset()) -> set[bool]:
        """Whether the assertions of a function, and of functions of its module that it calls, are sure."""
        function = self._functions[name]
        names = assigned_once(self._tree.body) | assigned_once(function.body)
        found: set[bool] = set()
        for node, sure in evaluated(function.body, names, True):
            match node:
                case ast.Assert(test=test):
                    found.add(sure and not holds_of_nothing(test, names))
                case ast.With(items=[ast.withitem(context_expr=entered), *_]) if "raises" in ast.unparse(entered):
                    found.add(sure)
                case ast.Call(func=ast.Name(id=called)) if called in self._functions.keys() - callers - {name}:
                    found |= {sure and each for each in self._are_sure(called, callers | {name})}
        return found


def assigned_once(body: list[ast.stmt]) -> Names:
    found: dict[str, list[ast.expr]] = {}
    for node in body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).append(node.value)
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def evaluated(body: list[ast.stmt], names: Names, sure: bool) -> Iterator[tuple[ast.AST, bool]]:
    """The nodes of statements, with whether loops let them be reached for sure; functions defined there are left out."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            continue
        yield statement, sure
        is_loop = isinstance(statement, ast.For | ast.While)
        enters = not is_loop or (isinstance(statement, ast.For) and has_elements(statement.iter, names))
        for part in ast.iter_child_nodes(statement):
            if isinstance(part, ast.stmt):
                yield from evaluated([part], names, sure and enters)
            elif isinstance(part, ast.ExceptHandler | ast.match_case):
                yield from evaluated(part.body, names, sure)
            else:
                yield from ((node, sure) for node in ast.walk(part))


def holds_of_nothing(test: ast.expr, names: Names) -> bool:
    """Whether a condition is true of an empty iterable: all(…), not any(…)."""
    match test:
        case (
            ast.Call(func=ast.Name(id="all"), args=[ast.GeneratorExp(generators=generators)])
            | ast.UnaryOp(
                op=ast.Not(),
                operand=ast.Call(func=ast.Name(id="any"), args=[ast.GeneratorExp(generators=generators)]),
            )
        ):
            return not all(has_elements(each.iter, names) for each in generators)
        case ast.BoolOp(op=ast.And(), values=values):
            return all(holds_of_nothing(each, names) for each in values)
    return False


def has_elements(node: ast.expr, names: Names) -> bool:
    """Whether the text of an iterable alone shows that it has elements."""
    match node:
        case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
            return any(not isinstance(each, ast.Starred) or has_elements(each.value, names) for each in elements)
        case ast.Dict(keys=keys):
            return any(key is not None for key in keys)
        case ast.Constant(value=value):
            return bool(value)
        case ast.Name(id=name) if name in names:
            return has_elements(names[name], {other: value for other, value in names.items() if other != name})
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return all(not each.ifs and has_elements(each.iter, names) for each in node.generators)
        case ast.Call(func=ast.Name(id="range"), args=limits):
            return all(isinstance(each, ast.Constant) or ast.unparse(each).isupper() for each in limits)
        case ast.Call(func=ast.Name(id="zip"), args=iterables):
            return any(has_elements(each, names) for each in iterables)
        case ast.Call(func=ast.Name(id=name), args=[first, *_]) if name in KEEP_LENGTH:
            return has_elements(first, names)
        case ast.Call(func=ast.Attribute(value=whole, attr=name)) if name in PARTS:
            return has_elements(whole, names)
        case ast.BinOp(left=left, op=ast.Add() | ast.BitOr(), right=right):
            return has_elements(left, names) or has_elements(right, names)
    return False
