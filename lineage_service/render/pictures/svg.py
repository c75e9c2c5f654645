"""A picture as SVG, drawn by ourselves: no program and no font is needed, and any browser shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from lineage_service.render.pictures.box_layout import Layout, Point, Rectangle, Route, Size, lay_out
from lineage_service.render.pictures.labels import FLOWS, KINDS, box_lines, edge_label, tooltip
from lineage_service.render.pictures.text_width import bold_width, mono_width, wrap_text
from lineage_service.runs.workflow_graph import Box, Flow, Kind, Picture

NAME, TEXT, TITLE = 14.0, 11.5, 19.0  # sizes of the fonts
SANS = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
CELLS, LINES = 34, 3  # of what a box says, beside its name
LINE, NAME_LINE = 16.0, 20.0
PADDING = 14.0
MARGIN = 24.0
LID = 9.0  # how high the lid of a source's cylinder is
CORNER = 14.0  # the turned corner of an output's sheet

# XML has no place for these, whatever is done to them.
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class Colours:
    """Of a kind of box: inside, and its line."""

    fill: str
    line: str
    width: float = 1.3


COLOURS: dict[Kind, Colours] = {
    "source": Colours("#dbeafe", "#1d4ed8"),
    "step": Colours("#ffffff", "#6b7280"),
    "kept": Colours("#fef9c3", "#a16207"),
    "output": Colours("#dcfce7", "#15803d", 2.2),
}
EDGES: dict[Flow, tuple[str, float, str]] = {
    "rows": ("#4b5563", 1.4, ""),
    "absence": ("#b45309", 1.6, "6 4"),
    "link": ("#6d28d9", 2.6, ""),
}
INK, PALE, PAPER, LANE = "#111827", "#4b5563", "#ffffff", "#f8fafc"


def svg(picture: Picture, *, heading: bool = True) -> str:
    """The picture with its legend, as one SVG document; its title above it, unless a page has it already."""
    written = {box.id: _box_text(box) for box in picture.boxes}
    sizes = {box.id: _size(box, written[box.id]) for box in picture.boxes}
    lane_widths = {lane: bold_width(_lane_title(lane), NAME) + 40 for lane in picture.lanes}
    layout = lay_out(picture, sizes, lane_widths if len(picture.lanes) > 1 else {})
    legend, legend_size = _legend(picture)
    title, title_size = _heading(picture) if heading else ([], Size(0, 0))
    width = max(layout.width, legend_size.width, title_size.width) + 2 * MARGIN
    top = MARGIN + title_size.height
    height = top + layout.height + 26 + legend_size.height + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_fmt(width)}" height="{_fmt(height)}" '
        f'viewBox="0 0 {_fmt(width)} {_fmt(height)}" role="img" aria-label={_attribute(picture.title)}>',
        f"<title>{_text(picture.title)}</title>",
        f"<defs>{''.join(_arrow(flow) for flow in EDGES)}</defs>",
        f'<rect class="paper" width="100%" height="100%" fill="{PAPER}"/>',
        *title,
    ]
    left = MARGIN + (width - 2 * MARGIN - layout.width) / 2
    parts.append(f'<g transform="translate({_fmt(left)} {_fmt(top)})">')
    parts += _lanes(picture, layout)
    parts += [_route(route) for route in layout.routes]
    parts += [_box(picture, box, layout.frames[box.id], written[box.id]) for box in picture.boxes]
    parts += _labels(layout)
    parts.append("</g>")
    parts.append(
        f'<g class="legend" transform="translate({_fmt(MARGIN)} {_fmt(height - MARGIN - legend_size.height)})">'
    )
    return "\n".join([*parts, *legend, "</g>", "</svg>", ""])


def _heading(picture: Picture) -> tuple[list[str], Size]:
    parts = [_line(MARGIN, MARGIN + TITLE * 0.8, picture.title, "name", SANS, TITLE, INK, bold=True)]
    if picture.subtitle:
        parts.append(_line(MARGIN, MARGIN + TITLE + LINE, picture.subtitle, "pale", SANS, TEXT, PALE))
    width = max(bold_width(picture.title, TITLE), mono_width(picture.subtitle, TEXT))
    return parts, Size(width, TITLE + 22 + (LINE + 4 if picture.subtitle else 0))


def _box_text(box: Box) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A box's name and what is said below it, in lines that fit."""
    lines = [line for text in box_lines(box) for line in wrap_text(text, CELLS, LINES)]
    return wrap_text(box.name, CELLS - 8, 2), tuple(lines)


