"""A case file as a picture: its tables on the left, its result on the right, and a line for every pair of lineage."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from ruamel.yaml import YAML

from lineage_service.spec.step_description import describe_step, inputs_of
from tests.support.paths import CASES

CHARACTER, LINE, GAP, MARGIN = 7.3, 22, 130, 16
STYLE = (
    "text{font:12px ui-monospace,Menlo,Consolas,monospace;fill:#1f2328}.t{font-weight:bold}.u{fill:#8c959f}"
    ".s{fill:#57606a}line{stroke-width:1.4}.own{stroke:#0969da}.peer{stroke:#bc4c00;stroke-dasharray:4 3}"
    ".absence{fill:none;stroke:#8c959f;stroke-dasharray:2 3}"
)


def case(name: str) -> dict[str, Any]:
    """The case file `folder/file`, with defaults for what it leaves out."""
    found = YAML(typ="safe").load((CASES / f"{name}.yml").read_text(encoding="utf-8"))
    return {"keep": [], **found}


def rows_of(table: Any) -> list[dict[str, Any]]:
    return table if isinstance(table, list) else [row for file in table["files"] for row in file]


def shown(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(shown(each) for each in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)


def row_text(rid: int, row: dict[str, Any]) -> str:
    return f"{rid}  " + "  ".join(f"{key}={shown(value)}" for key, value in row.items())


def picture(name: str) -> str:
    """The case as SVG."""
    found = case(name)
    expect = found["expect"]
    steps = [f"{', '.join(inputs_of(step))} → {step['name']}: {describe_step(step)}" for step in found["steps"]]
    used = {(table, rid) for sources in expect["backward"].values() for table, rids in sources.items() for rid in rids}
    absent = set(expect.get("absence", []))

    places: dict[tuple[str, int], float] = {}
    left, y = [], MARGIN + LINE * (len(steps) + 1.0)
    top, boxes = y, []
    for table, content in found["tables"].items():
        began = y
        left.append(_text(MARGIN, y, table, "t"))
        y += LINE
        for rid, row in enumerate(rows_of(content)):
            places[table, rid] = y
            left.append(_text(MARGIN, y, row_text(rid, row), "" if (table, rid) in used else "u"))
            y += LINE
        if not rows_of(content):
            left.append(_text(MARGIN, y, "(no rows)", "u"))
            y += LINE
        if table in absent:
            boxes.append((began, y))
        y += LINE / 2
    widest = max(
        len(row_text(rid, row)) for content in found["tables"].values() for rid, row in enumerate(rows_of(content))
    )
    edge = MARGIN + widest * CHARACTER + 6
    start = edge + GAP

    right, bottom = [_text(start, top, found["steps"][-1]["name"], "t")], y
    y = top + LINE
    lines = []
    for rid, row in enumerate(expect["rows"]):
        right.append(_text(start, y, row_text(rid, row), ""))
        lines += list(_lines(rid, y, edge, start, places, expect))
        y += LINE
    frames = [_absence(began, ended, edge) for began, ended in boxes]
    width = start + max([20, *(len(row_text(rid, row)) for rid, row in enumerate(expect["rows"]))]) * CHARACTER + MARGIN
    width = max(width, MARGIN * 2 + max(len(step) for step in steps) * CHARACTER)
    told = [_text(MARGIN, MARGIN + LINE * (number + 0.2), step, "s") for number, step in enumerate(steps)]
    height = max(bottom, y)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" role="img">'
        f"<title>{escape(found['title'])}</title><style>{STYLE}</style>"
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join([*told, *left, *frames, *lines, *right]) + "\n</svg>\n"
    )  # fmt: skip


def _lines(
    out: int, y: float, edge: float, start: float, places: dict[tuple[str, int], float], expect: dict[str, Any]
) -> Iterator[str]:
    peers = expect.get("peers", {}).get(out, {})
    for table, rids in expect["backward"][out].items():
        for rid in rids:
            role = "peer" if rid in peers.get(table, []) else "own"
            place = places[table, rid]
            yield (f'<line class="{role}" x1="{edge:.0f}" y1="{place - 4:.0f}" x2="{start - 6:.0f}" y2="{y - 4:.0f}"/>')


def _absence(began: float, ended: float, edge: float) -> str:
    frame = (
        f'<rect class="absence" x="{MARGIN - 6}" y="{began - 15:.0f}" '
        f'width="{edge - MARGIN + 6:.0f}" height="{ended - began:.0f}" rx="4"/>'
    )
    return frame + _text(edge + 10, (began + ended) / 2 - 8, "only by absence", "u")


def _text(x: float, y: float, text: str, kind: str) -> str:
    name = f' class="{kind}"' if kind else ""
    return f'<text{name} x="{x:.0f}" y="{y:.0f}" xml:space="preserve">{escape(text)}</text>'
