"""A workflow as a picture before it is drawn: boxes and edges, with the rows of the last run. A value, no layout."""

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

    id: unique in the picture · lane: the workflow it is drawn with, empty where several share it
    does: what the step does · place: where a source comes from, or an output is published to · rows: of the last run
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
    """What flows from one box to another.

    flow: its rows · absence: only that none of them matches · link: the same rows, in another workflow
    note: what else is to be said of it
    """

    start: str
    end: str
    rows: int | None = None
    flow: Flow = "rows"
    note: str = ""


@dataclass(frozen=True)
class Picture:
    """Boxes and edges, and what is said beside them.

    lanes: workflows, in drawing order · subtitle: where the numbers come from · pairs: of outputs with sources
    columns: per output, what its columns are computed from · warnings: of the file · notes: for who asked
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
        """Ids of the boxes it leads to, each once."""
        return tuple(dict.fromkeys(edge.end for edge in self.edges if edge.start == box.id))

    def inputs_of(self, box: Box) -> tuple[str, ...]:
        """Ids of the boxes that lead to it, each once."""
        return tuple(dict.fromkeys(edge.start for edge in self.edges if edge.end == box.id))


def box_id(workflow: str, name: str) -> str:
    """Sources and steps share their names, and no output has the name of another step: the name is enough."""
    return f"{workflow}.{name}"


def boxes_and_edges(content: Mapping[str, Any], run: LastRun | None) -> tuple[list[Box], list[PictureEdge]]:
    """Those of one workflow, from its content as JSON (as a spec is dumped, and as the catalog keeps it)."""
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
    """Where a source comes from, as its declaration says."""
    return f"output {source['output']}" if source.get("output") else source.get("path") or ""


def absent_input(step: Mapping[str, Any]) -> int | None:
    """Which input of the step influences by absence only: the right side of an anti join or difference."""
    return 1 if step["op"] == "difference" or (step["op"] == "join" and step.get("how") == "anti") else None


def workflow_picture(
    content: Mapping[str, Any],
    run: LastRun | None,
    columns: tuple[tuple[str, Origins], ...] = (),
    warnings: tuple[Problem, ...] = (),
    notes: tuple[str, ...] = (),
) -> Picture:
    """One workflow, with the sizes of its last run where there is one."""
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
    """A run's time for people: to the minute."""
    return f"{committed_at[:16].replace('T', ' ')} UTC"
