"""Names of a query: which column of which relation a name means, as Spark resolves it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lineage_service.errors import did_you_mean, join_names
from lineage_service.plan.from_sql.refusals import SqlRefusal, UnknownName, refuse
from lineage_service.plan.nodes import Node

if TYPE_CHECKING:
    from sqlglot import exp


@dataclass(frozen=True, slots=True)
class BoundColumn:
    """A column under the name that the query gives it, and under the name it has in the plan.

    name: None for an expression that has no name of its own; such a column cannot be read.
    """

    name: str | None
    internal: str


@dataclass(frozen=True, slots=True)
class QueryRelation:
    """What a query, a CTE or a table gives: a node, and its columns in order. Names may occur twice.

    carried: further columns, of a subquery's rows: the values of the enclosing query the row is for, in the order of
    `OuterColumns.names` · is_single_row: there is one row for each of these values, or at most one row at all
    """

    node: Node
    columns: tuple[BoundColumn, ...]
    carried: tuple[str, ...] = ()
    is_single_row: bool = False


def renamed_columns(relation: QueryRelation, alias: exp.Expr | None) -> tuple[BoundColumn, ...]:
    """The columns under the names that an alias lists: `t (a, b)`."""
    given = alias.args.get("columns") if alias is not None else None
    if alias is None or not given:
        return relation.columns
    if len(given) != len(relation.columns):
        raise refuse(alias, f"{len(given)} names for {len(relation.columns)} columns")
    return tuple(BoundColumn(name.name, column.internal) for name, column in zip(given, relation.columns, strict=True))


@dataclass(frozen=True, slots=True)
class ScopedRelation:
    """A relation of a FROM, under the name that qualifies its columns."""

    alias: str | None
    columns: tuple[BoundColumn, ...]


@dataclass(frozen=True, slots=True)
class ResolvedName:
    """The column that a name means; `parts` of the name are used up, what follows are fields of a struct.

    level: 0 for a column of this query, 1 for one of the enclosing query, and so on.
    """

    column: BoundColumn
    parts: int
    level: int


@dataclass(frozen=True, slots=True)
class OuterColumns:
    """What a correlated subquery reads of the enclosing query, as a relation that its FROM is joined with.

    node: the distinct values · names: column of the enclosing query -> column of the node
    """

    node: Node
    names: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Scope:
    """The relations of a FROM.

    visible: the columns that `*` gives and that names without a qualifier mean; those of USING are in it once.
    hidden: columns of USING and NATURAL joins that only a qualifier reaches, in the order in which `t.*` gives them.
    offered: of a query that encloses a subquery, what the subquery's rows are joined with.
    outer: of such a subquery, which of its own columns is which column of the enclosing query.
    """

    relations: tuple[ScopedRelation, ...]
    visible: tuple[BoundColumn, ...]
    parent: Scope | None = None
    hidden: tuple[BoundColumn, ...] = ()
    offered: OuterColumns | None = None
    outer: Mapping[str, str] = field(default_factory=dict)

    def resolve(self, parts: tuple[str, ...], offset: int) -> ResolvedName:
        """SqlRefusal for a name that is unknown or ambiguous."""
        scope: Scope | None = self
        level = 0
        while scope is not None:
            found = scope._find(parts, offset)
            if found is not None:
                return ResolvedName(found[0], found[1], level)
            scope, level = scope.parent, level + 1
        raise self._of_relation(parts[0])._unknown(parts, offset)

    def _of_relation(self, alias: str) -> Scope:
        """The innermost query around a name that has a relation called so; this one where none has."""
        scope: Scope | None = self
        while scope is not None:
            if scope.has_relation(alias):
                return scope
            scope = scope.parent
        return self

    def own_column(self, found: ResolvedName) -> str | None:
        """The column of this query's rows that holds what a name means; None for a column of an enclosing query that
        the rows do not carry."""
        if not found.level:
            return found.column.internal
        return self.outer.get(found.column.internal) if found.level == 1 else None

    def has(self, name: str) -> bool:
        return any(_same(column.name, name) for column in self.visible)

    def has_relation(self, name: str) -> bool:
        return any(_same(relation.alias, name) for relation in self.relations)

    def knows(self, name: str) -> bool:
        """Whether a name alone is a column of this query or of an enclosing one."""
        return self.has(name) or (self.parent is not None and self.parent.knows(name))

    def _find(self, parts: tuple[str, ...], offset: int) -> tuple[BoundColumn, int] | None:
        if len(parts) > 1:
            qualified = [
                column
                for relation in self.relations
                if _same(relation.alias, parts[0])
                for column in relation.columns
                if _same(column.name, parts[1])
            ]
            if qualified:
                return _only(qualified, ".".join(parts[:2]), offset), 2
        plain = [column for column in self.visible if _same(column.name, parts[0])]
        return (_only(plain, parts[0], offset, self.relations), 1) if plain else None

    def _unknown(self, parts: tuple[str, ...], offset: int) -> UnknownName:
        name = ".".join(parts)
        named = [relation for relation in self.relations if len(parts) > 1 and _same(relation.alias, parts[0])]
        if named:
            columns = [column.name for column in named[0].columns if column.name]
            return UnknownName(
                f"unknown column '{name}'; columns of '{parts[0]}': {join_names(columns)}",
                offset,
                did_you_mean(parts[1], columns),
            )
        aliases = [relation.alias for relation in self.relations if relation.alias]
        columns = [column.name for column in self.visible if column.name]
        if len(parts) > 1:
            with_column = [
                relation.alias
                for relation in self.relations
                if relation.alias and any(_same(column.name, parts[1]) for column in relation.columns)
            ]
            hint = did_you_mean(parts[0], aliases) or did_you_mean(parts[0], columns)
            if len(with_column) == 1:
                hint = f"did you mean '{'.'.join((with_column[0], *parts[1:]))}'?"
            return UnknownName(f"unknown column '{name}'; tables here: {join_names(aliases)}", offset, hint)
        if not self.relations:
            return UnknownName(f"unknown column '{name}': this SELECT has no FROM", offset, "name its table with FROM")
        return UnknownName(
            f"unknown column '{name}'; columns here: {join_names(columns)}", offset, did_you_mean(name, columns)
        )


def _same(name: str | None, other: str) -> bool:
    return name is not None and name.lower() == other.lower()


def _only(columns: list[BoundColumn], name: str, offset: int, relations: Iterable[ScopedRelation] = ()) -> BoundColumn:
    if len({column.internal for column in columns}) > 1:
        internal = {column.internal for column in columns}
        of = [
            each.alias for each in relations if each.alias and internal & {column.internal for column in each.columns}
        ]
        hint = f"write {' or '.join(f'{alias}.{name}' for alias in of)}" if len(set(of)) > 1 else None
        raise SqlRefusal(f"column '{name}' is ambiguous: {len(columns)} relations here have it", offset, hint)
    return columns[0]


@dataclass(slots=True)
class InternalNames:
    """Names of columns in the plan that no two columns of a step share. The user's own names come back at its end."""

    shown: dict[str, str] = field(default_factory=dict)  # what each is called in messages

    def fresh(self, *parts: str | None) -> str:
        """A plain identifier that has two underscores, and is therefore no word of SQL."""
        wanted = "__".join(re.sub(r"[^a-z0-9_]", "_", part.lower()) for part in parts if part)
        wanted = wanted if re.match(r"[a-z]", wanted) and "__" in wanted else f"c__{wanted}"
        name, number = wanted, 1
        while name in self.shown:
            number += 1
            name = f"{wanted}_{number}"
        self.shown[name] = ".".join(part for part in parts if part)
        return name

    def with_shown(self, text: str) -> str:
        """A message with names as the query has them."""
        return re.sub(r"[a-z]\w*__\w+", lambda match: self.shown.get(match[0], match[0]), text)


def parts_of(column: exp.Expr) -> tuple[str, ...]:
    """The parts of a column's name as written."""
    from sqlglot import exp

    assert isinstance(column, exp.Column)
    return tuple(part.name for part in column.parts)
