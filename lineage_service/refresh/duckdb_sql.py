"""Translates plans to DuckDB SQL that recomputes affected rows without Spark. Pure text.

A dataset is translated if it is at most one group-by over filters, projections, inner joins and unions, and if every
expression means the same in both engines (capture/direct_indexing.py). Raises `NotTranslatable` otherwise; Spark
recomputes those datasets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lineage_service.equivalence.comparable_types import ComparableType, comparable_type
from lineage_service.equivalence.portable_predicates import NotTranslatable
from lineage_service.equivalence.portable_values import ValueTranslator
from lineage_service.equivalence.type_names import duckdb_type
from lineage_service.plan.conjuncts import plain_name
from lineage_service.plan.nodes import Filter, Join, Node, Project, Sort, Union, WithColumns
from lineage_service.refresh.duckdb_values import (
    DuckDbRelation,
    TypedColumn,
    handle_column,
    predicate_sql,
    project_columns,
)
from lineage_service.store.duckdb_engine import column
from lineage_service.store.version_scan import RID


@dataclass
class Leaves:
    """The datasets that a plan reads, one entry per occurrence. `rows` returns SQL for the rows of an occurrence with
    `_rid`.
    """

    columns: Mapping[str, Sequence[tuple[str, str, bool]]]  # by node: name, Spark type, whether DuckDB agrees
    rows: Callable[[int, str, Sequence[str]], str]
    occurrences: list[str] = field(default_factory=list)


class DuckDbPlan:
    """SQL for the rows of a tree of operators without a breaker."""

    def __init__(self, leaves: Leaves) -> None:
        self.leaves = leaves

    def rows(self, node: Node) -> DuckDbRelation:
        self.leaves.occurrences.clear()
        return self._rows(node)

    def _rows(self, node: Node) -> DuckDbRelation:
        if node.id in self.leaves.columns:
            return self._leaf(node)
        if not node.repeatable:
            raise NotTranslatable
        match node:
            case Filter():
                below = self._rows(node.input)
                where = predicate_sql(node.where, below)
                return DuckDbRelation(f"SELECT t.* FROM ({below.text}) t WHERE {where}", below.columns, below.handles)
            case Sort():
                return self._rows(node.input)
            case Project() | WithColumns():
                return project_columns(node, self._rows(node.input))
            case Union():
                return self._union([self._rows(each) for each in node.inputs])
            case Join(how="inner") if node.equi_condition is not None:
                return self._join(node, self._rows(node.left), self._rows(node.right))
            case _:
                raise NotTranslatable

    def _leaf(self, node: Node) -> DuckDbRelation:
        number = len(self.leaves.occurrences)
        self.leaves.occurrences.append(node.id)
        columns = []
        for name, spark_type, alike in self.leaves.columns[node.id]:
            kind = comparable_type(spark_type) if alike else None
            if kind is None and alike and spark_type in ("double", "float"):
                kind = ComparableType(spark_type)
            if kind is not None:
                columns.append(TypedColumn(name, kind, spark_type, frozenset({(number, name)})))
        rows = self.leaves.rows(number, node.id, [each.name for each in columns])
        shown = ", ".join([*(each.sql for each in columns), f"t.{RID} AS {handle_column(number)}"])
        return DuckDbRelation(f"SELECT {shown} FROM ({rows}) t", tuple(columns), (number,))

    def _union(self, branches: list[DuckDbRelation]) -> DuckDbRelation:
        handles = [each for branch in branches for each in branch.handles]
        columns = branches[0].columns
        parts = []
        for branch in branches:
            own = [branch.find(each.name) for each in columns]
            if any(
                (one.kind, one.spark_type) != (each.kind, each.spark_type)
                for one, each in zip(own, columns, strict=True)
            ):
                raise NotTranslatable
            shown = [f"{one.sql} AS {column(each.name)}" for one, each in zip(own, columns, strict=True)]
            shown += [
                f"t.{handle_column(n)}" if n in branch.handles else f"NULL::BIGINT AS {handle_column(n)}"
                for n in handles
            ]
            parts.append(f"SELECT {', '.join(shown)} FROM ({branch.text}) t")
        apart = tuple(replace(each, origins=frozenset()) for each in columns)
        return DuckDbRelation(" UNION ALL ".join(parts), apart, tuple(handles))

    def _join(self, node: Join, left: DuckDbRelation, right: DuckDbRelation) -> DuckDbRelation:
        sides = {"left": left, "right": right}

        def resolve(parts: tuple[str, ...]) -> tuple[str, ComparableType]:
            if len(parts) == 2 and parts[0] in sides:
                side, name = parts
            elif len(parts) == 1:
                (name,) = parts
                side = "left" if any(each.name.lower() == name.lower() for each in left.columns) else "right"
            else:
                raise NotTranslatable
            found = sides[side].find(name)
            return f"{side[0]}.{column(found.name)}", found.kind

        if node.on is not None:
            on = ValueTranslator(resolve).translate_predicate(node.on)
        else:
            on = " AND ".join(
                ValueTranslator(resolve).column_comparison(resolve(("left", name)), "=", resolve(("right", name)))
                for name in node.using
            )
        shared = {name.lower() for name in node.using}
        equal = self._equal_origins(node, left, right)
        shown: list[str] = []
        columns: list[TypedColumn] = []
        for name in node.schema.names:
            found = next(
                (
                    (side, each)
                    for side, near in sides.items()
                    for each in near.columns
                    if each.name.lower() == name.lower() and not (side == "right" and name.lower() in shared)
                ),
                None,
            )
            if found is not None:
                shown.append(f"{found[0][0]}.{column(found[1].name)} AS {column(name)}")
                columns.append(replace(found[1], name=name, origins=equal.get(found[1].origins, found[1].origins)))
        handles = [f"{side[0]}.{handle_column(each)}" for side, near in sides.items() for each in near.handles]
        text = f"SELECT {', '.join([*shown, *handles])} FROM ({left.text}) l JOIN ({right.text}) r ON {on}"
        return DuckDbRelation(text, tuple(columns), (*left.handles, *right.handles))

    def _equal_origins(
        self, node: Join, left: DuckDbRelation, right: DuckDbRelation
    ) -> dict[frozenset[tuple[int, str]], frozenset[tuple[int, str]]]:
        """The origins of columns that the join makes equal, as a mapping in both directions."""
        found = {}
        for texts in node.equi_condition.keys if node.equi_condition is not None else ():
            names = [plain_name(text) for text in texts]
            if names[0] is None or names[1] is None:
                continue
            one, other = left.find(names[0]), right.find(names[1])
            if one.kind == other.kind and one.origins and other.origins:
                found[one.origins] = found[other.origins] = one.origins | other.origins
        return found


def select_as_spark_types(rows: DuckDbRelation, columns: Sequence[tuple[str, str]], extra: str) -> str:
    """The columns of a dataset, cast to the types that Spark gave them."""
    shown = []
    for name, spark_type in columns:
        kind = duckdb_type(spark_type)
        if kind is None:
            raise NotTranslatable
        shown.append(f"CAST({rows.find(name).sql} AS {kind}) AS {column(name)}")
    return f"SELECT {', '.join(shown)}{extra} FROM ({rows.text}) t"
