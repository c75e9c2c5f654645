"""Pairs the sources behind a dataset in two runs by name, and finds the source rows behind changed rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lineage_catalog.records import DatasetRecord

from lineage_service.capture.handles import Role
from lineage_service.errors import QuestionError, did_you_mean, join_names
from lineage_service.query.lineage_graph import LineageGraph, Place
from lineage_service.query.lineage_walk import Walk, walk
from lineage_service.query.questions import Questions
from lineage_service.store.dataset_names import DatasetName


@dataclass(frozen=True)
class SourcePair:
    """A source as both runs read it; None on the side of a run that does not read it."""

    name: str
    before: DatasetRecord | None
    after: DatasetRecord | None

    @property
    def names(self) -> set[str]:
        """The full names of both."""
        return {each.full_name for each in (self.before, self.after) if each is not None}

    @property
    def same_version(self) -> bool:
        return self.before is not None and self.after is not None and self.before.version_id == self.after.version_id


@dataclass(frozen=True)
class Origins:
    """The paths back from one run's dataset and the sources they lead to, nearest first.

    `partly_known` lists datasets for which some lineage was not kept. These appear only in notes.
    """

    graph: LineageGraph
    walked: Walk
    sources: tuple[DatasetRecord, ...]
    partly_known: tuple[DatasetRecord, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, questions: Questions, dataset: DatasetRecord) -> Origins:
        walked = walk(questions.graph, Place(dataset.run_id, dataset.space), "backward")
        places = walked.reachable_places(absence=True)
        found = [
            each
            for place in walked.order
            if place in places
            for each in questions.graph.datasets_at(place)
            if each.role == "source"
        ]
        partly_known = tuple(questions.unkept.partly_known(dataset, walked, "backward"))
        return cls(
            questions.graph,
            walked,
            tuple(found),
            partly_known,
            tuple(questions.omission_notes(dataset, walked, "backward")),
        )

    def contributes(self, source: DatasetRecord | None) -> bool:
        if source is None:
            return False
        place = place_of_dataset(source)
        return bool(self.walked.ending_at(self.graph, place).ways_toward(place, absence=False))

    def by_absence(self, source: DatasetRecord | None) -> bool:
        """Whether the source influences the dataset by the absence of a match."""
        if source is None:
            return False
        return any(way.role is Role.ABSENCE for way in self.walked.ways_toward(place_of_dataset(source), absence=True))


def place_of_dataset(dataset: DatasetRecord) -> Place:
    return Place(dataset.run_id, dataset.space)


def source_pairs(before: Origins, after: Origins) -> list[SourcePair]:
    """Pairs the sources of both runs by name. If a name denotes several versions, equal versions are paired first."""
    names = dict.fromkeys(each.full_name for each in (*after.sources, *before.sources))
    found = []
    for name in names:
        old, new = ([each for each in side.sources if each.full_name == name] for side in (before, after))
        alone = len(old) <= 1 and len(new) <= 1
        for late in [each for each in new if any(each.version_id == early.version_id for early in old)]:
            early = next((each for each in old if each.version_id == late.version_id), None)
            if early is not None:
                old.remove(early)
                new.remove(late)
                found.append(SourcePair(name if alone else f"{name}@{late.run_id}", early, late))
        for index in range(max(len(old), len(new))):
            pair = old[index] if index < len(old) else None, new[index] if index < len(new) else None
            run = (pair[1] or pair[0] or old[0]).run_id
            found.append(SourcePair(name if alone else f"{name}@{run}", *pair))
    return found


def wanted_keys(given: Mapping[str, Sequence[str]], pairs: Sequence[SourcePair]) -> dict[str, tuple[str, ...]]:
    """The keys that the user named, by the names of the pairs. Raises QuestionError for an unknown source."""
    found = {}
    for text, columns in given.items():
        asked = DatasetName.parse(text)
        meant = [each for each in pairs if any(d is not None and asked.matches(d) for d in (each.before, each.after))]
        if not meant:
            names = [each.name for each in pairs]
            short = [name.rpartition(".")[2] for name in names]
            raise QuestionError(
                f"no source '{text}' behind this dataset; sources: {join_names(names)}", hint=did_you_mean(text, short)
            )
        found.update({each.name: tuple(columns) for each in meant})
    return found