def _size(box: Box, written: tuple[Sequence[str], Sequence[str]]) -> Size:
    names, lines = written
    inside = max([bold_width(line, NAME) for line in names] + [mono_width(line, TEXT) for line in lines] + [60.0])
    corner = CORNER if box.kind == "output" else 0.0
    lid = LID * 2 if box.kind == "source" else 0.0
    return Size(inside + 2 * PADDING + corner, NAME_LINE * len(names) + LINE * len(lines) + 14 + lid)


def _lane_title(lane: str) -> str:
    return lane or "read by several workflows"


def _lanes(picture: Picture, layout: Layout) -> Iterator[str]:
    if len(picture.lanes) == 1:
        return
    for lane, frame in layout.lanes.items():
        yield (
            f'<rect class="lane" x="{_fmt(frame.x)}" y="0" width="{_fmt(frame.width)}" height="{_fmt(frame.height)}" '
            f'rx="10" fill="{LANE}" stroke="#cbd5e1"/>'
        )
        yield _line(frame.middle, 24, _lane_title(lane), "pale", SANS, NAME, PALE, bold=True, middle=True)


def _box(picture: Picture, box: Box, frame: Rectangle, written: tuple[Sequence[str], Sequence[str]]) -> str:
    names, lines = written
    lid = LID if box.kind == "source" else 0.0
    parts = [f'<g class="box {box.kind}"><title>{_text(tooltip(picture, box))}</title>', _shape(box.kind, frame)]
    x, y = frame.x + PADDING, frame.y + NAME_LINE + lid * 1.6
    for line in names:
        parts.append(_line(x, y, line, "name", SANS, NAME, INK, bold=True))
        y += NAME_LINE
    y -= NAME_LINE - LINE - 1
    for line in lines:
        parts.append(_line(x, y, line, "said", MONO, TEXT, PALE))
        y += LINE
    return "".join([*parts, "</g>"])


def _shape(kind: Kind, frame: Rectangle) -> str:
    """Sources are cylinders, steps have round corners (kept ones a double line), outputs are sheets."""
    look = COLOURS[kind]
    style = f'class="shape" fill="{look.fill}" stroke="{look.line}" stroke-width="{look.width}"'
    x, y, right, bottom = frame.x, frame.y, frame.x + frame.width, frame.y + frame.height
    if kind == "source":
        radius = f"{_fmt(frame.width / 2)} {_fmt(LID)}"
        return (
            f'<path {style} d="M{_fmt(x)} {_fmt(y + LID)}A{radius} 0 0 1 {_fmt(right)} {_fmt(y + LID)}'
            f"V{_fmt(bottom - LID)}"
            f'A{radius} 0 0 1 {_fmt(x)} {_fmt(bottom - LID)}Z"/>'
            f'<path class="shape" fill="none" stroke="{look.line}" stroke-width="{look.width}" '
            f'd="M{_fmt(x)} {_fmt(y + LID)}A{radius} 0 0 0 {_fmt(right)} {_fmt(y + LID)}"/>'
        )
    if kind == "output":
        return (
            f'<path {style} d="M{_fmt(x)} {_fmt(y)}H{_fmt(right - CORNER)}L{_fmt(right)} {_fmt(y + CORNER)}'
            f"V{_fmt(bottom)}"
            f'H{_fmt(x)}Z"/><path class="shape" fill="none" stroke="{look.line}" stroke-width="1.3" '
            f'd="M{_fmt(right - CORNER)} {_fmt(y)}V{_fmt(y + CORNER)}H{_fmt(right)}"/>'
        )
    rectangle = (
        f'<rect {style} x="{_fmt(x)}" y="{_fmt(y)}" width="{_fmt(frame.width)}" height="{_fmt(frame.height)}" rx="9"/>'
    )
    if kind == "kept":
        rectangle += (
            f'<rect class="shape" fill="none" stroke="{look.line}" stroke-width="1" x="{_fmt(x + 3.5)}" '
            f'y="{_fmt(y + 3.5)}" width="{_fmt(frame.width - 7)}" height="{_fmt(frame.height - 7)}" rx="6"/>'
        )
    return rectangle


def _arrow(flow: Flow) -> str:
    colour = EDGES[flow][0]
    return (
        f'<marker id="arrow-{flow}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" markerHeight="9" '
        f'markerUnits="userSpaceOnUse" orient="auto"><path class="head {flow}" d="M0 0L10 5L0 10Z" fill="{colour}"/>'
        "</marker>"
    )


