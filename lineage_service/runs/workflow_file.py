"""Validates, explains and draws a workflow file without Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lineage_service.errors import LineageError, NotFound, Problem, WorkflowError
from lineage_service.runs.validation import NotYetMade, VersionOf, checked_workflow
from lineage_service.spec.environment import with_references
from lineage_service.spec.given_sources import GivenSources
from lineage_service.spec.loader import declared_outputs
from lineage_service.spec.query_file import is_query_file, query_name
from lineage_service.spec.step_models import SqlStep
from lineage_service.spec.variables import literal_text
from lineage_service.store.versions import Version

if TYPE_CHECKING:
    from lineage_service.plan.build import Plan
    from lineage_service.plan.nodes import Node
    from lineage_service.runs.explanation import Explanation
    from lineage_service.runs.run_sizes import LastRun
    from lineage_service.runs.workflow_graph import Picture
    from lineage_service.spec.loader import LoadedWorkflow


def validate_workflow(
    file: str | Path,
    vars: Mapping[str, str] | None = None,
    home: str | Path | None = None,
    catalog: str | None = None,
    sources: GivenSources = (),
    beside: Collection[str] = (),
) -> tuple[Problem, ...]:
    """The warnings of a valid file. Raises WorkflowError with all problems of an invalid one. Never starts Spark.
    `beside` are outputs of files that are checked together with it: they need no run.
    """
    from lineage_service.store.publications import check_publications

    version_of = outputs_in(home, catalog, beside)
    loaded, _, warnings = checked_workflow(file, vars, version_of, sources=sources, missing="warning")
    check_publications(loaded)
    return warnings


def explain_workflow(
    file: str | Path,
    vars: Mapping[str, str] | None = None,
    capture: str | None = None,
    home: str | Path | None = None,
    catalog: str | None = None,
    sources: GivenSources = (),
) -> Explanation:
    """Explains what a run of the file would do, compared with its last run in the home. Never starts Spark."""
    from lineage_service.runs.explanation import explain_plan

    loaded, plan, warnings = checked_workflow(
        file, vars, outputs_in(home, catalog), sources=sources, missing="warning", capture=capture
    )
    run, notes = _last_run(loaded, home, catalog)
    notes = (*notes, *_notes_of_unknown_queries(loaded, plan))
    return explain_plan(loaded, plan, capture or loaded.spec.lineage.capture, warnings, run, notes)


def workflow_as_steps(
    file: str | Path,
    vars: Mapping[str, str] | None = None,
    home: str | Path | None = None,
    catalog: str | None = None,
    sources: GivenSources = (),
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The content of a workflow file that does the same with operators in the place of sql steps, and the values of
    its variables; it belongs beside the file. And notes about queries that stay as they are. Raises WorkflowError where
    a query cannot be compiled without Spark.
    """
    from lineage_service.plan.as_steps import compiled_steps, has_steps

    loaded, plan, _ = checked_workflow(file, vars, outputs_in(home, catalog), sources=sources, missing="warning")
    unknown = [
        Problem(note, loaded.marks.at("steps", index))
        for index, step in enumerate(loaded.spec.steps)
        for note in _notes_of_unknown_queries(loaded, plan, step.name)
    ]
    if unknown:
        raise WorkflowError(unknown)
    content = (loaded.kept or loaded).spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    content = with_references(content)
    nodes: dict[str, Node] = {**plan.sources, **plan.steps}
    steps = compiled_steps(content["steps"], nodes, lambda text: loaded.hidden.in_part(literal_text(text)))
    outputs = {
        name: {key: value for key, value in output.items() if (key, value) != ("step", name)}
        for name, output in content["outputs"].items()
    }
    notes = tuple(
        f"step '{step.name}' stays an sql step: no operator expresses one of its subqueries"
        for step in loaded.spec.steps
        if isinstance(step, SqlStep) and not has_steps(nodes[step.name])
    )
    kept = {key: each for key, each in content.items() if key != "vars"}
    return {"version": 1, "name": content["name"], **kept, "steps": steps, "outputs": outputs}, notes


