"""Column lineage of a saved query, derived from its SQL.

This is the same as for a workflow's steps. But if the lineage of a column is not certain, it is recorded as unknown,
and the column counts as personal data if any column of its relations does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lineage_service.plan.column_lineage import ColumnLineage, Read, SourceColumn, Value, value_of_tree
from lineage_service.plan.expressions import ColumnRef
from lineage_service.query.duckdb_parsing import parse_one
from lineage_service.sql.lineage_columns import has_aggregate

Marks = Mapping[str, Mapping[str, bool]]  # (relation, column): whether it is personal data


def query_columns(sql: str, relations: Marks, width: int) -> list[ColumnLineage] | None:
    """The lineage of each column of the query in terms of its relations; None if it cannot be derived."""
    from sqlglot.errors import SqlglotError
    from sqlglot.optimizer.qualify import qualify
    from sqlglot.optimizer.scope import build_scope

    schema: dict[str, object] = {name: dict.fromkeys(columns, "UNKNOWN") for name, columns in relations.items()}
    try:
        tree = qualify(parse_one(sql), schema=schema, dialect="duckdb", quote_identifiers=False)
        found = _Reader(relations).scope(build_scope(tree))
    except (SqlglotError, _UntraceableColumn, RecursionError, LookupError, ValueError):
        return None
    if len(found.columns) != width:
        return None
    return [
        ColumnLineage(
            value.reads,
            tuple(each for each in _unique((*value.touched, *found.rows)) if each not in value.reads),
            value.marked,
        )
        for _, value in found.columns
    ]


class _UntraceableColumn(Exception):
    """Raised for SQL whose columns cannot be traced."""


@dataclass(frozen=True)
class _SelectLineage:
    """The lineage of a SELECT: its columns in order, the columns that influence its rows, and those that make rows
    distinct.
    """

    columns: list[tuple[str, Value]]
    rows: Read = ()
    grain: Read = ()

    @property
    def all(self) -> Read:
        return _unique(ref for _, value in self.columns for ref in value.all)

    def value(self, name: str) -> Value:
        for own, value in self.columns:
            if own.lower() == name.lower():
                return value
        raise _UntraceableColumn(name)


@dataclass
class _Reader:
    relations: Marks
    known: dict[int, _SelectLineage] = field(default_factory=dict)  # by scope; scopes live as long as this reader

    def scope(self, scope: Any) -> _SelectLineage:
        if id(scope) not in self.known:
            self.known[id(scope)] = self._scope(scope)
        return self.known[id(scope)]

    def _scope(self, scope: Any) -> _SelectLineage:
        from sqlglot import exp

        tree = scope.expression if scope is not None else None
        if isinstance(tree, exp.SetOperation):
            if not isinstance(tree, exp.Union) or tree.args.get("by_name"):
                raise _UntraceableColumn
            found = self._union([self.scope(each) for each in scope.set_operation_scopes])
            return self._apply_limit(tree, replace(found, grain=found.all) if tree.args.get("distinct") else found)
        if not isinstance(tree, exp.Select):
            raise _UntraceableColumn
        return self._select(scope, tree)

    def _union(self, branches: list[_SelectLineage]) -> _SelectLineage:
        columns = []
        for values in zip(*(branch.columns for branch in branches), strict=True):
            reads = _unique(ref for _, value in values for ref in value.reads)
            touched = _unique(ref for _, value in values for ref in value.touched)
            marked, null_marked = (any(getattr(value, of) for _, value in values) for of in ("marked", "null_marked"))
            columns.append((values[0][0], Value(reads, touched, marked, null_marked)))
        rows, grain = (_unique(ref for branch in branches for ref in getattr(branch, of)) for of in ("rows", "grain"))
        return _SelectLineage(columns, rows, grain)

    def _select(self, scope: Any, tree: Any) -> _SelectLineage:
        from sqlglot import exp

        _refuse_what_hides_columns(tree)
        sources = {name: self._source(source) for name, (_, source) in scope.selected_sources.items()}
        shown: list[tuple[str, Value]] = []

        def resolve_column(ref: ColumnRef) -> Value:
            if len(ref.parts) == 1:  # an alias of this SELECT, used in ORDER BY
                return _SelectLineage(shown).value(ref.parts[0])
            if ref.parts[0] not in sources:
                raise _UntraceableColumn(ref)
            return sources[ref.parts[0]].value(ref.parts[1])

        rows = [ref for source in sources.values() for ref in source.rows]
        conditions = [tree.args.get("where"), *(join.args.get("on") for join in tree.args.get("joins") or ())]
        rows += [ref for each in conditions if each is not None for ref in value_of_tree(each, resolve_column).all]
        group = tree.args.get("group")
        measures = [has_aggregate(each) for each in tree.selects]
        keys: list[Any] = list(group.expressions) if group is not None else []
        if group is not None and group.args.get("all"):
            keys = [each for each, measure in zip(tree.selects, measures, strict=True) if not measure]
        copies = tuple(ref for source in sources.values() for ref in source.grain)
        touched = tuple(ref for key in keys for ref in value_of_tree(key, resolve_column).all)
        for each, measure in zip(tree.selects, measures, strict=True):
            value = value_of_tree(each.this if isinstance(each, exp.Alias) else each, resolve_column)
            more = (*touched, *(copies if _counts_copies(each) else ())) if measure else ()
            shown.append((each.alias_or_name, replace(value, touched=_unique((*value.touched, *more)), fields=None)))
        if having := tree.args.get("having"):
            rows += [*value_of_tree(having, resolve_column).all, *touched]
        found = _SelectLineage(shown, _unique(rows), touched if group is not None or any(measures) else copies)
        if tree.args.get("distinct"):
            found = replace(found, grain=found.all)
        return self._apply_limit(tree, found, resolve_column)

    def _apply_limit(self, tree: Any, lineage: _SelectLineage, resolved: Any = None) -> _SelectLineage:
        """A limit selects rows by the order, so the order influences them. An order alone changes no value."""
        if not (tree.args.get("limit") or tree.args.get("offset")):
            return lineage
        order, resolve = tree.args.get("order"), resolved or (lambda ref: lineage.value(ref.parts[-1]))
        by = value_of_tree(order, resolve).all if order is not None else ()
        return replace(lineage, rows=_unique((*lineage.rows, *by, *lineage.grain)))

    def _source(self, source: Any) -> _SelectLineage:
        from sqlglot import exp

        if isinstance(source, exp.Table):
            marks = self.relations[source.name]
            return _SelectLineage(
                [(name, Value((SourceColumn(source.name, name),), (), pii)) for name, pii in marks.items()]
            )
        if isinstance(source.expression, exp.Query) and not isinstance(source.expression, exp.Values):
            return self.scope(source)
        if any(source.expression.find_all(exp.Column)):
            raise _UntraceableColumn
        alias = source.expression.args.get("alias")  # VALUES
        return _SelectLineage([(each.name, Value()) for each in (alias.columns if alias else ())])


def _counts_copies(item: Any) -> bool:
    """Whether a measure may change if a row occurs twice."""
    from sqlglot import exp

    of_sets = (exp.Min, exp.Max, exp.ArgMin, exp.ArgMax, exp.ApproxDistinct)
    return any(
        has_aggregate(node) and not isinstance(node, of_sets) and not isinstance(node.this, exp.Distinct)
        for node in item.find_all(exp.AggFunc, exp.Anonymous)
    )


def _refuse_what_hides_columns(select: Any) -> None:
    """Raises an error for clauses that read columns without naming them."""
    from sqlglot import exp

    for item in select.selects:
        for node in item.walk():
            star = isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count)
            if star or isinstance(node, exp.Columns | exp.Query | exp.Window):
                raise _UntraceableColumn


def _unique(refs: Iterable[SourceColumn]) -> Read:
    return tuple(dict.fromkeys(refs))
