"""Converts a person's value to canonical text and to a keyed hash, in DuckDB SQL.

42 as an integer, 42.00 as a decimal and '42' as text are one person; '042' as text is another.
"""

from __future__ import annotations

from lineage_service.equivalence.type_names import duckdb_type
from lineage_service.store.duckdb_engine import literal
from lineage_service.store.home_key import kind_prefix

_FRACTIONS = ("decimal(", "double", "float")


def canonical_text(value: str, spark_type: str) -> str:
    """The canonical text of a value of this type. Null stays null and identifies no person."""
    text = f"CAST({value} AS VARCHAR)"
    if not spark_type.startswith(_FRACTIONS):
        return text
    # 42.00 and 42.0 become 42.
    return f"CASE WHEN {text} LIKE '%.%' THEN rtrim(rtrim({text}, '0'), '.') ELSE {text} END"


def canonical_input(spark_type: str) -> str:
    """The canonical text of a value that a user typed, bound as the only parameter; null if it is not of the type."""
    kind = duckdb_type(spark_type)
    return canonical_text("?" if kind in (None, "VARCHAR") else f"TRY_CAST(? AS {kind})", spark_type)


def keyed_hash(kind: str, text: str) -> str:
    """The keyed hash of canonical text, as `Key.subject` computes it. The pads of the key are bound, the outer one
    first.
    """
    inner = f"unhex(sha256(?::BLOB || encode({literal(kind_prefix(kind))} || {text})))"
    return f"unhex(sha256(?::BLOB || {inner}))[1:16]"
