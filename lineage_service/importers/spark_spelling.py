"""SQL that was written for another database, in Spark's spelling of names and texts. Nothing else of it is changed.

Most databases put names in double quotes, and have no escapes in texts. Spark reads the first as text, and the second
as escapes: without this, a query would give other rows, without an error.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from lineage_service.importers.table_mentions import replace_spans

# Adapters of dbt whose queries are Spark SQL.
SPARK_ADAPTERS = frozenset({"spark", "databricks", "sparkconnect", "glue", "fabricspark"})
_DIALECTS = {
    "postgres": "postgres", "greenplum": "postgres", "netezza": "postgres", "vertica": "postgres",
    "alloydb": "postgres", "yugabyte": "postgres", "cratedb": "postgres", "sqlserver": "tsql", "synapse": "tsql",
    "fabric": "tsql", "redshift": "redshift", "firebolt": "postgres",
}  # fmt: skip


def dialect_of(adapter: str) -> str | None:
    """sqlglot's name of the dialect of an adapter; None where it has none."""
    if adapter in SPARK_ADAPTERS:
        return "spark"
    return _DIALECTS.get(adapter) or (adapter if adapter in _known_dialects() else None)


def in_spark_spelling(text: str, dialect: str | None) -> str:
    """The text with names in backticks and texts that mean the same to Spark; unchanged if it cannot be cut into
    tokens, or if its dialect is Spark's.
    """
    if dialect in (None, "spark", "databricks"):
        return text
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import SqlglotError

    tool = Dialect.get_or_raise(dialect)
    try:
        tokens = tool.tokenize(text)
    except SqlglotError:
        return text
    spans = []
    escapes = "\\" in tool.tokenizer_class.STRING_ESCAPES
    for token in tokens:
        written = text[token.start : token.end + 1]
        if token.token_type.name == "IDENTIFIER" and written[:1] in ('"', "["):
            spans.append((token.start, token.end + 1, quoted(token.text)))
        elif token.token_type.name == "STRING" and written[:1] == "'" and "\\" in written and not escapes:
            spans.append((token.start, token.end + 1, written.replace("\\", "\\\\")))
    return replace_spans(text, spans)


def quoted(name: str) -> str:
    """A name in backticks."""
    return "`" + name.replace("`", "``") + "`"


@cache
def _known_dialects() -> frozenset[Any]:
    from sqlglot.dialects.dialect import Dialects

    return frozenset(each.value for each in Dialects if each.value)
