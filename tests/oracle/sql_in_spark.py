"""The tables of a random query as views of Spark, and the comparison of Spark's rows with the oracle's."""

import datetime
import math
from collections import Counter
from collections.abc import Sequence

from tests.oracle.reference_values import canonical
from tests.oracle.sql_reference import SqlAnswer, SqlTable


def register_views(spark, tables: dict[str, SqlTable]) -> None:
    """Views over literal rows: Spark starts no job to read them."""
    for name, table in tables.items():
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {name} AS {view_text(table)}")


def view_text(table: SqlTable) -> str:
    typed = ", ".join(f"CAST(col{i + 1} AS {kind}) AS {name}" for i, (name, kind) in enumerate(table.schema.items()))
    rows = table.rows or [dict.fromkeys(table.schema)]
    values = ", ".join("(" + ", ".join(literal_text(row.get(name)) for name in table.schema) + ")" for row in rows)
    return f"SELECT {typed} FROM VALUES {values}" + ("" if table.rows else " WHERE false")


def literal_text(value) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return "CAST(array(" + ", ".join(map(literal_text, value)) + ") AS ARRAY<INT>)"
    if isinstance(value, float):
        return "double('NaN')" if math.isnan(value) else f"double('{value}')"
    if isinstance(value, datetime.date):
        return f"DATE '{value}'"
    return f"'{value}'" if isinstance(value, str) else str(value)


def difference_from_spark(answer: SqlAnswer, rows: Sequence) -> str | None:
    """What is unlike between the oracle's answer and Spark's rows: as bags, and per rank where there is an order."""
    ours = [canonical(list(row.values)) for row in answer.rows]
    theirs = [canonical(list(row)) for row in rows]
    if Counter(ours) != Counter(theirs):
        missing, more = Counter(ours) - Counter(theirs), Counter(theirs) - Counter(ours)
        return f"only the oracle has {dict(missing)}, only Spark has {dict(more)}"
    if answer.ordered:
        for rank in {row.rank for row in answer.rows}:
            places = [i for i, row in enumerate(answer.rows) if row.rank == rank]
            if Counter(ours[i] for i in places) != Counter(theirs[i] for i in places):
                return f"other rows at the places {places}"
    return None


def is_limit_of_spark(error: Exception) -> bool:
    """Spark failed to plan the query, by its own account: a valid text that it cannot run."""
    return any(sign in str(error) for sign in LIMITS_OF_SPARK)


LIMITS_OF_SPARK = (
    "INTERNAL_ERROR",
    "NoSuchElementException: key not found",
    "UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY",
)
