"""Finds columns that contain a min or max, and the column behind. A row decides such a measure if it has that value.

This holds only if every row behind an output row brings its own value of one column into the measure: no self-join that
adds rows without it, no window (whose peers are rows behind, but not of the group), no computed argument (whose value
only Spark knows). Otherwise the result is None.
"""

from __future__ import annotations

from typing import assert_never

from lineage_service.plan.expressions import Expression
from lineage_service.plan.nodes import (
    Aggregate,
    Difference,
    Distinct,
    Explode,
    Filter,
    Intersect,
    Join,
    Limit,
    NamedExpression,
    Node,
    OuterValues,
    Project,
    Sort,
    Source,
    Union,
    Window,
    WithColumns,
)


def deciding_column(node: Node, name: str, target: Node) -> str | None:
    """The column of `target` whose value decides the min or max in column `name` of `node`: a row decides it if it has
    the same value. None if there is none.
    """
    return None if node.id == target.id else _Search(target).find(node, name, None)


def is_extremum(node: Node, name: str, known: dict[tuple[str, str], bool] | None = None) -> bool:
    """Whether a column is, or may be, a min or max, as far as it can be followed without computations."""
    known = {} if known is None else known
    key = (node.id, name.lower())
    if key not in known:
        known[key] = any(
            True if below is None else is_extremum(below, own, known) for below, own in _unchanged_origins(node, name)
        )
    return known[key]


def _unchanged_origins(node: Node, name: str) -> list[tuple[Node | None, str]]:
    """Where the unchanged values of a column come from: inputs, with its name there. None instead of an input means a
    min or max.
    """
    match node:
        case Aggregate():
            measure = _find_by_name(node.measures, name)
            if measure is not None:
                return [(None, name)] if _extreme_function(measure.expression) else []
            own = _find_by_name(node.keys, name)
        case Project() | WithColumns():
            own = _find_by_name(node.columns, name)
        case Window():
            return [] if _find_by_name(node.measures, name) else [(node.input, name)]
        case Explode():
            return [] if name.lower() == node.alias.lower() else [(node.input, name)]
        case Filter() | Distinct() | Join() | Union() | Intersect() | Difference() | Sort() | Limit() | Source():
            return [(below, name) for below in node.inputs if below.schema.find(name) is not None]
        case _:
            assert_never(node)
    below = name if own is None else _plain_column(own.expression)
    return [] if below is None else [(node.inputs[0], below)]


class _Search:
    """One search for the column of one target. `function` is the measure on the path so far, min or max."""

    def __init__(self, target: Node) -> None:
        self.target = target
        self._below: dict[str, bool] = {}
        self._known: dict[tuple[str, str, str | None], str | None] = {}

    def find(self, node: Node, name: str, function: str | None) -> str | None:
        key = (node.id, name.lower(), function)
        if key not in self._known:  # a step may be read on many ways
            self._known[key] = self._find(node, name, function)
        return self._known[key]

    def _find(self, node: Node, name: str, function: str | None) -> str | None:
        if node.id == self.target.id:
            column = node.schema.find(name)
            return column.name if column is not None and function is not None else None
        match node:
            case Source() | Window() | OuterValues():
                return None
            case Filter() | Sort() | Limit() | Distinct():
                return self.find(node.input, name, function)
            case Project() | WithColumns():
                own = _find_by_name(node.columns, name)
                if own is None:
                    return self.find(node.input, name, function) if isinstance(node, WithColumns) else None
                below = _plain_column(own.expression)
                return None if below is None else self.find(node.input, below, function)
            case Explode():
                return None if name.lower() == node.alias.lower() else self.find(node.input, name, function)
            case Aggregate():
                return self._aggregate(node, name, function)
            case Join():
                return self._common_column(
                    node, [self._find_in_side(node, side, name, function) for side in node.inputs]
                )
            case Union() | Intersect():
                return self._common_column(node, [self.find(below, name, function) for below in node.inputs])
            case Difference():
                return None if self.is_below(node.right) else self.find(node.left, name, function)
            case _:
                assert_never(node)

    def _aggregate(self, node: Aggregate, name: str, function: str | None) -> str | None:
        key, measure = _find_by_name(node.keys, name), _find_by_name(node.measures, name)
        if measure is not None:
            own = _extreme_function(measure.expression)
            argument = _argument(measure.expression) if own and function in (None, own) else None
            return None if argument is None else self.find(node.input, argument, own)
        below = _plain_column(key.expression) if key is not None else None
        return None if below is None else self.find(node.input, below, function)

    def _find_in_side(self, node: Join, side: Node, name: str, function: str | None) -> str | None:
        """The result for a column of one side of a join, or of both by `using`."""
        shared = name.lower() in (each.lower() for each in node.using)
        only_left = node.how in ("semi", "anti") or (shared and node.how == "left")
        if (side is node.right and only_left) or (side is node.left and shared and node.how == "right"):
            return None
        return self.find(side, name, function) if side.schema.find(name) is not None else None

    def _common_column(self, node: Node, found: list[str | None]) -> str | None:
        """The column on which all inputs with rows of the target agree."""
        mine = {each for below, each in zip(node.inputs, found, strict=True) if self.is_below(below)}
        return mine.pop() if len(mine) == 1 else None

    def is_below(self, node: Node) -> bool:
        """Whether rows of the target are behind rows of a node."""
        if node.id not in self._below:
            self._below[node.id] = node.id == self.target.id or any(map(self.is_below, node.inputs))
        return self._below[node.id]


def _find_by_name(columns: tuple[NamedExpression, ...], name: str) -> NamedExpression | None:
    return next((each for each in columns if each.name.lower() == name.lower()), None)


def _plain_column(expression: Expression) -> str | None:
    """The column that an expression consists of; None for any other expression."""
    from sqlglot import exp

    tree = expression.tree
    return tree.name if isinstance(tree, exp.Column) and len(tree.parts) == 1 else None


def _extreme_function(expression: Expression) -> str | None:
    from sqlglot import exp

    tree = expression.tree
    if tree.expressions:
        return None
    return "min" if type(tree) is exp.Min else "max" if type(tree) is exp.Max else None


def _argument(expression: Expression) -> str | None:
    """The column that is the argument of min or max."""
    from sqlglot import exp

    inner = expression.tree.this
    return inner.name if isinstance(inner, exp.Column) and len(inner.parts) == 1 else None
