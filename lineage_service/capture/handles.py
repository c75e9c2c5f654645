"""The terms of capture: spaces contain ids, handles carry ids in rows, tables link spaces.

The value of a handle is an id in a space. A table lists, for each id of its own space, the ids of other spaces that it
derives from. These tables are all the lineage of a run: each path of handles from an output's space to a source's space
is one way in which rows of the source contributed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from lineage_catalog.spaces import Space, group_space, side_space, source_space, step_space, window_space

__all__ = [
    "Handle",
    "Merge",
    "Role",
    "Space",
    "Table",
    "concatenate_handles",
    "group_space",
    "merge_handles",
    "side_space",
    "source_space",
    "step_space",
    "window_space",
]


class Role(IntEnum):
    """How a row contributes. Along a path the largest role counts, over several paths the smallest."""

    OWN = 0
    PEER = 1  # another row that a window's measure read for it
    ABSENCE = 2  # a row that influences by not matching; part of pairs only on request


@dataclass(frozen=True, slots=True)
class Handle:
    """A column of ids of `space`; null if no row of the space contributed."""

    space: Space
    role: Role = Role.OWN

    def __str__(self) -> str:
        return self.space if self.role is Role.OWN else f"{self.space} ({self.role.name.lower()})"


@dataclass(frozen=True, slots=True)
class Table:
    """A lineage table of a breaker or dataset: ids of `space`, each with a row of handles.

    everything: a space of which all rows contributed to the single id; no table is written then
    once: for each handle, whether an id of its space occurs at most once in the table, so that pairs are distinct
    already
    left: for an intersect, the number of handles of its left side; a row of each side is needed
    always: the table of an aggregate without keys, whose single group exists even if it is empty
    frames: for a window, the number of intervals of positions of each id; its single handle names the space of the
    positions
    """

    space: Space
    handles: tuple[Handle, ...]
    everything: Space | None = None
    once: tuple[bool, ...] = ()
    left: int | None = None
    always: bool = False
    frames: int = 0


@dataclass(frozen=True, slots=True)
class Merge:
    """The handles of several branches in one row: for each branch, which of its handles fills each column."""

    handles: tuple[Handle, ...]
    branches: tuple[tuple[int | None, ...], ...]


def merge_handles(branches: Sequence[tuple[Handle, ...]]) -> Merge:
    """Handles of equal space and role share a column: the first of each branch with the first of the others, and so on.
    A column is null in rows of a branch that lacks the handle.
    """
    slots: list[tuple[Handle, int]] = []
    counted: list[list[tuple[Handle, int]]] = []
    for handles in branches:
        seen: dict[Handle, int] = {}
        keys = []
        for handle in handles:
            key = (handle, seen.get(handle, 0))
            seen[handle] = key[1] + 1
            keys.append(key)
            if key not in slots:
                slots.append(key)
        counted.append(keys)
    filled = tuple(tuple(keys.index(slot) if slot in keys else None for slot in slots) for keys in counted)
    return Merge(tuple(handle for handle, _ in slots), filled)


def concatenate_handles(branches: Sequence[tuple[Handle, ...]]) -> Merge:
    """Each branch has columns of its own, so that a row shows which branch it belongs to."""
    handles = tuple(handle for branch in branches for handle in branch)
    filled, first = [], 0
    for branch in branches:
        inside = range(first, first + len(branch))
        filled.append(tuple(place - first if place in inside else None for place in range(len(handles))))
        first += len(branch)
    return Merge(handles, tuple(filled))
