"""Finds the runs between a dataset and datasets derived from it, across workflows.

Follows the exact versions that each run read, not the latest ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lineage_catalog.records import DatasetRecord

from lineage_service.errors import QuestionError, join_names
from lineage_service.query.lineage_graph import LineageGraph, Place, is_source
from lineage_service.query.lineage_walk import walk
from lineage_service.query.questions import Questions
from lineage_service.store.dataset_names import DatasetName

Makers = Mapping[str, Mapping[Place, DatasetRecord]]  # (run, source) → the dataset of another run that it read


@dataclass(frozen=True)
class RunOnTheWay:
    """One run between a dataset and datasets derived from it.

    starts: sources that hold some of the requested rows; kept steps too if those were asked for
    read: sources that read datasets of earlier runs, with those datasets
    made: datasets that a later run reads, or that are the target
    """

    run_id: str
    starts: tuple[DatasetRecord, ...]
    read: tuple[tuple[DatasetRecord, DatasetRecord], ...]
    made: tuple[DatasetRecord, ...]


def place_of(dataset: DatasetRecord) -> Place:
    return Place(dataset.run_id, dataset.space)


def runs_between(
    ask: Questions, source: str | DatasetRecord, targets: Sequence[DatasetRecord], *, steps: bool = False
) -> tuple[DatasetRecord, list[RunOnTheWay]]:
    """Resolves the name of a source and returns the dataset with the runs between it and the targets, in dependency
    order.

    The source is the one that the runs behind the targets read. If there is none, it is a source that shares rows with
    what they read. All sources that hold some of these rows are starts, whatever their names. With `steps`, kept steps
    and outputs may be named too.

    Raises QuestionError if no target is derived from the source, or if targets are derived from several versions of it.
    """
    makers = _makers(ask, targets)
    behind = [each for run_id in makers for each in ask.graph.datasets(run_id) if steps or each.role == "source"]
    behind = [each for each in behind if each.role != "failing"]
    named = _find_source(ask, source, behind, targets, steps=steps) if isinstance(source, str) else source
    here = place_of(named)
    begin = {place for each in behind if ask.graph.shared_rows(here, place := place_of(each)) is not None}
    found: dict[str, RunOnTheWay] = {}
    for run_id in _in_order(makers):
        first = {place_of(each): each for each in behind if each.run_id == run_id and place_of(each) in begin}
        read = tuple(
            (each, maker)
            for each in ask.graph.sources(run_id)
            if place_of(each) not in begin
            if (maker := makers[run_id].get(place_of(each))) is not None and maker.run_id in found
        )
        if first or read:
            found[run_id] = RunOnTheWay(run_id, tuple(first.values()), read, ())
    needed = {place_of(maker) for each in found.values() for _, maker in each.read} | {place_of(t) for t in targets}
    runs = []
    for each in found.values():
        made = {place_of(one): one for one in ask.graph.datasets(each.run_id) if place_of(one) in needed}
        if made:
            runs.append(replace(each, made=tuple(made.values())))
    unlinked = [each.full_name for each in targets if each.run_id not in found]
    if unlinked:
        raise QuestionError(f"{join_names(unlinked)} is not made from '{named.full_name}' in these runs")
    return named, runs


def places_behind(graph: LineageGraph, place: Place) -> Iterator[Place]:
    """A place and all places that its rows may derive from, across runs. Includes pruned hops, and every possible hop
    of runs without capture.
    """
    pending, seen = [place], set[Place]()
    while pending:
        each = pending.pop()
        if each in seen:
            continue
        seen.add(each)
        yield each
        pending += graph.makers(each) if is_source(each) else places_inside(graph, each)


def places_inside(graph: LineageGraph, place: Place) -> set[Place]:
    """The places within the same run that rows of a place derive from, excluding influence by absence."""
    return walk(graph, place, "backward", links=False, pruned=True).reachable_places(absence=False)


def _makers(ask: Questions, targets: Sequence[DatasetRecord]) -> dict[str, dict[Place, DatasetRecord]]:
    """All runs behind the targets. For each, the dataset of another run that each of its sources read."""
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
    """Whether a run is still in the catalog and has not been superseded."""
    run = ask.reader.run(run_id)
    return run is not None and run.status == "committed"


def _in_order(makers: Makers) -> list[str]:
    """The runs in topological order: a run comes after the runs that it reads from."""
    order: list[str] = []
    pending = {run_id: {maker.run_id for maker in read.values()} for run_id, read in makers.items()}
    while pending:
        ready = [run_id for run_id, others in pending.items() if not others & pending.keys()]
        order += ready
        pending = {run_id: others for run_id, others in pending.items() if run_id not in ready}
    return order


def _find_source(
    ask: Questions, source: str, behind: Sequence[DatasetRecord], targets: Sequence[DatasetRecord], *, steps: bool
) -> DatasetRecord:
    """The dataset with this name among those behind the targets; otherwise one with this name that shares rows with
    them.
    """
    asked = DatasetName.parse(source)
    own = {each.run_id for each in targets}
    named = [each for each in behind if asked.matches(each)]
    # A name without a workflow means the target's own source, if it has one.
    named = [each for each in named if each.run_id in own] or named
    if not named:
        return _find_source_elsewhere(ask, source, behind, targets, steps=steps)
    if len({each.version_id for each in named}) > 1:
        named = ask.targets.latest_of_same_rows(named)
    if len({each.version_id for each in named}) > 1:
        names = list(dict.fromkeys(ask.targets.qualified_name(each) for each in named))
        raise QuestionError(f"'{source}' means several versions here: {join_names(names)}", hint="name one of them")
    return named[0]


def _find_source_elsewhere(
    ask: Questions, source: str, behind: Sequence[DatasetRecord], targets: Sequence[DatasetRecord], *, steps: bool
) -> DatasetRecord:
    """A dataset of a run that is not behind the targets but shares rows with what they read.

    Of several runs, the latest that holds exactly the same rows, otherwise the latest that holds some of them.
    """
    found = ask.find(source)  # raises NotFound if there is no such dataset
    if found.role != "source" and not steps:
        raise QuestionError(f"'{found.full_name}' is no source: rows are left out of what a workflow reads")
    runs = [found.run_id] if DatasetName.parse(source).run else [run.id for run in ask.reader.runs(found.workflow)]
    known = [each for run_id in runs for each in ask.graph.datasets(run_id) if each.name == found.name]
    some = []
    for each in known:
        shared = [ask.graph.shared_rows(place_of(each), place_of(other)) for other in behind]
        if any(rows is not None and rows.all for rows in shared):
            return each
        some += [each] if any(rows is not None for rows in shared) else []
    if some:
        return some[0]
    names = list(dict.fromkeys(each.full_name for each in behind if each.role == "source"))
    made = [each.name for each in ask.graph.datasets(found.run_id) if each.role in ("output", "step")]
    raise QuestionError(
        f"{join_names([each.full_name for each in targets])} is not made from '{found.full_name}' as run "
        f"'{found.run_id}' read it; it is made from: {join_names(names)}; that run's outputs: {join_names(made)}"
    )