def _route(route: Route) -> str:
    path = [f"M{_coordinates(route.stretches[0][0])}"]
    for number, (start, end) in enumerate(route.stretches):
        if number:
            path.append(_curve(route.stretches[number - 1][1], start))
        path.append(f"L{_coordinates(end)}" if end != start else "")
    return _edge_path("".join(path), route.edge.flow)


def _edge_path(path: str, flow: Flow) -> str:
    colour, width, dashes = EDGES[flow]
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (
        f'<path class="edge {flow}" d="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{dashed} '
        f'marker-end="url(#arrow-{flow})"/>'
    )


def _curve(start: Point, end: Point) -> str:
    middle = (start[1] + end[1]) / 2
    return f"C{_coordinates((start[0], middle))} {_coordinates((end[0], middle))} {_coordinates(end)}"


def _labels(layout: Layout) -> Iterator[str]:
    """Each label on its edge, where no other label and no box is, as far as there is such a place."""
    taken = list(layout.frames.values())
    for route in layout.routes:
        label = edge_label(route.edge)
        if not label:
            continue
        width = mono_width(label, TEXT) + 6
        frames = [_label_frame(point, width) for point in _label_points(route)]
        frame = next((each for each in frames if not any(each.overlaps(other) for other in taken)), frames[0])
        taken.append(frame)
        colour = EDGES[route.edge.flow][0] if route.edge.flow != "rows" else INK
        yield (
            f'<rect class="plate" x="{_fmt(frame.x)}" y="{_fmt(frame.y)}" width="{_fmt(frame.width)}" '
            f'height="{_fmt(frame.height)}" rx="3" fill="{PAPER}" fill-opacity="0.9"/>'
        )
        yield _line(frame.middle, frame.y + 12, label, f"label {route.edge.flow}", MONO, TEXT, colour, middle=True)


def _label_frame(point: Point, width: float) -> Rectangle:
    return Rectangle(point[0] - width / 2, point[1] - 8, width, 16)


def _label_points(route: Route) -> Iterator[Point]:
    """Points of an edge, the best for a label first: in the gap before its end, then in the others."""
    for start, end in reversed(route.gaps):
        for part in (0.5, 0.65, 0.35, 0.75, 0.25):
            yield _on_curve(start, end, part)


def _on_curve(start: Point, end: Point, part: float) -> Point:
    rest = 1 - part
    ease = 3 * rest * part * part + part**3  # how far sideways: the curve leaves and arrives straight down
    middle = 3 * rest * rest * part + 3 * rest * part * part
    y = rest**3 * start[1] + middle * (start[1] + end[1]) / 2 + part**3 * end[1]
    return start[0] + (end[0] - start[0]) * ease, y


def _legend(picture: Picture) -> tuple[list[str], Size]:
    """Only what the picture has: kinds of boxes, then kinds of edges, in one row each."""
    kinds = [kind for kind in KINDS if any(box.kind == kind for box in picture.boxes)]
    known = any(edge.rows is not None for edge in picture.edges)
    flows = [flow for flow in FLOWS if any(edge.flow == flow for edge in picture.edges)]
    parts: list[str] = []
    x = 0.0
    for kind in kinds:
        parts.append(f'<g class="{kind}">{_shape(kind, Rectangle(x, 0, 30, 26))}</g>')
        parts.append(_line(x + 38, 17, KINDS[kind], "pale", SANS, TEXT, PALE))
        x += 38 + bold_width(KINDS[kind], TEXT) + 18
    widest, x = x, 0.0
    for flow in flows:
        parts.append(_edge_path(f"M{_fmt(x)} 46H{_fmt(x + 32)}", flow))
        label = FLOWS[flow] if flow != "rows" or known else "rows flow"
        parts.append(_line(x + 40, 50, label, "pale", SANS, TEXT, PALE))
        x += 40 + bold_width(label, TEXT) + 18
    return parts, Size(max(widest, x), 56)


def _line(
    x: float, y: float, text: str, kind: str, font: str, size: float, fill: str, *, bold: bool = False,
    middle: bool = False,
) -> str:  # fmt: skip
    weight = ' font-weight="600"' if bold else ""
    anchor = ' text-anchor="middle"' if middle else ""
    return (
        f'<text class="{kind}" x="{_fmt(x)}" y="{_fmt(y)}" font-family="{font}" font-size="{_fmt(size)}" fill="{fill}"'
        f'{weight}{anchor} xml:space="preserve">{_text(text)}</text>'
    )


def _text(text: str) -> str:
    return escape(_NOT_XML.sub("\ufffd", text))


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub("\ufffd", text))


def _fmt(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


def _coordinates(point: Point) -> str:
    return f"{_fmt(point[0])} {_fmt(point[1])}"
