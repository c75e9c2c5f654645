"""The record of processing activities as Markdown, and as one self-contained HTML page."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from lineage_service.render.html.access_page import STYLE

NOT_STATED = "not stated"
Facts = list[tuple[str, str]]
Table = tuple[list[str], list[list[str]]]


def record_markdown(record: dict[str, Any]) -> str:
    """Returns the record as Markdown."""
    lines = ["# Record of processing", "", f"Made on {record['made_at'][:10]} (GDPR Art. 30).", ""]
    for each in record["workflows"]:
        lines += [f"## {_plain(each['workflow'])}", ""]
        lines += [f"- **{name}**: {_plain(text)}" for name, text in _facts(each)]
        for title, (head, rows) in _tables(each):
            lines += ["", f"### {title}", "", _line(head), _line(["---"] * len(head)), *map(_line, rows)]
        lines.append("")
    if not record["workflows"]:
        lines += ["No workflow is known.", ""]
    return "\n".join(lines)


def record_page(record: dict[str, Any]) -> str:
    """Returns the record as an HTML page."""
    parts = [
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>",
        '<meta name=viewport content="width=device-width, initial-scale=1">',
        f"<title>Record of processing</title><style>{STYLE}</style></head><body>",
        "<h1>Record of processing</h1>",
        f"<p class=soft>Made on {escape(record['made_at'][:10])} (GDPR Art. 30)</p>",
    ]
    for each in record["workflows"]:
        parts.append(f"<h2>{escape(each['workflow'])}</h2><dl>")
        parts += [f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in _facts(each)]
        parts.append("</dl>")
        for title, (head, rows) in _tables(each):
            parts.append(f"<h3>{escape(title)}</h3><div class=scroll><table>{_row('th', head)}")
            parts += [_row("td", row) for row in rows]
            parts.append("</table></div>")
    if not record["workflows"]:
        parts.append("<p>No workflow is known.</p>")
    return "\n".join([*parts, "</body></html>\n"])


def _facts(each: dict[str, Any]) -> Facts:
    days = each["retention_days"]
    found: Facts = [("What it is", each["description"])] if each["description"] else []
    if not each["concerns_persons"]:
        return [*found, ("Personal data", "none is declared")]
    return [
        *found,
        ("Controller", each["controller"] or NOT_STATED),
        ("Contact", each["contact"] or NOT_STATED),
        ("In charge", each["owner"] or NOT_STATED),
        ("Purpose", each["purpose"] or NOT_STATED),
        ("Legal basis", each["legal_basis"] or NOT_STATED),
        ("Categories of persons", _texts_or_not_stated(each["persons"])),
        ("Categories of data", _texts_or_not_stated(each["categories"])),
        ("Origin", each["origin"] or NOT_STATED),
        ("Recipients", _texts_or_not_stated(each["recipients"])),
        ("Transfers to other countries", _texts_or_not_stated(each["transfers"])),
        ("Kept for", NOT_STATED if days is None else f"{days:,} days"),
        ("Security measures", _texts_or_not_stated(each["security"])),
        ("Supervisory authority", each["authority"] or NOT_STATED),
        ("Read from", each.get("file") or f"run {each.get('run')}"),
    ]


def _tables(each: dict[str, Any]) -> Iterator[tuple[str, Table]]:
    sources = [
        [
            source["name"],
            source["reads"] or "",
            ", ".join(f"{kind} ({column})" for kind, column in source["persons"].items()),
            ", ".join(source["personal_data"]),
            source["origin"] or "",
            _hold(source["legal_hold"]),
        ]
        for source in each["sources"]
    ]
    yield "Sources", (["source", "reads", "persons", "personal data", "origin", "legal hold"], sources)
    outputs = [
        [
            output["name"],
            output["published_at"] or "",
            ", ".join(output["personal_data"]),
            output["on_erasure"] + (f": {output['keep']['ground']}" if output["keep"] else ""),
        ]
        for output in each["outputs"]
    ]
    yield "Outputs", (["output", "published at", "personal data", "on erasure"], outputs)


def _hold(hold: dict[str, Any] | None) -> str:
    if hold is None:
        return ""
    until = f", until {hold['until']}" if hold.get("until") else ""
    return f"{hold['ground']}{until}"


def _texts_or_not_stated(texts: Sequence[str]) -> str:
    return "; ".join(texts) or NOT_STATED


def _row(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell if set(cell) == {'-'} else _plain(cell) for cell in cells)} |"


def _plain(text: str) -> str:
    """Escapes the characters that Markdown would interpret."""
    return re.sub(r"([\\`*_{}\[\]<>#|])", r"\\\1", " ".join(text.split()))
