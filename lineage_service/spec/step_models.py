"""The steps of a workflow file as closed, frozen models: one model per operator, told apart by `op`; and the step that
a PySpark program becomes."""

from __future__ import annotations

from typing import Any, Literal, Self, get_args

from pydantic import Field, field_validator, model_validator
from pydantic.json_schema import SkipJsonSchema

from lineage_service.spec.fields import (
    ClosedModel,
    Columns,
    Count,
    Expressions,
    Flag,
    Name,
    NewColumn,
    OneOrMore,
    Ref,
    Text,
    Texts,
    as_text,
    validation_error,
)
from lineage_service.spec.step_description import INPUT_KEYS


class CheckSpec(ClosedModel):
    """A statement about the rows of a step or output, checked while it runs; exactly one of the first three."""

    not_null: OneOrMore | None = Field(None, description="A column, or a list of them, that is never null")
    unique: OneOrMore | None = Field(
        None, description="A column, or a list whose values together occur once; rows with a null are not compared"
    )
    where: Text | None = Field(None, description="A predicate that is false for no row; null passes, as in SQL")
    severity: Literal["error", "warn"] = Field(
        "error", description="error fails the run before it commits, warn is reported"
    )

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if sum(kind is not None for kind in (self.not_null, self.unique, self.where)) != 1:
            raise validation_error("needs exactly one of 'not_null', 'unique', 'where'")
        if () in (self.not_null, self.unique):
            raise validation_error("needs at least one column")
        return self


class StepBase(ClosedModel):
    """What every step has."""

    name: Name = Field(description="The step's name: [a-z][a-z0-9_]*, not that of a source or another step")
    checks: tuple[CheckSpec, ...] = Field((), description="Statements about the step's rows, checked while it runs")

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of the steps and sources it reads, in order."""
        values = (getattr(self, key) for key in INPUT_KEYS if key in type(self).model_fields)
        return tuple(name for value in values for name in ((value,) if isinstance(value, str) else value))


class OneInput(StepBase):
    input: Ref = Field(description="The step or source it reads")


class TwoInputs(StepBase):
    left: Ref = Field(description="The step or source on the left")
    right: Ref = Field(description="The step or source on the right")


class FilterStep(OneInput):
    """Keeps the rows for which `where` is true."""

    op: Literal["filter"]
    where: Text = Field(description="A predicate; rows for which it is false or null are left out")


class ProjectStep(OneInput):
    """Columns chosen or computed; a bag, or a set with `distinct`."""

    op: Literal["project"]
    columns: Columns = Field(description="The columns of the result: names, or name: expression")
    distinct: Flag = Field(False, description="Equal rows once")

    @field_validator("columns")
    @classmethod
    def _require_columns(cls, columns: Any) -> Any:
        if not columns:
            raise validation_error("needs at least one column")
        return columns


class WithColumnsStep(OneInput):
    """All columns, and some more."""

    op: Literal["with_columns"]
    columns: Expressions = Field(min_length=1, description="name: expression; an existing name is replaced")


class AggregateStep(OneInput):
    """One row per group; without `by`, one row in all."""

    op: Literal["aggregate"]
    by: Columns = Field((), description="The keys: columns, or name: expression; empty for one group of everything")
    measures: Expressions = Field(default_factory=dict, description="name: aggregate expression, such as sum(x)")
    having: Text | None = Field(
        None, description="A predicate over keys and measures, by name; other groups are left out"
    )

    @model_validator(mode="after")
    def _require_keys_or_measures(self) -> Self:
        if not self.by and not self.measures:
            raise validation_error("needs 'by' or 'measures'")
        if isinstance(self.by, dict) and (twice := set(self.by) & set(self.measures)):
            raise validation_error(f"'{min(twice)}' is both in 'by' and in 'measures'")
        return self


class DistinctStep(OneInput):
    """Equal rows once."""

    op: Literal["distinct"]


class JoinStep(TwoInputs):
    """Pairs of rows that match; `semi` and `anti` only ask whether there is a match."""

    op: Literal["join"]
    on: Text | None = Field(None, description="Any predicate; left. and right. qualify names that both sides have")
    using: Texts | None = Field(None, description="Instead of on: columns that both sides have, and that must be equal")
    how: Literal["inner", "left", "right", "full", "semi", "anti", "cross"] = Field("inner", description="Join type")

    @model_validator(mode="after")
    def _check_join_condition(self) -> Self:
        given = (self.on is not None) + (self.using is not None)
        if self.how == "cross" and given:
            raise validation_error("a cross join has neither 'on' nor 'using'")
        if self.how != "cross" and given != 1:
            raise validation_error("needs exactly one of 'on', 'using'" + ("" if given else ", or 'how: cross'"))
        if self.using == ():
            raise validation_error("'using' needs at least one column")
        return self


class UnionStep(StepBase):
    """Rows of all inputs, by column name."""

    op: Literal["union"]
    inputs: tuple[Ref, ...] = Field(min_length=2, description="Two or more steps or sources, of the same column names")
    distinct: Flag = Field(False, description="Equal rows once")


class IntersectStep(TwoInputs):
    """Rows that both sides have, by column name."""

    op: Literal["intersect"]
    distinct: Flag = Field(True, description="Equal rows once; false is SQL's ALL")


class DifferenceStep(TwoInputs):
    """Rows of the left side that the right side does not have, by column name."""

    op: Literal["difference"]
    distinct: Flag = Field(True, description="Equal rows once; false is SQL's ALL")


class WindowStep(OneInput):
    """All columns, and measures computed over each row's partition."""

    op: Literal["window"]
    partition_by: Texts = Field((), description="Columns; empty for one partition of everything")
    order_by: OneOrMore = Field((), description="The order within a partition: expressions with optional asc or desc")
    measures: Expressions = Field(
        min_length=1, description="name: window expression, such as row_number(), without OVER"
    )
    frame: Text | None = Field(
        None,
        description="The rows that aggregates and first, last and nth value read, as in SQL: "
        "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW; Spark's default when left out",
    )


