"""Lists the runs and datasets of a home from its catalog."""

from __future__ import annotations

from collections.abc import Sequence

from lineage_catalog.reader import CatalogReader
from lineage_catalog.records import DatasetRecord

from lineage_service.errors import NotFound, did_you_mean, join_names
from lineage_service.query.answer import Answer, records
from lineage_service.store.dataset_names import find_dataset, find_run
from lineage_service.store.home_store import HomeStore

RUN_COLUMNS = ["run_id", "workflow", "status", "capture", "lineage", "started_at", "committed_at", "workflow_version"]
DATASET_COLUMNS = ["dataset", "kind", "rows", "bytes", "run_id", "version"]


def list_runs(store: HomeStore, workflow: str | None, limit: int | None, *, failed: bool) -> Answer:
    """Committed runs, newest first. With `failed`, the runs that failed a check instead."""
    reader = store.reader
    found = reader.runs(workflow, status="failed" if failed else "committed")
    if workflow is not None and not found:
        _refuse_unknown_workflow(reader, str(store.layout.path), workflow)
    rows = [
        (each.id, each.workflow, each.status, each.capture, "none" if each.capture == "off" else each.lineage,
         each.started_at, None if failed else each.committed_at, each.workflow_version)
        for each in found
    ]  # fmt: skip
    return records(RUN_COLUMNS, rows, limit)


def _refuse_unknown_workflow(reader: CatalogReader, home: str, workflow: str) -> None:
    known = sorted({run.workflow for status in ("committed", "failed") for run in reader.runs(status=status)})
    if workflow not in known:
        raise NotFound(
            f"no workflow '{workflow}' has a run in the home '{home}'; workflows: {join_names(known)}",
            hint=did_you_mean(workflow, known),
        )


def list_datasets(store: HomeStore, names: Sequence[str] | None, run: str | None, limit: int | None) -> Answer:
    """Datasets with their row counts, sizes and versions. See `find_datasets` for how they are selected."""
    rows = []
    for each in find_datasets(store, names, run):
        version = store.reader.version(each.version_id)
        rows.append((each.full_name, each.role, version.rows if version else 0, version.bytes if version else 0,
                     each.run_id, each.version_id))  # fmt: skip
    return records(DATASET_COLUMNS, rows, limit)


def find_datasets(store: HomeStore, names: Sequence[str] | None, run: str | None) -> list[DatasetRecord]:
    """The datasets with these names. Without names, the datasets of `run`, or of the latest run of each workflow."""
    reader, home = store.reader, str(store.layout.path)
    if names is not None:
        suffix = "" if run is None else f"@{run}"
        return [find_dataset(reader, f"{each}{suffix}", home) for each in names]
    if run is not None:
        return reader.datasets(find_run(reader, run, home).id)
    runs = [latest for flow in reader.workflows() if (latest := reader.latest_run(flow))]
    # The inputs of a saved query are listed under the workflow that produced them.
    return [
        dataset
        for record in runs
        for dataset in reader.datasets(record.id)
        if record.capture != "query" or dataset.role != "source"
    ]
