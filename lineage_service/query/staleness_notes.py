"""Notes about lineage that ends or is less precise than it could be: workflows that were not rerun after their input
changed, runs past their retention, and windows captured by an earlier version.
"""

from __future__ import annotations

from collections.abc import Iterable

from lineage_catalog.hop_forms import HopForm
from lineage_catalog.records import DatasetRecord, HopRecord

from lineage_service.capture.handles import Role
from lineage_service.query.lineage_graph import LineageGraph, Way
from lineage_service.query.lineage_walk import Walk


def stale_reader_notes(graph: LineageGraph, walked: Walk, start: DatasetRecord) -> list[str]:
    """A note for each workflow whose latest run read an older version of a dataset on the forward way."""
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
                f"workflow '{workflow}' last read '{maker.full_name}' of run '{maker.run_id}', which this answer "
                f"does not follow: its rows are not counted here; run it again{again}"
            )
    return notes


def cut_note(source: DatasetRecord, run_id: str) -> str:
    """A note about a source that was made by a run past its retention."""
    return (
        f"lineage is cut at '{source.full_name}': run '{run_id}', which made its rows, is past its retention, and "
        "the lineage behind them was removed"
    )


def older_window_notes(ways: Iterable[Way]) -> list[str]:
    """A note for each run whose windows were captured by an earlier version, at the level of whole partitions."""
    runs = {way.start.run_id for way in ways if way.hop is not None and _is_by_partition(way.hop)}
    return [
        f"windows of run '{run}' were captured by partition, as earlier versions did: every row of a partition counts "
        "as read, whatever the frame; run the workflow again for exact frames"
        for run in sorted(runs)
    ]


def _is_by_partition(hop: HopRecord) -> bool:
    """Whether a hop leads to window peers without an interval. Newer windows lead to positions first."""
    return hop.role == Role.PEER and hop.form not in (HopForm.INTERVAL, HopForm.EMPTY) and not hop.to_space.is_window
