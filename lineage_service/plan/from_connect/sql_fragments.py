"""Texts of SQL inside a program's expressions: `expr("a + 1")`, `selectExpr(…)`, `where("a > 1")`.

They are read as entries of a select list, with the names, functions and windows that SQL steps have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lineage_service.errors import Position
from lineage_service.plan import functions
from lineage_service.plan.from_connect.bound_expressions import (
    column_expression,
    expression,
    function_expression,
    text_expression,
)
from lineage_service.plan.from_connect.column_resolution import FoundColumn
from lineage_service.plan.from_connect.frame_context import FrameContext
from lineage_service.plan.from_connect.frames import Frame, FrameColumn
from lineage_service.plan.from_connect.messages import Message, Value
from lineage_service.plan.from_connect.untraceable import Untraceable
from lineage_service.plan.from_sql.block_state import BlockState
from lineage_service.plan.from_sql.expression_texts import (
    ExpressionTexts,
    aggregate_calls,
    call_name,
    subqueries_in,
    window_nodes,
)
from lineage_service.plan.from_sql.field_names import field_name
from lineage_service.plan.from_sql.refusals import SqlRefusal, UnknownName
from lineage_service.plan.from_sql.scopes import BoundColumn, Scope, ScopedRelation, parts_of
from lineage_service.plan.from_sql.spark_names import name_in_spark
from lineage_service.plan.from_sql.sql_context import SqlContext
from lineage_service.plan.from_sql.sql_windows import frame_text, function_text
from lineage_service.spec.sql_parsing import parse_query
from lineage_service.spec.sql_syntax import SqlSyntaxError
from lineage_service.spec.sql_text import SqlText

if TYPE_CHECKING:
    from sqlglot import exp

Find = Callable[[tuple[str, ...], "int | None", "Position | None"], FoundColumn]
_SELECT = "SELECT "


def bind_fragment(
    context: FrameContext, inputs: Sequence[Frame], text: str, position: Position | None, find: Find
) -> list[Message]:
    """The bound expressions that a text stands for: one, or those of a star."""
    place = position or context.position
    sql = SqlText(
        _SELECT + text, place.file if place else "", ((0, *((place.line, place.column) if place else (1, 1))),), False
    )
    try:
        select = parse_query(sql.text)
        if len(select.expressions) != 1 or any(
            value for key, value in select.args.items() if key not in ("expressions", "kind", "hint") and value
        ):
            raise Untraceable(f"the text {text!r} is no single expression", position)
        return _Fragment(context, inputs, sql, position, find).bind(select.expressions[0])
    except (SqlRefusal, SqlSyntaxError) as error:
        raise Untraceable(f"in {text!r}: {context.names.with_shown(error.message)}", position) from None


class _Fragment:
    """A text that is being bound."""

    def __init__(
        self, context: FrameContext, inputs: Sequence[Frame], sql: SqlText, position: Position | None, find: Find
    ) -> None:
        self.context, self.inputs, self.position, self.find = context, inputs, position, find
        none: Any = _no_query
        self.sql = SqlContext(sql, context.step, {}, none, none, none, none, names=context.names)
        self.columns = [column for frame in inputs for column in frame.columns]

    def bind(self, entry: exp.Expr) -> list[Message]:
        from sqlglot import exp

        for each in subqueries_in(entry):
            raise Untraceable(f"a subquery in an expression of text cannot be traced: {each.key}", self.position)
        if isinstance(entry, exp.Star):
            return [column_expression(each) for each in self._star(entry, None)]
        if isinstance(entry, exp.Column) and isinstance(entry.this, exp.Star):
            return [column_expression(each) for each in self._star(entry.this, entry)]
        if isinstance(entry, exp.Alias):
            return [self._named((entry.alias,), self._bound(entry.this))]
        if isinstance(entry, exp.Aliases):
            return [self._named(tuple(each.name for each in entry.expressions), self._bound(entry.this))]
        return [self._bound(entry)]

    def _named(self, names: tuple[str, ...], bound: Message) -> Message:
        return expression("alias", Message("Expression.Alias", {"expr": bound, "name": names}))

    def _bound(self, node: exp.Expr) -> Message:
        from sqlglot import exp

        name = call_name(self.sql, node)
        if name in functions.GENERATORS and name is not None:
            return function_expression(name, *(self._bound(each) for each in node.iter_expressions()))
        while isinstance(node, exp.Paren):
            node = node.this
        if isinstance(node, exp.Window):
            return self._window(node)
        if isinstance(node, exp.Column):
            return self._column(node)
        return self._text(node)

    def _column(self, node: exp.Column) -> Message:
        from lineage_service.plan.expressions import BARE_FUNCTIONS

        parts = parts_of(node)
        bare = len(parts) == 1 and parts[0].lower() in BARE_FUNCTIONS and not node.this.args.get("quoted")
        if bare and not any(column.is_called(parts[0]) for column in self.columns):
            return self._text(node)
        found = self.find(parts, None, self.position)
        if not found.fields:
            return column_expression(found.column)
        return self._text(node)

    def _text(self, node: exp.Expr) -> Message:
        """A text in which aggregates and windows are holes."""
        holes: dict[str, Message] = {}
        texts = self._texts(node)
        function = None
        for window in list(window_nodes(node)):
            self._hole(texts, holes, window, self._window(window))
        for call in aggregate_calls(self.sql, node):
            if call is node:
                function = call_name(self.sql, call)
            elif id(call) not in texts.computed:
                self._hole(texts, holes, call, self._text(call))
        block = BlockState(self.sql, {}, texts.scope, self.inputs[0].node, self._texts(node))
        bound = text_expression(texts.text(node), name=name_in_spark(block, node), holes=holes, function=function)
        field = field_name(node)
        if field is None:
            return bound
        inner = bound.fields["bound_text"]
        assert isinstance(inner, Message)
        return expression("bound_text", inner.replaced(field=field))

    def _hole(self, texts: ExpressionTexts, holes: dict[str, Message], node: exp.Expr, bound: Message) -> None:
        name = self.context.names.fresh("hole", "part")
        texts.computed[id(node)] = name
        holes[name] = bound

    def _window(self, window: exp.Window) -> Message:
        if window.args.get("alias") is not None:
            raise Untraceable("a named window in an expression of text cannot be traced", self.position)
        for inner in window_nodes(window):
            if inner is not window:
                raise Untraceable("a window function inside another cannot be traced", self.position)
        texts = self._texts(window)
        function = function_text(self.sql, texts, window)
        order = window.args.get("order")
        fields: dict[str, Value] = {
            "window_function": text_expression(function, function=self._window_function_name(window)),
            "partition_spec": tuple(self._bound(each) for each in window.args.get("partition_by") or ()),
            "order_spec": tuple(self._order(each) for each in (order.expressions if order is not None else ())),
        }
        frame = frame_text(self.sql, window)
        return expression("window", Message("BoundWindow", fields | ({} if frame is None else {"frame": frame})))

    def _window_function_name(self, window: exp.Window) -> str:
        from sqlglot import exp

        function = window.this
        while isinstance(function, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
            function = function.this
        return call_name(self.sql, function) or ""

    def _order(self, ordered: exp.Expr) -> Message:
        direction = "DESCENDING" if ordered.args.get("desc") else "ASCENDING"
        nulls = "FIRST" if ordered.args.get("nulls_first") else "LAST"
        fields: dict[str, Value] = {
            "child": self._bound(ordered.this),
            "direction": f"SORT_DIRECTION_{direction}",
            "null_ordering": f"SORT_NULLS_{nulls}",
        }
        return Message("Expression.SortOrder", fields)

    def _star(self, star: exp.Expr, qualified: exp.Column | None) -> list[FrameColumn]:
        if star.args.get("replace") or star.args.get("rename"):
            raise Untraceable("* REPLACE and * RENAME cannot be traced", self.position)
        left_out = {each.name.lower() for each in star.args.get("except_") or ()}
        target = tuple(part.name.lower() for part in qualified.parts[:-1]) if qualified is not None else ()
        found = [
            column
            for column in self.columns
            if not target or tuple(part.lower() for part in column.qualifier[-len(target) :]) == target
        ]
        if target and not found:
            raise Untraceable(
                f"'{'.'.join(target)}.*' cannot be traced: no data frame here is called so", self.position
            )
        return [each for each in found if (each.name or "").lower() not in left_out]

    def _texts(self, node: exp.Expr) -> ExpressionTexts:
        """How the node is written: names are resolved as the program's own are."""
        from sqlglot import exp

        relations: dict[str, list[BoundColumn]] = {}
        for column in self.columns:
            if column.qualifier:
                bound = BoundColumn(column.name, column.internal)
                relations.setdefault(column.qualifier[-1], []).append(bound)
        visible = [BoundColumn(column.name, column.internal) for column in self.columns]
        scope = Scope(tuple(ScopedRelation(name, tuple(each)) for name, each in relations.items()), tuple(visible))
        for name in node.find_all(exp.Column):
            try:
                scope.resolve(parts_of(name), 0)
            except UnknownName:
                try:
                    found = self.find(parts_of(name), None, self.position)
                except Untraceable:
                    continue  # a variable of a lambda; or it is refused when the text is made
                visible.append(BoundColumn(found.column.name, found.column.internal))
            except SqlRefusal:
                continue
        return ExpressionTexts(self.sql, Scope(scope.relations, tuple(visible)))


def _no_query(*_: object) -> None:
    raise Untraceable("a subquery in an expression of text cannot be traced")
