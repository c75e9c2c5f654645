"""A trace as one self-contained HTML page: no script, no network, light and dark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from lineage_service.render.trace_text import place_text, set_remarks, set_summary
from lineage_service.render.value_text import MASK, value_text

if TYPE_CHECKING:
    from lineage_service.query.trace.trace_result import Trace, TracedRow, TracedSet

STYLE = """
:root { color-scheme: light dark; --line: #c8ccd2; --soft: #6b7280; --card: #f6f7f9; --accent: #1d4ed8; }
@media (prefers-color-scheme: dark) { :root { --line: #3a4049; --soft: #9aa3af; --card: #1d2127; --accent: #8ab4ff; } }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
h1 { font-size: 1.35rem; margin: 0 0 .2rem; } h2 { font-size: 1.05rem; margin: 1.6rem 0 .4rem; }
.soft { color: var(--soft); }
.record { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .8rem 1rem; }
.record dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; margin: 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; white-space: pre-wrap; }
details { border-left: 2px solid var(--line); margin: .5rem 0 .5rem .3rem; padding-left: .9rem; }
details.absence { border-left-style: dashed; } summary { cursor: pointer; font-weight: 600; }
summary .count { font-weight: 400; color: var(--soft); margin-left: .5rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .88rem; margin: .4rem 0; }
th, td { text-align: left; padding: .15rem .7rem .15rem 0; border-bottom: 1px solid var(--line); white-space: pre; }
th { color: var(--soft); font-weight: 500; } td.number { text-align: right; } code { color: var(--accent); }
ul.steps { list-style: none; margin: .2rem 0; padding: 0; font-size: .88rem; }
"""


def trace_page(trace: Trace) -> str:
    """Returns the complete page."""
    root, record = trace.root, trace.record
    title = f"{root.dataset} _rid {record.rid}"
    facts = "".join(f"<dt>{escape(name)}</dt>{_cell('dd', record, name)}" for name in record.values)
    where = place_text(record.place) if record.place else record.origin
    place = f"<dt>file</dt><dd>{escape(where)}</dd>" if where else ""
    parts = [
        "<!doctype html>\n<html lang=en><head><meta charset=utf-8>",
        '<meta name=viewport content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        f"<p class=soft>run {escape(root.run_id)} · {escape(trace.committed_at[:19].replace('T', ' '))} UTC</p>",
        f"<div class=record><dl>{facts}{place}</dl></div>",
        *(f"<p class=soft>{escape(note)}</p>" for note in (*set_remarks(root), *trace.notes)),
        "<h2>Came from</h2>",
        *_steps(root),
        *(_sets(trace.behind) if trace.behind or root.kind != "source" else ["<p>This is a row of a source.</p>"]),
        "<h2>Went into</h2>",
        *_sets(trace.ahead),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _sets(sets: Sequence[TracedSet]) -> Iterator[str]:
    if not sets:
        yield "<p class=soft>nothing</p>"
    for each in sets:
        yield from _set(each)


def _set(each: TracedSet) -> Iterator[str]:
    if each.link == "absence":
        yield f"<details class=absence><summary>{escape(each.dataset)}"
        yield f"<span class=count>{set_summary(each)}</span></summary></details>"
        return
    yield f"<details open><summary>{escape(each.dataset)}"
    yield f"<span class=count>{escape(set_summary(each))}</span></summary>"
    yield from _table(each.rows, with_roles=bool(each.peers))
    yield from (f"<p class=soft>{escape(remark)}</p>" for remark in set_remarks(each))
    if not each.seen and not each.cut:
        yield from _steps(each)
    for below in each.next:
        yield from _set(below)
    yield "</details>"


def _table(rows: Sequence[TracedRow], *, with_roles: bool) -> Iterator[str]:
    if not rows:
        return
    with_files = any(row.place for row in rows)
    heads = ["_rid", *(["role"] if with_roles else []), *(["file"] if with_files else []), *rows[0].values]
    yield f"<div class=scroll><table><tr>{''.join(f'<th>{escape(head)}</th>' for head in heads)}</tr>"
    for row in rows:
        role = ["peer" if row.peer else "own"] if with_roles else []
        file = [place_text(row.place) if row.place else ""] if with_files else []
        before = "".join(f"<td>{escape(text)}</td>" for text in (str(row.rid), *role, *file))
        yield f"<tr>{before}{''.join(_cell('td', row, name) for name in row.values)}</tr>"
    yield "</table></div>"


def _cell(tag: str, row: TracedRow, name: str) -> str:
    """Returns a value in its element. A null looks different from the word, and a mask from a null."""
    if name in row.masked:
        return f"<{tag}>{MASK}</{tag}>"
    value = row.values[name]
    return f"<{tag}{' class=soft' if value is None else ''}>{escape(value_text(value))}</{tag}>"


def _steps(each: TracedSet) -> Iterator[str]:
    if each.made_by:
        lines = "".join(f"<li><code>{escape(s.name)}</code> {escape(s.does)}</li>" for s in each.made_by)
        yield f"<ul class=steps>{lines}</ul>"
