"""Finds and reports lineage that was not kept, because no declared question needs it or because capture was off."""

from __future__ import annotations

from collections.abc import Sequence

from lineage_catalog.hop_forms import HopForm
from lineage_catalog.records import DatasetRecord

from lineage_service.capture.workload import workload_entry
from lineage_service.errors import QuestionError, join_names
from lineage_service.query.lineage_graph import Direction, LineageGraph, Place, Way, is_missing
from lineage_service.query.lineage_walk import Walk, reachable_datasets, walk
from lineage_service.store.dataset_names import DatasetName


class UnkeptLineage:
    """Determines which ways of a walk were not kept."""

    def __init__(self, graph: LineageGraph) -> None:
        self.graph = graph
        self._last: tuple[Walk, Walk] | None = None  # a walk, and the same walk including hops that were not kept

    def ways_toward(self, walked: Walk, target: Place, direction: Direction, *, absence: bool) -> list[Way]:
        """The ways that lead to a place and to all places that share its rows.

        Raises QuestionError if some of them were not kept, because the rest would appear to be complete. A walk that
        includes pruned hops gets them too.
        """
        missing = [] if walked.pruned else self._unkept_ways(walked, target, direction, absence=absence)
        if missing:
            raise self._unkept_error(walked, target, direction, missing)
        return self._ways_to(walked, target, direction, absence=absence)

    def _ways_to(self, walked: Walk, target: Place, direction: Direction, *, absence: bool) -> list[Way]:
        if direction == "backward":
            walked = walked.ending_at(self.graph, target)
        return walked.ways_toward(target, absence=absence)

    def _unkept_ways(self, walked: Walk, target: Place, direction: Direction, *, absence: bool) -> list[Way]:
        """The ways to a place that pass over a hop that was not kept; empty if everything was kept."""
        ways = self._ways_to(self.walk_with_pruned(walked, direction), target, direction, absence=absence)
        return ways if any(is_missing(way, direction) for way in ways) else []

    def walk_with_pruned(self, walked: Walk, direction: Direction) -> Walk:
        """The same walk including hops that were not kept."""
        if self._last is None or self._last[0] is not walked:
            again = walked
            if any(self.graph.missing_from(place, direction) for place in walked.order):
                again = walk(self.graph, walked.start, direction, links=walked.links, pruned=True, runs=walked.runs)
            self._last = walked, again
        return self._last[1]

    def refuse_pruned(self, dataset_name: DatasetName, walked: Walk, complete: Walk, direction: Direction) -> None:
        """Raises QuestionError if the two datasets are linked by lineage that was not kept."""
        places = [place for place in complete.order if place != complete.start]
        for each in (each for place in places for each in self.graph.datasets_at(place) if dataset_name.matches(each)):
            target = Place(each.run_id, each.space)
            missing = self._unkept_ways(walked, target, direction, absence=True)
            if missing:
                raise self._unkept_error(walked, target, direction, missing)

    def _unkept_error(self, walked: Walk, target: Place, direction: Direction, ways: Sequence[Way]) -> QuestionError:
        """The error that names the first way that was not kept, and how to keep all lineage of its run."""
        missing = [way for way in ways if is_missing(way, direction)]
        run_id = missing[0].start.run_id
        start, end = (self.graph.datasets_at(place)[0] for place in (walked.start, target))
        crossed = dict.fromkeys(_run_entry_and_exit(ways, way) for way in missing if way.start.run_id == run_id)
        ends = [(self.graph.datasets_at(near)[0], self.graph.datasets_at(far)[0]) for near, far in crossed]
        beside = [far.full_name for _, far in ends if far != end] if ends[0][0] == start else [ends[0][0].full_name]
        way = f", by way of {join_names(beside)}," if beside else ""
        what = f"lineage {'from' if direction == 'backward' else 'of'} '{start.full_name}' to '{end.full_name}'{way}"
        if any(
            each.hop is not None and each.hop.form is HopForm.OFF and each.start.run_id == run_id for each in missing
        ):
            return QuestionError(
                f"{what} is not known: run '{run_id}' was made with capture off and has no lineage",
                hint="run it again with --capture auto, and then what reads it",
            )
        names = [each.name for each in self.graph.reader.prepared_questions(run_id)]
        lines = "\n".join(workload_entry(direction, near.name, far.name) for near, far in ends)
        return QuestionError(
            f"{what} was pruned in run '{run_id}': its workload declares other questions ({join_names(names)})",
            hint=f"add this to `lineage: workload:` and run again:  {lines}",
        )

    def partly_known(self, start: DatasetRecord, walked: Walk, direction: Direction) -> dict[DatasetRecord, list[Way]]:
        """Datasets linked to one by ways that were not kept, with those ways."""
        complete = self.walk_with_pruned(walked, direction)
        if complete is walked:
            return {}
        kept, found = walked.reachable_places(absence=True), {}
        for each in reachable_datasets(self.graph, start, complete, direction):
            place = Place(each.run_id, each.space)
            missing = self._unkept_ways(walked, place, direction, absence=place not in kept)
            if missing:
                found[each] = [way for way in missing if is_missing(way, direction)]
        return found

    def notes(self, start: DatasetRecord, walked: Walk, direction: Direction) -> list[str]:
        """Notes about linked datasets whose lineage was not kept."""
        pruned: dict[str, None] = {}
        off: dict[str, dict[str, None]] = {}
        for each, missing in self.partly_known(start, walked, direction).items():
            runs = [way.start.run_id for way in missing if way.hop is not None and way.hop.form is HopForm.OFF]
            names = off.setdefault(runs[0], {}) if runs else pruned
            names[each.full_name] = None
        notes = [f"lineage was pruned, because no declared question needs it: {join_names(pruned)}"] if pruned else []
        return notes + [
            f"run '{run}' was made with capture off and has no lineage; left out: {join_names(names)}"
            for run, names in off.items()
        ]

    def refuse_uncaptured(self, start: DatasetRecord, reachable: list[DatasetRecord]) -> None:
        run = next((run for run in self.graph.reader.runs_with_prefix(start.run_id) if run.id == start.run_id), None)
        if not reachable and run is not None and run.capture == "off":
            raise QuestionError(
                f"run '{run.id}' was made with capture off and has no lineage", hint="run it again with --capture auto"
            )


def _run_entry_and_exit(ways: Sequence[Way], missing: Way) -> tuple[Place, Place]:
    """Where ways over `missing` enter its run, and where they leave the run or end."""

    def inside(place: Place, *, ahead: bool) -> Place:
        for way in ways:
            here, there = (way.start, way.end) if ahead else (way.end, way.start)
            if here == place and way.hop is not None:
                return inside(there, ahead=ahead)
        return place

    return inside(missing.start, ahead=False), inside(missing.end, ahead=True)
