"""A write as a program asks for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lineage_service.errors import Position
from lineage_service.plan.from_connect.messages import Message
from lineage_service.programs.dataset_places import DatasetNames


@dataclass(frozen=True)
class ProgramWrite:
    """A write as the program asks for it.

    command: the program's command, and `relation` the frame that it writes
    place: the path or table, and `output` its name
    views: what temporary views of the session stand for
    lines: the line of the program that made a relation, by plan id
    """

    command: Message
    relation: Message
    position: Position
    place: str
    output: str
    program: Path
    views: Mapping[str, Message]
    lines: Mapping[int, tuple[str, int]]
    names: DatasetNames
    execution: str
