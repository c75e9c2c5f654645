"""Runs and datasets of a home as the catalog lists them."""

from __future__ import annotations

from collections.abc import Sequence

from lineage_catalog.reader import CatalogReader
from lineage_catalog.records import DatasetRecord

from lineage_service.errors import NotFound, did_you_mean, join_names
from lineage_service.query.answer import Answer, records
from lineage_service.store.dataset_names import find_dataset, find_run

RUN_COLUMNS = ["run_id", "workflow", "status", "capture", "lineage", "started_at", "committed_at", "workflow_version"]
DATASET_COLUMNS = ["dataset", "kind", "rows", "bytes", "run_id", "version"]


def list_runs(reader: CatalogReader, home: str, workflow: str | None, limit: int | None, *, failed: bool) -> Answer:
    """Committed runs, newest first; or those that `failed` a check."""
    found = reader.runs(workflow, status="failed" if failed else "committed")
    if workflow is not None and not found:
        _refuse_unknown_workflow(reader, home, workflow)
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


def list_datasets(reader: CatalogReader, datasets: Sequence[DatasetRecord], limit: int | None) -> Answer:
    """Datasets with their rows, bytes and versions."""
    rows = []
    for each in datasets:
        version = reader.version(each.version_id)
        rows.append((each.full_name, each.role, version.rows if version else 0, version.bytes if version else 0,
                     each.run_id, each.version_id))  # fmt: skip
    return records(DATASET_COLUMNS, rows, limit)


def find_datasets(
    reader: CatalogReader, home: str, names: Sequence[str] | None, run: str | None
) -> list[DatasetRecord]:
    """The datasets of these names; else those of a run, or of each workflow's latest."""
    if names is not None:
        suffix = "" if run is None else f"@{run}"
        return [find_dataset(reader, f"{each}{suffix}", home) for each in names]
    if run is not None:
        return reader.datasets(find_run(reader, run, home).id)
    runs = [latest for flow in reader.workflows() if (latest := reader.latest_run(flow))]
    # What a saved query reads is listed with the workflow that it is of.
    return [
        dataset
        for record in runs
        for dataset in reader.datasets(record.id)
        if record.capture != "query" or dataset.role != "source"
    ]
