"""What stands in the boxes and on the edges, whatever the format."""

from __future__ import annotations

from lineage_service.runs.workflow_graph import Box, Flow, Kind, Picture, PictureEdge

LONGEST = 60  # characters of what a step does, where a format wraps no lines itself

KINDS: dict[Kind, str] = {"source": "source", "step": "step", "kept": "kept step", "output": "output"}
FLOWS: dict[Flow, str] = {
    "rows": "rows flow; how many, where it is known",
    "absence": "influences by absence only",
    "link": "the same rows in another workflow",
}


def row_count_text(rows: int) -> str:
    """'1 row', '1,234 rows'."""
    return f"{rows:,} {'row' if rows == 1 else 'rows'}"


def edge_label(edge: PictureEdge) -> str:
    """The number of rows that flow, where it is known; absence is named."""
    number = "" if edge.rows is None else f"{edge.rows:,}"
    if edge.flow == "absence":
        return f"absence ({number})" if number else "absence"
    return f"{number}, {edge.note}" if number and edge.note else number or edge.note


def box_lines(box: Box) -> tuple[str, ...]:
    """What is said below a box's name, whole: what it does, where it comes from or goes to, its rows."""
    place = f"→ {box.place}" if box.place and box.kind == "output" else box.place
    rows = row_count_text(box.rows) if box.rows is not None else ""
    return tuple(line for line in (box.does, place, rows) if line)


def tooltip(picture: Picture, box: Box) -> str:
    """All that is known of a box."""
    own = box.name if len(picture.lanes) == 1 or not box.lane else f"{box.lane}.{box.name}"
    pairs = [
        f"{each.pairs:,} pairs with {each.source}"
        for each in picture.pairs
        if box.kind == "output" and each.output in (own, box.name) and each.pairs is not None
    ]
    return "\n".join((f"{own} ({KINDS[box.kind]})", *box_lines(box), *pairs))


def shorten(text: str, most: int = LONGEST) -> str:
    """The text on one line, of at most so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"
