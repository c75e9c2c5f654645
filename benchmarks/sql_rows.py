"""Compares the result of an sql step with that of `spark.sql`: names, types, rows, and the order that ORDER BY gives.

Rows with equal keys have no order between them, and where LIMIT cuts through them any of them may be taken.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
from sqlglot import exp

from benchmarks.sql_queries import SqlQuery

Row = tuple[Any, ...]
DIGITS = 9  # of a double that count: sums of doubles depend on the order of the rows


def differences(query: SqlQuery, found: pa.Table, expected: pa.Table, whole: pa.Table) -> list[str]:
    """What is unlike; empty where nothing is.

    found: the step's rows in their order. expected: those of `spark.sql`. whole: those of the query without its LIMIT.
    """
    faults = []
    if found.column_names != expected.column_names:
        return [f"columns {', '.join(found.column_names)}; spark.sql gives {', '.join(expected.column_names)}"]
    for ours, theirs in zip(found.schema, expected.schema, strict=True):
        if type_name(ours.type) != type_name(theirs.type):
            faults.append(f"column {ours.name} is {type_name(ours.type)}, and {type_name(theirs.type)} in spark.sql")
    return faults or _different_rows(query, found, expected, whole)


def _different_rows(query: SqlQuery, found: pa.Table, expected: pa.Table, whole: pa.Table) -> list[str]:
    rows, wanted, possible = (_rows(table) for table in (found, expected, whole))
    if len(rows) != len(wanted):
        return [f"{len(rows)} rows; spark.sql gives {len(wanted)}"]
    keys = order_keys(query, expected.column_names)
    found_keys, wanted_keys, possible_keys = (_keys(table, keys) for table in (found, expected, whole))
    for place, (one, other) in enumerate(zip(found_keys, wanted_keys, strict=True)):
        if one != other:
            return [f"row {place} has the keys {one} of ORDER BY; spark.sql has {other}"]
    is_cut = len(possible) > len(wanted)
    last = wanted_keys[-1] if is_cut and wanted_keys else None
    ours = Counter(row for row, key in zip(rows, found_keys, strict=True) if key != last)
    theirs = Counter(row for row, key in zip(wanted, wanted_keys, strict=True) if key != last)
    faults = _excess(ours, theirs, "") + _excess(theirs, ours, "of spark.sql ")
    if last is not None:  # any of the rows with the last key may be taken
        cut = Counter(row for row, key in zip(rows, found_keys, strict=True) if key == last)
        faults += _excess(
            cut, Counter(row for row, key in zip(possible, possible_keys, strict=True) if key == last), ""
        )
    return faults


def _excess(some: Counter[Row], others: Counter[Row], word: str) -> list[str]:
    more = some - others
    return [f"{more.total()} rows {word}are not on the other side, such as {next(iter(more))}"] if more else []


def order_keys(query: SqlQuery, names: Sequence[str]) -> list[str]:
    """The keys of ORDER BY as expressions of DuckDB over the columns c0, c1, … of the result; none without an order.

    ValueError for a key that cannot be computed from the result.
    """
    order = query.tree.args.get("order")
    selected = _leftmost_select(query.tree).expressions
    lower = [name.lower() for name in names]
    return [] if order is None else [_key(key.this, selected, lower).sql("duckdb") for key in order.expressions]


def _key(key: exp.Expression, selected: Sequence[exp.Expression], names: list[str]) -> exp.Expression:
    if isinstance(key, exp.Literal) and not key.is_string:
        return exp.column(f"c{int(key.this) - 1}")

    def replaced(node: exp.Expression) -> exp.Expression:
        for number, entry in enumerate(selected):
            if node in (entry, entry.unalias()) and not isinstance(node, exp.Star):
                return exp.column(f"c{number}")
        if not isinstance(node, exp.Column):
            return node
        if node.name.lower() not in names:
            raise ValueError(f"'{key.sql('spark')}' of ORDER BY cannot be computed from the result")
        return exp.column(f"c{names.index(node.name.lower())}")

    return key.copy().transform(replaced)


def _keys(table: pa.Table, keys: Sequence[str]) -> list[Row]:
    """Per row the values of the keys."""
    if not keys:
        return [()] * table.num_rows
    numbered = table.rename_columns([f"c{number}" for number in range(table.num_columns)])
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("numbered", numbered)
        return _rows(connection.sql(f"SELECT {', '.join(keys)} FROM numbered").to_arrow_table())


def _leftmost_select(tree: exp.Expression) -> exp.Expression:
    while not isinstance(tree, exp.Select):
        tree = tree.this
    return tree


def _rows(table: pa.Table) -> list[Row]:
    columns = [[_plain(value) for value in column.to_pylist()] for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else []


def _plain(value: Any) -> Any:
    """A value under which equal values are equal: NaN too, and doubles but for the last digits."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else float(f"{value:.{DIGITS}g}") + 0.0
    if isinstance(value, Decimal):
        return str(value)
    return str(value) if isinstance(value, dict | list) else value


def type_name(kind: pa.DataType) -> str:
    """Arrow has several types for text and for bytes."""
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "string"
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return "binary"
    return str(kind)
