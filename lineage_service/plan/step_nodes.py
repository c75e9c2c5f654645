"""One step of a workflow file to its plan node.

Resolves names, parses expressions, and collects every problem of the step. One case per operator.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import assert_never

from lineage_service.errors import Position, Problem
from lineage_service.plan.expressions import Expression, ExpressionError, SortKey, quote_identifier, sort_key
from lineage_service.plan.from_connect.messages import Message, from_json
from lineage_service.plan.from_connect.relation_compiler import compile_relation
from lineage_service.plan.from_connect.untraceable import Untraceable
from lineage_service.plan.from_sql.query_compiler import compile_sql
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
    PlanError,
    Project,
    Sort,
    Source,
    Union,
    Window,
    WithColumns,
)
from lineage_service.plan.schema import RESERVED, ColumnError, Schema
from lineage_service.plan.window_frames import WindowFrame, parse_frame
from lineage_service.spec.loader import LoadedWorkflow
from lineage_service.spec.sql_text import SqlText
from lineage_service.spec.step_models import (
    AggregateStep,
    AnyStep,
    DifferenceStep,
    DistinctStep,
    ExplodeStep,
    FilterStep,
    IntersectStep,
    JoinStep,
    LimitStep,
    ProjectStep,
    PysparkStep,
    SortStep,
    SqlStep,
    UnionStep,
    WindowStep,
    WithColumnsStep,
)


def _unnamed_hint(name: str, key: str) -> str | None:
    """What to write instead of an expression where columns are listed by name."""
    if key not in ("by", "columns"):
        return None
    if name == "*":
        return "list the columns; to add some and keep all others, use `op: with_columns`"
    renamed = re.fullmatch(r"(.+?)\s+as\s+(\w+)", name.strip(), re.IGNORECASE)
    if renamed:
        return f"with a name of its own: `{key}: {{{renamed[2]}: {renamed[1]}}}`"
    return f"an expression gets a name: `{key}: {{name: {name}}}`" if re.search(r"[(+*/]", name) else None


class StepNodeBuilder:
    """Builds the node of one step from the nodes of earlier steps and sources.

    Every problem is added to `problems`. The step fails at its end, so that all problems are found.
    """

    def __init__(self, loaded: LoadedWorkflow, nodes: Mapping[str, Node], index: int, step: AnyStep) -> None:
        self.loaded, self.nodes, self.index, self.step = loaded, nodes, index, step
        self.position = loaded.marks.at("steps", index)
        self.problems: list[Problem] = []
        self.failed = False

    def at(self, *path: str | int) -> Position:
        return self.loaded.marks.at("steps", self.index, *path)

    def problem(self, message: str, position: Position, hint: str | None = None) -> None:
        self.failed = True
        self.problems.append(Problem(message, position, hint))

    def input(self, name: str) -> Node:
        node = self.nodes.get(name)
        # An unknown name was reported by the loader; what reads it is checked as far as it goes.
        return node if node is not None else Source(name, name, None, Schema(known=False))

    def is_unresolved(self, *path: str | int) -> bool:
        """Whether a text has a variable without a value. It is not parsed then."""
        return ("steps", self.index, *path) in self.loaded.unresolved

    def expression(self, text: str, *path: str | int) -> Expression | None:
        if self.is_unresolved(*path):
            return None
        try:
            return Expression(text, self.at(*path))
        except ExpressionError as error:
            self.failed = True
            self.problems.append(error.at(self.at(*path)))
            return None

    def scalar(self, text: str, what: str, *path: str | int) -> Expression | None:
        """An expression over one row: without aggregate and window functions."""
        expression = self.expression(text, *path)
        if expression is None:
            return None
        if expression.has_over_clause or expression.needs_window:
            self.problem(f"{what} has a window function", self.at(*path), "use a step with `op: window`")
        elif expression.has_aggregate:
            self.problem(f"{what} has an aggregate function", self.at(*path), "use a step with `op: aggregate`")
        return expression

    def having(self, text: str, *path: str | int) -> Expression | None:
        expression = self.expression(text, *path)
        if expression is not None and (expression.has_over_clause or expression.needs_window):
            self.problem("`having` has a window function", self.at(*path), "use a step with `op: window`")
        elif expression is not None and expression.has_aggregate:
            self.problem(
                "`having` has an aggregate function",
                self.at(*path),
                "add it to `measures`, and compare the measure by its name",
            )
        return expression

    def named_expressions(
        self, given: Mapping[str, str], key: str, check: Callable[..., Expression | None]
    ) -> tuple[NamedExpression, ...]:
        result = []
        for name, text in given.items():
            self.refuse_reserved(name, key, name)
            expression = check(text, f"'{name}'", key, name)
            if expression is not None:
                result.append(NamedExpression(name, expression))
        return tuple(result)

    def resolve_columns(self, names: Iterable[str], schema: Schema, key: str) -> tuple[NamedExpression, ...]:
        """Plain column names, each with its position in the file. A result column is spelled as written, as in
        Spark.
        """
        result = []
        for index, name in enumerate(names):
            try:
                column = schema.resolve(name)
            except ColumnError as error:
                self.problem(error.message, self.at(key, index), _unnamed_hint(name, key) or error.hint)
            else:
                result.append(NamedExpression(name, Expression(quote_identifier(column.name), self.at(key, index))))
        return tuple(result)

    def columns(
        self, given: Mapping[str, str] | Iterable[str], schema: Schema, key: str
    ) -> tuple[NamedExpression, ...]:
        if isinstance(given, Mapping):
            return self.named_expressions(given, key, self.scalar)
        return self.resolve_columns(given, schema, key)

    def names(self, given: Iterable[str], schema: Schema, key: str) -> tuple[str, ...]:
        """Plain column names as spelled in the schema."""
        return tuple(schema.resolve(named.name).name for named in self.resolve_columns(given, schema, key))

    def refuse_reserved(self, name: str, *path: str | int) -> None:
        if name.lower() == RESERVED:
            self.problem(f"a column cannot be called '{RESERVED}', which is reserved", self.at(*path))

    def order(self, given: Iterable[str], key: str) -> tuple[SortKey, ...]:
        keys = []
        for index, text in enumerate(given):
            if self.is_unresolved(key, index):
                continue
            try:
                parsed = sort_key(text, self.at(key, index))
            except ExpressionError as error:
                self.failed = True
                self.problems.append(error.at(self.at(key, index)))
                continue
            if parsed.expression.has_aggregate or parsed.expression.has_over_clause or parsed.expression.needs_window:
                self.problem("an order has an aggregate or window function", self.at(key, index))
            keys.append(parsed)
        return tuple(keys)

    def frame(self, text: str | None) -> WindowFrame | None:
        if text is None:
            return None
        try:
            return parse_frame(text, self.at("frame"))
        except ExpressionError as error:
            self.failed = True
            self.problems.append(error.at(self.at("frame")))
            return None

    def measure(self, text: str, what: str, *path: str | int) -> Expression | None:
        expression = self.expression(text, *path)
        if expression is None:
            return None
        if expression.has_over_clause or expression.needs_window:
            self.problem(f"measure {what} has a window function", self.at(*path), "use a step with `op: window`")
        elif not expression.has_aggregate:
            self.problem(
                f"measure {what} is no aggregate: '{text}'",
                self.at(*path),
                "wrap it in an aggregate function such as sum, max or count, or add it to `by`",
            )
            return None
        elif expression.nests_aggregates:
            self.problem(
                f"measure {what} has an aggregate function inside another: '{text}'",
                self.at(*path),
                "compute the inner one in an aggregate step of its own, before this one",
            )
            return None
        return expression

    def window_measure(self, text: str, what: str, *path: str | int) -> Expression | None:
        expression = self.expression(text, *path)
        if expression is None:
            return None
        if expression.has_over_clause:
            self.problem(
                f"measure {what} has an OVER of its own",
                self.at(*path),
                "the step's partition_by and order_by are its window; leave OVER away",
            )
        elif not (expression.has_aggregate or expression.needs_window):
            self.problem(
                f"measure {what} is no window function: '{text}'",
                self.at(*path),
                "use an aggregate or a ranking function; plain expressions belong into with_columns",
            )
        return expression

    def build(self) -> Node:
        """The node of the step. Raises PlanError if it has a problem."""
        node = self._node()
        if self.failed:
            raise PlanError([])
        return node

    def _node(self) -> Node:
        step, name, place = self.step, self.step.name, self.position
        match step:
            case FilterStep():
                where = self.scalar(step.where, "a filter's `where`", "where")
                return Filter(name, name, place, self.input(step.input), self.require(where))
            case ProjectStep():
                below = self.input(step.input)
                columns = self.columns(step.columns, below.schema, "columns")
                inner = Project(f"{name}:project" if step.distinct else name, name, place, below, columns)
                return Distinct(name, name, place, inner) if step.distinct else inner
            case WithColumnsStep():
                columns = self.named_expressions(step.columns, "columns", self.scalar)
                return WithColumns(name, name, place, self.input(step.input), columns)
            case AggregateStep():
                return self._aggregate(step)
            case DistinctStep():
                return Distinct(name, name, place, self.input(step.input))
            case JoinStep():
                on = self.scalar(step.on, "a join's `on`", "on") if step.on is not None else None
                left, right = self.input(step.left), self.input(step.right)
                using = self.names(step.using or (), left.schema, "using")
                return Join(name, name, place, left, right, step.how, on, using)
            case UnionStep():
                branches = tuple(self.input(branch) for branch in step.inputs)
                inner_id = f"{name}:union" if step.distinct else name
                union = Union(inner_id, name, place, branches)
                return Distinct(name, name, place, union) if step.distinct else union
            case IntersectStep():
                left, right = self.input(step.left), self.input(step.right)
                return Intersect(name, name, place, left, right, not step.distinct)
            case DifferenceStep():
                left, right = self.input(step.left), self.input(step.right)
                return Difference(name, name, place, left, right, not step.distinct)
            case WindowStep():
                below = self.input(step.input)
                partition_by = self.names(step.partition_by, below.schema, "partition_by")
                order_by = self.order(step.order_by, "order_by")
                measures = self.named_expressions(step.measures, "measures", self.window_measure)
                return Window(name, name, place, below, partition_by, order_by, measures, self.frame(step.frame))
            case SortStep():
                return Sort(name, name, place, self.input(step.input), self.order(step.by, "by"))
            case LimitStep():
                return Limit(name, name, place, self.input(step.input), step.n, self.order(step.by or (), "by"))
            case ExplodeStep():
                alias = step.as_ or step.column
                self.refuse_reserved(alias, "as")
                below = self.input(step.input)
                names = self.names([step.column], below.schema, "column")
                if not names:
                    raise PlanError([])
                (column,) = names
                return Explode(name, name, place, below, column, alias, step.outer)
            case SqlStep():
                return self._sql(step)
            case PysparkStep():
                return self._pyspark(step)
            case _:
                assert_never(step)

    def _sql(self, step: SqlStep) -> Node:
        """The compiled query. A file that could not be read was reported by the loader."""
        if step.query is None or self.is_unresolved("query"):
            raise PlanError([])
        place = self.at("query")
        sql = self.loaded.sql_texts.get(self.index)
        text = sql or SqlText(step.query, place.file, ((0, place.line, place.column),), exact=False)
        tables = {name: self.input(name) for name in step.inputs}
        others = [
            *self.loaded.spec.sources,
            *(each.name for each in self.loaded.spec.steps if each.name and each is not step),
        ]
        return compile_sql(text, step.name, self.position, tables, others)

    def _pyspark(self, step: PysparkStep) -> Node:
        """The compiled data frame of a program."""
        tables: dict[str, Node | Message] = {name: self.input(target) for name, target in step.tables.items()}
        tables = tables or {name: self.input(name) for name in step.inputs}
        tables |= {name: from_json(text) for name, text in step.relations.items()}
        lines = {plan_id: (step.files[file], line) for plan_id, (file, line) in step.origins.items()}
        try:
            return compile_relation(
                from_json(step.plan), step.name, self.position, tables, lines, step.names, step.schemas
            )
        except Untraceable as error:
            raise PlanError([Problem(error.reason, error.position or self.position)]) from None

    def require(self, expression: Expression | None) -> Expression:
        if expression is None:
            raise PlanError([])
        return expression

    def _aggregate(self, step: AggregateStep) -> Node:
        name, below = step.name, self.input(step.input)
        keys = self.columns(step.by, below.schema, "by")
        measures = self.named_expressions(step.measures, "measures", self.measure)
        having = self.having(step.having, "having") if step.having is not None else None
        inner_id = name if having is None else f"{name}:aggregate"
        inner = Aggregate(inner_id, name, self.position, below, keys, measures)
        return inner if having is None else Filter(name, name, self.position, inner, having)
