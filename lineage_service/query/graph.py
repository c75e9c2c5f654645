"""Lineage over all runs as one graph: spaces of runs, hops between them, and versions that link runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from lineage_catalog.reader import CatalogReader
from lineage_catalog.records import DatasetRecord, HopRecord

from lineage_service.capture.handles import Role, Space, is_dataset

Direction = Literal["backward", "forward"]


@dataclass(frozen=True, order=True)
class Place:
    """A space of a run: rows of a dataset, or groups of a breaker."""

    run_id: str
    space: str


@dataclass(frozen=True)
class Way:
    """A step of a walk: over a hop of a run, or (hop None) to the same rows under another run's name."""

    start: Place
    end: Place
    hop: HopRecord | None

    @property
    def role(self) -> Role:
        return Role(self.hop.role) if self.hop else Role.OWN


@dataclass
class LineageGraph:
    """The graph, read from the catalog where it is walked. Committed runs never change, so what was read stays.

    A run whose lineage is not finished is finished by `settle` before its hops are read, or refused by it.
    """

    reader: CatalogReader
    settle: Callable[[str], None] | None = None
    _hops: dict[str, list[HopRecord]] = field(default_factory=dict)
    _datasets: dict[str, list[DatasetRecord]] = field(default_factory=dict)

    def hops(self, run_id: str) -> list[HopRecord]:
        if run_id not in self._hops:
            if self.settle is not None:
                self.settle(run_id)
            self._hops[run_id] = self.reader.hops(run_id)
        return self._hops[run_id]

    def datasets(self, run_id: str) -> list[DatasetRecord]:
        if run_id not in self._datasets:
            self._datasets[run_id] = self.reader.datasets(run_id)
        return self._datasets[run_id]

    def datasets_at(self, place: Place) -> list[DatasetRecord]:
        """The names under which the rows of a place are known; none for groups."""
        return [each for each in self.datasets(place.run_id) if each.space == place.space]

    def ways_from(self, place: Place, direction: Direction, *, links: bool = True, pruned: bool = False) -> list[Way]:
        """Steps from a place: over its run's hops and, with `links`, to the same rows in other runs.

        What was not kept for this direction is no way; with `pruned` it is shown all the same.
        """
        hops = [hop for hop in self.hops(place.run_id) if pruned or not is_pruned(hop, direction)]
        if direction == "backward":
            ways = [Way(place, Place(place.run_id, hop.to_space), hop) for hop in hops if hop.from_space == place.space]
        else:
            ways = [Way(place, Place(place.run_id, hop.from_space), hop) for hop in hops if hop.to_space == place.space]
        return ways + self.links(place, direction) if links else ways

    def links(self, place: Place, direction: Direction) -> list[Way]:
        """To the same rows in other runs: back to the run that made them, ahead to the runs that read them.

        Other runs are met by what they read, whatever they call it.
        """
        versions = list({each.version_id for each in self.datasets_at(place)})
        if not versions:
            return []
        if direction == "forward":
            others = self.reader.readers_of(versions)
        elif place.space.startswith("source:"):
            others = self.reader.makers_of(versions)
        else:
            others = []
        ends = {Place(each.run_id, each.space) for each in others if each.run_id != place.run_id}
        return [Way(place, end, None) for end in sorted(ends)]


@dataclass(frozen=True)
class Walk:
    """All ways out of a place, each place before those behind it; and what is reached only by absence."""

    start: Place
    order: tuple[Place, ...]
    ways: tuple[Way, ...]

    def reached(self, *, absence: bool) -> set[Place]:
        """Places that contribute (or are contributed to); with `absence`, also those that only influence."""
        found = {self.start}
        for way in self._in_order():
            if way.start in found and (absence or way.role is not Role.ABSENCE):
                found.add(way.end)
        return found - {self.start}

    def toward(self, target: Place, *, absence: bool) -> list[Way]:
        """The ways that lead to one place, starts before ends."""
        wanted = {target}
        kept = []
        for way in reversed(self._in_order()):
            if way.end in wanted and (absence or way.role is not Role.ABSENCE):
                kept.append(way)
                wanted.add(way.start)
        reached = {self.start}
        forward = []
        for way in reversed(kept):
            if way.start in reached:
                forward.append(way)
                reached.add(way.end)
        return forward

    def _in_order(self) -> list[Way]:
        rank = {place: index for index, place in enumerate(self.order)}
        return sorted(self.ways, key=lambda way: rank[way.start])


def is_pruned(hop: HopRecord, direction: Direction) -> bool:
    """Whether a hop is not kept for a direction, since no declared question needs it."""
    if hop.form == "pruned":
        return True
    if not hop.body or '"only"' not in hop.body:
        return False
    only = json.loads(hop.body).get("only")
    return only is not None and only != direction


def walk(
    graph: LineageGraph,
    start: Place,
    direction: Direction,
    *,
    links: bool = True,
    nearest: bool = False,
    pruned: bool = False,
) -> Walk:
    """Everything that can be reached from a place; without `links`, in its own run; `nearest`: up to a dataset;
    `pruned`: also over what was not kept."""

    def ways_from(place: Place) -> list[Way]:
        if nearest and place != start and is_dataset(Space(place.space)):
            return []
        # A source is reached ahead by a link alone, and all links were followed where that one began.
        linked = direction == "forward" and place != start and place.space.startswith("source:")
        return graph.ways_from(place, direction, links=links and not linked, pruned=pruned)

    ways: list[Way] = []
    reverse: list[Place] = []
    seen: set[Place] = {start}
    # Depth first without recursion: a chain of workflows may be longer than Python's stack.
    stack = [(start, iter(ways_from(start)))]
    while stack:
        place, pending = stack[-1]
        for way in pending:
            ways.append(way)
            if way.end not in seen:
                seen.add(way.end)
                stack.append((way.end, iter(ways_from(way.end))))
                break
        else:
            reverse.append(place)
            stack.pop()
    return Walk(start, tuple(reversed(reverse)), tuple(ways))
