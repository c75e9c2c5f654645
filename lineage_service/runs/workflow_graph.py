"""A workflow as a graph of boxes and edges, with the rows of the last run. A value without a layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from lineage_service.errors import Problem
from lineage_service.plan.column_lineage import Origins
from lineage_service.runs.run_sizes import LastRun, PairCount
from lineage_service.spec.step_description import describe_step, inputs_of

Kind = Literal["source", "step", "kept", "output"]
Flow = Literal["rows", "absence", "link"]


@dataclass(frozen=True)
class Box:
    """A source, a step or an output.

    id: unique in the picture
    lane: the workflow it is drawn with; empty if several share it
    does: what the step does
    place: where a source comes from, or an output is published to
    rows: rows of the last run
    """

    id: str
    kind: Kind
    name: str
    lane: str
    does: str = ""
    place: str = ""
    rows: int | None = None


@dataclass(frozen=True)
class PictureEdge:
    """A connection between two boxes.

    flow: rows flow along it
    absence: only the absence of a match matters
    link: the same rows in another workflow
    note: further text
    """

    start: str
    end: str
    rows: int | None = None
    flow: Flow = "rows"
    note: str = ""


@dataclass(frozen=True)
class Picture:
    """Boxes and edges with annotations.

    lanes: workflows, in drawing order
    subtitle: the origin of the numbers
    pairs: pairs of outputs with sources
    columns: per output, what its columns are computed from
    warnings: warnings about the file
    notes: messages for the user
    """

    title: str
    boxes: tuple[Box, ...]
    edges: tuple[PictureEdge, ...]
    lanes: tuple[str, ...]
    subtitle: str = ""
    pairs: tuple[PairCount, ...] = ()
    columns: tuple[tuple[str, Origins], ...] = ()
    warnings: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        known = {box.id for box in self.boxes}
        assert len(known) == len(self.boxes), "two boxes have the same id"
        assert all(edge.start in known and edge.end in known for edge in self.edges), "an edge leads nowhere"
        assert all(box.lane in self.lanes for box in self.boxes), "a box is in no lane"

    def readers_of(self, box: Box) -> tuple[str, ...]:
        """Distinct ids of the boxes it leads to."""
        return tuple(dict.fromkeys(edge.end for edge in self.edges if edge.start == box.id))

    def inputs_of(self, box: Box) -> tuple[str, ...]:
        """Distinct ids of the boxes that lead to it."""
        return tuple(dict.fromkeys(edge.start for edge in self.edges if edge.end == box.id))


def box_id(workflow: str, name: str) -> str:
    """The id of a box. Sources, steps and outputs of a workflow have different names, so the name is sufficient."""
    return f"{workflow}.{name}"


def boxes_and_edges(content: Mapping[str, Any], run: LastRun | None) -> tuple[list[Box], list[PictureEdge]]:
    """The boxes and edges of one workflow, from its content as JSON."""
    workflow: str = content["name"]
    outputs = {name: (output or {}).get("step") or name for name, output in content["outputs"].items()}
    published = {name: (output or {}).get("path") or "" for name, output in content["outputs"].items()}
    kept = set(content.get("lineage", {}).get("keep", ()))
    rows: dict[str, int | None] = {}
    boxes: list[Box] = []
    edges: list[PictureEdge] = []
    for name, source in content["sources"].items():
        rows[name] = run.source_rows(name) if run else None
        boxes.append(
            Box(box_id(workflow, name), "source", name, workflow, place=source_origin(source), rows=rows[name])
        )
    for step in content["steps"]:
        name = step["name"]
        rows[name] = run.step_rows(name) if run else None
        is_output = outputs.get(name) == name
        kind: Kind = "output" if is_output else "kept" if name in kept else "step"
        place = published[name] if is_output else ""
        boxes.append(Box(box_id(workflow, name), kind, name, workflow, describe_step(step), place, rows[name]))
    for step in content["steps"]:
        absent = absent_input(step)
        for position, below in enumerate(inputs_of(step)):
            flow: Flow = "absence" if absent == position else "rows"
            edges.append(PictureEdge(box_id(workflow, below), box_id(workflow, step["name"]), rows[below], flow))
    for name, step in outputs.items():
        if name == step:
            continue
        counted = run.outputs.get(name) if run else None
        boxes.append(Box(box_id(workflow, name), "output", name, workflow, "", published[name], counted))
        edges.append(PictureEdge(box_id(workflow, step), box_id(workflow, name), rows[step]))
    return boxes, edges


def source_origin(source: Mapping[str, Any]) -> str:
    """The origin of a source according to its declaration."""
    return f"output {source['output']}" if source.get("output") else source.get("path") or ""


def absent_input(step: Mapping[str, Any]) -> int | None:
    """The input of a step that influences only by absence: the right side of an anti join or difference."""
    return 1 if step["op"] == "difference" or (step["op"] == "join" and step.get("how") == "anti") else None


def workflow_picture(
    content: Mapping[str, Any],
    run: LastRun | None,
    columns: tuple[tuple[str, Origins], ...] = (),
    warnings: tuple[Problem, ...] = (),
    notes: tuple[str, ...] = (),
) -> Picture:
    """One workflow, with the sizes of its last run if there is one."""
    boxes, edges = boxes_and_edges(content, run)
    there = {box.name for box in boxes}
    return Picture(
        title=content["name"],
        boxes=tuple(boxes),
        edges=tuple(edges),
        lanes=(content["name"],),
        subtitle=f"rows of run {run.run_id}, {format_commit_time(run.committed_at)}" if run else "",
        pairs=tuple(each for each in run.pairs if {each.output, each.source} <= there) if run else (),
        columns=columns,
        warnings=warnings,
        notes=notes,
    )


def format_commit_time(committed_at: str) -> str:
    """The time of a run for display, to the minute."""
    return f"{committed_at[:16].replace('T', ' ')} UTC"
