"""A picture as Mermaid text: for Markdown, which draws it itself on GitHub and elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from lineage_service.render.pictures.labels import box_lines, edge_label, shorten
from lineage_service.runs.workflow_graph import Box, Flow, Kind, Picture, PictureEdge

# Mermaid reads these in a label: the end of the text, entities, tags, escapes, Markdown, directives, formulas.
_SPECIAL = re.compile(r"""["#<>&\\`%$*~|;{}]""")
_SHAPES: dict[Kind, tuple[str, str]] = {
    "source": ("[(", ")]"),
    "step": ("(", ")"),
    "kept": ("[[", "]]"),
    "output": ("[", "]"),
}
_ARROWS: dict[Flow, str] = {"rows": "-->", "absence": "-.->", "link": "==>"}
_STYLES: dict[Kind, str] = {
    "source": "fill:#dbeafe,stroke:#1d4ed8,color:#111827",
    "step": "fill:#ffffff,stroke:#6b7280,color:#111827",
    "kept": "fill:#fef9c3,stroke:#a16207,color:#111827",
    "output": "fill:#dcfce7,stroke:#15803d,stroke-width:3px,color:#111827",
}


def mermaid(picture: Picture) -> str:
    """The picture as a flowchart from top to bottom."""
    ids = _ids(picture)
    title = f"{picture.title}: {picture.subtitle}" if picture.subtitle else picture.title
    lines = ["---", f"title: {json.dumps(title, ensure_ascii=False)}", "---", "flowchart TD"]
    for number, lane in enumerate(picture.lanes, start=1):
        inside = [box for box in picture.boxes if box.lane == lane]
        if len(picture.lanes) == 1 or not lane:
            lines += [f"  {_box(box, ids)}" for box in inside]
        else:
            lines += [
                f'  subgraph lane{number}["{_text(lane)}"]',
                *(f"    {_box(box, ids)}" for box in inside),
                "  end",
            ]
    lines += [f"  {_edge(edge, ids)}" for edge in picture.edges]
    lines += _classes(picture, ids)
    return "\n".join(lines) + "\n"


def markdown_block(text: str) -> str:
    """The text as a block of a Markdown file."""
    return f"```mermaid\n{text}```\n"


def _ids(picture: Picture) -> dict[str, str]:
    """A name of Mermaid's for each box: a prefix keeps it apart from words such as `end`."""
    ids: dict[str, str] = {}
    for box in picture.boxes:
        plain = "n_" + re.sub(r"[^a-z0-9]", "_", box.id if len(picture.lanes) > 1 else box.name)
        taken = set(ids.values())
        ids[box.id] = next(name for name in _candidate_ids(plain) if name not in taken)
    return ids


def _candidate_ids(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        yield f"{name}_{number}"
        number += 1


def _box(box: Box, ids: dict[str, str]) -> str:
    opening, closing = _SHAPES[box.kind]
    lines = (f"<b>{_text(box.name)}</b>", *(_text(shorten(line)) for line in box_lines(box)))
    return f'{ids[box.id]}{opening}"{"<br/>".join(lines)}"{closing}'


def _edge(edge: PictureEdge, ids: dict[str, str]) -> str:
    label = edge_label(edge)
    label_text = f'|"{_text(label)}"|' if label else ""
    return f"{ids[edge.start]} {_ARROWS[edge.flow]}{label_text} {ids[edge.end]}"


def _classes(picture: Picture, ids: dict[str, str]) -> list[str]:
    lines = []
    for kind, style in _STYLES.items():
        members = [ids[box.id] for box in picture.boxes if box.kind == kind]
        if members:
            lines += [f"  classDef {kind}Box {style}", f"  class {','.join(members)} {kind}Box"]
    return lines


def _text(text: str) -> str:
    # Mermaid breaks the line at \\n even where its backslash is an entity: a space of no width keeps them apart.
    line = " ".join(text.split()).replace("\\n", "\\\u200bn")
    return _SPECIAL.sub(lambda found: f"#{ord(found[0])};", line)
