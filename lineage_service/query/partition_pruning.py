"""Excludes files that cannot contain a selected row, by the partition values in their folder names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lineage_service.equivalence.type_names import duckdb_type
from lineage_service.query.masks import Masked
from lineage_service.query.query_engine import QueryEngine
from lineage_service.query.selection import Selection
from lineage_service.store.duckdb_engine import literal
from lineage_service.store.version_scan import VersionScan

if TYPE_CHECKING:
    from sqlglot import exp


def may_hold(engine: QueryEngine, scan: VersionScan, index: int, selection: Selection, masked: Masked) -> bool:
    """Whether a file may contain a selected row.

    It cannot if a key or a conjunct of the predicate compares a partition column and the comparison is false. Masked
    columns are not used.
    """
    file, values = scan.version.files[index], dict[str, str]()
    for each in scan.version.columns:
        kind = duckdb_type(each.type)
        if each.partition is not None and kind is not None and each.name.lower() not in masked:
            value = file.partitions.get(each.original)
            values[each.name.lower()] = f"CAST({'NULL' if value is None else literal(value)} AS {kind})"
    conditions = [
        f"{values[name.lower()]} = TRY_CAST({literal(value)} AS {_kind(scan, name)})"
        for name, value in selection.key
        if name.lower() in values
    ]
    if selection.where is not None and values:
        conditions += _comparisons(selection.where, values)
    # A comparison that is null selects no row either.
    return not conditions or engine.rows(f"SELECT {' AND '.join(conditions)}")[0][0] is True


def _kind(scan: VersionScan, name: str) -> str:
    own = next(each for each in scan.version.columns if each.name.lower() == name.lower())
    return str(duckdb_type(own.type))


def _comparisons(where: str, values: Mapping[str, str]) -> list[str]:
    """The outermost AND operands that compare a partition column with literals, applied to its value."""
    import sqlglot
    from sqlglot import exp

    try:
        tree: exp.Expr | None = sqlglot.parse_one(where, dialect="duckdb")
    except sqlglot.errors.SqlglotError:
        return []  # the evaluation reports the error
    found, pending = [], [tree]
    while pending:
        each = pending.pop()
        while isinstance(each, exp.Paren):
            each = each.this
        if isinstance(each, exp.And):
            pending += [each.left, each.right]
            continue
        text = _comparison(each, values)
        if text is not None:
            found.append(text)
    return found


def _comparison(tree: exp.Expr | None, values: Mapping[str, str]) -> str | None:
    from sqlglot import exp

    def partition_value(one: object) -> str | None:
        plain = isinstance(one, exp.Column) and not one.table
        return values.get(one.name.lower()) if plain and isinstance(one, exp.Column) else None

    def literal_sql(one: object) -> str | None:
        return str(one.sql(dialect="duckdb")) if isinstance(one, exp.Literal) else None

    if isinstance(tree, exp.EQ | exp.NEQ | exp.GT | exp.GTE | exp.LT | exp.LTE):
        signs = {exp.EQ: "=", exp.NEQ: "<>", exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<="}
        sides = (
            partition_value(tree.left) or literal_sql(tree.left),
            partition_value(tree.right) or literal_sql(tree.right),
        )
        is_ours = partition_value(tree.left) is not None or partition_value(tree.right) is not None
        return f"({sides[0]} {signs[type(tree)]} {sides[1]})" if is_ours and None not in sides else None
    if isinstance(tree, exp.In) and partition_value(tree.this) is not None:
        options = [literal_sql(each) for each in tree.args.get("expressions") or ()]
        return (
            f"({partition_value(tree.this)} IN ({', '.join(map(str, options))}))"
            if options and None not in options
            else None
        )
    return None
