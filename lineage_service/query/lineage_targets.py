"""Resolves the datasets that a question names, and the walks that lead to them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from lineage_catalog.reader import CatalogReader, Stamp
from lineage_catalog.records import DatasetRecord

from lineage_service.errors import QuestionError, did_you_mean, join_names
from lineage_service.query.lineage_graph import Direction, LineageGraph, Place, is_source
from lineage_service.query.lineage_walk import Walk, reachable_datasets, walk
from lineage_service.query.retention_cuts import RetentionCuts
from lineage_service.query.staleness_notes import stale_reader_notes
from lineage_service.query.unkept_lineage import UnkeptLineage
from lineage_service.store.dataset_names import ALL, DatasetName, find_dataset, without_readers

if TYPE_CHECKING:
    from lineage_service.store.shared_rows import SharedRows

Ranges = tuple[tuple[float, float], ...]  # of rids, each without its end
EVERY_RID: Ranges = ((0, math.inf),)


class LineageTargets:
    """Resolves dataset names and the targets of questions with their walks. Errors name `home`."""

    def __init__(
        self, home: str, reader: CatalogReader, graph: LineageGraph, unkept: UnkeptLineage, cuts: RetentionCuts
    ) -> None:
        self.home, self.reader, self.graph, self.unkept, self.cuts = home, reader, graph, unkept, cuts
        self._found: dict[str, DatasetRecord] = {}
        self._stamp: Stamp | None = None
        self._workflows: dict[str, str] = {}  # by run

    def find(self, dataset: str) -> DatasetRecord:
        """The dataset with this name. Results are cached until a run is added or removed."""
        stamp = self.reader.stamp()
        if stamp != self._stamp:
            self._stamp, self._found = stamp, {}
        if dataset not in self._found:
            self._found[dataset] = find_dataset(self.reader, dataset, self.home, self.graph.datasets)
        return self._found[dataset]

    def walk_to(
        self, start: DatasetRecord, direction: Direction, to: Sequence[str] | None
    ) -> tuple[Walk, list[DatasetRecord]]:
        """The walk to the targets: inside the start's own run if they are there and no other run adds ways, otherwise
        over all runs.
        """
        begin = Place(start.run_id, start.space)
        if to is not None and ALL not in to:
            near = walk(self.graph, begin, direction, links=False)
            found = [self._in_own_run(name, start, near) for name in dict.fromkeys(to)]
            inside = [each for each in found if each is not None]
            if len(inside) == len(found) and self.graph.is_self_contained(start.run_id):
                return near, inside
        walked = self.walk_all(begin, direction, to)
        return walked, self._targets(start, walked, direction, to)

    def walk_all(
        self, begin: Place, direction: Direction, to: Sequence[str] | None = None, *, pruned: bool = False
    ) -> Walk:
        """Everything that can be reached from a place over all runs.

        Forward, the walk is restricted to the runs upstream of those that the question may mean: the place's own run,
        the runs that names in `to` may denote and, without names, the latest run of each workflow.
        """
        runs = None if direction == "backward" else self.graph.runs_behind([begin.run_id, *self._meant_runs(to)])
        return walk(self.graph, begin, direction, pruned=pruned, runs=runs)

    def _meant_runs(self, to: Sequence[str] | None) -> list[str]:
        if to is None or ALL in to:
            return [run.id for run in self.reader.latest_runs()]
        names = [DatasetName.parse(name) for name in to]
        owners = [run.id for name in names if not name.run for run in self.reader.latest_runs_of_owners(name.name)]
        named = [run.id for name in names if name.run for run in self.reader.runs_with_prefix(name.run)]
        return [*owners, *(run_id for run_id in named if self.graph.datasets(run_id))]

    def _in_own_run(self, name: str, start: DatasetRecord, near: Walk) -> DatasetRecord | None:
        asked = DatasetName.parse(name)
        matches = [each for place in near.order for each in self.graph.datasets_at(place) if asked.matches(each)]
        matches = [each for each in matches if each.space != start.space]
        return matches[0] if len({each.space for each in matches}) == 1 else None

    def _targets(
        self, start: DatasetRecord, walked: Walk, direction: Direction, to: Sequence[str] | None
    ) -> list[DatasetRecord]:
        reachable = reachable_datasets(self.graph, start, walked, direction)
        if to is None or ALL in to:
            self.unkept.refuse_uncaptured(start, reachable)
            # Sources that read the same files are not on the way; they are targets only if they are named.
            same = {way.end for way in walked.ways if way.shared is not None and not self.graph.makers(way.end)}
            found = [each for each in reachable if Place(each.run_id, each.space) not in same]
            partly = self.unkept.partly_known(start, walked, direction)
            return self._each_once([each for each in found if each not in partly])
        return [self._target(name, start, reachable, walked, direction) for name in dict.fromkeys(to)]

    def _each_once(self, datasets: list[DatasetRecord]) -> list[DatasetRecord]:
        """Removes datasets that another run of the same workflow has with exactly the same rows."""
        found: dict[tuple[str, str], DatasetRecord] = {}
        keys = [(self._as_named(each).full_name, each.version_id) for each in datasets]
        for key, each in zip(keys, datasets, strict=True):
            if key not in found or self._precedence(each) > self._precedence(found[key]):
                found[key] = each
        return [each for key, each in zip(keys, datasets, strict=True) if found[key] is each]

    def _precedence(self, dataset: DatasetRecord) -> tuple[bool, bool, str]:
        """Of several datasets of one version, the greatest names it: the one that made it, otherwise the latest of its
        own workflow. A saved query reads datasets under the names of their workflows.
        """
        return dataset.role != "source", self._is_own(dataset), self.graph.held_since(dataset.run_id)

    def _is_own(self, dataset: DatasetRecord) -> bool:
        """Whether a dataset is of a run of its own workflow, and not what a saved query read."""
        if dataset.run_id not in self._workflows:
            run = self.reader.run(dataset.run_id)
            self._workflows[dataset.run_id] = "" if run is None else run.workflow
        return self._workflows[dataset.run_id] == dataset.workflow

    def _as_named(self, dataset: DatasetRecord) -> DatasetRecord:
        """For a dataset that a saved query read, the one of its own workflow with the same rows; otherwise itself.

        A saved query has other names for two versions that it reads of one dataset. Nobody can ask for them.
        """
        if self._is_own(dataset):
            return dataset
        runs = [run.id for run in self.reader.runs(dataset.workflow)]
        known = [each for run_id in runs for each in self.graph.datasets(run_id)]
        same = [each for each in known if (each.workflow, each.version_id) == (dataset.workflow, dataset.version_id)]
        return max(same, key=lambda each: (each.name == dataset.name, self._precedence(each)), default=dataset)

    def qualified_name(self, dataset: DatasetRecord) -> str:
        """The name with a run, as it can be asked for."""
        return self._as_named(dataset).qualified_name

    def labels(self, datasets: Sequence[DatasetRecord]) -> dict[DatasetRecord, str]:
        """The names of datasets in an answer, with their runs where several versions of one name are in it."""
        named = {each: self._as_named(each) for each in datasets}
        names = [each.full_name for each in named.values()]
        return {
            each: own.qualified_name if names.count(own.full_name) > 1 else own.full_name for each, own in named.items()
        }

    def refuse_several(self, name: str, datasets: Sequence[DatasetRecord]) -> None:
        """QuestionError if a name means more than one dataset."""
        if len({(each.run_id, each.space) for each in datasets}) > 1:
            names = list(dict.fromkeys(self.qualified_name(each) for each in datasets))
            raise QuestionError(f"'{name}' means several datasets here: {join_names(names)}", hint="name one of them")

    def _target(
        self,
        name: str,
        start: DatasetRecord,
        reachable: list[DatasetRecord],
        walked: Walk,
        direction: Direction,
    ) -> DatasetRecord:
        asked = DatasetName.parse(name)
        everything = [each for place in walked.order for each in self.graph.datasets_at(place)]
        pool = everything if asked.run else reachable
        matches = [
            each for each in pool if asked.matches(each) and (each.run_id, each.space) != (start.run_id, start.space)
        ]
        own = [each for each in matches if each.run_id == start.run_id and each.workflow == start.workflow]
        matches = own or without_readers(matches)
        if direction == "backward" and not own and matches:
            matches = self.versions_meant(asked, matches, walked.order)
        matches = self.latest_of_same_rows(matches)
        self.refuse_several(name, matches)
        if matches:
            return matches[0]
        complete = self.unkept.walk_with_pruned(walked, direction)
        self.unkept.refuse_pruned(asked, walked, complete, direction)
        named = find_dataset(self.reader, name, self.home)  # raises NotFound if there is no such dataset
        if direction == "backward":
            elsewhere = self.read_elsewhere(named, asked, walked) or self.read_elsewhere(named, asked, complete)
            if elsewhere is not None:
                return elsewhere
        if direction == "forward":  # the message lists everything that is linked
            walked = self.walk_all(walked.start, direction)
            reachable = reachable_datasets(self.graph, start, walked, direction)
        stale = (
            stale_reader_notes(self.graph, walked, start) if direction == "forward" else self.cuts.notes(walked.order)
        )
        self.unkept.refuse_uncaptured(start, reachable)
        names = list(dict.fromkeys(each.full_name for each in reachable))
        raise QuestionError(
            f"'{start.full_name}' and '{name}' are not linked in these runs; linked: {join_names(names)}",
            hint=next(iter(stale), None) or did_you_mean(name, [each.name for each in reachable]),
        )

    def latest_of_same_rows(self, matches: list[DatasetRecord]) -> list[DatasetRecord]:
        """The latest of the datasets if all have exactly the same rows, otherwise all of them."""
        places = list(dict.fromkeys(Place(each.run_id, each.space) for each in matches))
        both = [self.graph.shared_rows(places[0], other) for other in places[1:]]
        if not both or not all(each is not None and each.all for each in both):
            return matches
        latest = max(places, key=lambda place: (self.graph.held_since(place.run_id), place.run_id))
        return [each for each in matches if Place(each.run_id, each.space) == latest]

    def read_elsewhere(self, named: DatasetRecord, dataset_name: DatasetName, walked: Walk) -> DatasetRecord | None:
        """The dataset with this name that is not on the walk but shares rows with one that is; None if there is none.
        QuestionError if the rows are spread over several versions of it."""
        if dataset_name.run:
            sharing = self._sharing([named], walked.order)
        else:
            sharing = self.versions_meant(dataset_name, [], walked.order, named.workflow)
        self.refuse_several(named.full_name, sharing)
        return sharing[0] if sharing else None

    def versions_meant(
        self,
        dataset_name: DatasetName,
        matches: list[DatasetRecord],
        places: Sequence[Place],
        workflow: str | None = None,
    ) -> list[DatasetRecord]:
        """The versions that a name leads to from a backward walk over `places`: one if it holds every row that any
        version of this name shares with the walk, otherwise all that share some.

        `matches` are datasets of this name on the walk. Versions that lie on no way count too: other places of the walk
        may have read the same rows.
        """
        versions = self._each_version(matches)
        read = [place for place in places if is_source(place)]
        if dataset_name.run is None and not any(self._holds_all(each, read) for each in versions):
            flows = [workflow] if workflow else list(dict.fromkeys(each.workflow for each in matches))
            known = [each for flow in flows for run in self.reader.runs(flow) for each in self.graph.datasets(run.id)]
            named = [each for each in known if each.name == dataset_name.name and each.workflow in flows]
            # Not on the walk: also a workflow that has read an output of it, as the start itself.
            near = read if matches else places
            versions = self._each_version([*versions, *self._sharing(self._each_version(named), near)])
        held = {each: self._held_ranges(each, places) for each in versions}
        everything = _merge_ranges([held_rows for each in held.values() for held_rows in each.items()])
        complete = [each for each in versions if _merge_ranges(held[each].items()) == everything]
        return complete[:1] or versions

    def _each_version(self, datasets: list[DatasetRecord]) -> list[DatasetRecord]:
        """One dataset of each version: the one that made it, otherwise the latest that read it, of its own workflow if
        there is one.
        """
        found: dict[str, DatasetRecord] = {}
        for each in datasets:
            known = found.get(each.version_id)
            if known is None or self._precedence(each) > self._precedence(known):
                found[each.version_id] = each
        return list(found.values())

    def _sharing(self, datasets: list[DatasetRecord], places: Sequence[Place]) -> list[DatasetRecord]:
        """The datasets that share rows with one of the places."""
        return [each for each in datasets if self._held_ranges(each, places)]

    def _holds_all(self, dataset: DatasetRecord, places: Sequence[Place]) -> bool:
        here = Place(dataset.run_id, dataset.space)
        both = [self.graph.shared_rows(place, here) for place in places]
        return all(each is not None and each.all for each in both)

    def _held_ranges(self, dataset: DatasetRecord, places: Sequence[Place]) -> dict[Place, Ranges]:
        """The rids of each place whose rows are in the dataset."""
        here = Place(dataset.run_id, dataset.space)
        shared = {place: self.graph.shared_rows(place, here) for place in places}
        return {
            place: EVERY_RID if self._is_whole(place, rows) else rows.held_ranges
            for place, rows in shared.items()
            if rows is not None
        }

    def _is_whole(self, place: Place, shared: SharedRows) -> bool:
        """Whether every row of a place is shared, by a version with the same rows or by one with more."""
        if shared.all:
            return True
        version = self.graph.version(self.graph.datasets_at(place)[0].version_id)
        return version is not None and len(shared.runs) == version.rows


def _merge_ranges(held: Iterable[tuple[Place, Ranges]]) -> dict[Place, Ranges]:
    """All rids by place, as ranges that do not touch."""
    found: dict[Place, list[tuple[float, float]]] = {}
    for place, ranges in held:
        found.setdefault(place, []).extend(ranges)
    merged: dict[Place, Ranges] = {}
    for place, each in found.items():
        joined: list[tuple[float, float]] = []
        for begin, end in sorted(each):
            if joined and begin <= joined[-1][1]:
                joined[-1] = joined[-1][0], max(joined[-1][1], end)
            else:
                joined.append((begin, end))
        merged[place] = tuple(joined)
    return merged
