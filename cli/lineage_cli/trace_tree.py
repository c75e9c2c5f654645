"""A trace as a tree: the record, what it came from, and what it went into."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lineage_cli.tree_drawing import Tree, width_of
from lineage_service.render.safe_text import escape_line
from lineage_service.render.trace_text import file_change_note, file_text, position_text, set_remarks, set_summary
from lineage_service.render.value_text import MASK, value_text

if TYPE_CHECKING:
    from lineage_service.query.trace.trace_result import Trace, TracedRow, TracedSet
    from lineage_service.store.row_places import RowPlace

BETWEEN = " · "
MOST_STEPS = 4
INDENT = 3  # width of one level of the tree
PEER = "(peer)"
SHORTEST_PATH = 12


def trace_tree(trace: Trace, width: int | None) -> Tree:
    """Returns the trace as a tree. All values of the record itself are shown, wrapped to `width`."""
    root = trace.root
    title = (
        f"{root.dataset} _rid {trace.record.rid}  (run {root.run_id[:8]}, {trace.committed_at[:16].replace('T', ' ')})"
    )
    room = None if width is None else width - INDENT
    values = _wrap_values(_values(trace.record), room)
    below = None if room is None else room - INDENT
    if trace.behind or root.kind != "source":
        behind = Tree(("came from", *_steps(root)), _nodes(trace.behind, below))
    elif trace.record.place is not None:
        most = None if room is None else room - len("came from ")
        behind = Tree((f"came from {_short_place(trace.record.place, most)}",))
    else:
        behind = Tree((f"came from {trace.record.origin or 'a file that is no longer known'}",))
    return Tree((title, *values, *set_remarks(root)), (behind, Tree(("went into",), _nodes(trace.ahead, below))))


def _nodes(sets: Sequence[TracedSet], room: int | None) -> tuple[Tree, ...]:
    return tuple(_node(each, room) for each in sets) or (Tree(("nothing",)),)


def _node(each: TracedSet, room: int | None) -> Tree:
    """Returns a set of rows with its children; lines have `room` cells."""
    if each.link == "absence":
        return Tree((f"{each.dataset}: {set_summary(each)}",), dashed=True)
    below = None if room is None else room - INDENT
    return Tree(tuple(_lines(each, room)), tuple(_node(next_, below) for next_ in each.next))


def _lines(each: TracedSet, room: int | None) -> Iterator[str]:
    file = _only_file(each.rows)
    yield from _titles(each, file, room)
    yield from (f"  {line}" for line in _row_lines(each.rows, room, own_files=file is None))
    yield from (f"  {remark}" for remark in set_remarks(each))
    yield from _steps(each)


def _titles(each: TracedSet, file: str | None, room: int | None) -> Iterator[str]:
    """Yields the title of a set and the file of its rows, on a second line if the first has no room."""
    title = f"{each.dataset}: {set_summary(each)}"
    if file is None:
        yield title
        return
    # The files of rows that are not shown are unknown.
    which = "" if each.count == len(each.rows) else f", {_these(len(each.rows))}"
    changed = next((file_change_note(row.place) for row in each.rows if row.place and row.place.changed), "")
    whole = f"{title}{which} in {_short_file(file, None)}{changed}"
    if room is None or width_of(whole) <= room:
        yield whole
    else:
        yield title
        yield f"  in {_short_file(file, room - INDENT - width_of(f'  in {changed}'))}{changed}"


def _these(count: int) -> str:
    return "this one" if count == 1 else f"these {count:,}"


def _only_file(rows: Sequence[TracedRow]) -> str | None:
    """Returns the file of all these rows, if they are in one file."""
    files = {row.place.file if row.place else None for row in rows}
    return files.pop() if len(files) == 1 else None


def _row_lines(rows: Sequence[TracedRow], room: int | None, *, own_files: bool) -> Iterator[str]:
    """Yields a line per row, with aligned columns: its id, whether it is a peer, its position, its values."""
    rids = [f"{row.rid}" for row in rows]
    marks = [PEER if row.peer else "" for row in rows]
    # A path must leave room for the values.
    most = None if room is None else max(room // 3, SHORTEST_PATH)
    places = (
        [_short_place(row.place, most) if row.place else "" for row in rows] if own_files else _places_in_file(rows)
    )
    widest = [max(map(width_of, cells), default=0) for cells in (rids, marks, places)]
    for row, rid, mark, place in zip(rows, rids, marks, places, strict=True):
        peer = f" {mark:{widest[1]}}" if widest[1] else ""
        where = f"  {place}{' ' * (widest[2] - width_of(place))}" if widest[2] else ""
        yield f"_rid {rid:>{widest[0]}}{peer}{where}  {BETWEEN.join(_values(row))}".rstrip()


def _steps(each: TracedSet) -> Iterator[str]:
    if each.seen or each.cut:
        return
    # A single further step takes the same room as the line that counts it.
    shown = MOST_STEPS if len(each.made_by) > MOST_STEPS + 1 else MOST_STEPS + 1
    for number, step in enumerate(each.made_by[:shown]):
        yield f"{'by' if number == 0 else '  '} {step.name}: {escape_line(step.does)}"
    if len(each.made_by) > shown:
        yield f"   … {len(each.made_by) - shown} more steps"


def _places_in_file(rows: Sequence[TracedRow]) -> list[str]:
    """Returns the positions of the rows in a file that was named before."""
    places = [row.place for row in rows if row.place]
    found = [("row", place.row) if place.line is None else ("line", place.line) for place in places]
    widest = max((len(str(number)) for _, number in found), default=0)
    return [f"{word} {number:>{widest}}" for word, number in found]


def _short_place(place: RowPlace, most: int | None) -> str:
    """Returns file and position of a row; the path loses folders until everything takes at most `most` cells."""
    position = position_text(place)
    return _short_file(place.file, None if most is None else most - len(position)) + position


def _short_file(file: str, most: int | None) -> str:
    """Returns the path, or its end if the path takes more than `most` cells: the end tells most."""
    shown = file_text(file)
    if most is None or width_of(shown) <= most:
        return shown
    most = max(most, SHORTEST_PATH)
    parts = Path(shown).parts
    ends = ("/".join(("…", *parts[start:])) for start in range(1, len(parts)))
    return next((end for end in ends if width_of(end) <= most), f"…{shown[-most + 1 :]}")


def _values(row: TracedRow) -> list[str]:
    return [f"{escape_line(name)} {escape_line(value)}" for name, value in shown_values(row).items()]


def shown_values(row: TracedRow) -> dict[str, str]:
    """Returns the values as text; masked columns show the mask."""
    return {name: MASK if name in row.masked else value_text(value) for name, value in row.values.items()}


def _wrap_values(values: list[str], width: int | None) -> list[str]:
    """Wraps the values over several lines; a value is split only if it is longer than a line."""
    if width is None:
        return [BETWEEN.join(values)]
    lines: list[str] = []
    for value in values:
        if lines and width_of(lines[-1]) + len(BETWEEN) + width_of(value) <= width:
            lines[-1] += BETWEEN + value
        else:
            lines += textwrap.wrap(value, width) or [""]
    return lines
