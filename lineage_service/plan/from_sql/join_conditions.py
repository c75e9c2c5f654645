"""Subqueries in ON: on the joined rows of an inner join, else on the side whose rows only matter where they match."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lineage_service.plan.from_sql.block_state import BlockState, columns_read
from lineage_service.plan.from_sql.correlation import outer_columns_read, uncorrelated_rows
from lineage_service.plan.from_sql.expression_texts import ExpressionTexts, conjuncts, subqueries_in
from lineage_service.plan.from_sql.from_entry import FromEntry
from lineage_service.plan.from_sql.refusals import SqlRefusal, UnknownName, offset_of, refuse
from lineage_service.plan.from_sql.scopes import Scope, parts_of
from lineage_service.plan.from_sql.sql_context import Ctes, SqlContext
from lineage_service.plan.from_sql.subqueries import apply_subqueries, attach_subqueries
from lineage_service.plan.nodes import How, Node

if TYPE_CHECKING:
    from sqlglot import exp


@dataclass
class JoinCondition:
    """An ON while its join is compiled.

    left, right: the sides, with the subqueries that are computed there · texts: conditions that compare the two sides ·
    later: conditions on the joined rows · lifted: as in FromEntry
    """

    context: SqlContext
    ctes: Ctes
    how: How
    scope: Scope
    left: FromEntry
    right: FromEntry
    texts: list[str]
    later: list[exp.Expr]
    lifted: list[exp.Expr] = field(default_factory=list)

    @classmethod
    def read(
        cls, context: SqlContext, ctes: Ctes, on: exp.Expr, how: How, scope: Scope, left: FromEntry, right: FromEntry
    ) -> JoinCondition:
        texts = ExpressionTexts(context, scope)
        reads_outer = how == "inner" and columns_read(on, scope)[1]
        if not any(subqueries_in(on)) and not reads_outer:
            return cls(context, ctes, how, scope, left, right, [texts.text(on)], [])
        found = cls(context, ctes, how, scope, left, right, [], [])
        for condition in conjuncts(on):
            if any(subqueries_in(condition)):
                found._add(condition, texts)
            elif reads_outer and columns_read(condition, scope)[1]:
                found.lifted.append(condition)
            else:
                found.texts.append(texts.condition(condition))
        return found

    @property
    def text(self) -> str:
        return " AND ".join(self.texts) or "true"

    def keep_joined(self, node: Node) -> Node:
        """The joined rows for which the other conditions hold."""
        if not self.later:
            return node
        block = self._block(self.scope)
        block.node = node
        for condition in self.later:
            apply_subqueries(block, condition)
        return block.node

    def _add(self, condition: exp.Expr, texts: ExpressionTexts) -> None:
        self._refuse_both_sides(condition)
        if self.how == "inner":
            self.later.append(condition)
            return
        if self.how == "full":
            raise refuse(
                condition,
                "a subquery in ON of a full join is not supported in sql steps",
                "compute it in a derived table",
            )
        reads = self._read_outside(condition)
        on_left = self.how == "right" or (self.how == "semi" and bool(reads) and reads <= self.left.internals)
        side = self.left if on_left else self.right
        block = self._block(side.scope(None))
        block.node = side.node
        try:
            if reads <= side.internals:
                apply_subqueries(block, condition)
            else:
                attach_subqueries(block, condition)
                computed = {**texts.computed, **block.texts.computed}
                self.texts.append(replace(texts, computed=computed).condition(condition))
        except UnknownName as error:
            raise SqlRefusal(
                f"a subquery in ON of a {self.how} join cannot read the side that keeps all its rows",
                error.offset,
                "compute it in a derived table",
            ) from None
        changed = replace(side, node=block.node)
        self.left, self.right = (changed, self.right) if on_left else (self.left, changed)

    def _block(self, scope: Scope) -> BlockState:
        block = BlockState(self.context, self.ctes, scope, self.left.node, ExpressionTexts(self.context, scope))
        block.is_in_on = True
        return block

    def _read_outside(self, condition: exp.Expr) -> frozenset[str]:
        """The columns that a condition reads outside of its subqueries."""
        from sqlglot import exp

        found: set[str] = set()

        def walk(node: exp.Expr) -> None:
            if isinstance(node, exp.Query):
                return
            if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
                inner = self.scope.own_column(self.scope.resolve(parts_of(node), offset_of(node)))
                found.update([inner] if inner is not None else [])
            for child in node.iter_expressions():
                walk(child)

        walk(condition)
        return frozenset(found)

    def _refuse_both_sides(self, condition: exp.Expr) -> None:
        block = self._block(self.scope)
        for query in subqueries_in(condition):
            read = frozenset(outer_columns_read(block, query))
            if read & self.left.internals and read & self.right.internals and uncorrelated_rows(block, query) is None:
                raise refuse(query, "Spark does not allow a subquery in ON that reads both sides of the join",
                             "put the condition into WHERE")  # fmt: skip
