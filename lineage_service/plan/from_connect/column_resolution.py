"""Which column of a frame a name of the program means: as Spark's ColumnResolutionHelper and AttributeSeq have it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lineage_service.errors import Position, did_you_mean, join_names
from lineage_service.plan.from_connect.frames import Frame, FrameColumn
from lineage_service.plan.from_connect.untraceable import UnknownFrameColumn, Untraceable


@dataclass(frozen=True, slots=True)
class FoundColumn:
    """A column, and the parts of the name behind it: fields of a struct, keys of a map."""

    column: FrameColumn
    fields: tuple[str, ...]


def parse_name(identifier: str, position: Position | None) -> tuple[str, ...]:
    """The parts of a name: `a.b` is two, a name in backticks may contain dots."""
    parts: list[str] = []
    current: list[str] = []
    index, is_quoted, was_quoted = 0, False, False
    while index < len(identifier):
        character = identifier[index]
        if is_quoted:
            if character == "`" and identifier[index + 1 : index + 2] == "`":
                current.append("`")
                index += 1
            elif character == "`":
                is_quoted, was_quoted = False, True
            else:
                current.append(character)
        elif character == "`" and not current and not was_quoted:
            is_quoted = True
        elif character == ".":
            parts.append("".join(current))
            current, was_quoted = [], False
        elif character == "`" or was_quoted:
            raise Untraceable(f"the name {identifier!r} cannot be read: a backtick is in its middle", position)
        else:
            current.append(character)
        index += 1
    if is_quoted or not identifier or identifier.endswith(".") or "" in parts:
        raise Untraceable(f"the name {identifier!r} cannot be read", position)
    return (*parts, "".join(current))


def resolve(
    parts: tuple[str, ...], inputs: Sequence[Frame], plan_id: int | None, position: Position | None
) -> FoundColumn:
    """The column that a name means in an expression over these frames.

    `plan_id` is that of the frame that the program took the column from, as in `df["a"]`.
    """
    if plan_id is not None:
        found = _by_plan_id(parts, inputs, plan_id, position)
        if found is None:
            name = ".".join(parts)
            raise UnknownFrameColumn(f"column '{name}' of another data frame is no longer part of this one", position)
        return found
    visible = [column for frame in inputs for column in frame.columns]
    by_name = find_by_name(parts, visible, position)
    if by_name is None:
        hidden = [column for frame in inputs for column in frame.hidden]
        by_name = find_by_name(parts, hidden, position) if len(parts) > 1 else None
    if by_name is None:
        names = [column.name for column in visible if column.name]
        hint = did_you_mean(parts[0], names)
        name = ".".join(parts)
        raise UnknownFrameColumn(
            f"unknown column '{name}'; columns here: {join_names(names)}" + (f"; {hint}" if hint else ""), position
        )
    return by_name


def find_by_name(
    parts: tuple[str, ...], columns: Sequence[FrameColumn], position: Position | None
) -> FoundColumn | None:
    """A name with qualifiers first, then one without; None where no column has it."""
    for length in range(min(len(parts) - 1, 3), -1, -1):
        wanted = tuple(part.lower() for part in parts[:length])
        found = [
            column
            for column in columns
            if column.is_called(parts[length])
            and (not length or tuple(part.lower() for part in column.qualifier[-length:]) == wanted)
        ]
        if len({column.identity for column in found}) > 1:
            raise Untraceable(f"column '{'.'.join(parts)}' is ambiguous: {len(found)} columns are called so", position)
        if found:  # the name is as the program writes it
            return FoundColumn(replace(found[0], name=parts[length]), parts[length + 1 :])
    return None


@dataclass(frozen=True, slots=True)
class _MatchingColumns:
    found: FoundColumn
    depth: int
    is_hidden: bool = False


def _by_plan_id(
    parts: tuple[str, ...], inputs: Sequence[Frame], plan_id: int, position: Position | None
) -> FoundColumn | None:
    """The column of the frame with that id, where it is still among the columns of every frame above it. None where it
    is not."""
    candidates, is_there = _candidates(parts, inputs, plan_id, 0)
    name = ".".join(parts)
    if not is_there:
        raise Untraceable(f"column '{name}' is of another data frame, which is not part of this one", position)
    shown = [each for each in candidates if not each.is_hidden] or candidates
    shown = sorted(shown, key=lambda each: each.depth)
    if len(shown) > 1 and not (shown[0].depth == 0 and shown[1].depth > 0):
        raise Untraceable(f"column '{name}' is ambiguous: its data frame is there several times", position)
    return shown[0].found if shown else None


def _candidates(
    parts: tuple[str, ...], inputs: Sequence[Frame], plan_id: int, depth: int
) -> tuple[list[_MatchingColumns], bool]:
    found: list[_MatchingColumns] = []
    is_there = False
    for frame in inputs:
        if frame.plan_id == plan_id:
            try:
                column = find_by_name(parts, frame.columns, None)
            except Untraceable:
                column = None
            own, is_here = ([] if column is None else [_MatchingColumns(column, depth)]), True
        else:
            below = () if frame.opening == "union" else frame.inputs
            own, is_here = _candidates(parts, below, plan_id, depth + 1)
        is_there = is_there or is_here
        shown = {column.identity for column in frame.columns}
        hidden = {column.identity for column in frame.hidden}
        for each in own:
            identity = each.found.column.identity
            if identity in shown and not each.is_hidden:
                found.append(each)
            elif identity in shown | hidden:
                found.append(_MatchingColumns(each.found, each.depth, is_hidden=True))
    return found, is_there


def star_columns(
    inputs: Sequence[Frame], target: tuple[str, ...], plan_id: int | None, position: Position | None
) -> tuple[FrameColumn, ...] | FoundColumn:
    """The columns of `*`, of `alias.*`, or of the star of a frame; for a struct column, that column."""
    if plan_id is not None:
        frames = _frames_of_star(inputs, plan_id)
        if len(frames) != 1:
            what = "is of another data frame" if not frames else "is ambiguous"
            raise Untraceable(f"'*' {what}", position)
        return frames[0].columns
    columns = tuple(column for frame in inputs for column in frame.columns)
    if not target:
        return columns
    wanted = tuple(part.lower() for part in target)
    qualified = tuple(
        column for column in columns if tuple(part.lower() for part in column.qualifier[-len(wanted) :]) == wanted
    )
    return qualified or resolve(target, inputs, None, position)


def _frames_of_star(inputs: Sequence[Frame], plan_id: int) -> list[Frame]:
    found: list[Frame] = []
    for frame in inputs:
        own = [frame] if frame.plan_id == plan_id else _frames_of_star(frame.inputs, plan_id)
        seen = {column.identity for column in (*frame.columns, *frame.hidden)}
        found += [each for each in own if all(column.identity in seen for column in each.columns)]
    return found
