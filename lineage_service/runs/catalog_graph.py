"""The catalog as one picture: the latest run of each workflow, linked where they share rows."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from lineage_service.errors import NotFound
from lineage_service.runs.run_sizes import PairCount, read_run_sizes
from lineage_service.runs.workflow_graph import Box, Picture, PictureEdge, box_id, boxes_and_edges

if TYPE_CHECKING:
    from lineage_catalog.reader import CatalogReader
    from lineage_catalog.records import DatasetRecord, RunRecord

SHARED = ""  # lane of sources that several workflows read


def catalog_picture(reader: CatalogReader, home: str) -> Picture:
    """Every workflow of the catalog. Raises NotFound if no run was committed."""
    latest = [run for name in reader.workflows() if (run := reader.latest_run(name))]
    runs = [run for run in latest if run.capture != "query"]  # a saved query has no steps to draw
    if not runs:
        raise NotFound(f"no run is committed in the home '{home}'", hint="run a workflow first, or give --home")
    boxes: dict[str, Box] = {}
    edges: list[PictureEdge] = []
    pairs: list[PairCount] = []
    for run in runs:
        content = json.loads(reader.content(run.id) or "{}")
        if not content.get("steps"):
            continue
        sizes = read_run_sizes(reader, run)
        found, flows = boxes_and_edges(content, sizes)
        boxes.update((box.id, box) for box in found)
        edges += flows
        pairs += [replace(each, output=f"{run.workflow}.{each.output}") for each in sizes.pairs]
    edges += _link_edges(reader, runs, boxes)
    linked = {edge.end for edge in edges if edge.flow == "link"}
    boxes, edges = _merge_shared_sources(reader, runs, boxes, edges, linked)
    several = f"{len(runs)} workflows, each as of its latest run"
    return Picture(
        title="all workflows",
        boxes=tuple(boxes.values()),
        edges=tuple(edges),
        lanes=_lanes(boxes, edges),
        subtitle=several if len(runs) > 1 else "1 workflow, as of its latest run",
        pairs=tuple(pairs),
    )


def _sources(reader: CatalogReader, runs: list[RunRecord]) -> list[DatasetRecord]:
    return [each for run in runs for each in reader.datasets(run.id) if each.role == "source"]


def _link_edges(reader: CatalogReader, runs: list[RunRecord], boxes: dict[str, Box]) -> list[PictureEdge]:
    """Edges from each output to the sources that read it, even if the output was recomputed since."""
    latest = {run.id for run in runs}
    links = []
    for source in _sources(reader, runs):
        end = boxes.get(box_id(source.workflow, source.name))
        makers = [each for each in reader.makers_of([source.version_id]) if each.run_id != source.run_id]
        # One version may have several names in its run, such as two outputs of a step. The declared one comes first.
        declared = json.loads(source.declared).get("output") or ""
        makers.sort(key=lambda each: declared.partition("@")[0] not in (each.full_name, each.name))
        start = boxes.get(box_id(makers[0].workflow, makers[0].name)) if makers else None
        if start is not None and end is not None and start.lane != end.lane:
            note = "" if makers[0].run_id in latest else "an earlier run"
            links.append(PictureEdge(start.id, end.id, end.rows, "link", note))
    return links


def _merge_shared_sources(
    reader: CatalogReader, runs: list[RunRecord], boxes: dict[str, Box], edges: list[PictureEdge], linked: set[str]
) -> tuple[dict[str, Box], list[PictureEdge]]:
    """Merges sources of several workflows that read the same version into one box, in a separate lane."""
    by_version: dict[str, list[DatasetRecord]] = defaultdict(list)
    for source in _sources(reader, runs):
        identity = box_id(source.workflow, source.name)
        if identity in boxes and identity not in linked:
            by_version[source.version_id].append(source)
    instead: dict[str, str] = {}
    merged: dict[str, Box] = {}
    for version, sources in by_version.items():
        if len({each.workflow for each in sources}) < 2:
            continue
        first = boxes[box_id(sources[0].workflow, sources[0].name)]
        name = ", ".join(dict.fromkeys(each.name for each in sources))
        merged[f"{SHARED}.{version}"] = replace(first, id=f"{SHARED}.{version}", name=name, lane=SHARED)
        instead.update((box_id(each.workflow, each.name), f"{SHARED}.{version}") for each in sources)
    left = {identity: box for identity, box in boxes.items() if identity not in instead}
    return merged | left, [replace(edge, start=instead.get(edge.start, edge.start)) for edge in edges]


def _lanes(boxes: dict[str, Box], edges: list[PictureEdge]) -> tuple[str, ...]:
    """Shared sources first, then workflows after those they read from, as far as they can be ordered."""
    import networkx

    graph = networkx.DiGraph()
    graph.add_nodes_from(sorted({box.lane for box in boxes.values()}))
    for edge in edges:
        start, end = boxes[edge.start].lane, boxes[edge.end].lane
        if start != end and not networkx.has_path(graph, end, start):
            graph.add_edge(start, end)
    return tuple(str(lane) for lane in networkx.lexicographical_topological_sort(graph))
