"""What a user imports: `Home.open(path)`, and the verbs of the contract as methods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lineage_service.arguments import checked_arguments
from lineage_service.audit.log.reveals import commit_after_logging, log_reveals
from lineage_service.errors import NotFound, QuestionError, StoreError
from lineage_service.progress import Stages, Tell, silent
from lineage_service.query.answer import Answer
from lineage_service.query.catalog_snapshot import question
from lineage_service.query.lineage_graph import Direction
from lineage_service.query.open_home import OpenHome
from lineage_service.query.row_retrieval import AnswerShape, Top
from lineage_service.query.selection import Selection
from lineage_service.settings import IndexOptions, check_index_engine
from lineage_service.store.dataset_names import find_run
from lineage_service.store.layout import HomeLayout
from lineage_service.store.versions import Version

if TYPE_CHECKING:
    from lineage_service.audit.facade import Audit
    from lineage_service.query.diff.diff_result import Diff
    from lineage_service.query.trace.trace_result import Trace
    from lineage_service.refresh.refresh_report import RefreshReport
    from lineage_service.refresh.refresh_request import StatedChanges
    from lineage_service.runs.explanation import Explanation
    from lineage_service.runs.run_report import RunReport
    from lineage_service.runs.run_sizes import LastRun
    from lineage_service.runs.workflow_graph import Picture
    from lineage_service.sql.answer_limits import Limits
    from lineage_service.sql.question_in_sql import SqlQuestions
    from lineage_service.why_not.why_not_result import WhyNot

Rids = int | Iterable[int] | None
Keys = Mapping[str, object] | Iterable[tuple[str, object]] | None
Names = str | Sequence[str] | None
Given = TypeVar("Given")


@checked_arguments
class Home:
    """A home: its catalog, dataset versions and indexes. Opening it starts nothing; close it when done."""

    def __init__(self, home: OpenHome) -> None:
        self._open = home
        self._consuming: SqlQuestions | None = None

    @property
    def layout(self) -> HomeLayout:
        """Where things are in the home."""
        return self._open.layout

    @property
    def progress(self) -> Tell:
        """Who hears of lineage that a question has to finish first."""
        return self._open.progress

    @progress.setter
    def progress(self, tell: Tell) -> None:
        self._open.progress = tell

    @classmethod
    def open(cls, path: str | Path | None = None, *, catalog: str | None = None) -> Home:
        """The home at `path` (else SMOKE_HOME, the nearest .smoke, or a new .smoke here). Nothing is created yet;
        StoreError where there can be none."""
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
        """What `answer` gives, read from one state of the catalog."""
        return self._open.in_one_snapshot(answer)

    # --- running ----------------------------------------------------------------------------------------------

    def run(
        self,
        file: str | Path,
        *,
        capture: str | None = None,
        vars: Mapping[str, str] | None = None,
        master: str | None = None,
        remote: str | None = None,
        conf: Mapping[str, str] | None = None,
        index_engine: str = "auto",
        progress: Tell | None = None,
    ) -> RunReport:
        """Runs a workflow and commits it; nothing is visible before, and nothing is left where it fails.

        The outputs are committed first, their lineage follows: where that fails, they stay, and `index` tries again.
        A run whose rows fail an `error` check raises RunError and is kept under its id only, until `gc`.
        """
        from lineage_service.runs.workflow_execution import RunOptions
        from lineage_service.runs.workflow_run import run_workflow

        check_index_engine(index_engine)
        if not Path(file).exists():  # a mistake in its name must not leave a home behind
            raise NotFound(f"workflow file '{file}' does not exist")
        self._open.prepare()
        self._open.finish_publications()
        options = RunOptions(capture, dict(vars or {}), master, remote, dict(conf or {}), index_engine)
        return run_workflow(file, options, self._open, progress or silent)

    def index(
        self,
        run: str | None = None,
        *,
        master: str | None = None,
        remote: str | None = None,
        conf: Mapping[str, str] | None = None,
        index_engine: str = "auto",
        progress: Tell | None = None,
    ) -> list[RunReport]:
        """Finishes the lineage of a run, or of all whose lineage is not finished; gives the reports of those. Copies
        that killed runs did not get to publish are published."""
        from lineage_service.runs.unfinished_lineage import finish_lineage

        check_index_engine(index_engine)
        reader = self._open.reader
        if run is not None:
            wanted = [find_run(reader, run, str(self.layout.path)).id]
        else:
            wanted = [each.id for each in reader.unfinished_runs()]
        options, stages = IndexOptions(master, remote, dict(conf or {}), index_engine), Stages(progress or silent)
        problems = self._open.finish_publications(by_name=True)
        reports = [report for each in wanted if (report := finish_lineage(self._open, each, options, stages))]
        if problems:
            raise StoreError(problems)
        return reports

    # --- questions --------------------------------------------------------------------------------------------

    @question
    def rows(
        self,
        dataset: str,
        *,
        rid: Rids = None,
        key: Keys = None,
        where: str | None = None,
        all: bool = False,
        limit: int | None = None,
        columns: Sequence[str] | None = None,
        order_by: Names = None,
        reveal: bool = False,
        unchanged: bool = False,
    ) -> Answer:
        """Rows of a dataset, with `_rid`; only those of files that are what they were, where `unchanged` are asked for.

        Values of columns that are marked as personal data are masked, and keys, predicates and orders over them are
        refused, unless `reveal` is given, which is logged. So it is for all questions.
        """
        shape = AnswerShape(limit, _as_tuple(columns), _as_tuple(order_by) or (), reveal=reveal, unchanged=unchanged)
        with log_reveals(self._open, "rows") as masks:
            answer = self._open.questions.rows(dataset, Selection.of(rid, key, where, all, reveal), shape)
        answer.notes += masks.notes
        return answer

    @question
    def backward(
        self,
        dataset: str,
        *,
        to: Names = None,
        rid: Rids = None,
        key: Keys = None,
        where: str | None = None,
        all: bool = False,
        limit: int | None = None,
        columns: Sequence[str] | None = None,
        order_by: Names = None,
        rids: bool = False,
        pairs: bool = False,
        count: bool = False,
        roles: bool = False,
        influence: bool = False,
        semantics: str = "which",
        top: int | None = None,
        by: str | None = None,
        evaluate: str | None = None,
        without: Mapping[str, str | int | Iterable[int]] | None = None,
        cost: Mapping[str, str | float] | None = None,
        trust: Mapping[str, str | float] | None = None,
        reveal: bool = False,
        unchanged: bool = False,
    ) -> Answer:
        """Rows of `to` that contributed to rows of `dataset`; without `to`, how many in each dataset behind it.

        `top` gives only so many of them, those of the largest `by`, an expression of their columns (it may end in asc
        or desc), and marks those that decide a min or max. With `semantics` why: which of them together, as witnesses;
        how: as polynomials, or what they `evaluate` to (count, boolean `without` rows, min-cost by `cost`, trust by
        `trust`). Without `to` down to all sources.
        """
        if semantics not in ("which", "why", "how"):
            raise QuestionError(f"unknown semantics '{semantics}'; semantics: which, why, how")
        if semantics != "which" or evaluate or without or cost or trust:
            given = {"rids": rids, "pairs": pairs, "count": count, "roles": roles, "influence": influence,
                     "order_by": order_by, "top": top, "by": by, "unchanged": unchanged}  # fmt: skip
            for name in (name for name, value in given.items() if value and semantics != "which"):
                raise QuestionError(f"'{name}' goes with semantics which, not with {semantics}")
            from lineage_service.query.semantics.explanations import EvaluationRequest, explain_rows

            evaluating = EvaluationRequest(evaluate, without or {}, cost or {}, trust or {}, reveal)
            selection = Selection.of(rid, key, where, all, reveal)
            with log_reveals(self._open, "backward"):
                return explain_rows(
                    self._open.questions, dataset, _as_tuple(to), selection, semantics, evaluating, limit,
                    _as_tuple(columns),
                )  # fmt: skip
        ranked = Top.of(top, by)
        if ranked is not None and to is None:
            raise QuestionError("top ranks rows of one dataset: say which, with to")
        shape = AnswerShape(
            limit, _as_tuple(columns), _as_tuple(order_by) or (), rids, pairs, count, roles, influence, ranked, reveal,
            unchanged,
        )  # fmt: skip
        return self._lineage(dataset, "backward", to, Selection.of(rid, key, where, all, reveal), shape)

    @question
    def forward(
        self,
        source: str,
        *,
        to: Names = None,
        rid: Rids = None,
        key: Keys = None,
        where: str | None = None,
        all: bool = False,
        limit: int | None = None,
        columns: Sequence[str] | None = None,
        order_by: Names = None,
        rids: bool = False,
        pairs: bool = False,
        count: bool = False,
        roles: bool = False,
        influence: bool = False,
        reveal: bool = False,
        unchanged: bool = False,
    ) -> Answer:
        """Rows of `to` that depend on rows of `source`; without `to`, how many in each dataset ahead."""
        shape = AnswerShape(limit, _as_tuple(columns), _as_tuple(order_by) or (), rids, pairs, count, roles, influence,
                      reveal=reveal, unchanged=unchanged)  # fmt: skip
        return self._lineage(source, "forward", to, Selection.of(rid, key, where, all, reveal), shape)

    @question
    def trace(
        self,
        dataset: str,
        *,
        rid: Rids = None,
        key: Keys = None,
        where: str | None = None,
        depth: int | None = None,
        rows: int = 3,
        reveal: bool = False,
    ) -> Trace:
        """The whole way of one record, both directions, over workflows; `rows` are shown of each dataset."""
        from lineage_service.query.trace.record_trace import trace

        selection = Selection.of(rid, key, where, False, reveal)
        with log_reveals(self._open, "trace") as masks:
            found = trace(self._open.questions, dataset, selection, depth=depth, rows=rows)
        return replace(found, notes=(*found.notes, *masks.notes))

    @question
    def diff(
        self,
        before: str,
        after: str | None = None,
        *,
        key: Names = None,
        source_key: Mapping[str, Names] | None = None,
        limit: int | None = None,
        rows: int = 3,
        behind: bool = True,
        reveal: bool = False,
        tolerance: float = 1e-9,
    ) -> Diff:
        """What changed between two runs of a dataset, by `key`, and `rows` of each source behind each change.

        Without `after`: the run named against the latest; without any run: the previous one against the latest.
        Floating-point numbers within a relative `tolerance` are equal; 0 compares exactly.
        """
        from lineage_service.query.diff.comparison import DiffOptions, diff

        keys = {source: _as_tuple(columns) or () for source, columns in (source_key or {}).items()}
        with log_reveals(self._open, "diff") as masks:
            options = DiffOptions(_as_tuple(key), keys, limit, rows, behind, reveal, tolerance)
            found = diff(self._open.questions, before, after, options)
        return replace(found, notes=(*found.notes, *masks.notes))

    @question
    def why_not(
        self,
        source: str,
        *,
        to: str,
        rid: Rids = None,
        key: Keys = None,
        where: str | None = None,
        all: bool = False,
        limit: int | None = None,
        rids: bool = False,
        reveal: bool = False,
    ) -> WhyNot:
        """Where rows of `source` are lost on their way to the output `to`, and why; `limit` row ids of each reason.

        With `rids`, also each row that is lost. Spark evaluates the run's steps again, unless all rows arrive.
        """
        from lineage_service.why_not.why_not_answer import why_not

        selection, stages = Selection.of(rid, key, where, all, reveal), Stages(self.progress)
        with log_reveals(self._open, "why-not") as masks:
            found = why_not(self.layout, self._open.questions, source, to, selection, stages, limit=limit, rids=rids)
            found.notes += self._open.questions.retention_cut_notes_of_runs([found.run_id])
        found.notes += masks.notes
        return found

    def query(
        self,
        sql: str,
        *,
        save: str | None = None,
        limit: int | None = None,
        timeout: float | None = None,
        max_rows: int | None = None,
        reveal: bool = False,
    ) -> Answer:
        """The answer to a lineage-consuming query: a SELECT over datasets and `backward`, `forward`, `workload`.

        It may take `timeout` seconds and give `max_rows` rows; an answer that is cut says so. With `save`, its rows
        become a dataset of that name, with lineage of their own, and are given as rows of that. Masked columns can be
        shown as masks and nothing else: whatever else reads them, or saves them, needs `reveal`.
        """
        from lineage_service.sql.answer_limits import Limits

        limits = Limits.of(timeout, max_rows)
        if save is None:
            return self._run_query(sql, limits, limit, reveal)
        self._open.reader.workflows()  # where there is no catalog, none is made
        self._open.prepare()
        run_id = self._save_query(sql, save, limits, reveal)
        answer = self.rows(f"{save}.{save}@{run_id}", limit=limit, reveal=reveal)
        answer.notes.append(f"saved as '{save}', run {run_id}")
        return answer

    @question
    def _run_query(self, sql: str, limits: Limits, limit: int | None, reveal: bool) -> Answer:
        with log_reveals(self._open, "query") as masks:
            found = self._consumer.query(sql, limits, limit, reveal=reveal)
        found.notes += masks.notes
        return found

    @question
    def _save_query(self, sql: str, name: str, limits: Limits, reveal: bool) -> str:
        """The id of the run that holds a query's rows."""
        latest = {flow: run for flow in self._open.reader.workflows() if (run := self._open.reader.latest_run(flow))}
        captures = {flow: run.capture for flow, run in latest.items()}
        with log_reveals(self._open, "query"):
            return self._consumer.save(
                sql, name, limits, captures, commit_after_logging(self._open, "query"), reveal=reveal
            )

    def refresh(
        self,
        *datasets: str,
        removed: Any = None,
        changed: Any = None,
        added: Any = None,
        key: Names = None,
        master: str | None = None,
        remote: str | None = None,
        conf: Mapping[str, str] | None = None,
        progress: Tell | None = None,
        reveal: bool = False,
    ) -> RefreshReport:
        """Brings outputs up to date with rows of a source that were removed (a predicate, or rids), corrected or added
        (files, Arrow tables or rows as dicts), and commits that as a new run. Corrected rows are told by `_rid`, or by
        the columns of `key`. Of several sources, each of these is a mapping by their names."""
        from lineage_service.refresh.refresh_request import stated_changes

        asked = stated_changes(datasets, removed, changed, added, _as_tuple(key) or (), reveal=reveal)
        self._open.finish_publications()  # before the snapshot, which does not know what was committed since
        options = IndexOptions(master, remote, dict(conf or {}))
        return self._refresh_outputs(asked, options, Stages(progress or self.progress))

    @question
    def _refresh_outputs(
        self, asked: Mapping[str, StatedChanges], options: IndexOptions, stages: Stages
    ) -> RefreshReport:
        from lineage_service.refresh.refresh_request import refresh

        with log_reveals(self._open, "refresh"):
            return refresh(
                self.layout, self._open.questions, asked, options, commit_after_logging(self._open, "refresh"),
                self._open.publish, stages,
            )  # fmt: skip

    @question
    def what_if(
        self,
        *,
        without: str,
        on: Names,
        where: str | None = None,
        rid: Rids = None,
        key: Keys = None,
        all: bool = False,
        master: str | None = None,
        remote: str | None = None,
        conf: Mapping[str, str] | None = None,
        progress: Tell | None = None,
        reveal: bool = False,
    ) -> Answer:
        """Rows of outputs that would change, appear or vanish `without` these rows of a source; nothing is changed."""
        from lineage_service.refresh.what_if import what_if

        options = IndexOptions(master, remote, dict(conf or {}))
        selection, stages = Selection.of(rid, key, where, all, reveal), Stages(progress or self.progress)
        with log_reveals(self._open, "what-if") as masks:
            found = what_if(self.layout, self._open.questions, without, selection, _as_tuple(on) or (), options, stages)
        found.notes += masks.notes
        return found

    @question
    def runs(self, *, workflow: str | None = None, failed: bool = False, limit: int | None = None) -> Answer:
        """Committed runs, newest first; or those that `failed` a check and are kept until `gc`."""
        from lineage_service.query.catalog_listing import list_runs

        return list_runs(self._open.reader, str(self.layout.path), workflow, limit, failed=failed)

    @question
    def datasets(self, dataset: Names = None, *, run: str | None = None, limit: int | None = None) -> Answer:
        """These datasets; else those of a run, or of each workflow's latest."""
        from lineage_service.query.catalog_listing import find_datasets, list_datasets

        found = find_datasets(self._open.reader, str(self.layout.path), _as_tuple(dataset), run)
        return list_datasets(self._open.reader, found, limit)

    @question
    def columns(
        self, dataset: Names = None, *, run: str | None = None, through: bool = False, limit: int | None = None
    ) -> Answer:
        """The columns of these datasets (else of a run, or of each workflow's latest): type, whether a column shows
        personal data, what it is computed from, and what only influences it. `through` follows other workflows'
        outputs down to columns of files."""
        from lineage_service.query.catalog_listing import find_datasets
        from lineage_service.query.column_listing import ColumnListing

        found = find_datasets(self._open.reader, str(self.layout.path), _as_tuple(dataset), run)
        return ColumnListing(self._open.reader, through).answer(found, limit)

    @question
    def graph(self) -> Picture:
        """Every workflow as of its latest run, linked where they share rows, as boxes and edges."""
        from lineage_service.runs.catalog_graph import catalog_picture

        return catalog_picture(self._open.reader, str(self.layout.path))

    @question
    def last_run(self, workflow: str) -> LastRun | None:
        """The sizes of a workflow's latest run; None where there is none."""
        from lineage_service.runs.run_sizes import last_run

        return last_run(self._open.reader, workflow) if self._open.has_catalog() else None

    @question
    def explained_run(self, run: str) -> Explanation:
        """What a run did; `run` is its id, a unique prefix of it, or a workflow, whose latest run is meant."""
        from lineage_service.runs.explanation import explain_committed_run

        return explain_committed_run(self._open, run)

    def gc(self, *, dry_run: bool = False, retention: bool = False, actor: str | None = None) -> dict[str, Any]:
        """Removes what no committed run needs, also runs that failed a check; with `retention`, first all that is held
        of runs past the `retention_days` of their workflow, which is logged.

        A run at work is left alone, and one that another catalog has.
        """
        problems = self._open.finish_publications(by_name=True) if not dry_run and self._open.has_runs() else ()
        kept = self.audit.retain(dry_run=dry_run, actor=actor) if retention else None
        swept: dict[str, Any] = self._open.sweep(dry_run=dry_run)
        if problems:
            swept["unpublished"] = [str(each) for each in problems]
        if kept is None:
            return swept
        told = {"expired": [run.id for run in kept.runs], "cut": list(kept.cut), "published": list(kept.published),
                "files": kept.files, "notes": list(kept.notes)}  # fmt: skip
        return {**swept, "bytes": swept["bytes"] + kept.bytes, **told}

    @property
    def audit(self) -> Audit:
        """The verbs of `audit`: access, plan_erasure, apply, verify, log, …"""
        from lineage_service.audit.facade import Audit

        return Audit(self._open)

    # --- the catalog ------------------------------------------------------------------------------------------

    def version_of(self, dataset: str) -> Version:
        """The version that a dataset's name means now; NotFound where no committed run has made it."""
        return self._open.version_of(dataset)

    def _lineage(
        self, dataset: str, direction: Direction, to: Names, selection: Selection, shape: AnswerShape
    ) -> Answer:
        with log_reveals(self._open, direction) as masks:
            answer = self._open.questions.lineage(dataset, direction, _as_tuple(to), selection, shape)
        answer.notes += masks.notes
        return answer

    @property
    def _consumer(self) -> SqlQuestions:
        from lineage_service.sql.preparations import Preparations
        from lineage_service.sql.question_in_sql import SqlQuestions
        from lineage_service.sql.question_rewriting import QueryContext

        if self._consuming is None or self._consuming.asking.ask is not self._open.questions:
            self._consuming = SqlQuestions(QueryContext(self._open.questions, Preparations(self._open.questions)))
        return self._consuming


def _as_tuple(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    return (value,) if isinstance(value, str) else tuple(value)
