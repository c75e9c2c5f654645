"""The workflow file as closed, frozen models; its sources are in source_models.py, its steps in step_models.py.

What can be said of one part alone is checked here; what needs other parts (names, cycles) is in name_checks.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import Field, InstanceOf, model_validator
from pydantic.json_schema import SkipJsonSchema

from lineage_service.spec.fields import (
    ClosedModel,
    Columns,
    Expressions,
    Name,
    OneOrMore,
    Ref,
    Text,
    Texts,
    validation_error,
)
from lineage_service.spec.privacy import KeepSpec, PrivacySpec
from lineage_service.spec.source_models import LegalHold, SourceSpec
from lineage_service.spec.step_models import CheckSpec, PysparkStep, Step

__all__ = [
    "BrokenOutput",
    "BrokenSource",
    "BrokenStep",
    "KeepSpec",
    "LegalHold",
    "LineageSpec",
    "OutputSpec",
    "PrivacySpec",
    "SourceSpec",
    "WorkflowKeys",
    "WorkflowSpec",
    "WorkloadQuery",
]


class OutputSpec(ClosedModel):
    """A step whose rows are kept as a dataset, and perhaps published."""

    step: Ref = Field("", description="The step; by default the one called like the output")
    path: Text | None = Field(
        None,
        description="Also publish a copy in this folder, relative to the workflow file: Parquet, declared columns only",
    )
    checks: tuple[CheckSpec, ...] = Field((), description="Statements about the output's rows, checked while it runs")
    on_erasure: Literal["recompute", "delete", "keep"] = Field(
        "recompute",
        description="What an erasure does with rows made from an erased person's rows; keep needs the key keep",
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
    owner: Text | None = Field(None, description="Who is responsible for it")
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
        Annotated[Step, Field(discriminator="op")]
        | Annotated[PysparkStep, SkipJsonSchema()]
        | Annotated[BrokenStep, InstanceOf(), SkipJsonSchema()],
        ...,
    ] = Field(min_length=1, description=_STEPS)
    outputs: dict[Name, OutputSpec | Annotated[BrokenOutput, InstanceOf(), SkipJsonSchema()]] = Field(
        min_length=1, description=_OUTPUTS
    )

    @property
    def valid_sources(self) -> dict[str, SourceSpec]:
        """The sources that passed validation: all of them, in a workflow without errors."""
        return {
            name: source
            for name, source in self.sources.items()
            if isinstance(source, SourceSpec) and not isinstance(source, BrokenSource)
        }

    @classmethod
    def of_parts(cls, data: Any) -> WorkflowSpec:
        """The workflow of parts that are models already: only the keys are checked, which needs no model of all."""
        keys = WorkflowKeys.model_validate(data)
        return cls.model_construct(**{name: getattr(keys, name) for name in WorkflowKeys.model_fields})
