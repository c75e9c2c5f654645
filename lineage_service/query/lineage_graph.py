"""The lineage of all runs as one graph: spaces of runs, hops between them, and rows that several runs share.

A source that reads another workflow's output is linked to the run that made it. Sources that read the same files share
rows (`store/shared_rows.py`): a walk that starts or ends at one of them starts or ends at all of them. In between, only
hops and links between makers and readers are followed. Forward is therefore the inverse of backward.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Literal

from lineage_catalog.hop_forms import HopForm
from lineage_catalog.reader import CatalogReader
from lineage_catalog.records import DatasetRecord, HopRecord

from lineage_service.capture.handles import Role, Space
from lineage_service.spec.step_description import StepJson, inputs_of
from lineage_service.store.dataset_names import pinned_run
from lineage_service.store.versions import Version

if TYPE_CHECKING:
    from lineage_service.store.shared_rows import Records, SharedRows

Direction = Literal["backward", "forward"]


@dataclass(frozen=True, order=True)
class Place:
    """A space of a run: the rows of a dataset, or the groups of a breaker."""

    run_id: str
    space: Space


@dataclass(frozen=True)
class Way:
    """One step of a walk: a hop of a run or, if `hop` is None, a link to the same rows in another run. `shared` maps
    the rids; None means they are equal.
    """

    start: Place
    end: Place
    hop: HopRecord | None
    shared: SharedRows | None = None

    @property
    def role(self) -> Role:
        return Role(self.hop.role) if self.hop else Role.OWN


@dataclass
class LineageGraph:
    """The lineage graph, read from the catalog on demand and cached. Committed runs never change.

    `finish_lineage` finishes the lineage of a run before its hops are read, or raises an error.
    """

    reader: CatalogReader
    finish_lineage: Callable[[str], None] | None = None
    absolute: Callable[[str], str] = str
    versions: dict[str, Version] = field(default_factory=dict)  # by id: versions read so far, or given as replacements
    _makers: dict[Place, list[Place]] = field(default_factory=dict)
    _shared: dict[tuple[str, str], SharedRows | None] = field(default_factory=dict)
    _records: dict[str, Records] = field(default_factory=dict)
    _hops: dict[str, list[HopRecord]] = field(default_factory=dict)
    _datasets: dict[str, list[DatasetRecord]] = field(default_factory=dict)
    _places: dict[Place, list[DatasetRecord]] = field(default_factory=dict)
    _alone: dict[str, bool] = field(default_factory=dict)
    _uncaptured: dict[str, list[HopRecord]] = field(default_factory=dict)

    def hops(self, run_id: str) -> list[HopRecord]:
        if run_id not in self._hops:
            if self.finish_lineage is not None:
                self.finish_lineage(run_id)
            self._hops[run_id] = self.reader.hops(run_id)
        return self._hops[run_id]

    def datasets(self, run_id: str) -> list[DatasetRecord]:
        if run_id not in self._datasets:
            self._datasets[run_id] = self.reader.datasets(run_id)
            for each in self._datasets[run_id]:
                self._places.setdefault(Place(run_id, each.space), []).append(each)
        return self._datasets[run_id]

    def datasets_at(self, place: Place) -> list[DatasetRecord]:
        """The dataset records of a place. Groups have none."""
        self.datasets(place.run_id)
        return self._places.get(place, [])

    def sources(self, run_id: str) -> list[DatasetRecord]:
        """The sources of a run."""
        return [each for each in self.datasets(run_id) if each.role == "source"]

    def ways_from(self, place: Place, direction: Direction, *, links: bool = True, pruned: bool = False) -> list[Way]:
        """The ways out of a place: the hops of its run and, with `links`, the links between makers and readers of a
        version.

        Hops that were pruned for this direction or never captured are left out unless `pruned` is set.
        """
        hops = self.hops(place.run_id)
        hops = [*hops, *self._uncaptured_hops(place.run_id)] if pruned else without_pruned(hops, direction)
        if direction == "backward":
            ways = [Way(place, Place(place.run_id, hop.to_space), hop) for hop in hops if hop.from_space == place.space]
        else:
            ways = [Way(place, Place(place.run_id, hop.from_space), hop) for hop in hops if hop.to_space == place.space]
        return ways + self.links(place, direction) if links else ways

    def missing_from(self, place: Place, direction: Direction) -> list[Way]:
        """The ways out of a place inside its run that were not kept."""
        ways = self.ways_from(place, direction, links=False, pruned=True)
        return [way for way in ways if is_missing(way, direction)]

    def _uncaptured_hops(self, run_id: str) -> list[HopRecord]:
        """Possible hops of a run with capture off: between any two datasets where one may derive from the other."""
        if run_id not in self._uncaptured:
            run = self.reader.run(run_id)
            off = run is not None and run.capture == "off"
            self._uncaptured[run_id] = self._possible_hops(run_id) if off else []
        return self._uncaptured[run_id]

    def _possible_hops(self, run_id: str) -> list[HopRecord]:
        steps = {each["name"]: each for each in json.loads(self.reader.content(run_id) or "{}").get("steps") or ()}
        spaces = dict.fromkeys(each.space for each in self.datasets(run_id))
        found = []
        for start in (space for space in spaces if not is_source(Place(run_id, space))):
            read = _inputs_behind_step(steps, start.name)
            ends = [each for each in spaces if each != start and (read is None or each.name in read)]
            found += [HopRecord(run_id, start, end, Role.OWN, HopForm.OFF, 0, 0, None, None) for end in ends]
        return found

    def links(self, place: Place, direction: Direction) -> list[Way]:
        """Links to the same rows in other runs: backward to the run that made them, forward to the runs that read
        them.
        """
        if direction == "backward":
            return [Way(place, maker, None) for maker in self.makers(place)]
        if is_source(place):
            return []
        versions = list({each.version_id for each in self.datasets_at(place)})
        readers = {Place(each.run_id, each.space) for each in self.reader.readers_of(versions)} if versions else set()
        return [Way(place, each, None) for each in sorted(readers) if place in self.makers(each)]

    def makers(self, place: Place) -> list[Place]:
        """The dataset of another run that a source read; empty if the source read files.

        Refreshes of earlier releases made no new version of an unchanged output, so a version may have several makers,
        each with its own lineage. The maker is the run that the reader's workflow names, otherwise the latest run that
        existed when the reader ran.
        """
        if place not in self._makers:
            self._makers[place] = self._makers_of(place) if is_source(place) else []
        return self._makers[place]

    def _makers_of(self, place: Place) -> list[Place]:
        versions = list({each.version_id for each in self.datasets_at(place)})
        found = {
            Place(each.run_id, each.space) for each in self.reader.makers_of(versions) if each.run_id != place.run_id
        }
        if len({each.run_id for each in found}) <= 1:
            return sorted(found)
        named = self._named_runs(place)
        if any(each.run_id in named for each in found):
            found = {each for each in found if each.run_id in named}
        read = self.held_since(place.run_id)
        before = [each for each in found if self.held_since(each.run_id) <= read]
        latest = max(before, key=self._age) if before else min(found, key=self._age)
        return sorted(each for each in found if each.run_id == latest.run_id)

    def _named_runs(self, place: Place) -> set[str]:
        """The runs that a source's workflow names as its input, including runs that have replaced them since."""
        named = pinned_run(self.datasets_at(place)[0])
        found = self.reader.runs_with_prefix(named) if named is not None else []
        runs: set[str] = set()
        while found:
            run = found.pop()
            runs.add(run.id)
            later = self.reader.run(run.superseded_by) if run.superseded_by is not None else None
            found += [later] if later is not None else []
        return runs

    def _age(self, place: Place) -> tuple[str, str]:
        return self.held_since(place.run_id), place.run_id

    def held_since(self, run_id: str) -> str:
        """The time when the data of a run was first committed."""
        run = self.reader.run(run_id)
        return "" if run is None else run.held_since or run.committed_at

    # --- shared rows ------------------------------------------------------------------------------------------

    def version(self, version_id: str) -> Version | None:
        """A dataset version; None if the catalog does not have it."""
        if version_id not in self.versions:
            record = self.reader.version(version_id)
            if record is None:
                return None
            self.versions[version_id] = Version.from_json(record.id, record.body)
        return self.versions[version_id]

    def shared_rows(self, one: Place, other: Place) -> SharedRows | None:
        """The mapping between the rows of two places; None if they share no rows."""
        first, second = self.datasets_at(one), self.datasets_at(other)
        if not first or not second:
            return None
        key = first[0].version_id, second[0].version_id
        if key[0] == key[1]:
            from lineage_service.store.shared_rows import SAME

            return SAME
        if not (is_source(one) and is_source(other)):
            return None
        if key not in self._shared:
            self._shared[key] = self._shared_rows(*key)
        return self._shared[key]

    def _shared_rows(self, one: str, other: str) -> SharedRows | None:
        first, second = self.version(one), self.version(other)
        if first is None or second is None or first.read_files.isdisjoint(second.read_files):
            return None
        from lineage_service.store.shared_rows import record_files, shared_records

        for each in (first, second):
            if each.id not in self._records:
                self._records[each.id] = record_files(each, self.absolute)
        return shared_records((first, self._records[one]), (second, self._records[other]))

    def same_rows(self, place: Place, runs: Iterable[str]) -> list[Way]:
        """Ways to all other places of these runs that share rows with this one."""
        others = {Place(each.run_id, each.space) for run_id in runs for each in self.datasets(run_id)} - {place}
        found = [(other, self.shared_rows(place, other)) for other in sorted(others)]
        return [Way(place, other, None, rows) for other, rows in found if rows is not None]

    def sources_sharing(self, dataset: DatasetRecord) -> list[tuple[DatasetRecord, SharedRows]]:
        """Sources of all committed runs that share rows with this one in other versions. Each version occurs once, with
        the rids of the shared rows in this dataset.
        """
        here = Place(dataset.run_id, dataset.space)
        found: dict[str, tuple[DatasetRecord, SharedRows]] = {}
        for run in self.reader.runs():
            for each in self.sources(run.id):
                if each.version_id != dataset.version_id and each.version_id not in found:
                    shared = self.shared_rows(Place(each.run_id, each.space), here)
                    if shared is not None:
                        found[each.version_id] = each, shared
        return list(found.values())

    def runs_behind(self, runs: Iterable[str]) -> dict[str, None]:
        """These runs and all runs upstream of them."""
        found: dict[str, None] = {}
        pending = list(runs)
        while pending:
            run_id = pending.pop()
            if run_id not in found:
                found[run_id] = None
                places = {Place(each.run_id, each.space) for each in self.sources(run_id)}
                pending += [maker.run_id for place in places for maker in self.makers(place)]
        return found

    def is_self_contained(self, run_id: str) -> bool:
        """Whether all ways between the datasets of a run lie inside the run: no other run and no rows read twice add
        any.
        """
        if run_id not in self._alone:
            places = {Place(each.run_id, each.space): each.version_id for each in self.sources(run_id)}
            self._alone[run_id] = not any(self.makers(place) for place in places) and not self._read_twice(places)
        return self._alone[run_id]

    def _read_twice(self, places: Mapping[Place, str]) -> bool:
        """Whether two of these places share rows."""
        if len(places) < 2:
            return False
        readers: dict[tuple[str, str], list[Place]] = {}
        for place, version_id in places.items():
            version = self.version(version_id)
            for file in version.read_files if version is not None else ():
                readers.setdefault(file, []).append(place)
        together = {(one, other) for each in readers.values() for one, other in combinations(each, 2)}
        return any(self.shared_rows(one, other) is not None for one, other in together)


def is_source(place: Place) -> bool:
    return place.space.is_source


def is_missing(way: Way, direction: Direction) -> bool:
    """Whether a way was not kept."""
    return way.hop is not None and is_pruned(way.hop, direction)


def without_pruned(hops: Iterable[HopRecord], direction: Direction) -> list[HopRecord]:
    return [hop for hop in hops if not is_pruned(hop, direction)]


def is_pruned(hop: HopRecord, direction: Direction) -> bool:
    """Whether a hop is not stored for a direction, because no declared question needs it or nothing was captured."""
    if hop.form in (HopForm.PRUNED, HopForm.OFF):
        return True
    if not hop.body or '"only"' not in hop.body:
        return False
    only = json.loads(hop.body).get("only")
    return only is not None and only != direction


def _inputs_behind_step(steps: Mapping[str, StepJson], name: str) -> set[str] | None:
    """The steps and sources upstream of a step; None if the workflow does not say."""
    found: set[str] = set()
    pending = [name] if name in steps else []
    while pending:
        step = steps[pending.pop()]
        if step["op"] == "sql":
            return None
        new = set(inputs_of(step)) - found
        found |= new
        pending += new & steps.keys()
    return found or None
