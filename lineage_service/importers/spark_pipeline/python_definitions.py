"""What a Python file of a pipeline defines, found in its syntax tree: the file is not executed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_DECORATORS = ("materialized_view", "table", "temporary_view", "view", "append_flow")
_CALLS = ("create_streaming_table", "create_sink", "create_auto_cdc_flow")


def python_definitions(text: str) -> tuple[tuple[str, str], ...] | None:
    """Pairs of what is defined, and its name; None for a text that is no Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return tuple(_definitions(tree))


def _definitions(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                kind = _function(decorator)
                if kind in _DECORATORS:
                    yield kind.replace("_", " "), _name(decorator) or node.name
        elif isinstance(node, ast.Call) and _function(node) in _CALLS:
            first = node.args[0] if node.args else None
            given = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""
            name = _name(node) or given
            if name:
                yield _function(node).removeprefix("create_").replace("_", " "), name


def _function(node: ast.expr) -> str:
    called = node.func if isinstance(node, ast.Call) else node
    return called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""


def _name(node: ast.expr) -> str:
    for keyword in node.keywords if isinstance(node, ast.Call) else ():
        if keyword.arg == "name" and isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, str):
            return keyword.value.value
    return ""