class SortStep(OneInput):
    """The same rows in order."""

    op: Literal["sort"]
    by: OneOrMore = Field(min_length=1, description="Expressions with optional asc or desc")


class LimitStep(OneInput):
    """The first n rows."""

    op: Literal["limit"]
    n: Count = Field(description="How many rows")
    by: OneOrMore = Field((), description="The order: expressions with optional asc or desc; without it any n rows")


class ExplodeStep(OneInput):
    """One row per element of an array or map column."""

    op: Literal["explode"]
    column: Text = Field(description="The array or map column to take apart")
    as_: NewColumn = Field(
        "", alias="as", description="The element's column; by default the element takes the column's place"
    )
    outer: Flag = Field(False, description="Keep rows that have no elements, with null")

    @model_validator(mode="before")
    @classmethod
    def _default_alias(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("as") is None and isinstance(as_text(data.get("column")), str):
            return {**data, "as": data["column"]}
        return data


class SqlStep(StepBase):
    """One Spark SQL query over sources and steps of this workflow."""

    op: Literal["sql"]
    query: Text | None = Field(None, description="The query; a table is a source or a step, or a CTE of the query")
    file: Text | None = Field(None, description="Instead of query: a .sql file that holds it, relative to this file")
    # The loader writes the sources and steps that the query names here; in a workflow file the key is refused.
    inputs: SkipJsonSchema[tuple[Ref, ...]] = Field((), description="The sources and steps that the query names")

    @model_validator(mode="after")
    def _require_query_or_file(self) -> Self:
        if (self.query is None) == (self.file is None):
            raise validation_error("needs exactly one of 'query', 'file'")
        return self


Step = (
    FilterStep
    | ProjectStep
    | WithColumnsStep
    | AggregateStep
    | DistinctStep
    | JoinStep
    | UnionStep
    | IntersectStep
    | DifferenceStep
    | WindowStep
    | SortStep
    | LimitStep
    | ExplodeStep
    | SqlStep
)


class PysparkStep(StepBase):
    """One data frame of a PySpark program. Made by `run job.py` only: a workflow file cannot have it."""

    op: Literal["pyspark"]
    inputs: tuple[Ref, ...] = Field(min_length=1, description="The sources and steps that the data frame reads")
    plan: str = Field(description="The relation of the data frame, as JSON; what it reads are references to `tables`")
    tables: dict[str, Ref] = Field(
        default_factory=dict, description="The source or step that a name in the plan, or in its SQL texts, stands for"
    )
    relations: dict[str, str] = Field(
        default_factory=dict, description="The relation, as JSON, that the name of a view stands for"
    )
    files: tuple[str, ...] = Field((), description="The files of the program")
    origins: dict[int, tuple[int, int]] = Field(
        default_factory=dict, description="Where a relation was made, by plan id: the number of its file, and the line"
    )
    schemas: dict[int, tuple[tuple[str, str], ...]] = Field(
        default_factory=dict, description="Names and types of a relation's columns, by plan id, where Spark was asked"
    )
    names: tuple[str, ...] | None = Field(None, description="The names of the columns, where Spark was asked for them")


AnyStep = Step | PysparkStep  # the steps of a file, and those that only programs have

STEP_TYPES: dict[str, type[Step]] = {get_args(t.model_fields["op"].annotation)[0]: t for t in get_args(Step)}
