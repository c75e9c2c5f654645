"""Spaces: what an id in a lineage table is an id of.

A space has a kind and a name and is written `kind:name`: `source:items` are the rows of a source, `step:priced` the
rows of a step that is a dataset, `group:revenue:aggregate` the groups of a pipeline breaker. The catalog, the notes
in a run's folder and the names of views hold that text. This module alone writes it and takes it apart.
"""

from __future__ import annotations

from enum import StrEnum


class SpaceKind(StrEnum):
    """What the ids of a space count."""

    SOURCE = "source"  # rows of a source
    STEP = "step"  # rows of a step that is a dataset: an output, or kept
    GROUP = "group"  # groups, partitions or matches of a pipeline breaker
    WINDOW = "window"  # rows of a window by position: partition after partition, in the order that its measures saw
    SIDE = "side"  # the whole right side of an anti join or difference: one id, 0


_KINDS = {kind.value: kind for kind in SpaceKind}


class Space(str):
    """A space: kind and name. `Space(text)` reads one from its text and raises ValueError where the text is none.

    It is immutable and is a str, so that it is hashed, sorted and stored at the price of its text.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Space:
        if type(text) is cls:
            return text
        kind, colon, _ = text.partition(":")
        if not colon or kind not in _KINDS:
            raise ValueError(f"'{text}' is no space: it needs to be <kind>:<name>, kinds: {', '.join(_KINDS)}")
        return super().__new__(cls, text)

    @property
    def kind(self) -> SpaceKind:
        return _KINDS[self.partition(":")[0]]

    @property
    def name(self) -> str:
        """Of a dataset: the source or step. Else: the id of the plan's node that the groups or rows belong to."""
        return self.partition(":")[2]

    @property
    def step_name(self) -> str:
        """The step of the workflow file that the space comes from: of `group:revenue:aggregate`, `revenue`."""
        return self.name.partition(":")[0]

    @property
    def is_source(self) -> bool:
        return self.startswith("source:")

    @property
    def is_step(self) -> bool:
        return self.startswith("step:")

    @property
    def is_group(self) -> bool:
        return self.startswith("group:")

    @property
    def is_window(self) -> bool:
        return self.startswith("window:")

    @property
    def is_side(self) -> bool:
        return self.startswith("side:")

    @property
    def is_dataset(self) -> bool:
        """Whether its ids are rids of rows that are stored: of a source, or of a step that is a dataset."""
        return self.is_source or self.is_step


def source_space(name: str) -> Space:
    return Space(f"{SpaceKind.SOURCE}:{name}")


def step_space(step: str) -> Space:
    return Space(f"{SpaceKind.STEP}:{step}")


def group_space(node_id: str) -> Space:
    return Space(f"{SpaceKind.GROUP}:{node_id}")


def window_space(node_id: str) -> Space:
    return Space(f"{SpaceKind.WINDOW}:{node_id}")


def side_space(node_id: str) -> Space:
    return Space(f"{SpaceKind.SIDE}:{node_id}")
