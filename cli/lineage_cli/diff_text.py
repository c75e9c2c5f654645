"""A diff as text: counts, then a block per change with the source rows behind it, fitted to the terminal's width."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import click

from lineage_cli.tree_drawing import truncate
from lineage_service.render.safe_text import escape_line, escape_text
from lineage_service.render.value_text import MASK

if TYPE_CHECKING:
    from lineage_service.query.diff.diff_result import Behind, Change, Counts, Diff, Row, RowBehind, SourceIdentity

MARKS = {"added": "+", "removed": "-", "changed": "~"}
COLOURS = {"added": "green", "removed": "red", "changed": "yellow"}
Masked = frozenset[str]  # names of masked columns, in lower case
NARROWEST = 30  # the minimal width; a narrower terminal is treated as this wide


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text with its indentation and colour; `whole`: wrapped instead of cut."""

    text: str
    indent: int = 0
    colour: str | None = None
    whole: bool = False


def changes_text(diff: Diff, *, width: int | None, colour: bool) -> Iterator[str]:
    """Yields the text in blocks; `width` None: lines are neither cut nor wrapped."""
    yield _fit_lines(_heading(diff), width, colour)
    for change in diff.changes():
        yield "\n" + _fit_lines(_block(change, diff), width, colour)


def _fit_lines(lines: Iterable[Line], width: int | None, colour: bool) -> str:
    found = []
    for line in lines:
        indent, tint = " " * line.indent, line.colour if colour else None
        for text in [line.text] if width is None else _wrap_line(line, max(width, NARROWEST) - line.indent):
            seen = escape_text(text)
            found.append(f"{indent}{click.style(seen, fg=tint) if tint else seen}\n")
    return "".join(found)


def _wrap_line(line: Line, room: int) -> list[str]:
    if line.whole:
        return textwrap.wrap(line.text, room, subsequent_indent="  ", break_on_hyphens=False) or [""]
    return [truncate(line.text, room)]


# --- heading --------------------------------------------------------------------------------------------------


def _heading(diff: Diff) -> Iterator[Line]:
    yield Line(f"{diff.dataset}  {diff.before.run_id} → {diff.after.run_id}", whole=True)
    by = f"; by {escape_line(', '.join(diff.key))}" if diff.key else ""
    yield Line(f"{_counts(diff.counts, everything=True)}{by}", whole=True)
    for name, (before, after) in diff.variables_changed.items():
        yield Line(f"variable {name}: {_before_and_after(before, after)}", whole=True)
    changed = []
    if others := [_name(each, diff) for each in diff.sources if each.identity != "rid"]:
        changed.append(_count_names("source", others))
    if diff.workflows_changed:
        steps = _count_names("step", diff.steps_changed) if diff.steps_changed else "none of its own steps"
        changed.append(f"{_count_names('workflow', diff.workflows_changed)} ({steps})")
    if changed:
        yield Line(f"changed since: {'; '.join(changed)}", whole=True)
    if diff.sources:
        known = ", ".join(f"{_name(each, diff)} {_match_text(each)}" for each in diff.sources)
        yield Line(f"source rows matched: {known}", whole=True)


def _counts(counts: Counts, *, everything: bool = False) -> str:
    named = [(counts.added, "added"), (counts.removed, "removed"), (counts.changed, "changed")]
    if counts.same is not None:
        named.append((counts.same, "unchanged"))
    return ", ".join(f"{number:,} {name}" for number, name in named if number or everything)


def _count_names(what: str, names: Sequence[str]) -> str:
    return f"{what}{'' if len(names) == 1 else 's'} {', '.join(names)}"


def _match_text(source: SourceIdentity) -> str:
    match source.identity:
        case "rid":
            return "(same version)"
        case "key":
            return f"by {escape_line(', '.join(source.key))}"
        case "content":
            return "by all values"
        case _:
            return "(not)"


def _name(source: SourceIdentity, diff: Diff) -> str:
    """Returns the name of a source, without the workflow if it is the dataset's own."""
    workflow = diff.dataset.partition(".")[0]
    return source.source.removeprefix(f"{workflow}.")


# --- one change -----------------------------------------------------------------------------------------------


