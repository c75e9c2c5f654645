"""Group-bys of a refresh as DuckDB SQL: keys, members and measures of groups, and the steps above a group-by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lineage_service.equivalence.portable_aggregates import translate_measure
from lineage_service.equivalence.portable_predicates import NotTranslatable
from lineage_service.equivalence.portable_values import ValueTranslator
from lineage_service.plan.nodes import (
    Aggregate,
    Distinct,
    Filter,
    GroupLimit,
    Limit,
    NamedExpression,
    Node,
    OuterValues,
    Project,
    Sort,
    WithColumns,
)
from lineage_service.refresh.duckdb_values import (
    MEMBERS,
    DuckDbRelation,
    TypedColumn,
    column_resolver,
    handle_column,
    named_value_sql,
    predicate_sql,
    project_columns,
)
from lineage_service.store.duckdb_engine import column


@dataclass(frozen=True)
class GroupByShape:
    """A dataset as at most one group-by over a tree without breakers, with the steps above it."""

    above: tuple[Node, ...]  # steps from the group-by up to the dataset
    breaker: Aggregate | Distinct | None
    tree: Node
    limit: Limit | None = None  # the dataset's own step, if it is a top-n


def group_by_shape(node: Node, leaves: Mapping[str, object]) -> GroupByShape:
    """The shape of a dataset. Raises NotTranslatable for any other shape."""
    if isinstance(node, Limit) and not isinstance(node, GroupLimit) and node.by and node.id not in leaves:
        below = group_by_shape(node.input, leaves)
        if below.breaker is None or below.limit is not None or node.offset or node.n is None:
            raise NotTranslatable
        return replace(below, limit=node)
    above: list[Node] = []
    at = node
    while at.id not in leaves and isinstance(at, Filter | Project | WithColumns | Sort):
        above.append(at)
        at = at.input
    if at.id not in leaves and isinstance(at, Aggregate | Distinct) and not isinstance(at, OuterValues):
        if isinstance(at, Aggregate) and not at.keys:
            raise NotTranslatable
        return GroupByShape(tuple(reversed(above)), at, at.input)
    return GroupByShape((), None, node)


def group_keys(breaker: Aggregate | Distinct, rows: DuckDbRelation) -> list[tuple[str, TypedColumn]]:
    """The keys of a group-by: SQL over its rows as `t`, with their names."""
    if isinstance(breaker, Distinct):
        found = [(each.sql, each) for each in (rows.find(name) for name in breaker.schema.names)]
    else:
        found = [named_value_sql(key, rows) for key in breaker.keys]
    if any(each.kind.family in ("double", "float") for _, each in found):
        raise NotTranslatable
    return found


def group_rows(
    breaker: Aggregate | Distinct, rows: DuckDbRelation, where: str = "", *, members: bool = True
) -> DuckDbRelation:
    """Groups with their measures and, if requested, the list of their members."""
    keys = group_keys(breaker, rows)
    shown = [f"{text} AS {column(each.name)}" for text, each in keys]
    columns = [each for _, each in keys]
    for named in breaker.measures if isinstance(breaker, Aggregate) else ():
        measure = translate_measure(named.expression, ValueTranslator(column_resolver(rows)))
        shown.append(f"{measure.sql} AS {column(named.name)}")
        columns.append(TypedColumn(named.name, measure.kind, measure.spark_type))
    packed = ", ".join(f"{handle_column(each)} := t.{handle_column(each)}" for each in rows.handles)
    by = ", ".join(text for text, _ in keys)
    shown.append(f"{f'list(struct_pack({packed}))' if members else 'NULL'} AS {MEMBERS}")
    text = f"SELECT {', '.join(shown)} FROM ({rows.text}) t{where} GROUP BY {by}"
    return DuckDbRelation(text, tuple(columns), ())


def apply_above_groups(nodes: Sequence[Node], groups: DuckDbRelation) -> DuckDbRelation:
    """Applies the steps above a group-by. Each group remains one row."""
    rows = groups
    for node in nodes:
        match node:
            case Filter():
                if not node.repeatable:
                    raise NotTranslatable
                where = predicate_sql(node.where, rows)
                rows = DuckDbRelation(f"SELECT t.* FROM ({rows.text}) t WHERE {where}", rows.columns, ())
            case Project() | WithColumns():
                rows = project_columns(node, rows)
            case Sort():
                pass
            case _:
                raise NotTranslatable
    return rows


def order_terms(node: Limit | Sort, rows: DuckDbRelation) -> list[tuple[str, str]]:
    """The sort keys of a step: values over its rows as `t`, with their directions."""
    found = []
    for key in node.by:
        text, _ = named_value_sql(NamedExpression("by", key.expression), rows)
        nulls = "NULLS FIRST" if key.nulls_first else "NULLS LAST"
        found.append((text, f"{'DESC' if key.descending else 'ASC'} {nulls}"))
    return found
