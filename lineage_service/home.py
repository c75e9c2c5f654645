"""The public API: `Home.open(path)`, with one method per verb."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lineage_service.arguments import as_tuple, checked_arguments, names_of_datasets
from lineage_service.audit.log.reveals import logs_reveals
from lineage_service.progress import Stages, silent
from lineage_service.query.answer_shape import AnswerShape, Top
from lineage_service.query.catalog_snapshot import question
from lineage_service.query.open_home import OpenHome
from lineage_service.query.selection import Selection
from lineage_service.settings import IndexOptions, RunOptions

if TYPE_CHECKING:
    from lineage_service.audit.facade import Audit
    from lineage_service.programs.program_report import ProgramReport
    from lineage_service.progress import Tell
    from lineage_service.query.answer import Answer
    from lineage_service.query.diff.diff_result import Diff
    from lineage_service.query.trace.trace_result import Trace
    from lineage_service.refresh.refresh_report import RefreshReport
    from lineage_service.runs.chain.chain_run import ChainResult
    from lineage_service.runs.explanation import Explanation
    from lineage_service.runs.run_report import RunReport
    from lineage_service.runs.run_sizes import LastRun
    from lineage_service.runs.workflow_graph import Picture
    from lineage_service.store.layout import HomeLayout
    from lineage_service.store.versions import Version
    from lineage_service.why_not.why_not_result import WhyNot

Rids = int | Iterable[int] | None
Keys = Mapping[str, object] | Iterable[tuple[str, object]] | None
Names = str | Sequence[str] | None
Sources = Mapping[str, str | Path] | Iterable[tuple[str, str | Path]] | None
Given = TypeVar("Given")


@checked_arguments
class Home:
    """A home: its catalog, dataset versions and indexes. Opening it starts no process. Close it when done."""

    def __init__(self, home: OpenHome) -> None:
        self._open = home

    @property
    def layout(self) -> HomeLayout:
        """The paths of files in the home."""
        return self._open.layout

    @property
    def progress(self) -> Tell:
        """The callback that is notified when a question has to finish lineage first."""
        return self._open.progress

    @progress.setter
    def progress(self, tell: Tell) -> None:
        self._open.progress = tell

    @classmethod
    def open(cls, path: str | Path | None = None, *, catalog: str | None = None) -> Home:
        """The home at `path`, otherwise at SMOKE_HOME, the nearest .smoke, or a new .smoke here. Creates nothing yet.

        Raises StoreError if there cannot be a home at that path.
        """
        return cls(OpenHome.at(path, catalog))

    def __repr__(self) -> str:
        return f"Home({str(self.layout.path)!r})"

    def __enter__(self) -> Home:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._open.close()

    def in_one_snapshot(self, answer: Callable[[], Given]) -> Given:
        """Calls `answer` on one snapshot of the catalog."""
        return self._open.in_one_snapshot(answer)

    def version_of(self, dataset: str) -> Version:
        """The version that a dataset's name denotes now. Raises NotFound if no committed run has made it."""
        return self._open.version_of(dataset)

    # --- running ----------------------------------------------------------------------------------------------

    def run(
        self, file: str | Path, *, capture: str | None = None, vars: Mapping[str, str] | None = None,
        master: str | None = None, remote: str | None = None, conf: Mapping[str, str] | None = None,
        index_engine: str = "auto", progress: Tell | None = None, sources: Sources = None,
    ) -> RunReport:  # fmt: skip
        """Runs a workflow, a YAML file or one query in a .sql file, and commits it. Nothing is visible before the
        commit, and a failed run leaves nothing behind. `sources` says where tables are that a .sql file names:
        {"orders": "data/orders"}.

        The outputs are committed first, then their lineage is indexed. If indexing fails, the outputs stay, and `index`
        tries again. A run whose rows fail an `error` check raises RunError and is kept under its id only, until `gc`.
        """
        from lineage_service.runs.workflow_run import run_workflow

        options = RunOptions(capture, dict(vars or {}), master, remote, dict(conf or {}), index_engine, sources or ())
        return run_workflow(file, options, self._open, progress or silent)

    def run_program(
        self, file: str | Path, *, arguments: Sequence[str] | None = None, capture: str | None = None,
        strict: bool = False, remote: str | None = None, conf: Mapping[str, str] | None = None,
        index_engine: str = "auto", progress: Tell | None = None,
    ) -> ProgramReport:  # fmt: skip
        """Runs a PySpark program, unchanged, as `python FILE ARGUMENTS` would, and captures the lineage of what it
        writes. What the program raises is raised. A write that cannot be traced is made all the same and reported, or
        refused before it starts with `strict`.
        """
        from lineage_service.programs.program_run import run_program

        options = RunOptions(capture, {}, None, remote, dict(conf or {}), index_engine)
        return run_program(file, arguments or (), options, self._open, progress or silent, strict=strict)

    def run_all(
        self, *paths: str | Path, select: Names = None, all: bool = False,
        capture: str | None = None, vars: Mapping[str, str] | None = None,
        master: str | None = None, remote: str | None = None, conf: Mapping[str, str] | None = None,
        index_engine: str = "auto", progress: Tell | None = None, sources: Sources = None,
        on_result: Callable[[ChainResult], None] | None = None,
    ) -> list[ChainResult]:  # fmt: skip
        """Runs the workflows of files and folders that are out of date, or `all`, in dependency order. Returns one
        result for each. If a run fails, the workflows that depend on it are skipped, and ChainFailed is raised at the
        end.

        `select` picks workflows: "name", "name+" with all that depend on it, "+name" with all that it needs.
        `on_result` is called for each workflow before the runs, and again when it has run, failed or was skipped.
        """
        from lineage_service.runs.chain.chain_run import run_chain

        options = RunOptions(capture, dict(vars or {}), master, remote, dict(conf or {}), index_engine, sources or ())
        patterns = as_tuple(select) or ()
        return run_chain(paths, options, self._open, progress or silent, select=patterns, all=all, on_result=on_result)

    def index(
        self, run: str | None = None, *,
        master: str | None = None, remote: str | None = None, conf: Mapping[str, str] | None = None,
        index_engine: str = "auto", progress: Tell | None = None,
    ) -> list[RunReport]:  # fmt: skip
        """Finishes the lineage of a run, or of all runs with unfinished lineage, and returns their reports.

        Also publishes copies that a killed run did not publish.
        """
        from lineage_service.runs.unfinished_lineage import finish_runs

        options = IndexOptions(master, remote, dict(conf or {}), index_engine)
        return finish_runs(self._open, run, options, Stages(progress or silent))

    # --- questions --------------------------------------------------------------------------------------------

    @question
    @logs_reveals("rows")
    def rows(
        self, dataset: str, *,
        rid: Rids = None, key: Keys = None, where: str | None = None, all: bool = False,
        limit: int | None = None, columns: Sequence[str] | None = None, order_by: Names = None,
        reveal: bool = False, unchanged: bool = False,
    ) -> Answer:  # fmt: skip
        """Rows of a dataset, with `_rid`. With `unchanged`, rows of files that changed since the run are left out.

        As in all questions, values of columns marked as personal data are masked, and keys, predicates and orders over
        them are refused. `reveal` lifts this and is logged.
        """
        shape = AnswerShape(limit, as_tuple(columns), as_tuple(order_by) or (), reveal=reveal, unchanged=unchanged)
        return self._open.questions.rows(dataset, Selection.of(rid, key, where, all, reveal), shape)

    @question
    @logs_reveals("backward")
    def backward(
        self, dataset: str, *, to: Names = None,
        rid: Rids = None, key: Keys = None, where: str | None = None, all: bool = False,
        limit: int | None = None, columns: Sequence[str] | None = None, order_by: Names = None,
        rids: bool = False, pairs: bool = False, count: bool = False, roles: bool = False, influence: bool = False,
        semantics: str = "which", top: int | None = None, by: str | None = None,
        evaluate: str | None = None, without: Mapping[str, str | int | Iterable[int]] | None = None,
        cost: Mapping[str, str | float] | None = None, trust: Mapping[str, str | float] | None = None,
        reveal: bool = False, unchanged: bool = False,
    ) -> Answer:  # fmt: skip
        """Rows of `to` that contributed to rows of `dataset`; without `to`, their number in each dataset behind it.

        `top` returns only that many rows, ranked by `by`, an expression over their columns (it may end in asc or desc),
        and marks the rows that decide a min or max. `semantics`: with `why`, the sets of rows that together suffice
        (witnesses); with `how`, polynomials or their values (`evaluate`: count, boolean `without` rows, min-cost by
        `cost`, trust by `trust`). Without `to`, these go back to all sources.
        """
        from lineage_service.query.answer_shape import EvaluationRequest, is_explanation

        selection = Selection.of(rid, key, where, all, reveal)
        evaluation = EvaluationRequest(evaluate, without or {}, cost or {}, trust or {}, reveal)
        which = {"rids": rids, "pairs": pairs, "count": count, "roles": roles, "influence": influence,
                 "order_by": order_by, "top": top, "by": by, "unchanged": unchanged}  # fmt: skip
        targets = names_of_datasets(to, "to")
        if is_explanation(semantics, evaluation, which):
            from lineage_service.query.semantics.explanations import explain_rows

            return explain_rows(
                self._open.questions, dataset, targets, selection, semantics, evaluation, limit, as_tuple(columns)
            )
        shape = AnswerShape(
            limit, as_tuple(columns), as_tuple(order_by) or (), rids, pairs, count, roles, influence, Top.of(top, by),
            reveal, unchanged,
        )  # fmt: skip
        return self._open.questions.lineage(dataset, "backward", targets, selection, shape)

    @question
    @logs_reveals("forward")
    def forward(
        self, source: str, *, to: Names = None,
        rid: Rids = None, key: Keys = None, where: str | None = None, all: bool = False,
        limit: int | None = None, columns: Sequence[str] | None = None, order_by: Names = None,
        rids: bool = False, pairs: bool = False, count: bool = False, roles: bool = False, influence: bool = False,
        reveal: bool = False, unchanged: bool = False,
    ) -> Answer:  # fmt: skip
        """Rows of `to` that depend on rows of `source`; without `to`, their number in each dataset derived from it."""
        shape = AnswerShape(limit, as_tuple(columns), as_tuple(order_by) or (), rids, pairs, count, roles, influence,
                            reveal=reveal, unchanged=unchanged)  # fmt: skip
        selection = Selection.of(rid, key, where, all, reveal)
        return self._open.questions.lineage(source, "forward", names_of_datasets(to, "to"), selection, shape)

    @question
    @logs_reveals("trace")
    def trace(
        self, dataset: str, *,
        rid: Rids = None, key: Keys = None, where: str | None = None,
        depth: int | None = None, rows: int = 3, reveal: bool = False,
    ) -> Trace:  # fmt: skip
        """The complete trace of one record in both directions, across workflows. `rows` is the number shown per
        dataset.
        """
        from lineage_service.query.trace.record_trace import trace

        selection = Selection.of(rid, key, where, False, reveal)
        return trace(self._open.questions, dataset, selection, depth=depth, rows=rows)

    @question
    @logs_reveals("diff")
    def diff(
        self, before: str, after: str | None = None, *, key: Names = None,
        source_key: Mapping[str, Names] | None = None,
        limit: int | None = None, rows: int = 3, behind: bool = True, reveal: bool = False, tolerance: float = 1e-9,
    ) -> Diff:  # fmt: skip
        """The changes between two runs of a dataset, matched by `key`, with `rows` of each source behind each change.

        Without `after`, compares the named run with the latest; without any run, the previous run with the latest.
        Floating-point numbers within a relative `tolerance` are equal; 0 compares exactly.
        """
        from lineage_service.query.diff.comparison import DiffOptions, diff

        keys = {source: as_tuple(columns) or () for source, columns in (source_key or {}).items()}
        options = DiffOptions(as_tuple(key), keys, limit, rows, behind, reveal, tolerance)
        return diff(self._open.questions, before, after, options)

    @question
    @logs_reveals("why-not")
    def why_not(
        self, source: str, *, to: str,
        rid: Rids = None, key: Keys = None, where: str | None = None, all: bool = False,
        limit: int | None = None, rids: bool = False, reveal: bool = False,
    ) -> WhyNot:  # fmt: skip
        """Where rows of `source` are lost on the way to the output `to`, and why; at most `limit` row ids per reason.

        With `rids`, also every lost row. Spark evaluates the run's steps again, unless all rows arrive.
        """
        from lineage_service.why_not.why_not_answer import why_not

        selection, stages = Selection.of(rid, key, where, all, reveal), Stages(self.progress)
        return why_not(self.layout, self._open.questions, source, to, selection, stages, limit=limit, rids=rids)

    def query(
        self, sql: str, *,
        save: str | None = None, limit: int | None = None, timeout: float | None = None, max_rows: int | None = None,
        reveal: bool = False,
    ) -> Answer:  # fmt: skip
        """The answer to a lineage-consuming query: a SELECT over datasets and `backward`, `forward`, `workload`.

        It may take `timeout` seconds and return `max_rows` rows; a truncated answer says so. With `save`, its rows
        become a dataset of that name with lineage of their own, and the answer shows that dataset. Masked columns can
        only be selected as they are, and are shown masked. Any other use of them, and saving them, needs `reveal`.
        """
        from lineage_service.audit.log.logged_questions import answer_query, save_query

        if save is None:
            return answer_query(self._open, sql, limit, timeout=timeout, max_rows=max_rows, reveal=reveal)
        run_id = save_query(self._open, sql, save, timeout=timeout, max_rows=max_rows, reveal=reveal)
        answer = self.rows(f"{save}.{save}@{run_id}", limit=limit, reveal=reveal)
        answer.notes.append(f"saved as '{save}', run {run_id}")
        return answer

    def refresh(
        self, *datasets: str, removed: Any = None, changed: Any = None, added: Any = None, key: Names = None,
        master: str | None = None, remote: str | None = None, conf: Mapping[str, str] | None = None,
        progress: Tell | None = None, reveal: bool = False,
    ) -> RefreshReport:  # fmt: skip
        """Updates outputs after rows of a source were removed, corrected or added, and commits the result as a new run.

        `removed` is a predicate or rids; `changed` and `added` are files, Arrow tables or rows as dicts. Corrected rows
        are identified by `_rid` or by the columns of `key`. For several sources, each argument is a mapping by source
        name.
        """
        from lineage_service.audit.log.logged_questions import refresh_outputs

        options = IndexOptions(master, remote, dict(conf or {}))
        return refresh_outputs(
            self._open, datasets, removed, changed, added, as_tuple(key) or (), options,
            Stages(progress or self.progress), reveal=reveal,
        )  # fmt: skip

    @question
    @logs_reveals("what-if")
    def what_if(
        self, *, without: str, on: Names,
        where: str | None = None, rid: Rids = None, key: Keys = None, all: bool = False,
        master: str | None = None, remote: str | None = None, conf: Mapping[str, str] | None = None,
        progress: Tell | None = None, reveal: bool = False,
    ) -> Answer:  # fmt: skip
        """Rows of outputs that would change, appear or vanish `without` these rows of a source. Changes nothing."""
        from lineage_service.refresh.what_if import what_if

        options = IndexOptions(master, remote, dict(conf or {}))
        selection, stages = Selection.of(rid, key, where, all, reveal), Stages(progress or self.progress)
        targets = names_of_datasets(on, "on") or ()
        return what_if(self.layout, self._open.questions, without, selection, targets, options, stages)

    @question
    def runs(self, *, workflow: str | None = None, failed: bool = False, limit: int | None = None) -> Answer:
        """Committed runs, newest first; with `failed`, the runs that failed a check and are kept until `gc`."""
        from lineage_service.query.catalog_listing import list_runs

        return list_runs(self._open, workflow, limit, failed=failed)

    @question
    def datasets(self, dataset: Names = None, *, run: str | None = None, limit: int | None = None) -> Answer:
        """The datasets with these names, otherwise those of a run or of each workflow's latest run."""
        from lineage_service.query.catalog_listing import list_datasets

        return list_datasets(self._open, as_tuple(dataset), run, limit)

    @question
    def columns(
        self, dataset: Names = None, *, run: str | None = None, through: bool = False, limit: int | None = None
    ) -> Answer:
        """The columns of these datasets (otherwise of a run, or of each workflow's latest run): type, whether a column
        shows personal data, what it is computed from, and what only influences it.

        `through` follows the outputs of other workflows to columns of files.
        """
        from lineage_service.query.column_listing import list_columns

        return list_columns(self._open, as_tuple(dataset), run, limit, through=through)

    @question
    def graph(self) -> Picture:
        """The latest run of every workflow, linked where they share rows, as boxes and edges."""
        from lineage_service.runs.catalog_graph import catalog_picture

        return catalog_picture(self._open.reader, str(self.layout.path))

    @question
    def last_run(self, workflow: str) -> LastRun | None:
        """The sizes of a workflow's latest run; None if there is none."""
        from lineage_service.runs.run_sizes import last_run

        return last_run(self._open.reader, workflow) if self._open.has_catalog() else None

    @question
    def explained_run(self, run: str) -> Explanation:
        """The record of a run. `run` is its id, a unique prefix of it, or a workflow, which means its latest run."""
        from lineage_service.runs.explanation import explain_committed_run

        return explain_committed_run(self._open, run)

    def gc(self, *, dry_run: bool = False, retention: bool = False, actor: str | None = None) -> dict[str, Any]:
        """Removes files that no committed run needs, and runs that failed a check.

        With `retention`, first removes everything held of runs past the `retention_days` of their workflow; this is
        logged. Runs in progress and runs of another catalog are left alone.
        """
        from lineage_service.audit.garbage_removal import remove_garbage

        return remove_garbage(self._open, dry_run=dry_run, retention=retention, actor=actor)

    @property
    def audit(self) -> Audit:
        """The verbs of `audit`: access, plan_erasure, apply, verify, log, …"""
        from lineage_service.audit.facade import Audit

        return Audit(self._open)
