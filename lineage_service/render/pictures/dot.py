"""A picture as DOT text, for Graphviz."""

from __future__ import annotations

from lineage_service.render.pictures.labels import box_lines, edge_label, shorten, tooltip
from lineage_service.runs.workflow_graph import Box, Flow, Kind, Picture, PictureEdge

_STYLES: dict[Kind, str] = {
    "source": 'shape=cylinder, style=filled, fillcolor="#dbeafe", color="#1d4ed8"',
    "step": 'shape=box, style="rounded,filled", fillcolor="#ffffff", color="#6b7280"',
    "kept": 'shape=box, style="rounded,filled", peripheries=2, fillcolor="#fef9c3", color="#a16207"',
    "output": 'shape=note, style=filled, penwidth=2, fillcolor="#dcfce7", color="#15803d"',
}
_EDGES: dict[Flow, str] = {"rows": "", "absence": "style=dashed", "link": "style=bold"}


def dot(picture: Picture) -> str:
    """The picture as a directed graph from top to bottom; workflows are clusters where there are several."""
    title = f"{picture.title}\n{picture.subtitle}" if picture.subtitle else picture.title
    lines = [
        f"digraph {_quote(picture.title)} {{",
        f"  graph [label={_quote(title)}, labelloc=t, rankdir=TB, fontname=Helvetica, charset=utf8]",
        '  node [fontname=Helvetica, fontsize=11, fontcolor="#111827"]',
        "  edge [fontname=Helvetica, fontsize=10]",
    ]
    for number, lane in enumerate(picture.lanes, start=1):
        inside = [_box(picture, box) for box in picture.boxes if box.lane == lane]
        if len(picture.lanes) == 1 or not lane:
            lines += [f"  {text}" for text in inside]
        else:
            lines += [f"  subgraph cluster_{number} {{", f'    label={_quote(lane)}; color="#9ca3af"']
            lines += [*(f"    {text}" for text in inside), "  }"]
    lines += [f"  {_edge(edge)}" for edge in picture.edges]
    return "\n".join([*lines, "}", ""])


def _box(picture: Picture, box: Box) -> str:
    label = "\n".join((box.name, *(shorten(line) for line in box_lines(box))))
    return f"{_quote(box.id)} [label={_quote(label)}, tooltip={_quote(tooltip(picture, box))}, {_STYLES[box.kind]}]"


def _edge(edge: PictureEdge) -> str:
    label = edge_label(edge)
    attributes = ", ".join(each for each in (f"label={_quote(label)}" if label else "", _EDGES[edge.flow]) if each)
    return f"{_quote(edge.start)} -> {_quote(edge.end)}" + (f" [{attributes}]" if attributes else "")


def _quote(text: str) -> str:
    """A string of DOT: Graphviz reads backslashes, quotes and, in labels, HTML's entities."""
    escaped = text.replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\r", "").replace("\n", "\\n").replace("\0", "") + '"'
