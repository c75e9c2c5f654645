"""Gives out names that a workflow file takes, each once."""

from __future__ import annotations

from collections.abc import Iterable

from lineage_service.spec.fields import RESERVED
from lineage_service.spec.legal_names import legal_name, unused_name


class NameList:
    """The names of sources and steps, which share their names."""

    def __init__(self) -> None:
        self._taken = {RESERVED}

    def __contains__(self, name: object) -> bool:
        return name in self._taken

    def avoid(self, names: Iterable[str]) -> None:
        """From now on gives out none of these names either."""
        self._taken.update(names)

    def add(self, *wanted: str) -> str:
        """The first of the wanted names, made legal, that is free; else the last of them with a number."""
        names = [legal_name(name, "table") for name in wanted if name]
        name = next((each for each in names if each not in self._taken), unused_name(names[-1], self._taken))
        self._taken.add(name)
        return name
