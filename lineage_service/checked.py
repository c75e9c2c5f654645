"""A workflow file, loaded and checked against what is known of its sources without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from lineage_service.capture.answerable import unanswerable
from lineage_service.capture.instrument import capture_problems, capture_warnings
from lineage_service.errors import LineageError, Problem, WorkflowError
from lineage_service.plan.build import Plan, build_plan
from lineage_service.plan.schema import Schema
from lineage_service.spec.loader import LoadedWorkflow, load_workflow
from lineage_service.spec.models import BrokenSource
from lineage_service.store.known import UNKNOWN, known_schema
from lineage_service.store.versions import Version

VersionOf = Callable[[str], Version]


def checked_workflow(
    file: str | Path,
    vars: Mapping[str, str] | None,
    version_of: VersionOf,
    *,
    missing: str = "error",
    capture: str | None = None,
) -> tuple[LoadedWorkflow, Plan, tuple[Problem, ...]]:
    """The file with its plan and its warnings; WorkflowError with every problem that shows without Spark.

    `missing` says what a source whose files are not there is: an error to a run, a warning to `validate`. `capture` is
    asked for instead of the file's.
    """
    loaded = load_workflow(file, vars)
    schemas, found, absent = source_schemas(loaded, version_of)
    if missing == "warning":
        found = [replace(problem, severity="warning") if problem in absent else problem for problem in found]
    loaded = replace(loaded, problems=(*loaded.problems, *found))
    plan = build_plan(loaded, schemas)
    wanted = capture or loaded.spec.lineage.capture
    refused = [*capture_problems(plan, wanted), *_unanswerable(loaded, plan)]
    if refused:
        raise WorkflowError([*loaded.problems, *refused])
    return loaded, plan, (*plan.warnings, *capture_warnings(plan, wanted))


def _unanswerable(loaded: LoadedWorkflow, plan: Plan) -> Iterator[Problem]:
    places = {query.name: index for index, query in enumerate(loaded.spec.lineage.workload)}
    for name, reason in unanswerable(plan):
        yield Problem(f"workload '{name}': {reason}", loaded.marks.at("lineage", "workload", places[name]))


def source_schemas(
    loaded: LoadedWorkflow, version_of: VersionOf
) -> tuple[dict[str, Schema], list[Problem], list[Problem]]:
    """What is known of each source's columns, what is wrong with the sources, and what of that is with their files."""
    schemas: dict[str, Schema] = {}
    problems: list[Problem] = []
    absent: list[Problem] = []
    unresolved = loaded.unresolved_parts()
    for name, source in loaded.spec.sources.items():
        if isinstance(source, BrokenSource) or ("sources", name) in unresolved:
            continue
        try:
            schemas[name] = known_schema(source, loaded.path.parent, version_of)
        except LineageError as error:
            schemas[name] = UNKNOWN
            key = "schema" if isinstance(error, WorkflowError) else "output" if source.output else "path"
            position = loaded.marks.at("sources", name, key)
            told = [Problem(f"source '{name}': {each.message}", position, each.hint) for each in error.problems]
            problems += told
            if not isinstance(error, WorkflowError):
                absent += told
    return schemas, problems, absent
