"""A picture as one self-contained HTML page: the drawing, and tables of what it shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from lineage_service.render.pictures.labels import KINDS
from lineage_service.render.pictures.svg import svg
from lineage_service.runs.workflow_graph import Box, Picture

_CSS = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #111827; --pale: #4b5563; --line: #d1d5db; --head: #f3f4f6 }
body { margin: 0 auto; padding: 1.5rem; max-width: 80rem; background: var(--paper); color: var(--ink);
       font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif }
h1 { margin: 0; font-size: 1.5rem } h2 { margin: 2rem 0 .5rem; font-size: 1.1rem }
p { margin: .2rem 0; color: var(--pale) }
.scroll { overflow-x: auto } .drawing { margin-top: 1rem; border: 1px solid var(--line); border-radius: 10px }
.drawing svg { display: block; margin: 0 auto; max-width: none }
table { border-collapse: collapse; min-width: 40% } th, td { padding: .3rem .8rem .3rem .5rem; text-align: left;
        vertical-align: top; border-bottom: 1px solid var(--line) }
th { background: var(--head); font-weight: 600; white-space: nowrap }
.number { text-align: right; white-space: nowrap }
code { font: .87em/1.4 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; overflow-wrap: anywhere }
@media (prefers-color-scheme: dark) {
  :root { --paper: #111827; --ink: #f3f4f6; --pale: #9ca3af; --line: #374151; --head: #1f2937 }
  svg .paper, svg .plate { fill: #111827 } svg .lane { fill: #1a2333; stroke: #374151 }
  svg text.name, svg text.label.rows { fill: #f3f4f6 } svg text.said, svg text.pale { fill: #cbd5e1 }
  svg .source .shape { fill: #1e3a5f; stroke: #60a5fa } svg .step .shape { fill: #1f2937; stroke: #9ca3af }
  svg .kept .shape { fill: #423306; stroke: #eab308 } svg .output .shape { fill: #14361f; stroke: #4ade80 }
  svg .shape[fill="none"] { fill: none }
  svg path.edge.rows { stroke: #9ca3af } svg path.head.rows { fill: #9ca3af }
  svg path.edge.absence { stroke: #f59e0b } svg path.head.absence, svg text.label.absence { fill: #f59e0b }
  svg path.edge.link { stroke: #a78bfa } svg path.head.link, svg text.label.link { fill: #a78bfa }
}
@media print { .scroll { overflow: visible } }
"""


def picture_page(picture: Picture) -> str:
    """Returns the page; it is light or dark, as the reader's system is."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{_text(picture.title)}</title><style>{_CSS}</style></head><body>",
        f"<h1>{_text(picture.title)}</h1>",
        *([f"<p>{_text(picture.subtitle)}</p>"] if picture.subtitle else []),
        *(f"<p>{_text(note)}</p>" for note in picture.notes),
        f'<div class="scroll drawing">{svg(picture, heading=False)}</div>',
        *_sections(picture),
        "</body></html>",
        "",
    ]
    return "\n".join(parts)


def _sections(picture: Picture) -> Iterable[str]:
    several = len(picture.lanes) > 1
    head = [*(["workflow"] if several else []), "name", "kind", "what it is", "reads", "rows"]
    yield _table("Sources, steps and outputs", head, [_row(picture, box, several) for box in picture.boxes], {"rows"})
    if picture.pairs:
        rows = [
            [_text(each.output), _text(each.source), _text(each.strategy or ""), _number(each.pairs)]
            for each in picture.pairs
        ]
        head = ["output", "source", "capture", "pairs of rows"]
        yield _table("Lineage that the run captured", head, rows, {"pairs of rows"})
    if picture.columns:
        rows = [
            [_text(output), _code(column), ", ".join(_code(each) for each in origins) or "no column"]
            for output, columns in picture.columns
            for column, origins in columns.items()
        ]
        yield _table("What the columns are computed from", ["output", "column", "computed from"], rows, set())


def _row(picture: Picture, box: Box, several: bool) -> list[str]:
    names = {each.id: each.name for each in picture.boxes}
    absent = {edge.start for edge in picture.edges if edge.end == box.id and edge.flow == "absence"}
    reads = [_text(names[start]) + (" (absence)" if start in absent else "") for start in picture.inputs_of(box)]
    place = f"published to {_code(box.place)}" if box.kind == "output" and box.place else _code(box.place)
    what = "<br>".join(text for text in (_code(box.does), place) if text)
    lane = [_text(box.lane or "several")] if several else []
    return [*lane, _text(box.name), KINDS[box.kind].replace(" ", "&nbsp;"), what, ", ".join(reads), _number(box.rows)]


def _table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]], numbers: set[str]) -> str:
    kinds = [' class="number"' if name in numbers else "" for name in head]
    top = "".join(f"<th{kind}>{name}</th>" for name, kind in zip(head, kinds, strict=True))
    body = "\n".join(
        f"<tr>{''.join(f'<td{kind}>{cell}</td>' for cell, kind in zip(row, kinds, strict=True))}</tr>" for row in rows
    )
    return f'<h2>{title}</h2>\n<div class="scroll"><table><tr>{top}</tr>\n{body}\n</table></div>'


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _text(text: str) -> str:
    return escape(text)


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>" if text else ""
