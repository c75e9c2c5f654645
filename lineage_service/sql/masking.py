"""Checks how a question uses masked columns: they may be selected, and are shown masked, but nothing else. Pure.

The rows that a question reads are masked already, so it cannot disclose values. But a comparison, group or order over
masked values would silently give a wrong answer. Such a question is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lineage_service.errors import QuestionError
from lineage_service.query.duckdb_parsing import parse_one
from lineage_service.query.masks import HINT
from lineage_service.sql.rid_origin import reads_itself

MOST_COLUMNS = 10_000

Shown = list[tuple[str, str | None]]  # columns of a SELECT: the name, and the masked column that it shows, if any
Columns = Mapping[str, Sequence[tuple[str, str | None]]]  # columns by relation


def shown_masks(named: str, relations: Columns) -> list[str]:
    """The masked columns of a question's answer. Raises QuestionError if it uses a masked column in any other way."""
    tree = parse_one(named)
    try:
        found = _MaskReader(relations).query(tree, {}, [])
    except _UntraceableMask:
        found = _masks_by_name(tree, relations)
    return [name for name, masked in found if masked is not None]


class _UntraceableMask(Exception):
    """Raised for SQL whose columns cannot be traced."""


def _masked_column_error(masked: str) -> QuestionError:
    return QuestionError(
        f"{masked} is masked: a query can select it, which shows a mask, but not compute with it", hint=HINT
    )


def _masks_by_name(tree: Any, relations: Columns) -> Shown:
    """The fallback for SQL whose columns cannot be traced: a masked column may only be an item of the outermost
    SELECT.
    """
    from sqlglot import exp

    from lineage_service.sql.question_parsing import columns_read

    masks = {name.lower(): masked for shown in relations.values() for name, masked in shown if masked is not None}
    if not masks:
        return []
    if columns_read(tree) is None or tree.find(exp.PositionalColumn, exp.Pivot):
        raise QuestionError(
            f"whether the query computes with {next(iter(masks.values()))}, which is masked, cannot be determined",
            hint=f"name the columns that it reads, without *; or {HINT}",
        )
    items = tree.expressions if isinstance(tree, exp.Select) and not tree.args.get("distinct") else []
    plain = {id(each.unalias()): each for each in items if isinstance(each.unalias(), exp.Column)}
    for node in tree.walk():
        item = plain.get(id(node.parent))
        is_item = item is not None and item.unalias().this is node
        if isinstance(node, exp.Identifier) and node.name.lower() in masks and not is_item:
            raise _masked_column_error(masks[node.name.lower()])
    return [(each.alias_or_name, masks.get(each.unalias().name.lower())) for each in plain.values()]


@dataclass
class _Select:
    """A SELECT: the tables of its FROM, the columns it shows, and the enclosing SELECTs."""

    tables: list[tuple[str, Shown]]
    around: list[_Select]
    shown: Shown = field(default_factory=list)

    def of(self, column: Any) -> tuple[str | None, bool]:
        """The masked column that a column refers to, and whether it is the column itself, not a field of it or a row
        with it.
        """
        parts = [part.name.lower() for part in column.parts]
        for level in (self, *reversed(self.around)):
            for table, columns in level.tables:
                if parts[0] == table.lower() and any(name.lower() == parts[1] for name, _ in columns if parts[1:]):
                    return _find_mask(columns, parts[1]), len(parts) == 2
            found = [masked for _, columns in level.tables if (masked := _find_mask(columns, parts[0])) is not None]
            if found:
                return found[0], len(parts) == 1
            if any(name.lower() == parts[0] for _, columns in level.tables for name, _ in columns):
                return None, False
            rows = [columns for table, columns in level.tables if table.lower() == parts[0] and len(parts) == 1]
            whole = next((masked for columns in rows for _, masked in columns if masked is not None), None)
            if whole is not None:
                return whole, False
            masked = _find_mask(level.shown, parts[0])
            if masked is not None:
                return masked, False
        return None, False


