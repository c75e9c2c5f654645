"""Where lineage does not lead on: workflows that have not been run since what they read was made anew, and runs past
their retention."""

from __future__ import annotations

from collections.abc import Callable

from lineage_catalog.records import DatasetRecord

from lineage_service.query.graph import LineageGraph, Place, Walk
from lineage_service.store.versions import Version


def stale_readers(graph: LineageGraph, walked: Walk, start: DatasetRecord) -> list[str]:
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


def cut_sources(graph: LineageGraph, walked: Walk, version_at: Callable[[Place], Version]) -> list[str]:
    """What to say of each source on the way back that a run made which is past its retention: the way ends there."""
    notes = []
    for place in walked.order:
        if place.space.startswith("source:") and (run := version_at(place).expired) is not None:
            name = graph.datasets_at(place)[0].full_name
            notes.append(
                f"lineage is cut at '{name}': run '{run}', which made its rows, is past its retention, and what was "
                "behind them is gone"
            )
    return notes
