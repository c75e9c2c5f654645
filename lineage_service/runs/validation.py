"""Loads a workflow file and checks it against its sources without Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from lineage_service.capture.instrument import capture_problems, capture_warnings
from lineage_service.capture.partially_answerable_questions import partially_answerable_questions
from lineage_service.capture.unanswerable_questions import unanswerable_questions
from lineage_service.errors import LineageError, NotFound, Problem, WorkflowError
from lineage_service.plan.build import Plan, build_plan
from lineage_service.plan.schema import Schema
from lineage_service.spec.given_sources import GivenSources
from lineage_service.spec.loader import LoadedWorkflow, load_workflow
from lineage_service.spec.models import BrokenSource, SourceSpec
from lineage_service.store.formats.format_registry import format_of_source
from lineage_service.store.listing import is_vast
from lineage_service.store.schema_without_spark import UNKNOWN, known_schema
from lineage_service.store.versions import Version

VersionOf = Callable[[str], Version]


class NotYetMade(NotFound):
    """An output that no run has made yet, of a workflow that is checked together with the one that reads it."""


def checked_workflow(
    file: str | Path,
    vars: Mapping[str, str] | None,
    version_of: VersionOf,
    *,
    sources: GivenSources = (),
    missing: str = "error",
    capture: str | None = None,
) -> tuple[LoadedWorkflow, Plan, tuple[Problem, ...]]:
    """The file with its plan and its warnings. Raises WorkflowError with every problem that can be found without Spark.

    `sources` says where tables are that a .sql file names.
    `missing` is the severity of missing source files: an error for a run, a warning for `validate`. `capture` overrides
    the file's setting.
    """
    loaded = load_workflow(file, vars, sources)
    with loaded.hidden.in_errors():
        loaded, plan, warnings = _checked_plan(loaded, version_of, missing, capture)
    return loaded, plan, loaded.hidden.in_problems(warnings)


def _checked_plan(
    loaded: LoadedWorkflow, version_of: VersionOf, missing: str, capture: str | None
) -> tuple[LoadedWorkflow, Plan, tuple[Problem, ...]]:
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
    """Warnings about declared questions that would be refused after a run."""
    if not plan.workload or len(plan.sources) < 2:
        return
    places = {query.name: index for index, query in enumerate(loaded.spec.lineage.workload)}
    for each in partially_answerable_questions(plan, sources_sharing_rows(loaded)):
        at = loaded.marks.at("lineage", "workload", places[each.name])
        yield Problem(f"workload '{each.name}' {each.reason}", at, each.hint, "warning")


def sources_sharing_rows(loaded: LoadedWorkflow) -> dict[str, list[str]]:
    """For each source, the sources that share rows with it: they read a common file with the same record format, or the
    same output.
    """
    found: dict[str, list[str]] = {}
    known = {name: (source, _files(source, loaded.path.parent)) for name, source in loaded.spec.valid_sources.items()}
    for (one, (first, mine)), (other, (second, its)) in combinations(known.items(), 2):
        shared = first.output == second.output if first.output or second.output else bool(mine & its)
        if shared and _record_framing(first) == _record_framing(second):
            found.setdefault(one, []).append(other)
            found.setdefault(other, []).append(one)
    return found


def _files(source: SourceSpec, folder: Path) -> frozenset[str]:
    """The files that a source reads now; empty if that cannot be determined cheaply."""
    if source.path is None or is_vast(source.path, folder):
        return frozenset()
    try:
        return frozenset(map(os.path.realpath, format_of_source(source).list_files(source.path, folder).files))
    except LineageError:
        return frozenset()  # reported already


def _record_framing(source: SourceSpec) -> object:
    """The options that determine which bytes of a file are a record."""
    if source.path is None:
        return None
    options = {name.lower(): value for name, value in source.reader_options.items()}
    return format_of_source(source).record_framing({**options, "format": str(source.file_format)})


def _unknown_table(problem: Problem, error: NotFound) -> Problem:
    """The problem, with the name of an output of the home that is nearly called so."""
    given, other = problem.hint or "", error.problems[0].hint or ""
    return replace(problem, hint=other) if "did you mean" in other and "did you mean" not in given else problem


def source_schemas(
    loaded: LoadedWorkflow, version_of: VersionOf
) -> tuple[dict[str, Schema], list[Problem], list[Problem]]:
    """The known columns of each source, the problems of the sources, and which of these concern their files."""
    schemas: dict[str, Schema] = {}
    problems: list[Problem] = []
    absent: list[Problem] = []
    unresolved = loaded.unresolved_parts()
    for name, source in loaded.spec.sources.items():
        if isinstance(source, BrokenSource) or ("sources", name) in unresolved:
            continue
        try:
            schemas[name] = known_schema(source, loaded.path.parent, version_of)
        except NotYetMade:
            schemas[name] = UNKNOWN
        except LineageError as error:
            schemas[name] = UNKNOWN
            if name in loaded.assumed_outputs and isinstance(error, NotFound):
                problems.append(_unknown_table(loaded.assumed_outputs[name], error))
                continue
            key = "schema" if isinstance(error, WorkflowError) else "output" if source.output else "path"
            position = loaded.marks.at("sources", name, key)
            source_problems = [
                Problem(f"source '{name}': {each.message}", position, each.hint) for each in error.problems
            ]
            problems += source_problems
            if not isinstance(error, WorkflowError):
                absent += source_problems
    return schemas, problems, absent