def _find_mask(columns: Sequence[tuple[str, str | None]], name: str) -> str | None:
    return next((masked for own, masked in columns if own.lower() == name and masked is not None), None)


@dataclass(frozen=True)
class _MaskReader:
    relations: Columns

    def query(self, tree: Any, common: Mapping[str, Shown], around: list[_Select]) -> Shown:
        """The columns that a query shows. `common` are the common tables it may read, `around` the enclosing
        SELECTs.
        """
        from sqlglot import exp

        if clause := tree.args.get("with_"):
            known = dict(common)
            for each in clause.expressions:
                if clause.args.get("recursive") and reads_itself(each):
                    raise _UntraceableMask
                known[each.alias.lower()] = _apply_alias(self.query(each.this, known, around), each.args.get("alias"))
            common = known
        match tree:
            case exp.Subquery():
                found = self.query(tree.this, common, around)
                self._check_clauses(tree, _Select([], around, found), common)
                return found
            case exp.SetOperation():
                return self._set_operation(tree, common, around)
            case exp.Select():
                return self._select(tree, common, around)
            case exp.Values():
                self._refuse_in(tree.expressions, _Select([], around), common)
                return []
            case _:
                raise _UntraceableMask

    def _set_operation(self, tree: Any, common: Mapping[str, Shown], around: list[_Select]) -> Shown:
        from sqlglot import exp

        left, right = (self.query(each, common, around) for each in (tree.this, tree.expression))
        if tree.args.get("by_name"):
            sides = {name.lower(): name for name, _ in (*right, *left)}
            found: Shown = [(name, _find_mask([*left, *right], lower)) for lower, name in sides.items()]
        elif len(left) == len(right):
            pairs = zip(left, right, strict=True)
            found = [(name, mine if mine is not None else its) for (name, mine), (_, its) in pairs]
        else:
            raise _UntraceableMask
        if tree.args.get("distinct") or not isinstance(tree, exp.Union):
            _refuse_shown(found)  # it compares rows
        self._check_clauses(tree, _Select([], around, found), common)
        return found

    def _select(self, tree: Any, common: Mapping[str, Shown], around: list[_Select]) -> Shown:
        here = _Select([], around)
        source, joins = tree.args.get("from_"), tree.args.get("joins") or []
        for each in [*([source] if source else []), *joins]:
            self._table(each.this, here, common)
        for join in joins:
            for name in (name.name.lower() for name in join.args.get("using") or ()):
                for _, columns in here.tables:
                    if (masked := _find_mask(columns, name)) is not None:
                        raise _masked_column_error(masked)
            self._refuse_in([value for name, value in join.args.items() if name not in ("this", "using")], here, common)
        for item in tree.expressions:
            here.shown += self._item(item, here, common)
            if len(here.shown) > MOST_COLUMNS:
                raise QuestionError(f"a SELECT gives more than {MOST_COLUMNS:,} columns")
        if tree.args.get("distinct"):
            _refuse_shown(here.shown)
        self._check_clauses(tree, here, common)
        return here.shown

    def _check_clauses(self, tree: Any, here: _Select, common: Mapping[str, Shown]) -> None:
        """Checks the clauses of a query, each of which computes with the columns it names."""
        from sqlglot import exp

        for name, value in tree.args.items():
            if name in ("with_", "from_", "joins", "expressions", "this", "expression", "alias"):
                continue
            if name in ("laterals", "pivots", "connect", "match", "into") and value:
                raise _UntraceableMask
            if name == "group" and value and value.args.get("all"):
                _refuse_shown(here.shown)
            entries = value.expressions if name in ("group", "order") and value else ()
            for entry in (each.this if isinstance(each, exp.Ordered) else each for each in entries):
                if isinstance(entry, exp.Var):  # ALL
                    _refuse_shown(here.shown)
                if isinstance(entry, exp.Literal) and entry.is_int:
                    _refuse_shown(here.shown[int(entry.name) - 1 : int(entry.name)])
            self._refuse_in([value], here, common)

    # --- select list ------------------------------------------------------------------------------------------

    def _item(self, item: Any, here: _Select, common: Mapping[str, Shown]) -> Shown:
        from sqlglot import exp

        inner = item.unalias()
        if isinstance(inner, exp.Star):
            return self._star(inner, here, None, common)
        if isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star):
            return self._star(inner.this, here, inner.table.lower(), common)
        if isinstance(inner, exp.Column):
            masked, itself = here.of(inner)
            if masked is not None and not itself:
                raise _masked_column_error(masked)
            return [(item.alias_or_name, masked)]
        self._refuse_in([inner], here, common)
        return [(item.alias_or_name, None)]

    def _star(self, star: Any, here: _Select, table: str | None, common: Mapping[str, Shown]) -> Shown:
        left = {each.name.lower() for each in star.args.get("except_") or ()}
        others = {each.alias.lower(): each.this for each in star.args.get("replace") or ()}
        names = {each.this.name.lower(): each.alias for each in star.args.get("rename") or ()}
        self._refuse_in(list(others.values()), here, common)
        found = []
        for name, columns in here.tables:
            for own, masked in columns if table in (None, name.lower()) else ():
                if own.lower() not in left:
                    found.append((names.get(own.lower(), own), None if own.lower() in others else masked))
        return found

    # --- FROM -------------------------------------------------------------------------------------------------

    def _table(self, table: Any, here: _Select, common: Mapping[str, Shown]) -> None:
        from sqlglot import exp

        alias = table.args.get("alias")
        if any(table.args.get(name) for name in ("pivots", "joins", "laterals")):
            raise _UntraceableMask
        if isinstance(table, exp.Lateral):
            table = table.this
        if isinstance(table, exp.Subquery):
            found = self.query(table, common, [*here.around, here])
        elif isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier):
            found = list(common.get(table.name.lower(), ()))
            if table.name.lower() not in common and table.name in self.relations:
                found = list(self.relations[table.name])
        else:  # a table function, or VALUES
            self._refuse_in([table], here, common)
            found = []
        name = alias.name if alias is not None and alias.name else table.alias_or_name
        here.tables.append((name, _apply_alias(found, alias)))

    def _refuse_in(self, values: Sequence[Any], here: _Select, common: Mapping[str, Shown]) -> None:
        """Raises QuestionError if an expression reads a masked column, directly or in a subquery."""
        from sqlglot import exp

        for node in _own_nodes(values):
            if isinstance(node, exp.Query):
                _refuse_shown(self.query(node, common, [*here.around, here]))
            elif isinstance(node, exp.Star):
                if not isinstance(node.parent, exp.Count):
                    raise _UntraceableMask
            elif isinstance(node, exp.Columns | exp.PositionalColumn | exp.Pivot):
                raise _UntraceableMask
            elif isinstance(node, exp.Column) and (masked := here.of(node)[0]) is not None:
                raise _masked_column_error(masked)


def _own_nodes(values: Sequence[Any]) -> Iterator[Any]:
    """The nodes of expressions. Subqueries are included but not descended into."""
    from sqlglot import exp

    open_ = [each for value in values for each in (value if isinstance(value, list) else [value])]
    while open_:
        node = open_.pop()
        if not isinstance(node, exp.Expr):
            continue
        yield node
        if not isinstance(node, exp.Query):
            open_ += list(node.iter_expressions())


def _refuse_shown(shown: Sequence[tuple[str, str | None]]) -> None:
    for _, masked in shown:
        if masked is not None:
            raise _masked_column_error(masked)


def _apply_alias(columns: Shown, alias: Any) -> Shown:
    """Columns renamed by the column list of an alias."""
    names = [each.name for each in alias.columns] if alias is not None and hasattr(alias, "columns") else []
    return [(names[place] if place < len(names) else name, masked) for place, (name, masked) in enumerate(columns)]
