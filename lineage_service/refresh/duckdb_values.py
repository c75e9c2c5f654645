"""Relations with typed columns in DuckDB's SQL, and predicates, values and projections over them. NotTranslatable for
whatever does not mean the same to Spark (equivalence/portable_values.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from lineage_service.equivalence.comparable_types import ComparableType
from lineage_service.equivalence.portable_predicates import NotTranslatable
from lineage_service.equivalence.portable_values import ValueTranslator
from lineage_service.plan.expressions import Expression
from lineage_service.plan.nodes import NamedExpression, Project, WithColumns
from lineage_service.store.duckdb_engine import column, private_column

MEMBERS = private_column("members")


@dataclass(frozen=True)
class TypedColumn:
    """A column of a relation: its name, and its type as far as it is known."""

    name: str
    kind: ComparableType
    spark_type: str | None = None
    origins: frozenset[tuple[int, str]] = frozenset()  # (occurrence, column) of leaves that it must equal

    @property
    def sql(self) -> str:
        return f"t.{column(self.name)}"


@dataclass(frozen=True)
class DuckDbRelation:
    """A relation as DuckDB SQL: its columns, and its handles, one per occurrence of a leaf."""

    text: str
    columns: tuple[TypedColumn, ...]
    handles: tuple[int, ...]

    def find(self, name: str) -> TypedColumn:
        found = next((each for each in self.columns if each.name.lower() == name.lower()), None)
        if found is None:
            raise NotTranslatable
        return found

    @property
    def select_list(self) -> str:
        """The select list that passes on all columns and handles."""
        return ", ".join([*(each.sql for each in self.columns), *(f"t.{handle_column(each)}" for each in self.handles)])


def handle_column(occurrence: int) -> str:
    return private_column(f"h{occurrence}")


def project_columns(node: Project | WithColumns, below: DuckDbRelation) -> DuckDbRelation:
    """Adds the columns of a projection. A column that cannot be translated is left out and must not be read."""
    new: dict[str, tuple[str, TypedColumn]] = {}
    for named in node.columns:
        if named.expression.is_generator:
            raise NotTranslatable
        try:
            text, typed = named_value_sql(named, below)
        except NotTranslatable:
            continue
        new[named.name.lower()] = (text, typed)
    replaced = {named.name.lower() for named in node.columns}
    kept = (
        [each for each in below.columns if each.name.lower() not in replaced] if isinstance(node, WithColumns) else []
    )
    shown = [*(each.sql for each in kept), *(f"{text} AS {column(each.name)}" for text, each in new.values())]
    extra = [f"t.{handle_column(each)}" for each in below.handles] or [f"t.{MEMBERS}"]
    text = f"SELECT {', '.join([*shown, *extra])} FROM ({below.text}) t"
    return DuckDbRelation(text, (*kept, *(each for _, each in new.values())), below.handles)


def named_value_sql(named: NamedExpression, below: DuckDbRelation) -> tuple[str, TypedColumn]:
    """The SQL and type of an expression. For a plain column, all its properties are kept."""
    refs = named.expression.columns
    if len(refs) == 1 and len(refs[0].parts) == 1 and len(named.expression.tokens) == 1:
        found = below.find(refs[0].parts[0])
        return found.sql, replace(found, name=named.name)
    text, kind = ValueTranslator(column_resolver(below)).translate_value(named.expression)
    return text, TypedColumn(named.name, kind)


def predicate_sql(expression: Expression, below: DuckDbRelation) -> str:
    return ValueTranslator(column_resolver(below)).translate_predicate(expression)


def column_resolver(below: DuckDbRelation) -> Callable[[tuple[str, ...]], tuple[str, ComparableType]]:
    def resolve(parts: tuple[str, ...]) -> tuple[str, ComparableType]:
        if len(parts) != 1:
            raise NotTranslatable
        found = below.find(parts[0])
        return found.sql, found.kind

    return resolve
