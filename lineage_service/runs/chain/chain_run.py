"""Runs those of several workflows that are out of date, in dependency order and in one Spark session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from lineage_service.errors import ChecksFailed, LineageError, NotFound, Problem, RunError
from lineage_service.progress import Tell
from lineage_service.runs.chain.chained_workflows import Chain, ChainedWorkflow, load_chain
from lineage_service.runs.chain.outdated import reason_to_run
from lineage_service.runs.chain.workflow_files import workflow_files
from lineage_service.runs.run_report import RunReport
from lineage_service.runs.workflow_run import run_workflow
from lineage_service.settings import RunOptions
from lineage_service.store.home_store import HomeStore

State = Literal["up to date", "to run", "committed", "failed", "skipped"]


@dataclass(frozen=True)
class ChainResult:
    """What became of one workflow of a chain.

    state: `to run` before it runs; `skipped` where one that it reads failed
    reason: why it runs, or why not
    report: of its run; also of a run that failed a check
    error: why it failed
    """

    workflow: str
    state: State
    reason: str
    report: RunReport | None = None
    error: LineageError | None = None

    def to_json(self) -> dict[str, Any]:
        """The report of its run; of a workflow without a run, the same keys and the reason."""
        if self.report is not None:
            return self.report.to_json()
        return {"run_id": None, "workflow": self.workflow, "status": self.state, "vars": {}, "outputs": {},
                "sources": {}, "capture": {}, "seconds": {}, "reason": self.reason}  # fmt: skip


class ChainFailed(RunError):
    """Some workflows of a chain failed. `results` has what became of each."""

    def __init__(self, results: Sequence[ChainResult]) -> None:
        failed = [each for each in results if each.state == "failed"]
        skipped = [each.workflow for each in results if each.state == "skipped"]
        behind = f"; skipped because they depend on a failed one: {', '.join(skipped)}" if skipped else ""
        names = ", ".join(each.workflow for each in failed)
        super().__init__(f"{len(failed)} of {len(results)} workflows failed: {names}{behind}")
        self.results = tuple(results)


def run_chain(
    paths: Sequence[str | Path],
    options: RunOptions,
    store: HomeStore,
    tell: Tell,
    *,
    select: Sequence[str] = (),
    all: bool = False,
    on_result: Callable[[ChainResult], None] | None = None,
) -> list[ChainResult]:
    """Runs the workflows of files and folders that are out of date, or all. Returns one result for each, in the order
    of the runs.

    `on_result` is called for each workflow before the runs, with the state `up to date` or `to run`, and again when it
    has run, failed or was skipped. If a run fails, the workflows that depend on it are skipped, and ChainFailed is
    raised at the end. WorkflowError lists all problems of the files; it is raised before anything runs.
    """
    files = workflow_files(paths)
    report_result = on_result or (lambda _: None)
    chain = load_chain(files, dict(options.vars), options.sources, lambda name: _is_dataset(store, name))
    chosen = chain.select(select) if select else chain
    store.prepare()
    with store.reader.snapshot():
        planned = list(_planned(chain, chosen, store, options.capture, all=all))
    for each in planned:
        report_result(each)
    results: list[ChainResult] = []
    for each in planned:
        result = each
        if each.state == "to run":
            result = _run(chain.workflows[each.workflow], each.reason, results, options, store, tell)
            report_result(result)
        results.append(result)
    if any(each.state == "failed" for each in results):
        raise ChainFailed(results)
    return results


def _is_dataset(store: HomeStore, name: str) -> bool:
    try:
        store.version_of(name)
    except NotFound:
        return False
    return True


def _planned(chain: Chain, chosen: Chain, store: HomeStore, capture: str | None, *, all: bool) -> Iterator[ChainResult]:
    """Those that will run, and why; those that are up to date. What is not chosen does not run, and may be stale."""
    running: set[str] = set()
    for name, item in chosen.workflows.items():
        before = [read for read in item.reads if read in running]
        reason = f"{' and '.join(map(repr, before))} will run before it" if before else None
        reason = reason or reason_to_run(item, store, capture)
        if reason is None and all:
            reason = "all workflows were requested"
        if reason is not None:
            running.add(name)
            yield ChainResult(name, "to run", reason)
            continue
        run = store.reader.latest_run(name)
        stale = [read for read in item.reads if read not in chosen.workflows and _is_stale(chain, read, store, capture)]
        but = f"; but '{stale[0]}', which it reads, is out of date and not selected" if stale else ""
        if run is not None and capture not in (None, "auto", "off", run.capture):
            but = f"; its lineage was captured with --capture {run.capture}{but}"
        yield ChainResult(name, "up to date", f"run {run.id if run else '-'}{but}")


def _is_stale(chain: Chain, name: str, store: HomeStore, capture: str | None) -> bool:
    item = chain.workflows[name]
    is_stale = reason_to_run(item, store, capture) is not None
    return is_stale or any(_is_stale(chain, each, store, capture) for each in item.reads)


def _run(
    item: ChainedWorkflow,
    reason: str,
    results: Sequence[ChainResult],
    options: RunOptions,
    store: HomeStore,
    tell: Tell,
) -> ChainResult:
    missing = [each.workflow for each in results if each.state in ("failed", "skipped") and each.workflow in item.reads]
    if missing:
        return ChainResult(item.name, "skipped", f"'{missing[0]}', which it reads, was not run successfully")
    own = replace(options, vars=item.variables, sources=item.sources)
    try:
        report = run_workflow(item.file, own, store, tell)
    except ChecksFailed as error:
        return ChainResult(item.name, "failed", _first(error.problems), error.report, error)
    except LineageError as error:
        return ChainResult(item.name, "failed", _first(error.problems), None, error)
    return ChainResult(item.name, "committed", reason, report)


def _first(problems: Sequence[Problem]) -> str:
    return next((each.message for each in problems if each.severity == "error"), problems[0].message)