def _block(change: Change, diff: Diff) -> Iterator[Line]:
    rid = change.rid_after if change.rid_after is not None else change.rid_before
    named = _values(change.key, diff.masked) or f"row {rid}"
    yield Line(f"{MARKS[change.change]} {named}", colour=COLOURS[change.change])
    if change.before is not None and change.after is not None:
        yield from _cells(change.before, change.after, change.columns, diff.masked)
    else:
        row = change.after if change.after is not None else change.before or {}
        rest = _values({name: value for name, value in row.items() if name not in change.key}, diff.masked)
        if rest:
            yield Line(rest, indent=4)
    if change.reason:
        yield Line(change.reason, indent=2, whole=True)
    explained = any(not each.absent and each.counts is not None and each.counts.any for each in change.behind)
    for behind in change.behind:
        if not behind.absent or change.change != "changed" or not explained:
            yield from _behind(behind, diff)


def _cells(before: Row, after: Row, columns: Sequence[str], masked: Masked) -> Iterator[Line]:
    """Yields a line for each column that differs."""
    width = max((len(_plain(name)) for name in columns), default=0)
    for name in columns:
        moved = (
            f"{MASK} → {MASK}" if name.lower() in masked else _before_and_after(_cell(before, name), _cell(after, name))
        )
        yield Line(f"{_plain(name):{width}}  {moved}", indent=4)


def _cell(row: Row, name: str) -> Any:
    """Returns the value of a column, ignoring the case of its name."""
    if name in row:
        return row[name]
    return next((value for other, value in row.items() if other.lower() == name.lower()), None)


def _behind(behind: Behind, diff: Diff) -> Iterator[Line]:
    name = _name(behind.source, diff)
    if behind.absent:
        if behind.counts is None:
            yield Line(f"{name}: influences by absence; {behind.source.note or 'not compared'}", indent=2, whole=True)
        elif behind.counts.any:
            yield Line(f"{name}: influences by absence; {_counts(behind.counts)} in all of it", indent=2, whole=True)
        return
    if behind.counts is None:
        before, after = behind.contributing
        yield Line(f"{name}: {before:,} rows before, {after:,} after; {behind.source.note}", indent=2, whole=True)
        return
    if not behind.counts.any:
        return
    yield Line(f"{name}: {_counts(behind.counts)}", indent=2, whole=True)
    for row in behind.rows:
        yield from _row_behind(row, behind, name)
    if behind.hidden:
        more = f"… and {behind.hidden:,} more" if behind.rows else f"… {behind.hidden:,}, not shown"
        yield Line(f"{more}; --rows shows more", indent=4)


def _row_behind(row: RowBehind, behind: Behind, name: str) -> Iterator[Line]:
    values = (row.before if row.change == "removed" else row.after) or {}
    note = _change_note(row, name)
    yield Line(f"{MARKS[row.change]} row {values.get('_rid')}{note}", indent=4, colour=COLOURS[row.change])
    shown = {column: value for column, value in values.items() if column != "_rid"}
    if not (row.columns and row.before and row.after):
        if shown:
            yield Line(_values(shown, behind.source.masked), indent=6)
        return
    key = {column: value for column, value in shown.items() if column in behind.source.key}
    if key:
        yield Line(_values(key, behind.source.masked), indent=6)
    yield from (Line(line.text, 6) for line in _cells(row.before, row.after, row.columns, behind.source.masked))


def _change_note(row: RowBehind, name: str) -> str:
    match row.change, row.known:
        case "added", False:
            return f": new in {name}"
        case "added", True:
            return ": existed, but did not contribute before"
        case "added", None:
            return f": {name} was not read before"
        case "removed", False:
            return f": gone from {name}"
        case "removed", True:
            return ": still exists, but no longer contributes"
        case "removed", None:
            return f": {name} is no longer read"
        case _:
            return ": changed"


# --- values ---------------------------------------------------------------------------------------------------


def _values(row: Mapping[str, Any], masked: Masked) -> str:
    return ", ".join(
        [f"{_plain(name)} {MASK if name.lower() in masked else _text(value)}" for name, value in row.items()]
    )


def _before_and_after(before: Any, after: Any) -> str:
    return f"{_text(before)} → {_text(after)}"


@lru_cache(maxsize=4096)
def _plain(name: str) -> str:
    return escape_line(name)


def _text(value: Any) -> str:
    """Returns a value on one line, as in JSON, but strings without quotes."""
    if isinstance(value, str):
        return escape_line(value)
    if type(value) is int or (type(value) is float and math.isfinite(value)):
        return repr(value)
    from lineage_service.render.json_values import to_json_value

    plain = to_json_value(value)
    return escape_line(plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False))
