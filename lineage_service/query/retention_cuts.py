"""Finds where lineage ends because the run that made a source is past its retention."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lineage_catalog.records import DatasetRecord

from lineage_service.query.lineage_graph import LineageGraph, Place, is_source
from lineage_service.query.staleness_notes import cut_note
from lineage_service.store.version_scan import VersionScan


class RetentionCuts:
    """Finds sources whose maker is past its retention, and builds the notes about them."""

    def __init__(self, graph: LineageGraph, scan_at: Callable[[Place], VersionScan]) -> None:
        self.graph, self.scan_at = graph, scan_at

    def notes(self, places: Iterable[Place]) -> list[str]:
        """Notes about backward ways that end at a run past its retention."""
        return [cut_note(self.graph.datasets_at(place)[0], run_id) for place, run_id in self._cut_places(places)]

    def notes_of_runs(self, runs: Iterable[str]) -> list[str]:
        """The same notes for everything upstream of these runs."""
        return [cut_note(source, run_id) for source, run_id in self.cut_sources(self.graph.runs_behind(runs))]

    def cut_sources(self, runs: Iterable[str]) -> list[tuple[DatasetRecord, str]]:
        """The sources upstream of these runs whose maker is past its retention, with that maker's run id."""
        places = dict.fromkeys(Place(each.run_id, each.space) for run_id in runs for each in self.graph.sources(run_id))
        return [(self.graph.datasets_at(place)[0], run_id) for place, run_id in self._cut_places(places)]

    def _cut_places(self, places: Iterable[Place]) -> list[tuple[Place, str]]:
        if not self.graph.reader.runs(limit=1, status="expired"):
            return []
        sources = [place for place in places if is_source(place)]
        found = [(place, self.scan_at(place).version.expired) for place in sources]
        return [(place, run_id) for place, run_id in found if run_id is not None]
