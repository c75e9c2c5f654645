"""A trace as a tree for people: the record, what it came from, what it went into."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lineage_cli.tables import safe
from lineage_cli.trees import Tree, width_of
from lineage_cli.values import json_document

if TYPE_CHECKING:
    from lineage_service.query.traced import Trace, TracedRow, TracedSet

BETWEEN = " · "
LONGEST_VALUE = 60
MOST_STEPS = 4


def tree_of(trace: Trace, width: int | None) -> Tree:
    """The trace as a tree. The record itself is told whole, over several lines where `width` asks for it."""
    root = trace.root
    title = (
        f"{root.dataset} _rid {trace.record.rid}  (run {root.run_id[:8]}, {trace.committed_at[:16].replace('T', ' ')})"
    )
    values = _wrapped(_values(trace.record), None if width is None else width - 3)
    branches = []
    if trace.behind or root.kind != "source":
        branches.append(Tree(("came from", *_steps(root)), tuple(map(_node, trace.behind)) or (Tree(("nothing",)),)))
    else:
        branches.append(Tree((f"came from {place_of(trace.record)}",)))
    branches.append(Tree(("went into",), tuple(map(_node, trace.ahead)) or (Tree(("nothing",)),)))
    return Tree((title, *values), tuple(branches))


def _node(each: TracedSet) -> Tree:
    if each.link == "absence":
        count = f"all {each.count:,} rows" if each.count != 1 else "its 1 row"
        return Tree((f"{each.dataset}: by the absence of a match in {count}",), dashed=True)
    return Tree(tuple(_lines(each)), tuple(map(_node, each.next)))


def _lines(each: TracedSet) -> Iterator[str]:
    rows = "no rows" if each.count == 0 else "1 row" if each.count == 1 else f"{each.count:,} rows"
    peers = f", {each.peers:,} of them only peers" if each.peers and each.peers < each.count else ""
    peers = ", only as peers" if each.peers and each.peers == each.count else peers
    read_as = f", read as {each.read_as}" if each.read_as else ""
    yield f"{each.dataset}: {rows}{peers}{read_as}"
    for row in each.rows:
        place = f"{place_of(row)}  " if row.place else ""
        yield f"  _rid {row.rid}  {place}{BETWEEN.join(_values(row))}{'  (peer)' if row.peer else ''}"
    yield from (f"  {remark}" for remark in remarks(each))
    yield from _steps(each)


def remarks(each: TracedSet) -> Iterator[str]:
    """What is to be said of a set below the rows that are shown of it."""
    if each.unreadable:
        yield f"rows not shown: {safe(each.unreadable)}"
    elif each.rows and each.count > len(each.rows):
        yield f"… {each.count - len(each.rows):,} more"
    if each.seen:
        yield "the same rows as above, from there on too"
    elif each.cut:
        yield "… goes on; --depth shows more"


def _steps(each: TracedSet) -> Iterator[str]:
    if each.seen or each.cut:
        return
    for number, step in enumerate(each.made_by[:MOST_STEPS]):
        yield f"{'by' if number == 0 else '  '} {step.name}: {safe(step.does)}"
    if len(each.made_by) > MOST_STEPS:
        yield f"   … {len(each.made_by) - MOST_STEPS} more steps"


def place_of(row: TracedRow) -> str:
    """Where the row stands: `orders.csv:12` for a line of text, `orders.parquet row 11` for Parquet."""
    assert row.place is not None
    file = Path(row.place.file)
    shown = str(file.relative_to(Path.cwd())) if file.is_relative_to(Path.cwd()) else str(file)
    where = f":{row.place.line}" if row.place.line is not None else f" row {row.place.row}"
    return f"{safe(shown)}{where}{' (the file has changed since)' if row.place.changed else ''}"


def _values(row: TracedRow) -> list[str]:
    return [f"{safe(name)} {safe(told(value))}" for name, value in row.values.items()]


def told(value: Any) -> str:
    """A value as a person reads it, shortened where it is long."""
    plain = json_document(value)
    text = "null" if plain is None else plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"


def _wrapped(values: list[str], width: int | None) -> list[str]:
    """The values over as many lines as they need; a value is not torn unless it alone is too long."""
    if width is None:
        return [BETWEEN.join(values)]
    lines: list[str] = []
    for value in values:
        if lines and width_of(lines[-1]) + len(BETWEEN) + width_of(value) <= width:
            lines[-1] += BETWEEN + value
        else:
            lines += textwrap.wrap(value, width) or [""]
    return lines
