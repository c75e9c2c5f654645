"""One run of a workflow, as the table of contents of the project: load, build, open, instrument, rehearse, write,
check, index, commit. Nothing is visible before the last line; whatever fails before it leaves nothing behind. Where the
commit itself fails, nobody can be sure that it did: the files stay, and `gc` removes them if no catalog has the run.

A run whose rows fail an `error` check is kept under its id, so that those rows can be explained, and is not committed:
no name without that id ever means it, nothing is published, and `gc` removes it.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from lineage_service.capture.handles import Space, Table, step_space
from lineage_service.capture.instrument import InstrumentedPlan
from lineage_service.capture.strategies import check_capture
from lineage_service.checked import checked_workflow
from lineage_service.errors import ChecksFailed
from lineage_service.execute import Access, Executed, RunOptions, execute
from lineage_service.failed import failed_checks
from lineage_service.index.finish import Finisher, Hop, TableFiles
from lineage_service.progress import Stages, Tell
from lineage_service.record import Pairs, RunReport, run_commit, run_report, with_warnings
from lineage_service.store.layout import HomeLayout, RunFolder, working_folder
from lineage_service.store.publish import discarding, prepare_publications, publish

if TYPE_CHECKING:
    from lineage_service.spark.staging import Writing


def run_workflow(file: str | Path, options: RunOptions, home: HomeLayout, access: Access, tell: Tell) -> RunReport:
    """Runs a workflow and commits it."""
    started = datetime.now(UTC)
    loaded, _, warnings = checked_workflow(file, options.vars, access.version_of)
    capture = options.capture or loaded.spec.lineage.capture
    check_capture(capture)
    publications = prepare_publications(loaded)
    stages, clock = Stages(tell), _Clock()
    with discarding(publications):
        with working_folder(home) as folder:
            done = execute(loaded, options, capture, folder, access, publications, stages, clock.restart)
            clock.lap("execute")
            with stages.stage("indexing lineage") as written:
                hops, pairs = _finish(done, folder)
                written.rows, written.bytes = sum(hop.rows for hop in hops), sum(hop.bytes for hop in hops)
            clock.lap("index")
            problems = failed_checks(done.failed, done.plan.plan, folder, traced=capture != "off")
            status = "failed" if any(problem.severity == "error" for problem in problems) else "committed"
            report = run_report(status, loaded, done, hops, pairs, clock.seconds, folder)
            with stages.stage("committing"):
                folder.sync()
                folder.hand_over()
                access.commit(run_commit(started, loaded, done, hops, report, folder))
                if status == "committed":
                    folder.mark_committed()
        if status == "failed":
            raise ChecksFailed([*warnings, *done.warnings, *problems], report)
    publish(publications)
    return with_warnings(report, [*warnings, *done.warnings, *problems])


class _Clock:
    """Seconds per phase; what Spark needed to start is nobody's."""

    def __init__(self) -> None:
        self.seconds = {"execute": 0.0, "capture": 0.0, "index": 0.0}
        self._since = time.monotonic()

    def restart(self) -> None:
        self._since = time.monotonic()

    def lap(self, phase: str) -> None:
        now = time.monotonic()
        self.seconds[phase] = round(now - self._since, 3)
        self._since = now


def _finish(done: Executed, folder: RunFolder) -> tuple[list[Hop], Pairs]:
    """The run's index, and how many pairs each output has with each source."""
    plan, writing, names = done.plan, done.writing, done.names
    if plan.capture == "off":
        return [], {}
    files: dict[Space, TableFiles] = {}
    tables = (*plan.tables(), *_failing_tables(plan, writing))
    for table in tables:
        handles = tuple(names.handles(len(table.handles)))
        if table.space in writing.tables:
            written = sorted(str(path) for path in writing.tables[table.space].glob("*.parquet"))
            files[table.space] = TableFiles(tuple(written), names.group, handles)
        elif table.everything is None:
            version = writing.versions[table.space.removeprefix("step:")]
            paths = tuple(folder.home.absolute(file.path) for file in version.files)
            files[table.space] = TableFiles(paths, None, handles)
    folder.index.mkdir(parents=True, exist_ok=True)
    finisher = Finisher(tables, files, folder.index, folder.temporary / "spill")
    return finisher.finish(), finisher.pairs


def _failing_tables(plan: InstrumentedPlan, writing: Writing) -> list[Table]:
    """Rows that fail checks carry the handles of the rows they are."""
    handles = {each.node.id: each.handles for each in plan.nodes}
    return [
        Table(step_space(name), handles[failing.step]) for name, failing in writing.failed.items() if failing.handles
    ]
