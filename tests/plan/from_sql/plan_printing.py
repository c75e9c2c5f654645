"""Compiled plans as text, one node a line, inputs indented below."""

from lineage_service.plan.from_sql.query_compiler import compile_sql
from lineage_service.plan.node_description import describe_node
from lineage_service.plan.nodes import Join, Node, Source
from lineage_service.plan.schema import Column, Schema
from lineage_service.spec.sql_text import whole_file


def table(table_name: str, **columns: str) -> Source:
    schema = Schema(tuple(Column(name, kind) for name, kind in columns.items()))
    return Source(table_name, table_name, None, schema)


TABLES = {
    "orders": table("orders", id="bigint", cust="bigint", amount="double", day="date"),
    "customer": table("customer", id="bigint", name="string", city="string"),
    "item": table("item", order_id="bigint", sku="string", qty="int", spec="struct<size:int,tags:array<string>>"),
}


def compiled(query: str) -> Node:
    return compile_sql(whole_file(query, "query.sql"), "out", None, TABLES)


def printed(node: Node, depth: int = 0) -> str:
    kind = f"{node.how} join" if isinstance(node, Join) else type(node).__name__.lower()
    line = f"{'  ' * depth}{node.id}  {kind} {describe_node(node)}".rstrip()
    return "\n".join([line, *(printed(below, depth + 1) for below in node.inputs)])
