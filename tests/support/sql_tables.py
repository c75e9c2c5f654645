"""Queries of case files over tables that are called otherwise, so that many cases share one workflow."""

from lineage_service.spec.sql_parsing import parse_query, table_nodes


def with_prefixed_tables(query: str, prefix: str) -> str:
    """The query with a prefix before the names of its tables; a name still qualifies the columns of its table."""
    nodes = sorted(table_nodes(parse_query(query)), key=lambda each: each.this.meta["start"], reverse=True)
    for table in nodes:
        start, end = table.this.meta["start"], table.this.meta["end"] + 1
        alias = "" if table.alias else f" AS {table.name}"
        query = f"{query[:start]}{prefix}{table.name}{alias}{query[end:]}"
    return query
