"""A workflow file looked at without Spark: validated, explained, drawn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lineage_service.errors import Problem
from lineage_service.runs.validation import VersionOf, checked_workflow
from lineage_service.store.versions import Version

if TYPE_CHECKING:
    from lineage_service.runs.explanation import Explanation
    from lineage_service.runs.run_sizes import LastRun
    from lineage_service.runs.workflow_graph import Picture
    from lineage_service.spec.loader import LoadedWorkflow


def validate_workflow(
    file: str | Path,
    vars: Mapping[str, str] | None = None,
    home: str | Path | None = None,
    catalog: str | None = None,
) -> tuple[Problem, ...]:
    """Warnings of a good file; WorkflowError with all problems of a bad one. Never starts Spark."""
    _, _, warnings = checked_workflow(file, vars, outputs_in(home, catalog), missing="warning")
    return warnings


def explain_workflow(
    file: str | Path,
    vars: Mapping[str, str] | None = None,
    capture: str | None = None,
    home: str | Path | None = None,
    catalog: str | None = None,
) -> Explanation:
    """What a run of the file would do, beside what its last run in the home did. Never starts Spark."""
    from lineage_service.runs.explanation import explain_plan

    loaded, plan, warnings = checked_workflow(file, vars, outputs_in(home, catalog), missing="warning", capture=capture)
    run, notes = _last_run(loaded, home, catalog)
    return explain_plan(loaded, plan, capture or loaded.spec.lineage.capture, warnings, run, notes)


def explain_run(run: str, home: str | Path | None = None, catalog: str | None = None) -> Explanation:
    """What a run did: the rows that each breaker was expected to read beside those that it read. `run` is an id, a
    unique prefix of one, or the name of a workflow, whose latest is meant. Never starts Spark."""
    from lineage_service.runs.explanation import explain_committed_run
    from lineage_service.store.home_store import HomeStore

    with HomeStore.at(home, catalog) as store, store.reader.snapshot():
        return explain_committed_run(store, run)


def picture_of_workflow(
    file: str | Path,
    vars: Mapping[str, str] | None = None,
    home: str | Path | None = None,
    catalog: str | None = None,
) -> Picture:
    """The file as boxes and edges, with the rows of its last run where the home has one. Never starts Spark."""
    from lineage_service.plan.column_lineage import column_origins
    from lineage_service.runs.workflow_graph import workflow_picture

    loaded, plan, warnings = checked_workflow(file, vars, outputs_in(home, catalog), missing="warning")
    run, notes = _last_run(loaded, home, catalog)
    columns = tuple((name, column_origins(plan.steps[step])) for name, step in plan.outputs.items())
    return workflow_picture(loaded.spec.model_dump(mode="json", by_alias=True), run, columns, warnings, notes)


def _last_run(
    loaded: LoadedWorkflow, home: str | Path | None, catalog: str | None
) -> tuple[LastRun | None, tuple[str, ...]]:
    """The last run of the file's workflow, and what is to be said of it; a file is shown also without a catalog."""
    from lineage_service.errors import NotFound, StoreError
    from lineage_service.settings import catalog_url, home_path

    try:
        url = catalog_url(home_path(home), catalog)
        # Looked up before anything heavy is imported: most files that are looked at have not run yet.
        if url.startswith("sqlite:///") and "?" not in url and _is_missing(Path(url.removeprefix("sqlite:///"))):
            return None, ()
        from lineage_service.runs.run_sizes import last_run
        from lineage_service.store.home_store import HomeStore

        with HomeStore.at(home, catalog) as store:
            if not store.has_catalog():
                return None, ()
            with store.reader.snapshot():
                run = last_run(store.reader, loaded.spec.name)
    except NotFound:
        return None, ()
    except StoreError as error:
        return None, (f"shown without the rows of the last run: {error.problems[0].message}",)
    return run, run.differences(loaded.version, loaded.variables) if run else ()


def _is_missing(file: Path) -> bool:
    try:
        return not file.exists()
    except (OSError, ValueError):
        return False  # who opens the home says what is wrong


def outputs_in(home: str | Path | None, catalog: str | None) -> VersionOf:
    """Looks up another workflow's output where the home has a catalog; the catalog is opened only when asked."""

    def version_of(name: str) -> Version:
        from lineage_service.store.home_store import HomeStore

        with HomeStore.at(home, catalog) as store:
            return store.version_of(name)

    return version_of


def workflow_name(file: str) -> str:
    """The name that a workflow file gives itself."""
    from lineage_service.spec.loader import load_workflow

    return load_workflow(file).spec.name
