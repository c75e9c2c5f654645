"""The words of capture: spaces that ids live in, handles that carry ids along, tables that link spaces.

A relation's rows carry handles; a handle's value is an id in a space. A table says, for each id of its own
space, which ids of other spaces stand behind it. All lineage of a run is such tables; a path of handles from
an output's space to a source's space is one way the source's rows contributed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NewType

Space = NewType("Space", str)


class Role(IntEnum):
    """How a row contributes. Along a path the largest counts, over several paths the smallest: own wins."""

    OWN = 0
    PEER = 1  # another row that a window's measure read for it
    ABSENCE = 2  # a row whose failing to match let the result be; never part of a pair unless asked for


def source_space(name: str) -> Space:
    return Space(f"source:{name}")


def step_space(step: str) -> Space:
    """Rows of a step that is a dataset: an output, or kept."""
    return Space(f"step:{step}")


def group_space(node_id: str) -> Space:
    """Groups, partitions or matches of a pipeline breaker."""
    return Space(f"group:{node_id}")


def window_space(node_id: str) -> Space:
    """Rows of a window, each by its position: partition after partition, in the order that its measures saw."""
    return Space(f"window:{node_id}")


def side_space(node_id: str) -> Space:
    """The whole right side of an anti join or difference: one id, 0."""
    return Space(f"side:{node_id}")


def is_window(space: Space) -> bool:
    return space.startswith("window:")


def is_dataset(space: Space) -> bool:
    return space.startswith(("source:", "step:"))


@dataclass(frozen=True, slots=True)
class Handle:
    """A column of ids of `space`, null where no row stands behind."""

    space: Space
    role: Role = Role.OWN

    def __str__(self) -> str:
        return self.space if self.role is Role.OWN else f"{self.space} ({self.role.name.lower()})"


@dataclass(frozen=True, slots=True)
class Table:
    """What a breaker or a dataset leaves: ids of `space`, each with a row of handles.

    `everything` names a space all of whose rows stand behind the one id: then nothing is written. `once` says of each
    handle whether an id of its space is in the table at most once: then pairs need not be made distinct. `left`, of an
    intersect: so many of its handles are of its left side, and a row of each side is needed. `always`: the one group
    of an aggregate without keys, which is there also where nothing is in it. `frames`, of a window: so many intervals
    of positions stand behind each id, instead of single ids; its one handle names the space of the positions.
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
    """Handles of several branches brought to one row: per branch, which of its handles fills each column."""

    handles: tuple[Handle, ...]
    branches: tuple[tuple[int | None, ...], ...]


def merge_handles(branches: Sequence[tuple[Handle, ...]]) -> Merge:
    """The same space and role share a column, the k-th occurrence with the k-th; else the column is null."""
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
    """Each branch in columns of its own, so that a row tells which branch it is of."""
    handles = tuple(handle for branch in branches for handle in branch)
    filled, first = [], 0
    for branch in branches:
        inside = range(first, first + len(branch))
        filled.append(tuple(place - first if place in inside else None for place in range(len(handles))))
        first += len(branch)
    return Merge(handles, tuple(filled))
