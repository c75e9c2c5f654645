"""A write of a program as a workflow in memory: what it reads as sources, its frame as one step, its rows as output."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lineage_service.plan.from_connect.messages import Message, to_json
from lineage_service.plan.from_connect.untraceable import Untraceable
from lineage_service.programs.frame_sources import FrameSources, reference_name, replace_relations
from lineage_service.spec.legal_names import legal_name
from lineage_service.spec.loader import LoadedWorkflow
from lineage_service.spec.models import OutputSpec, WorkflowSpec
from lineage_service.spec.sql_parsing import parse_query, tables_of
from lineage_service.spec.sql_syntax import SqlSyntaxError
from lineage_service.spec.step_models import PysparkStep
from lineage_service.spec.yaml_tree import YamlPositions

if TYPE_CHECKING:
    from lineage_service.programs.program_write import ProgramWrite


def workflow_name(program: Path, output: str) -> str:
    """The workflow that an output of a program belongs to. Each has its own: they are written one after the other."""
    name = legal_name(program.stem, "program")
    return name if name == output else f"{name}_{output}"


@dataclass(frozen=True)
class ReferencedFrame:
    """A frame, and the views that its texts of SQL read, with references to sources instead of reads."""

    plan: Message
    relations: Mapping[str, Message]


def program_references(write: ProgramWrite, sources: FrameSources) -> ReferencedFrame:
    """Raises Untraceable where a read cannot be a source, and where nothing is read."""
    plan = sources.with_references(with_views(write.relation, write.views))
    relations: dict[str, Message] = {}
    waiting = [plan]
    while waiting:
        for name in sql_tables(waiting.pop()):
            view = write.views.get(name)
            if view is not None and name not in relations:
                relations[name] = sources.with_references(with_views(view, write.views))
                waiting.append(relations[name])
    if not sources.specs:
        raise Untraceable("it reads nothing that could be traced", write.position)
    return ReferencedFrame(plan, relations)


def program_workflow(
    write: ProgramWrite,
    sources: FrameSources,
    references: ReferencedFrame,
    columns: Mapping[int, Sequence[tuple[str, str]]],
) -> LoadedWorkflow:
    """The workflow of a write. `columns`: names and types of frames in Spark, by plan id."""
    step = _step(write, sources, references, columns)
    spec = WorkflowSpec.of_parts(
        {"version": 1, "name": workflow_name(write.program, write.output), "sources": dict(sources.specs),
         "steps": (step,), "outputs": {write.output: OutputSpec(step=step.name)}}
    )  # fmt: skip
    marks = YamlPositions(write.position.file)
    marks.values[("steps", 0)] = (write.position.line - 1, 0)
    for name, position in sources.positions.items():
        marks.values["sources", name] = (position.line - 1, 0)
    content = json.dumps(spec.model_dump(mode="json", by_alias=True), sort_keys=True)
    version = hashlib.sha256(content.encode()).hexdigest()
    return LoadedWorkflow(spec, write.program.absolute(), marks, version, {}, ())


def _step(
    write: ProgramWrite,
    sources: FrameSources,
    references: ReferencedFrame,
    columns: Mapping[int, Sequence[tuple[str, str]]],
) -> PysparkStep:
    plan, relations = references.plan, references.relations
    made = {number for root in (plan, *relations.values()) for number in _plan_ids(root)}
    lines = {number: line for number, line in write.lines.items() if number in made}
    files = tuple(dict.fromkeys(file for file, _ in lines.values()))
    return PysparkStep(
        op="pyspark",
        name=write.output,
        inputs=tuple(sources.specs),
        plan=to_json(plan),
        tables={reference_name(name): name for name in sources.specs},
        relations={name: to_json(view) for name, view in relations.items()},
        files=files,
        schemas={number: tuple(each) for number, each in columns.items()},
        origins={number: (files.index(file), line) for number, (file, line) in lines.items()},
    )


def with_views(relation: Message, views: Mapping[str, Message]) -> Message:
    """The relation with what temporary views stand for in the place of reads by their names."""

    def view_of(each: Message) -> Message | None:
        read = each.message("read")
        table = read.message("named_table") if read is not None else None
        if table is None:
            return None
        name = table.text("unparsed_identifier").strip("`")
        view = views.get(name.lower())
        if view is None:
            raise Untraceable(f"table '{name}' is read from Spark's catalog, which is not traced yet")
        alias = Message("SubqueryAlias", {"input": with_views(view, views), "alias": name})
        common = each.message("common")
        return Message("Relation", {**({"common": common} if common is not None else {}), "subquery_alias": alias})

    return replace_relations(relation, view_of)


def sql_tables(root: Message) -> Iterator[str]:
    """The names of the tables that texts of SQL in a relation read, in lower case."""
    for each in root.walk():
        if each.type == "SQL":
            try:
                yield from (name.lower() for name in tables_of(parse_query(each.text("query"))))
            except SqlSyntaxError:
                continue  # the compiler says what is wrong


# Relations whose columns Spark chooses by their types.
_BY_TYPE = ("fill_na", "drop_na", "replace", "unpivot", "to_schema")


def relations_read_by_type(root: Message) -> Iterator[Message]:
    """The inputs of relations that need to know the types of their columns."""
    for each in root.walk():
        inner = next((each.message(kind) for kind in _BY_TYPE if kind in each), None)
        below = inner.message("input") if inner is not None else None
        if below is not None:
            yield below


def plan_id(relation: Message) -> int | None:
    common = relation.message("common")
    return common.number("plan_id") if common is not None and "plan_id" in common else None


def _plan_ids(root: Message) -> Iterator[int]:
    for each in root.walk():
        if each.type == "RelationCommon" and "plan_id" in each:
            yield each.number("plan_id")
