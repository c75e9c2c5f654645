"""The runs between rows of a source and datasets that are made from them, over workflows: just the versions that each
run has read, whatever ran since."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lineage_catalog.records import DatasetRecord

from lineage_service.errors import QuestionError, listed
from lineage_service.query.ask import Questions
from lineage_service.query.graph import Place
from lineage_service.query.names import DatasetName


@dataclass(frozen=True)
class RunOnTheWay:
    """One run: its sources that hold the rows asked for, or rows made from them, and its datasets that others read.

    starts: sources that have the very rows, or some of them
    read: sources that read datasets of runs before it, with their makers
    made: datasets that a later run reads, or that are asked about
    """

    run_id: str
    starts: tuple[DatasetRecord, ...]
    read: tuple[tuple[DatasetRecord, DatasetRecord], ...]
    made: tuple[DatasetRecord, ...]


def place_of(dataset: DatasetRecord) -> Place:
    return Place(dataset.run_id, dataset.space)


def runs_between(
    ask: Questions, source: str, targets: Sequence[DatasetRecord], *, by_files: bool = False
) -> tuple[DatasetRecord, list[RunOnTheWay]]:
    """The source as the runs behind the targets have read it, and those runs, each behind those that it reads from.
    With `by_files`, sources start too that read some of its files in another way, or under another name.

    QuestionError where no target is made from it, and where they are made from several versions of it.
    """
    makers = _makers(ask, targets)
    sources = [each for run_id in makers for each in ask.graph.datasets(run_id) if each.role == "source"]
    starts = _starts(ask, source, sources, targets)
    if by_files:
        known, named = {place_of(each) for each in starts}, place_of(starts[0])
        others = [each for each in sources if place_of(each) not in known]
        starts += [each for each in others if ask.graph.shared(named, place_of(each)) is not None]
    begin = {place_of(each) for each in starts}
    found: dict[str, RunOnTheWay] = {}
    for run_id in _in_order(makers):
        own = [each for each in sources if each.run_id == run_id]
        first = tuple(each for each in own if place_of(each) in begin)
        read = tuple(
            (each, maker)
            for each in own
            if place_of(each) not in begin
            if (maker := makers[run_id].get(place_of(each))) is not None and maker.run_id in found
        )
        if first or read:
            found[run_id] = RunOnTheWay(run_id, first, read, ())
    needed = {place_of(maker) for each in found.values() for _, maker in each.read} | {place_of(t) for t in targets}
    runs = []
    for each in found.values():
        made = {place_of(one): one for one in ask.graph.datasets(each.run_id) if place_of(one) in needed}
        if made:
            runs.append(replace(each, made=tuple(made.values())))
    unlinked = [each.full_name for each in targets if each.run_id not in found]
    if unlinked:
        raise QuestionError(f"{listed(unlinked)} is not made from '{starts[0].full_name}' in these runs")
    return starts[0], runs


def _makers(ask: Questions, targets: Sequence[DatasetRecord]) -> dict[str, dict[Place, DatasetRecord]]:
    """All runs behind the targets; of each, which dataset of another run each of its sources has read."""
    found: dict[str, dict[Place, DatasetRecord]] = {}
    pending = [each.run_id for each in targets]
    while pending:
        run_id = pending.pop()
        if run_id in found:
            continue
        found[run_id] = {}
        for each in ask.graph.sources(run_id):
            for maker in [one for one in ask.graph.makers(place_of(each)) if _is_held(ask, one.run_id)][:1]:
                found[run_id][place_of(each)] = ask.graph.datasets_at(maker)[0]
                pending.append(maker.run_id)
    return found


def _is_held(ask: Questions, run_id: str) -> bool:
    """Whether a run is there to be asked, and has not been superseded."""
    run = ask.reader.run(run_id)
    return run is not None and run.status == "committed"


def _in_order(makers: Mapping[str, Mapping[Place, DatasetRecord]]) -> list[str]:
    """The runs, those that others read from first."""
    order: list[str] = []
    pending = {run_id: {maker.run_id for maker in read.values()} for run_id, read in makers.items()}
    while pending:
        ready = [run_id for run_id, others in pending.items() if not others & pending.keys()]
        order += ready
        pending = {run_id: others for run_id, others in pending.items() if run_id not in ready}
    return order


def _starts(
    ask: Questions, source: str, sources: Sequence[DatasetRecord], targets: Sequence[DatasetRecord]
) -> list[DatasetRecord]:
    """The sources behind the targets that hold the rows of the one named, that one first."""
    asked = DatasetName.parse(source)
    own = {each.run_id for each in targets}
    named = [each for each in sources if asked.matches(each)]
    # A bare name means the target's own source, where it has one.
    named = [each for each in named if each.run_id in own] or named
    if not named:
        found = ask.find(source)  # says so where there is no such dataset at all
        if found.role != "source":
            raise QuestionError(f"'{found.full_name}' is no source: rows are left out of what a workflow reads")
        # Runs since may have read another version; the same one under another run is as good.
        place = place_of(found)
        named = [each for each in sources if each.version_id == found.version_id] or [
            each for each in sources if (rows := ask.graph.shared(place, place_of(each))) is not None and rows.all
        ]
        if not named:
            names = list(dict.fromkeys(each.full_name for each in sources))
            made = [each.name for each in ask.graph.datasets(found.run_id) if each.role in ("output", "step")]
            raise QuestionError(
                f"{listed([each.full_name for each in targets])} is not made from '{found.full_name}' as run "
                f"'{found.run_id}' read it; it is made from: {listed(names)}; that run's outputs: {listed(made)}"
            )
    versions = list(dict.fromkeys(each.version_id for each in named))
    if len(versions) > 1:
        names = [f"{each.full_name}@{each.run_id}" for each in named]
        raise QuestionError(f"'{source}' means several versions here: {listed(names)}", hint="name one of them")
    runs = {each.run_id for each in named}
    same = [each for each in sources if each.version_id == versions[0] and each.run_id not in runs]
    return [*named, *same]
