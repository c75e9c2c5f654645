"""A workflow executed on Spark, below a run's folder: sources opened, plan rehearsed and written, rows checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lineage_catalog.records import Commit, Lineage

from lineage_service.capture.estimate import Sizes
from lineage_service.capture.instrument import InstrumentedPlan, capture_problems, instrument, read_again
from lineage_service.errors import Problem, WorkflowError
from lineage_service.plan.build import build_plan
from lineage_service.progress import Stages
from lineage_service.spec.loader import LoadedWorkflow
from lineage_service.spec.models import BrokenSource
from lineage_service.store.layout import RunFolder
from lineage_service.store.publish import Publication
from lineage_service.store.versions import Version

if TYPE_CHECKING:
    from lineage_service.spark.checks import FailedCheck
    from lineage_service.spark.columns import Names
    from lineage_service.spark.sources import OpenSource
    from lineage_service.spark.staging import Rehearsal, Writing


@dataclass(frozen=True)
class RunOptions:
    """How a workflow is run: capture (None: as the file says), variables, where Spark is, and who makes the index."""

    capture: str | None = None
    vars: Mapping[str, str] = field(default_factory=dict)
    master: str | None = None
    remote: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    index_engine: str = "auto"


@dataclass(frozen=True)
class Access:
    """What a run needs of the catalog: versions by dataset name and by id, sizes of a workflow's last run, and the two
    writes: of a run with its outputs, and of its lineage once that is indexed."""

    version_of: Callable[[str], Version]
    known: Callable[[str], Version | None]
    sizes: Callable[[str], Sizes]
    commit: Callable[[Commit], None]
    settle: Callable[[Lineage], bool]


@dataclass(frozen=True)
class Executed:
    """What an execution leaves: sources it read, the plan, what it wrote and where, checks that failed, warnings."""

    sources: Mapping[str, OpenSource]
    plan: InstrumentedPlan
    names: Names
    writing: Writing
    failed: Sequence[FailedCheck]
    warnings: Sequence[Problem]


def execute(
    loaded: LoadedWorkflow,
    options: RunOptions,
    capture: str,
    folder: RunFolder,
    access: Access,
    publications: Sequence[Publication],
    stages: Stages,
    started: Callable[[], None],
    *,
    failed_before: str | None = None,
) -> Executed:
    """Runs everything that Spark does before the commit. `started` is called once Spark is there: its start is nobody's
    time. `failed_before` is why an earlier try failed: nothing is then captured on the way that can be read again."""
    with stages.stage("starting Spark"):
        from lineage_service.spark.checks import analyse_checks, checks_of, run_checks
        from lineage_service.spark.columns import Names
        from lineage_service.spark.java import java_warnings
        from lineage_service.spark.lower import lower_plan
        from lineage_service.spark.meter import metered
        from lineage_service.spark.publish import write_publication
        from lineage_service.spark.session import spark_session
        from lineage_service.spark.staging import Rehearsal, Writing, new_salt

        spark = spark_session(options.master, options.remote, options.conf)
    started()
    with metered(spark, stages.tell):
        with stages.stage("opening sources"):
            sources = _open_sources(spark, loaded, folder, access)
            plan = build_plan(loaded, {name: source.schema for name, source in sources.items()})
            sizes = replace(
                access.sizes(loaded.spec.name), sources={name: each.version.rows for name, each in sources.items()}
            )
            problems = capture_problems(plan, capture, sizes) if failed_before is None else []
            if problems:
                raise WorkflowError(problems)
            if failed_before is None or capture == "off":
                instrumented = instrument(plan, capture, sizes)
            else:
                instrumented = read_again(plan, failed_before, sizes)
            names = Names.apart_from(name for node in plan.nodes() for name in node.schema.names)
            captured = capture != "off"
            relations = {name: source.relation(names, captured=captured) for name, source in sources.items()}
            rehearsal, checks = Rehearsal(names, new_salt()), list(checks_of(loaded))
            analyse_checks(checks, lower_plan(instrumented, relations, rehearsal, names), names)
        stages.of = _how_many(rehearsal, len(checks), publications)
        writing = Writing(spark, names, folder, stages=stages, salt=rehearsal.salt)
        lowered = lower_plan(instrumented, relations, writing, names, rehearsal)
        failed: list[FailedCheck] = []
        lowered |= {check.step: writing.written(check.step) for check in checks if writing.is_dataset(check.step)}
        if checks:
            with stages.stage("checking rows"):
                failed = run_checks(checks, lowered, writing, names, {*loaded.spec.sources, *loaded.spec.outputs})
        for publication in publications:
            with stages.stage(f"publishing '{publication.output}'"):
                write_publication(publication, writing.written(publication.step), folder.home.path)
    for source in sources.values():
        source.refuse_changed()
    return Executed(sources, instrumented, names, writing, failed, java_warnings())


def _how_many(rehearsal: Rehearsal, checks: int, publications: Sequence[Publication]) -> int:
    """Stages of a run: Spark and sources, what is written, checks, publications, index and commit."""
    return 2 + len(rehearsal.writes) + bool(checks) + len(publications) + 2


def _open_sources(spark: Any, loaded: LoadedWorkflow, folder: RunFolder, access: Access) -> dict[str, OpenSource]:
    from lineage_service.spark.sources import SourceOpener

    opener = SourceOpener(spark, folder, loaded.path.parent, access.version_of, access.known)
    return {
        name: opener.open(name, source, loaded.marks.at("sources", name, "output" if source.output else "path"))
        for name, source in loaded.spec.sources.items()
        if not isinstance(source, BrokenSource)
    }


def recovered() -> None:
    """Brings Spark back after a failure that it may not have survived."""
    from lineage_service.spark.session import recover

    recover()
