"""A person's value as text that is the same wherever it stands, and as a keyed hash, in DuckDB's SQL.

42 as a whole number, as a decimal 42.00 and as text '42' is one person; '042' as text is another.
"""

from __future__ import annotations

from lineage_service.store.duckdb_engine import literal
from lineage_service.store.home_key import kind_prefix
from lineage_service.store.version_scan import duckdb_type

_FRACTIONS = ("decimal(", "double", "float")


def canonical_text(value: str, spark_type: str) -> str:
    """The text of a value of a type; null stays null: it is nobody's."""
    text = f"CAST({value} AS VARCHAR)"
    if not spark_type.startswith(_FRACTIONS):
        return text
    # 42.00 and 42.0 are 42.
    return f"CASE WHEN {text} LIKE '%.%' THEN rtrim(rtrim({text}, '0'), '.') ELSE {text} END"


def canonical_input(spark_type: str) -> str:
    """The same of a value that a user typed, bound as the one parameter; null where it is none of the type."""
    kind = duckdb_type(spark_type)
    return canonical_text("?" if kind in (None, "VARCHAR") else f"TRY_CAST(? AS {kind})", spark_type)


def keyed_hash(kind: str, text: str) -> str:
    """The keyed hash of canonical text, as `Key.subject` makes it; the pads of the key are bound, the outer first."""
    inner = f"unhex(sha256(?::BLOB || encode({literal(kind_prefix(kind))} || {text})))"
    return f"unhex(sha256(?::BLOB || {inner}))[1:16]"