def _notes_of_unknown_queries(loaded: LoadedWorkflow, plan: Plan, only: str | None = None) -> Iterator[str]:
    """Notes about sql steps that cannot be compiled, because columns that they read are not known without Spark."""
    nodes = {**plan.sources, **plan.steps}
    for step in loaded.spec.steps:
        if only not in (None, step.name):
            continue
        unknown = [name for name in step.inputs if not nodes[name].schema.known] if isinstance(step, SqlStep) else []
        if unknown:
            yield (
                f"only the inputs of step '{step.name}' are shown: the columns of '{unknown[0]}' are not known without "
                "Spark; declare a `schema` for that source"
            )


def explain_run(run: str, home: str | Path | None = None, catalog: str | None = None) -> Explanation:
    """Explains what a run did: the rows that each breaker was expected to read, and those that it read.

    `run` is an id, a unique prefix of one, or the name of a workflow, which means its latest run. Never starts Spark.
    """
    from lineage_service.runs.explanation import explain_committed_run
    from lineage_service.store.home_store import HomeStore

    with HomeStore.at(home, catalog) as store, store.reader.snapshot():
        return explain_committed_run(store, run)


def picture_of_workflow(
    file: str | Path,
    vars: Mapping[str, str] | None = None,
    home: str | Path | None = None,
    catalog: str | None = None,
    sources: GivenSources = (),
) -> Picture:
    """The file as boxes and edges, with the rows of its last run if the home has one. Never starts Spark."""
    from lineage_service.plan.column_lineage import column_origins
    from lineage_service.runs.workflow_graph import workflow_picture

    loaded, plan, warnings = checked_workflow(file, vars, outputs_in(home, catalog), sources=sources, missing="warning")
    run, notes = _last_run(loaded, home, catalog)
    columns = tuple((name, column_origins(plan.steps[step])) for name, step in plan.outputs.items())
    return workflow_picture(loaded.content_to_show(), run, columns, warnings, notes)


def _last_run(
    loaded: LoadedWorkflow, home: str | Path | None, catalog: str | None
) -> tuple[LastRun | None, tuple[str, ...]]:
    """The last run of the file's workflow, and notes about it. A file can be shown without a catalog too."""
    from lineage_service.errors import StoreError
    from lineage_service.settings import catalog_url, home_path

    try:
        url = catalog_url(home_path(home), catalog)
        # Checked before heavy imports: most files have not been run yet.
        if url.startswith("sqlite:///") and "?" not in url and _is_missing(Path(url.removeprefix("sqlite:///"))):
            return None, ()
        from lineage_service.runs.run_sizes import last_run
        from lineage_service.runs.workflow_content import kept_variables
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
    return run, run.differences(loaded.version, kept_variables(loaded)) if run else ()


def _is_missing(file: Path) -> bool:
    try:
        return not file.exists()
    except (OSError, ValueError):
        return False  # opening the home reports the problem


def outputs_of_files(files: Iterable[str | Path]) -> frozenset[str]:
    """The outputs that these files declare, as `workflow.name` and `name`. Files that cannot be read have none."""
    found: set[str] = set()
    for file in files:
        try:
            name, outputs = declared_outputs(Path(file))
        except LineageError:
            continue
        found |= {*outputs, *(f"{name}.{output}" for output in outputs)}
    return frozenset(found)


def outputs_in(home: str | Path | None, catalog: str | None, beside: Collection[str] = ()) -> VersionOf:
    """A function that looks up another workflow's output in the home's catalog, which is opened on first use. It raises
    NotYetMade for those in `beside` that are not there.
    """

    def version_of(name: str) -> Version:
        from lineage_service.store.home_store import HomeStore

        with HomeStore.at(home, catalog) as store:
            try:
                return store.version_of(name)
            except NotFound as error:
                raise NotYetMade(error.problems) if name in beside else error from None

    return version_of


def workflow_name(file: str) -> str:
    """The name in a workflow file."""
    if is_query_file(Path(file)):
        return query_name(Path(file))
    from lineage_service.spec.loader import load_workflow

    return load_workflow(file).spec.name
