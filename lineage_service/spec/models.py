"""The workflow file as closed, frozen models; steps are told apart by `op`.

What can be said of one part alone is checked here; what needs other parts (names, cycles) is in names.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, InstanceOf, field_validator, model_validator
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
from lineage_service.spec.privacy import KeepSpec, PrivacySpec
from lineage_service.spec.source_models import LegalHold, SourceSpec
from lineage_service.spec.step_description import INPUT_KEYS

__all__ = [
    "STEP_TYPES",
    "AggregateStep",
    "BrokenOutput",
    "BrokenSource",
    "BrokenStep",
    "CheckSpec",
    "DifferenceStep",
    "DistinctStep",
    "ExplodeStep",
    "FilterStep",
    "IntersectStep",
    "JoinStep",
    "KeepSpec",
    "LegalHold",
    "LimitStep",
    "LineageSpec",
    "OneInput",
    "OutputSpec",
    "PrivacySpec",
    "ProjectStep",
    "SortStep",
    "SourceSpec",
    "Step",
    "StepBase",
    "TwoInputs",
    "UnionStep",
    "WindowStep",
    "WithColumnsStep",
    "WorkflowKeys",
    "WorkflowSpec",
    "WorkloadQuery",
]


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
)
STEP_TYPES: dict[str, type[Step]] = {get_args(t.model_fields["op"].annotation)[0]: t for t in get_args(Step)}


class OutputSpec(ClosedModel):
    """A step whose rows are kept as a dataset, and perhaps published."""

    step: Ref = Field("", description="The step; by default the one called like the output")
    path: Text | None = Field(
        None,
        description="Also publish a copy in this folder, relative to the workflow file: Parquet, declared columns only",
    )
    checks: tuple[CheckSpec, ...] = Field((), description="Statements about the output's rows, checked while it runs")
    on_erasure: Literal["recompute", "delete", "keep"] = Field(
        "recompute", description="What an erasure does with rows made from the erased; keep needs the key keep"
    )
    keep: KeepSpec | None = Field(None, description="With on_erasure: keep, the ground and the smallest group")

    @model_validator(mode="after")
    def _require_ground_for_keep(self) -> Self:
        if self.on_erasure == "keep" and self.keep is None:
            raise validation_error("'on_erasure: keep' needs 'keep' with 'ground' and 'min_group'")
        if self.on_erasure != "keep" and self.keep is not None:
            raise validation_error("'keep' goes with 'on_erasure: keep'")
        return self


class WorkloadQuery(ClosedModel):
    """A question declared ahead, so that capture can prepare for it and prune the rest."""

    name: Name = Field(description="The query's name")
    backward: Ref | None = Field(None, description="The output or kept step it starts from")
    forward: Ref | None = Field(None, description="The source or kept step it starts from")
    to: OneOrMore = Field(min_length=1, description="The dataset or datasets it reaches")
    where: Text | None = Field(None, description="A predicate on the rows reached")
    parameters: Texts = Field((), description="Columns that the question will fix: rows are sorted by them")
    columns: Texts = Field((), description="Columns that it reads beside the parameters; by default all")
    by: Columns = Field((), description="Grouping of the rows reached: columns, or name: expression")
    measures: Expressions = Field(default_factory=dict, description="name: aggregate expression")
    semantics: Literal["which", "why", "how"] = Field("which", description="Semantics of a backward query")

    @model_validator(mode="after")
    def _check_combination_of_keys(self) -> Self:
        if (self.backward is None) == (self.forward is None):
            raise validation_error("needs exactly one of 'backward', 'forward'")
        if self.forward is not None and self.semantics != "which":
            raise validation_error(f"'semantics: {self.semantics}' goes with 'backward'")
        if self.by and not self.measures:
            raise validation_error("'by' needs 'measures'")
        rows, groups = self.parameters or self.columns, bool(self.measures)
        if groups and self.columns:
            raise validation_error("'columns' are of rows; 'by' and 'measures' give groups")
        if self.semantics != "which" and (rows or groups or self.where is not None):
            raise validation_error(
                f"'semantics: {self.semantics}' stands without where, parameters, columns, by and measures"
            )
        if len(self.to) > 1 and (rows or groups or self.where is not None):
            raise validation_error("where, parameters, columns, by and measures need one dataset in 'to'")
        return self


class LineageSpec(ClosedModel):
    """How lineage is captured, and for what."""

    capture: Literal["auto", "inject", "defer", "stage", "lazy", "off"] = Field(
        "auto", description="How lineage is captured; off captures none"
    )
    keep: tuple[Ref, ...] = Field((), description="Steps in between that are kept, shown and traced like outputs")
    workload: tuple[WorkloadQuery, ...] = Field(
        (), description="The questions that will be asked; capture prepares for them, and prunes all others"
    )


@dataclass(frozen=True, slots=True)
class BrokenSource:
    """Stands for a source that failed validation: its name exists, its columns are unknown."""

    name: str


@dataclass(frozen=True, slots=True)
class BrokenStep:
    """Stands for a step that failed validation: its name may exist, its columns are unknown."""

    name: str | None
    op: str | None
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BrokenOutput:
    """Stands for an output that failed validation."""

    name: str
    step: str | None = None


_SOURCES = "What is read, by name: at least one"
_STEPS = "What is done, in any order: at least one"
_OUTPUTS = "What is kept and perhaps published, by name: at least one"


class WorkflowKeys(ClosedModel):
    """The keys of a workflow file. Sources, steps and outputs are taken as they are: each was checked by itself."""

    version: Literal[1] = Field(description="The version of this file format")
    name: Name = Field(description="The workflow's name: [a-z][a-z0-9_]*")
    description: Text | None = Field(None, description="What it is for")
    owner: Text | None = Field(None, description="Who answers for it")
    vars: dict[str, Any] = Field(default_factory=dict, description="Variables and their defaults, used as ${name}")
    privacy: PrivacySpec | None = Field(None, description="For access reports and the record of processing")
    sources: dict[Name, Any] = Field(min_length=1, description=_SOURCES)
    steps: tuple[Any, ...] = Field(min_length=1, description=_STEPS)
    outputs: dict[Name, Any] = Field(min_length=1, description=_OUTPUTS)
    lineage: LineageSpec = Field(default_factory=LineageSpec, description="How lineage is captured")


class WorkflowSpec(WorkflowKeys):
    """A whole workflow file. Broken parts occur only beside problems: what has no error has none of them."""

    sources: dict[Name, SourceSpec | Annotated[BrokenSource, InstanceOf(), SkipJsonSchema()]] = Field(
        min_length=1, description=_SOURCES
    )
    steps: tuple[
        Annotated[Step, Field(discriminator="op")] | Annotated[BrokenStep, InstanceOf(), SkipJsonSchema()], ...
    ] = Field(min_length=1, description=_STEPS)
    outputs: dict[Name, OutputSpec | Annotated[BrokenOutput, InstanceOf(), SkipJsonSchema()]] = Field(
        min_length=1, description=_OUTPUTS
    )

    @classmethod
    def of_parts(cls, data: Any) -> WorkflowSpec:
        """The workflow of parts that are models already: only the keys are checked, which needs no model of all."""
        keys = WorkflowKeys.model_validate(data)
        return cls.model_construct(**{name: getattr(keys, name) for name in WorkflowKeys.model_fields})
