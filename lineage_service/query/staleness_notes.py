"""Where lineage does not lead on, or tells less than it would now: workflows that have not been run since what they
read was made anew, runs past their retention, windows that an earlier version captured."""

from __future__ import annotations

from collections.abc import Iterable

from lineage_catalog.records import DatasetRecord, HopRecord

from lineage_service.capture.handles import Role, Space, is_window
from lineage_service.query.lineage_graph import LineageGraph, Walk, Way


def stale_reader_notes(graph: LineageGraph, walked: Walk, start: DatasetRecord) -> list[str]:
    """What to say of each workflow whose latest run read an earlier version of a dataset on the way ahead."""
    reader = graph.reader
    reached = {place.run_id for place in walked.order}
    names = {each.full_name for place in walked.order for each in graph.datasets_at(place)}
    notes = []
    for workflow in reader.workflows():
        latest = reader.latest_run(workflow)
        if latest is None or latest.id in reached:
            continue
        sources = [each.version_id for each in graph.datasets(latest.id) if each.role == "source"]
        missed = [each for each in reader.makers_of(sources) if each.full_name in names and each.run_id not in reached]
        for maker in missed[:1]:
            again = f", or ask {start.name}@{maker.run_id[:8]}" if maker.workflow == start.workflow else ""
            notes.append(
                f"workflow '{workflow}' last read '{maker.full_name}' of run '{maker.run_id}', which is not on this "
                f"way: what it holds is not counted here; run it again{again}"
            )
    return notes


def cut_note(source: DatasetRecord, run_id: str) -> str:
    """What to say of a source that a run made which is past its retention."""
    return (
        f"lineage is cut at '{source.full_name}': run '{run_id}', which made its rows, is past its retention, and what "
        "was behind them is gone"
    )


def older_window_notes(ways: Iterable[Way]) -> list[str]:
    """What to say of each run on the way whose windows were captured by an earlier version: whole partitions."""
    runs = {way.start.run_id for way in ways if way.hop is not None and _is_by_partition(way.hop)}
    return [
        f"windows of run '{run}' were captured by partition, as earlier versions did: every row of a partition counts "
        "as read, whatever the frame; run the workflow again to know which rows were"
        for run in sorted(runs)
    ]


def _is_by_partition(hop: HopRecord) -> bool:
    """Whether a hop leads to peers without an interval: those of a window lead to its positions first."""
    return hop.role == Role.PEER and hop.form not in ("interval", "empty") and not is_window(Space(hop.to_space))
