"""A workflow file, loaded and checked against what is known of its sources without Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from lineage_service.capture.instrument import capture_problems, capture_warnings
from lineage_service.capture.partially_answerable_questions import partially_answerable_questions
from lineage_service.capture.unanswerable_questions import unanswerable_questions
from lineage_service.errors import LineageError, Problem, WorkflowError
from lineage_service.plan.build import Plan, build_plan
from lineage_service.plan.schema import Schema
from lineage_service.spec.loader import LoadedWorkflow, load_workflow
from lineage_service.spec.models import BrokenSource, SourceSpec
from lineage_service.store.listing import is_vast, listing
from lineage_service.store.schema_without_spark import UNKNOWN, known_schema
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
    if wanted == "off":
        return loaded, plan, plan.warnings
    return loaded, plan, (*plan.warnings, *capture_warnings(plan, wanted), *_partly_kept(loaded, plan))


def _unanswerable(loaded: LoadedWorkflow, plan: Plan) -> Iterator[Problem]:
    places = {query.name: index for index, query in enumerate(loaded.spec.lineage.workload)}
    for name, reason in unanswerable_questions(plan):
        yield Problem(f"workload '{name}': {reason}", loaded.marks.at("lineage", "workload", places[name]))


def _partly_kept(loaded: LoadedWorkflow, plan: Plan) -> Iterator[Problem]:
    """Warnings of declared questions that would be refused once the workflow has run."""
    if not plan.workload or len(plan.sources) < 2:
        return
    places = {query.name: index for index, query in enumerate(loaded.spec.lineage.workload)}
    for each in partially_answerable_questions(plan, sources_sharing_rows(loaded)):
        at = loaded.marks.at("lineage", "workload", places[each.name])
        yield Problem(f"workload '{each.name}' {each.reason}", at, each.hint, "warning")


def sources_sharing_rows(loaded: LoadedWorkflow) -> dict[str, list[str]]:
    """For each source those that share rows with it: of a file that both read in records alike, or of one output."""
    found: dict[str, list[str]] = {}
    known = {
        name: (source, _files(source, loaded.path.parent))
        for name, source in loaded.spec.sources.items()
        if not isinstance(source, BrokenSource)
    }
    for (one, (first, mine)), (other, (second, its)) in combinations(known.items(), 2):
        shared = first.output == second.output if first.output or second.output else bool(mine & its)
        if shared and _record_framing(first) == _record_framing(second):
            found.setdefault(one, []).append(other)
            found.setdefault(other, []).append(one)
    return found


def _files(source: SourceSpec, folder: Path) -> frozenset[str]:
    """The files that a source reads now; none where that cannot be told in passing."""
    if source.path is None or is_vast(source.path, folder):
        return frozenset()
    try:
        return frozenset(map(os.path.realpath, listing(source.path, folder).files))
    except LineageError:
        return frozenset()  # told already


def _record_framing(source: SourceSpec) -> object:
    """What decides which bytes of a file are a record."""
    if source.file_format not in ("csv", "json"):
        return source.file_format
    from lineage_service.store.shared_rows import framing  # which needs NumPy

    return framing({**{name.lower(): value for name, value in source.reader_options.items()},
                    "format": source.file_format})  # fmt: skip


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
