"""Names in HAVING and QUALIFY that mean entries of the select list, as Spark 4.3 resolves them.

In HAVING a grouped column comes first, then an alias. In QUALIFY, where the select list has a window function, the
entries of the list come first; the columns that its window functions read directly stand beside them, and a name that
is both is ambiguous. Without such a window, columns of FROM come first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lineage_service.plan.expressions import quote_identifier
from lineage_service.plan.from_sql.block_state import BlockState
from lineage_service.plan.from_sql.correlation import outer_columns_read
from lineage_service.plan.from_sql.expression_texts import (
    aggregate_calls,
    operand,
    subqueries_in,
    variable_of_lambda,
    window_nodes,
)
from lineage_service.plan.from_sql.refusals import SqlRefusal, offset_of, refuse
from lineage_service.plan.from_sql.scopes import BoundColumn, ResolvedName, parts_of
from lineage_service.plan.from_sql.select_list import SelectItem

if TYPE_CHECKING:
    from sqlglot import exp

_RENAME = "rename the alias, or filter around a subquery"


def read_aliases_in_having(block: BlockState, node: exp.Expr, items: Sequence[SelectItem]) -> None:
    """Notes, in the texts of the block, what the names of a HAVING mean."""
    _ListNames(block, items).replace_in(node)


def read_aliases_in_qualify(block: BlockState, select: exp.Expr, node: exp.Expr, items: Sequence[SelectItem]) -> None:
    """The same for QUALIFY, or for a window function in it."""
    names = _ListNames(block, items, is_qualify=True)
    nodes = [item.node for item in items if item.node is not None]
    with_windows = [each for each in nodes if any(window_nodes(each))]
    if with_windows:
        exposed = {each: None for entry in with_windows for each in names.exposed_columns(entry)}
        for named in select.args.get("windows") or ():
            exposed |= dict.fromkeys(names.exposed_columns(named))
        names = replace(names, exposed=tuple(exposed))
    names.replace_in(node)


@dataclass(frozen=True)
class _ListNames:
    """The names of a select list. exposed: the columns that stand beside it, None where columns of FROM come first."""

    block: BlockState
    items: Sequence[SelectItem]
    is_qualify: bool = False
    exposed: tuple[BoundColumn, ...] | None = None

    def replace_in(self, node: exp.Expr) -> None:
        from sqlglot import exp

        computed = self.block.texts.computed
        if id(node) in computed:
            return
        if isinstance(node, exp.Query):
            self._check_subquery(node)
            return
        if isinstance(node, exp.Column):
            if not isinstance(node.this, exp.Star) and variable_of_lambda(node) is None:
                text = self._text(node)
                if text is not None:
                    computed[id(node)] = text
            return
        for child in node.iter_expressions():
            self.replace_in(child)

    def exposed_columns(self, entry: exp.Expr) -> Iterator[BoundColumn]:
        """The columns that an entry with a window function reads outside of the function, or as the whole of one of its
        arguments and keys: Spark computes any other argument beforehand, under a name of its own."""
        from sqlglot import exp

        inside_aggregates = {
            id(each) for call in aggregate_calls(self.block.context, entry) for each in call.find_all(exp.Column)
        }
        for column in entry.find_all(exp.Column):
            if id(column) in inside_aggregates or isinstance(column.this, exp.Star):
                continue
            around, parent = column.find_ancestor(exp.Window, exp.Query), column.parent
            window = around if isinstance(around, exp.Window) else None
            while isinstance(parent, exp.Paren | exp.Ordered | exp.Distinct):
                parent = parent.parent
            is_whole = isinstance(parent, exp.Window | exp.Order | exp.Where)
            if window is None or is_whole or parent is _function_of(window):
                found = self._column_of_from(column)
                if found is not None and found.parts == len(column.parts):
                    yield found.column

    def _text(self, node: exp.Column) -> str | None:
        """What a name means in the select list; None where it means a column of FROM."""
        parts = parts_of(node)
        if len(parts) > 1 and self.block.scope.has_relation(parts[0]):
            return None
        meant = self._meant(node, parts[0])
        if meant is None:
            return None
        if len(parts) == 1:
            return meant
        return ".".join([meant, *map(quote_identifier, parts[1:])])

    def _meant(self, node: exp.Column, name: str) -> str | None:
        if self.exposed is None:
            if self._is_readable_column(node, name):
                return None
            found = [item for item in self.items if item.aliased and (item.name or "").lower() == name.lower()]
            if len(found) > 1:
                raise _ambiguous(node, name)
            return self._item_text(found[0], node) if found else None
        candidates = self._candidates(name)
        if len(candidates) > 1:
            raise _ambiguous(node, name)
        for candidate in candidates.values():
            return self._item_text(candidate, node) if isinstance(candidate, SelectItem) else candidate.internal
        return None

    def _is_readable_column(self, node: exp.Column, name: str) -> bool:
        if self.is_qualify:
            return self.block.scope.has(name)
        return self._column_of_from(node) is not None

    def _candidates(self, name: str) -> dict[object, SelectItem | BoundColumn]:
        """Entries of the list and columns beside it that are called so, by what they are."""
        found: dict[object, SelectItem | BoundColumn] = {}
        for number, item in enumerate(self.items):
            if (item.name or "").lower() == name.lower():
                column = self._column_of_item(item)
                found[number if column is None else column.internal] = item
        for column in self.exposed or ():
            if (column.name or "").lower() == name.lower():
                found.setdefault(column.internal, column)
        return found

    def _column_of_item(self, item: SelectItem) -> BoundColumn | None:
        from sqlglot import exp

        if item.column is not None:
            return item.column
        if item.aliased or not isinstance(item.node, exp.Column) or id(item.node) in self.block.texts.aliases:
            return None
        found = self._column_of_from(item.node)
        return found.column if found is not None and found.parts == len(item.node.parts) else None

    def _column_of_from(self, column: exp.Column) -> ResolvedName | None:
        """The column of this query that a name means, where it may be read."""
        try:
            found = self.block.scope.resolve(parts_of(column), offset_of(column))
        except SqlRefusal:
            return None
        readable = self.block.texts.readable
        return None if found.level or (readable is not None and found.column.internal not in readable) else found

    def _item_text(self, item: SelectItem, node: exp.Column) -> str:
        block = self.block
        if item.node is not None and any(subqueries_in(item.node)):
            raise refuse(node, f"'{node.parts[0].name}' is the alias of an expression with a subquery, which cannot "
                         "be read here", "compute it in a subquery in FROM")  # fmt: skip
        if item.node is not None and any(id(each) not in block.texts.computed for each in window_nodes(item.node)):
            raise refuse(node, f"'{node.parts[0].name}' is the alias of a window function, which cannot be read "
                         "inside another", "compute the inner one in a subquery")  # fmt: skip
        text = item.text(block)
        if block.context.expression(text, node).is_volatile:
            raise refuse(node, f"'{node.parts[0].name}' is not repeatable and cannot be referred to by its alias",
                         "compute it in a subquery")  # fmt: skip
        return operand(text)

    def _check_subquery(self, query: exp.Expr) -> None:
        """SqlRefusal for a subquery of QUALIFY in which a name would mean an entry of the list."""
        if self.exposed is None:
            return
        read = set(outer_columns_read(self.block, query))
        for column in self.block.scope.visible:
            if column.internal in read and self._candidates(column.name or "").keys() - {column.internal}:
                raise refuse(query, f"'{column.name}' is a column of FROM and a name in the select list, and the "
                             "subquery may read both", _RENAME)  # fmt: skip


def _function_of(window: exp.Window) -> exp.Expr:
    from sqlglot import exp

    function: exp.Expr = window.this
    while isinstance(function, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        function = function.this
    return function


def _ambiguous(node: exp.Expr, name: str) -> SqlRefusal:
    message = f"'{name}' is ambiguous: the select list and the columns that it reads have several of that name"
    return refuse(node, message, _RENAME)
