"""Why a workflow has to run: what is different from its latest run."""

from __future__ import annotations

import json

from lineage_catalog.records import DatasetRecord

from lineage_service.errors import LineageError
from lineage_service.runs.chain.chained_workflows import ChainedWorkflow
from lineage_service.runs.workflow_content import kept_variables, load_run_workflow
from lineage_service.spec.loader import LoadedWorkflow
from lineage_service.spec.models import SourceSpec
from lineage_service.store.dataset_names import pinned_run
from lineage_service.store.formats.format_registry import format_of_source
from lineage_service.store.home_store import HomeStore
from lineage_service.store.versions import FileState, OriginalFile, VersionFile, file_state, recorded_state


def reason_to_run(item: ChainedWorkflow, store: HomeStore, capture: str | None = None) -> str | None:
    """Why the workflow is out of date; None where a new run would read and do what its latest run did. `capture` is
    how lineage is to be captured, if it is not as in the workflow file.
    """
    loaded = item.loaded
    run = store.reader.latest_run(item.name)
    if run is None:
        return "it has never run"
    if run.workflow_version != loaded.version:
        return "its file has changed"
    before, now = json.loads(run.variables), kept_variables(loaded)
    other = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
    if other:
        values = "value of" if len(other) == 1 else "values of"
        return f"the {values} {', '.join(other)} {'has' if len(other) == 1 else 'have'} changed"
    try:
        load_run_workflow(store.layout, store.reader.content(run.id), run.id)
    except LineageError:
        return "an environment variable has changed"
    if run.capture == "off" and (capture or loaded.spec.lineage.capture) != "off":
        return "its latest run has no lineage: capture was off"
    datasets = {each.name: each for each in store.reader.datasets(run.id) if each.role == "source"}
    for name, source in loaded.spec.sources.items():
        if isinstance(source, SourceSpec):
            reason = _changed(name, source, loaded, datasets.get(name), store)
            if reason is not None:
                return reason
    return None


def _changed(
    name: str, source: SourceSpec, loaded: LoadedWorkflow, dataset: DatasetRecord | None, store: HomeStore
) -> str | None:
    read = None if dataset is None else store.known_version(dataset.version_id)
    if dataset is None or read is None:
        return f"the version that it read as '{name}' is not recorded"
    if source.output is not None:
        if pinned_run(dataset) is not None:
            return None
        try:
            newest = store.version_of(source.output).id
        except LineageError:
            return f"output '{source.output}' does not exist"
        return f"'{source.output}' has a newer run" if newest != read.id else None
    known: list[VersionFile | OriginalFile] = [*read.origins] or [file for file in read.files if file.only is None]
    try:
        found = format_of_source(source).list_files(str(source.path), loaded.path.parent)
        same = {state.path: state for state in map(file_state, found.files)} == _states(known)
    except LineageError:
        same = False  # the run tells what is wrong
    return None if same else f"files of '{name}' have changed"


def _states(files: list[VersionFile | OriginalFile]) -> dict[str, FileState]:
    return {file.path: recorded_state(file) for file in files}
