"""Walks over the lineage graph: everything that can be reached from a place, and the ways to one target."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from lineage_catalog.records import DatasetRecord

from lineage_service.capture.handles import Role
from lineage_service.query.lineage_graph import Direction, LineageGraph, Place, Way


@dataclass(frozen=True)
class Walk:
    """All ways out of a place, in topological order; and the places reached only by absence. `links`, `pruned` and
    `runs` are the options of the walk.
    """

    start: Place
    order: tuple[Place, ...]
    ways: tuple[Way, ...]
    links: bool = True
    pruned: bool = False
    runs: Collection[str] | None = None

    def reachable_places(self, *, absence: bool) -> set[Place]:
        """Places that contribute or are contributed to. With `absence`, also places that only influence."""
        found = {self.start}
        for way in self._in_order():
            if way.start in found and (absence or way.role is not Role.ABSENCE):
                found.add(way.end)
        return found - {self.start}

    def ways_toward(self, target: Place, *, absence: bool) -> list[Way]:
        """The ways that lead to one place, in topological order."""
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

    def ending_at(self, graph: LineageGraph, target: Place) -> Walk:
        """A backward walk that ends at a place and at all other places that share its rows."""
        same = [Way(way.end, target, None, way.shared and way.shared.inverse)
                for way in graph.same_rows(target, dict.fromkeys(place.run_id for place in self.order))
                if way.end in self.order]  # fmt: skip
        if not same:
            return self
        ways = [way for way in self.ways if way.start != target]
        order = [place for place in self.order if place != target]
        return replace(self, order=(*order, target), ways=(*ways, *same))


def walk(
    graph: LineageGraph,
    start: Place,
    direction: Direction,
    *,
    links: bool = True,
    nearest: bool = False,
    pruned: bool = False,
    runs: Collection[str] | None = None,
) -> Walk:
    """Everything that can be reached from a place.

    links: follow links to other runs, otherwise stay in the place's run
    nearest: stop at the first dataset on each way
    pruned: include hops that were not kept
    runs: forward only; restrict the walk to these runs and start wherever they hold the start's rows
    """

    def ways_from(place: Place) -> list[Way]:
        if nearest and place != start and place.space.is_dataset:
            return []
        ways = graph.ways_from(place, direction, links=links, pruned=pruned)
        if runs is not None and links:
            ways = [way for way in ways if way.end.run_id in runs and way.end != start]
            if place == start:
                known = {way.end for way in ways}
                ways += [way for way in graph.same_rows(start, runs) if way.end not in known]
        return ways

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
    return Walk(start, tuple(reversed(reverse)), tuple(ways), links, pruned, runs)


def reachable_datasets(
    graph: LineageGraph, start: DatasetRecord, walked: Walk, direction: Direction
) -> list[DatasetRecord]:
    """Datasets on the walk. Forward, only those of the start's own run and of each workflow's latest run."""
    places = walked.reachable_places(absence=True)
    found = [each for place in walked.order if place in places for each in graph.datasets_at(place)]
    if direction == "backward":
        return found
    workflows = {each.workflow for each in found}
    latest = {flow: run.id for flow in workflows if (run := graph.reader.latest_run(flow))}
    return [each for each in found if each.run_id in (start.run_id, latest.get(each.workflow))]
