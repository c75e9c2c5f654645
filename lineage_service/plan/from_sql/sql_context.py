"""What the parts of the compiler share: the text, the tables, the names, and the making of nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from lineage_service.plan.expressions import Expression, ExpressionError
from lineage_service.plan.from_sql.refusals import SqlRefusal, offset_of
from lineage_service.plan.from_sql.scopes import InternalNames, QueryRelation, Scope
from lineage_service.plan.functions import GENERATORS
from lineage_service.plan.nodes import NamedExpression, Node, Project
from lineage_service.spec.sql_parsing import SPAN, tokenize_query
from lineage_service.spec.sql_text import SqlText

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.tokenizer_core import Token

N = TypeVar("N", bound=Node)
Ctes = Mapping[str, QueryRelation]


@dataclass
class SqlContext:
    """One sql step while it is compiled. Four functions are passed as fields, because their modules import this one.

    compile_query: compiles a query inside the query, given the CTEs that it sees and the scope that encloses it; in
        query_compiler.py.
    compile_from_and_where: compiles FROM and WHERE of a SELECT; in from_and_where.py.
    attach_subqueries: makes the subqueries of an expression columns of the rows so far; in subqueries.py.
    reuse_subqueries: makes subqueries that are written alike the same columns; in subqueries.py.
    other_tables: names of sources and steps of the workflow that the query does not read, for messages.
    outer_reads: columns of the enclosing query that the subquery in compilation has read.
    """

    sql: SqlText
    step: str
    tables: Mapping[str, Node]
    compile_query: Callable[[SqlContext, exp.Expr, Ctes, Scope | None], QueryRelation]
    compile_from_and_where: Callable[..., Any]  # BlockState, whose module imports this one
    attach_subqueries: Callable[..., None]
    reuse_subqueries: Callable[..., None]
    names: InternalNames = field(default_factory=InternalNames)
    made: int = 0
    other_tables: tuple[str, ...] = ()
    outer_reads: set[str] = field(default_factory=set)

    @cached_property
    def tokens(self) -> list[Token]:
        return tokenize_query(self.sql.text)

    def tokens_between(self, start: int, end: int) -> list[Token]:
        return [token for token in self.tokens if start <= token.start and token.end < end]

    def tokens_of(self, node: exp.Expr) -> list[Token]:
        return self.tokens_between(*node.meta[SPAN])

    def make(self, kind: type[N], what: str, place: exp.Expr | int, *fields: Any) -> N:
        """A node of the step; `what` is a word for its id."""
        self.made += 1
        offset = place if isinstance(place, int) else offset_of(place)
        return kind(f"{self.step}:{self.made}_{what}", self.step, self.sql.position(offset), *fields)

    def expression(self, text: str, place: exp.Expr | int) -> Expression:
        offset = place if isinstance(place, int) else offset_of(place)
        try:
            return Expression(text, self.sql.position(offset))
        except ExpressionError as error:
            raise SqlRefusal(error.message, offset, error.hint) from None

    def scalar(self, text: str, place: exp.Expr | int) -> Expression:
        """An expression over one row, whatever the tree says of it: what Spark evaluates is the text."""
        offset = place if isinstance(place, int) else offset_of(place)
        expression = self.expression(text, offset)
        if expression.needs_window:
            raise SqlRefusal(f"a window function without OVER: '{text}'", offset, "write it: … OVER (ORDER BY …)")
        if expression.has_over_clause or expression.has_aggregate:
            raise SqlRefusal(f"an aggregate or window function cannot stand here: '{text}'", offset)
        if expression.is_generator:
            name = next(each for each in expression.function_names if each in GENERATORS)
            raise SqlRefusal(
                f"{name}() returns several rows and cannot be used here: '{text}'",
                offset,
                "make it an entry of its own in the select list, or use LATERAL VIEW",
            )
        return expression

    def project(
        self,
        what: str,
        place: exp.Expr | int,
        below: Node,
        columns: Mapping[str, str],
        places: Mapping[str, exp.Expr] | None = None,
    ) -> Node:
        """The columns by their new names, from texts; `places` are those of single columns."""
        where = places or {}
        named = tuple(
            NamedExpression(name, self.scalar(text, where.get(name, place))) for name, text in columns.items()
        )
        return self.make(Project, what, place, below, named)
