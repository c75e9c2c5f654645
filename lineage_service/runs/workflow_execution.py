"""Executes a workflow on Spark in a run's folder: opens sources, rehearses and writes the plan, checks rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lineage_catalog.records import SubjectRecord

from lineage_service.capture.handles import source_space, step_space
from lineage_service.capture.inferred_predicates import infer_predicates
from lineage_service.capture.instrument import (
    InstrumentedPlan,
    capture_problems,
    forced_problem,
    instrument,
    instrument_for_rereading,
)
from lineage_service.capture.strategies import Choice
from lineage_service.errors import Position, Problem, WorkflowError
from lineage_service.plan.build import build_plan
from lineage_service.plan.from_sql.runtime_errors import with_names_of_queries
from lineage_service.progress import Stages
from lineage_service.runs.run_sizes import last_sizes
from lineage_service.settings import RunOptions
from lineage_service.spec.loader import LoadedWorkflow
from lineage_service.store.home_store import HomeStore
from lineage_service.store.layout import RunFolder
from lineage_service.store.output_versions import FileLayout
from lineage_service.store.publications import Publication

if TYPE_CHECKING:
    from lineage_service.spark.capture_columns import CaptureColumnNames
    from lineage_service.spark.checks import FailedCheck, RowCheck
    from lineage_service.spark.relation import Relation
    from lineage_service.spark.source_relation import OpenSource
    from lineage_service.spark.spark_types import SparkSession
    from lineage_service.spark.staging import Rehearsal, RunWriter


@dataclass(frozen=True)
class Execution:
    """The result of an execution: the sources read, the plan, what was written and where, failed checks, warnings."""

    sources: Mapping[str, OpenSource]
    plan: InstrumentedPlan
    names: CaptureColumnNames
    writing: RunWriter
    failed: Sequence[FailedCheck]
    warnings: Sequence[Problem]
    subjects: tuple[SubjectRecord, ...] = ()  # subject indexes, if they were needed before the commit


def execute_workflow(
    loaded: LoadedWorkflow,
    options: RunOptions,
    capture: str,
    folder: RunFolder,
    store: HomeStore,
    publications: Sequence[Publication],
    stages: Stages,
    started: Callable[[], None],
    *,
    failed_before: str | None = None,
    session: SparkSession | None = None,
    layouts: Mapping[str, FileLayout] | None = None,
) -> Execution:
    """Does everything that needs Spark before the commit.

    `started` is called when Spark is up; start-up is excluded from the timings. `failed_before` is the reason why an
    earlier attempt failed. In that case, nothing is captured during the run that can be read again later. `session` is
    the session to use, instead of the one that the options name. `layouts`: the files into which datasets are to be
    divided, where not as Spark computes them.
    """
    with stages.stage("starting Spark"):
        from lineage_service.spark.capture_columns import CaptureColumnNames
        from lineage_service.spark.checks import declared_checks, run_checks
        from lineage_service.spark.failed_expression import locate_failed_expression
        from lineage_service.spark.java import java_warnings
        from lineage_service.spark.job_progress import report_job_progress
        from lineage_service.spark.lowering import lower_plan
        from lineage_service.spark.publication_writer import write_publication
        from lineage_service.spark.query_syntax import check_query_texts
        from lineage_service.spark.spark_session import spark_session
        from lineage_service.spark.staging import RunWriter

        spark = session or spark_session(options.master, options.remote, options.conf)
    started()
    with report_job_progress(spark, stages.tell):
        with stages.stage("opening sources"):
            check_query_texts(spark, loaded.sql_texts.values())
            sources = _open_sources(spark, loaded, folder, store)
            sources, subjects, returned = _without_erased(spark, loaded, sources, folder, store)
            plan = build_plan(loaded, {name: source.schema for name, source in sources.items()})
            sizes = replace(
                last_sizes(store.reader, loaded.spec.name),
                sources={name: each.version.rows for name, each in sources.items()},
            )
            inferred = infer_predicates(plan, sizes)
            if failed_before is None:
                refuse_forced(capture_problems(inferred, capture, sizes))
            names = CaptureColumnNames.apart_from(name for node in inferred.nodes() for name in node.schema.names)
            checks = list(declared_checks(loaded))

            def instrument_plan(chosen: Mapping[str, Choice]) -> InstrumentedPlan:
                if failed_before is None or capture == "off":
                    found = instrument(inferred, capture, sizes, chosen)
                else:
                    found = instrument_for_rereading(inferred, failed_before, sizes, chosen)
                return replace(found, plan=plan)  # columns are recorded as every other verb finds them

            forced = capture != "auto" and failed_before is None
            at = workload_positions(loaded)
            with with_names_of_queries(inferred.nodes()):
                instrumented, relations, rehearsal = _rehearse_plan(
                    instrument_plan, sources, names, checks, at, forced=forced
                )
        stages.of = _count_stages(rehearsal, len(checks), publications)
        writing = RunWriter(
            spark, names, folder, stages=stages, salt=rehearsal.salt,
            keeps_windows=not layouts, layouts=layouts or {},
        )  # fmt: skip
        with with_names_of_queries(inferred.nodes()), locate_failed_expression(inferred, checks):
            lowered = lower_plan(instrumented, relations, writing, names, rehearsal)
            failed: list[FailedCheck] = []
            lowered |= {
                check.step: writing.dataset_rows(check.step) for check in checks if writing.is_dataset(check.step)
            }
            if checks:
                with stages.stage("checking rows"):
                    failed = run_checks(checks, lowered, writing, names, {*loaded.spec.sources, *loaded.spec.outputs})
        for publication in publications:
            with stages.stage(f"publishing '{publication.output}'"):
                write_publication(publication, writing.dataset_rows(publication.step), folder.home.path)
    for source in sources.values():
        source.refuse_changed()
    warnings = [*java_warnings(), *returned]
    return Execution(sources, instrumented, names, writing, failed, warnings, subjects)


def _rehearse_plan(
    planned: Callable[[Mapping[str, Choice]], InstrumentedPlan],
    sources: Mapping[str, OpenSource],
    names: CaptureColumnNames,
    checks: Sequence[RowCheck],
    at: Mapping[str, Position],
    *,
    forced: bool,
) -> tuple[InstrumentedPlan, dict[str, Relation], Rehearsal]:
    """The plan as it will be captured, the rows of its sources, and what the rehearsal built.

    Only Spark knows the types of keys. If these leave a breaker only one strategy, the plan is instrumented again with
    it.
    """
    from lineage_service.spark.checks import analyse_checks
    from lineage_service.spark.group_capture import MustStage
    from lineage_service.spark.lowering import lower_plan
    from lineage_service.spark.staging import Rehearsal, new_salt
    from lineage_service.spark.workload_rows import analyse_workload

    chosen: dict[str, Choice] = {}
    while True:
        plan, rehearsal = planned(chosen), Rehearsal(names, new_salt())
        relations = {
            name: source.relation(
                names,
                captured=plan.capture != "off",
                placed=name in plan.sources_read_with_ids,
                pruned=name in plan.unreached_sources,
            )
            for name, source in sources.items()
        }
        try:
            lowered = lower_plan(plan, relations, rehearsal, names)
            analyse_checks(checks, lowered, names)
            kept = {step_space(each.node.step): lowered[each.node.step] for each in plan.datasets}
            read = {source_space(name): relation for name, relation in relations.items()}
            analyse_workload(plan.workload, {**read, **kept}, names, at)
        except MustStage as found:
            node, choice = found.each.node, found.each.choice
            if forced:
                refuse_forced([forced_problem(node, plan.capture, found.reason)])
            chosen[node.id] = Choice("stage", found.reason, choice.estimate if choice else None)
        else:
            return plan, relations, rehearsal


def workload_positions(loaded: LoadedWorkflow) -> dict[str, Position]:
    """The positions of declared questions in the file."""
    queries = enumerate(loaded.spec.lineage.workload)
    return {query.name: loaded.marks.at("lineage", "workload", index) for index, query in queries}


def refuse_forced(problems: Sequence[Problem]) -> None:
    """Raises WorkflowError for breakers that cannot be captured in the requested way."""
    if problems:
        raise WorkflowError(problems)


def reread_execution(execution: Execution, folder: RunFolder) -> RunWriter:
    """The stage that captures the deferred lineage of an execution, with row ids available now."""
    from lineage_service.spark.deferred_capture import reread_plan

    return reread_plan(
        execution.plan, execution.sources, execution.writing.versions, folder, execution.names, execution.writing.salt
    )


def _count_stages(rehearsal: Rehearsal, checks: int, publications: Sequence[Publication]) -> int:
    """The number of stages of a run: Spark and sources, writes, checks, publications, index and commit."""
    return 2 + len(rehearsal.writes) + bool(checks) + len(publications) + 2


def _open_sources(
    spark: SparkSession, loaded: LoadedWorkflow, folder: RunFolder, store: HomeStore
) -> dict[str, OpenSource]:
    from lineage_service.spark.open_sources import SourceOpener

    opener = SourceOpener(spark, folder, loaded.path.parent, store.version_of, store.known_version)
    return {
        name: opener.open(name, source, loaded.marks.at("sources", name, "output" if source.output else "path"))
        for name, source in loaded.spec.valid_sources.items()
    }


def _without_erased(
    spark: SparkSession, loaded: LoadedWorkflow, sources: Mapping[str, OpenSource], folder: RunFolder, store: HomeStore
) -> tuple[dict[str, OpenSource], tuple[SubjectRecord, ...], list[Problem]]:
    """The sources without rows of erased persons that are to be dropped, the subject indexes if they were needed, and
    warnings. Raises RunError if a source rejects erased persons.
    """
    from lineage_service.spark.open_sources import SourceOpener
    from lineage_service.subjects.reappeared_persons import ErasedPersonCheck

    specs = loaded.spec.valid_sources
    versions = {name: source.version for name, source in sources.items()}
    returned = ErasedPersonCheck(folder, store.reader.subjects, store.reader.erased_hashes, loaded.marks)
    kept = returned.versions_to_read(specs, versions)
    opener = SourceOpener(spark, folder, loaded.path.parent, store.version_of, store.known_version)
    changed = {
        name: opener.reopen(name, specs[name], version) for name, version in kept.items() if version != versions[name]
    }
    return {**sources, **changed}, tuple(returned.records), returned.warnings


def session_conf(execution: Execution) -> dict[str, str]:
    """The Spark settings under which the workflow's expressions were evaluated."""
    from lineage_service.spark.spark_session import sql_conf

    return sql_conf(execution.writing.spark)


def recover_spark() -> None:
    """Restarts Spark after a failure that it may not have survived."""
    from lineage_service.spark.spark_session import recover

    recover()
