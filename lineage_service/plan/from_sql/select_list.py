"""The select list: stars expanded, and the name that each column of the result has in Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lineage_service.errors import did_you_mean, join_names
from lineage_service.plan.expression_checks import column_type
from lineage_service.plan.from_sql.block_state import BlockState
from lineage_service.plan.from_sql.expression_texts import aggregate_calls, window_nodes
from lineage_service.plan.from_sql.generators import is_generator, read_generator
from lineage_service.plan.from_sql.refusals import refuse
from lineage_service.plan.from_sql.scopes import BoundColumn, ResolvedName
from lineage_service.plan.from_sql.spark_names import name_in_spark

if TYPE_CHECKING:
    from sqlglot import exp


@dataclass(frozen=True, slots=True)
class SelectItem:
    """One column of the result: an expression, or a column that a star stands for.

    name: None where Spark makes up a name that is not known here.
    """

    name: str | None
    place: exp.Expr
    node: exp.Expr | None = None
    column: BoundColumn | None = None
    aliased: bool = False
    generated: bool = False  # a column of a function that returns several rows

    def text(self, block: BlockState) -> str:
        if self.generated and self.column is not None:
            return self.column.internal
        if self.column is not None:
            return block.texts.column_text(ResolvedName(self.column, 1, 0), self.place)
        assert self.node is not None
        return block.texts.text(self.node)


def select_items(block: BlockState, select: exp.Expr) -> list[SelectItem]:
    """The entries of the select list, stars expanded."""
    from sqlglot import exp

    items: list[SelectItem] = []
    if not select.expressions:
        raise refuse(select, "SELECT has no columns", "name them, or write *")
    for entry in select.expressions:
        if isinstance(entry, exp.Star):
            items += [SelectItem(each.name, entry, column=each) for each in _star(block, entry)]
        elif isinstance(entry, exp.Column) and isinstance(entry.this, exp.Star):
            items += [SelectItem(each.name, entry, column=each) for each in _qualified_star(block, entry)]
        elif is_generator(block.context, entry.this if isinstance(entry, exp.Alias | exp.Aliases) else entry):
            items += _generated_items(block, entry)
        elif isinstance(entry, exp.Aliases):
            raise refuse(entry, "several names for an expression of one column")
        elif isinstance(entry, exp.Alias):
            _note_lateral_aliases(block, entry.this, items)
            items.append(SelectItem(entry.alias, entry, entry.this, aliased=True))
        else:
            _note_lateral_aliases(block, entry, items)
            items.append(SelectItem(name_in_spark(block, entry), entry, entry))
    return items


def _generated_items(block: BlockState, entry: exp.Expr) -> list[SelectItem]:
    from sqlglot import exp

    names: list[str] = []
    if isinstance(entry, exp.Alias):
        names = [entry.alias]
    elif isinstance(entry, exp.Aliases):
        names = [each.name for each in entry.expressions]
    if block.generator is not None:
        raise refuse(entry, "two functions that return several rows in one select list", "use LATERAL VIEW")
    call = entry.this if names else entry
    block.generator = read_generator(
        block.context, call, lambda name: column_type(block.node.schema, name), block.texts.text, names, outer=False
    )
    return [SelectItem(each.name, entry, column=each, generated=True) for each in block.generator.columns]


def ordinal(node: exp.Expr, most: int, clause: str) -> int | None:
    """The number that a literal is in GROUP BY or ORDER BY; SqlRefusal where the select list has no such entry."""
    from sqlglot import exp

    if not isinstance(node, exp.Literal):
        return None
    if node.is_string or not node.name.isdecimal():
        raise refuse(node, f"{clause} has a constant", "name a column, or the number of an entry of the select list")
    if not 1 <= int(node.name) <= most:
        raise refuse(node, f"{clause} {node.name}: the select list has {most} entries")
    return int(node.name)


def _star(block: BlockState, star: exp.Expr) -> Sequence[BoundColumn]:
    return _with_names(star, _without_excepted(star, star, block.scope.visible))


def _without_excepted(place: exp.Expr, star: exp.Expr, columns: Sequence[BoundColumn]) -> list[BoundColumn]:
    """The columns of a star without those behind its EXCEPT."""
    for key in ("replace", "rename"):
        if star.args.get(key):
            raise refuse(place, f"* {key.upper()} is not supported in sql steps", "list the columns")
    left_out = [each.name for each in star.args.get("except_") or ()]
    names = [column.name for column in columns if column.name]
    for name in left_out:
        if name.lower() not in {each.lower() for each in names}:
            message = f"unknown column '{name}'; columns here: {join_names(names)}"
            raise refuse(place, message, did_you_mean(name, names))
    lower = {name.lower() for name in left_out}
    return [each for each in columns if (each.name or "").lower() not in lower]


def _qualified_star(block: BlockState, entry: exp.Expr) -> Sequence[BoundColumn]:
    from sqlglot import exp

    assert isinstance(entry, exp.Column)
    named = [each for each in block.scope.relations if (each.alias or "").lower() == entry.table.lower()]
    aliases = [each.alias for each in block.scope.relations if each.alias]
    if not named and block.scope.knows(entry.table):
        raise refuse(entry, f"`{entry.table}.*` of a struct column is not supported in sql steps",
                     f"name its fields: {entry.table}.field")  # fmt: skip
    if not named:
        message = f"unknown table '{entry.table}' before `*`; tables here: {join_names(aliases)}"
        raise refuse(entry, message, did_you_mean(entry.table, aliases))
    own = {column.internal for relation in named for column in relation.columns}
    # Columns of USING come first: those that a qualifier alone reaches, then those that `*` gives too.
    columns = [each for each in (*block.scope.hidden, *block.scope.visible) if each.internal in own]
    return _with_names(entry, _without_excepted(entry, entry.this, columns))


def _with_names(place: exp.Expr, columns: list[BoundColumn]) -> list[BoundColumn]:
    if any(column.name is None for column in columns):
        raise refuse(place, "`*` stands for an expression of a subquery that has no name", "name it there, with AS")
    return columns


def _note_lateral_aliases(block: BlockState, node: exp.Expr, before: Sequence[SelectItem]) -> None:
    """Names that are no columns, and are aliases of entries before this one, stand for their expressions."""
    from sqlglot import exp

    for column in _columns_outside_queries(node):
        name = column.parts[0].name
        if block.scope.has(name) or (len(column.parts) > 1 and block.scope.has_relation(name)):
            continue
        meant = [item for item in before if item.aliased and (item.name or "").lower() == name.lower()]
        if not meant or meant[0].node is None:
            continue
        if len(meant) > 1:
            raise refuse(column, f"'{name}' is ambiguous: {len(meant)} entries of the select list are called so")
        inside = [*aggregate_calls(block.context, node), *window_nodes(node)]
        if any(each is column for call in inside for each in call.find_all(exp.Column)):
            raise refuse(
                column,
                f"'{name}' is the alias of another entry of the select list, which Spark does not read inside an "
                "aggregate or window function",
                "repeat its expression, or compute it in a subquery",
            )
        block.texts.aliases[id(column)] = meant[0].node


def _columns_outside_queries(node: exp.Expr) -> Iterator[exp.Column]:
    from sqlglot import exp

    if isinstance(node, exp.Query):
        return
    if isinstance(node, exp.Column):
        yield node
        return
    for child in node.iter_expressions():
        yield from _columns_outside_queries(child)
