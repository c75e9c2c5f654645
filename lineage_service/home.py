"""What a user imports: `Home.open(path)`, and the verbs of the contract as methods."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lineage_catalog.engine import connect, migrate, require_head, url_without_password
from lineage_catalog.reader import CatalogReader, Stamp
from lineage_catalog.records import Commit, DatasetRecord, Lineage

from lineage_service.arguments import checked_arguments
from lineage_service.errors import LineageError, NotFound, Problem, QuestionError, StoreError, did_you_mean, join_names
from lineage_service.progress import Stages, Tell, silent
from lineage_service.query.answer import Answer, records
from lineage_service.query.catalog_snapshot import LineageFinished, question
from lineage_service.query.lineage_graph import Direction, Place, Way
from lineage_service.query.masks import Masks
from lineage_service.query.query_engine import QueryEngine
from lineage_service.query.questions import Questions
from lineage_service.query.row_retrieval import AnswerShape, Top
from lineage_service.query.selection import Selection
from lineage_service.query.walk_sql import Start
from lineage_service.settings import IndexOptions, catalog_url, check_index_engine, command, home_path
from lineage_service.store.dataset_names import find_dataset, find_run
from lineage_service.store.file_records import forget_removed, with_noted_files
from lineage_service.store.home_catalog import catalog_errors, has_catalog, open_catalog
from lineage_service.store.layout import HomeLayout, commit_lock, is_at_work, sweep_lock, translate_disk_errors
from lineage_service.store.location import check_location
from lineage_service.store.permissions import is_private, make_private
from lineage_service.store.versions import Version

if TYPE_CHECKING:
    from lineage_service.audit.facade import Audit
    from lineage_service.capture.estimate import Sizes
    from lineage_service.query.diff.diff_result import Diff
    from lineage_service.query.trace.trace_result import Trace
    from lineage_service.refresh.refresh_report import RefreshReport
    from lineage_service.refresh.refresh_request import StatedChanges
    from lineage_service.runs.explanation import Explanation
    from lineage_service.runs.run_report import RunReport
    from lineage_service.runs.run_sizes import LastRun
    from lineage_service.runs.workflow_graph import Picture
    from lineage_service.spec.loader import LoadedWorkflow
    from lineage_service.sql.answer_limits import Limits
    from lineage_service.sql.question_in_sql import SqlQuestions
    from lineage_service.store.pending_publications import FinishedPublications
    from lineage_service.why_not.why_not_result import WhyNot

Rids = int | Iterable[int] | None
Keys = Mapping[str, object] | Iterable[tuple[str, object]] | None
Names = str | Sequence[str] | None
Given = TypeVar("Given")


@checked_arguments
class Home:
    """A home: its catalog, dataset versions and indexes. Opening it starts nothing; close it when done."""

    def __init__(self, layout: HomeLayout, url: str) -> None:
        self.layout = layout
        self._url = url
        self._reader: CatalogReader | None = None
        self._questions: Questions | None = None
        self._seen: Stamp | None = None  # of the catalog, when the last question began
        self._engine = QueryEngine(layout.spill)
        self._consuming: SqlQuestions | None = None
        self.progress: Tell = silent  # who hears of lineage that a question has to finish first

    @classmethod
    def open(cls, path: str | Path | None = None, *, catalog: str | None = None) -> Home:
        """The home at `path` (else SMOKE_HOME, the nearest .smoke, or a new .smoke here). Nothing is created yet;
        StoreError where there can be none."""
        folder = home_path(path)
        url = catalog_url(folder, catalog)
        check_location(folder, url)
        return cls(HomeLayout(folder, None if catalog is None else url_without_password(catalog)), url)

    def __repr__(self) -> str:
        return f"Home({str(self.layout.path)!r})"

    def __enter__(self) -> Home:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        if self._questions is not None:
            self._questions.close()
        self._questions = None
        self._engine.close()

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
        from lineage_service.runs.workflow_execution import CatalogAccess, RunOptions
        from lineage_service.runs.workflow_run import run_workflow

        check_index_engine(index_engine)
        if not Path(file).exists():  # a mistake in its name must not leave a home behind
            raise NotFound(f"workflow file '{file}' does not exist")
        self._prepare_home()
        access = CatalogAccess(
            self.version_of, self._known_version, self.sizes, self._commit_callback("run"), self._settle,
            self._catalog.subjects, self._catalog.erased_hashes, self._publish,
        )  # fmt: skip
        self._finish_publications()
        options = RunOptions(capture, dict(vars or {}), master, remote, dict(conf or {}), index_engine)
        return run_workflow(file, options, self.layout, access, progress or silent)

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
        check_index_engine(index_engine)
        if run is not None:
            wanted = [find_run(self._catalog, run, str(self.layout.path)).id]
        else:
            wanted = [each.id for each in self._catalog.unfinished_runs()]
        options = IndexOptions(master, remote, dict(conf or {}), index_engine)
        published = self._finish_publications(by_name=True)
        reports = [report for each in wanted if (report := self._finish_lineage(each, options, progress or silent))]
        if published.problems:
            raise StoreError(published.problems)
        return reports

    def _publish(self, run_id: str) -> list[Problem]:
        from lineage_service.store.pending_publications import publish

        return publish(self.layout, self._catalog, run_id)

    def _finish_publications(self, *, by_name: bool = False) -> FinishedPublications:
        """Puts in place, or removes, copies that killed runs have left waiting; `by_name`: also those that no run's
        note tells of."""
        from lineage_service.store.pending_publications import finish_publications, remove_orphaned_copies

        done = finish_publications(self.layout, self._catalog)
        if by_name:
            done = replace(done, removed=(*done.removed, *remove_orphaned_copies(self.layout, self._catalog)))
        return done

    def _finish_lineage(self, run_id: str, options: IndexOptions, tell: Tell) -> RunReport | None:
        from lineage_service.runs.unfinished_lineage import finish_lineage

        return finish_lineage(self.layout, self._catalog, run_id, self._settle, options, Stages(tell))

    def _settle_for_question(self, run_id: str) -> None:
        """What a question does before it reads the lineage of a run: waits for it, or finishes it; or says why not."""
        run = self._catalog.run(run_id)
        if run is None or run.lineage == "complete":
            return
        if run.lineage == "incomplete":
            from lineage_service.runs.unfinished_lineage import incomplete_error

            raise incomplete_error(self.layout, run)
        inside = self._catalog.in_snapshot
        self._catalog.release()  # somebody else may have finished it meanwhile
        self._finish_lineage(run_id, IndexOptions(), self.progress)
        if inside:
            raise LineageFinished

    def in_one_snapshot(self, answer: Callable[[], Given]) -> Given:
        """What `answer` gives, read from one state of the catalog.

        It is called again on a new state where it had to finish the lineage of a run, and once where somebody else has
        taken out runs meanwhile: their files are gone.
        """
        if self._catalog.in_snapshot:
            return answer()
        again = True
        while True:
            with self._catalog.snapshot():
                begun = self._begin_question()
                try:
                    given = answer()
                    if not again or not self._has_lost_runs(begun):
                        return given
                except LineageFinished:
                    continue
                except LineageError:
                    if not again or not self._has_lost_runs(begun):
                        raise
                again = False

    def _begin_question(self) -> Stamp:
        """What was read of runs is kept only as long as runs are added and none was taken out or replaced."""
        stamp = self._catalog.stamp()
        if self._seen is not None and not stamp.only_adds_to(self._seen):
            self._forget_questions()
        self._seen = stamp
        return stamp

    def _has_lost_runs(self, begun: Stamp) -> bool:
        """Whether a run was taken out or replaced since a question began that has only read."""
        if not self._catalog.in_snapshot:
            return False
        self._catalog.release()
        try:
            return not self._catalog.stamp().only_adds_to(begun)
        except LineageError:
            return False

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
        with self._masking("rows") as masks:
            answer = self._current_questions.rows(dataset, Selection.of(rid, key, where, all, reveal), shape)
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
            with self._masking("backward"):
                return explain_rows(
                    self._current_questions,
                    dataset,
                    _as_tuple(to),
                    selection,
                    semantics,
                    evaluating,
                    limit,
                    _as_tuple(columns),
                )
        ranked = Top.of(top, by)
        if ranked is not None and to is None:
            raise QuestionError("top ranks rows of one dataset: say which, with to")
        shape = AnswerShape(limit, _as_tuple(columns), _as_tuple(order_by) or (), rids, pairs, count, roles, influence, ranked,
                      reveal, unchanged)  # fmt: skip
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
        with self._masking("trace") as masks:
            found = trace(self._current_questions, dataset, selection, depth=depth, rows=rows)
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
        with self._masking("diff") as masks:
            options = DiffOptions(_as_tuple(key), keys, limit, rows, behind, reveal, tolerance)
            found = diff(self._current_questions, before, after, options)
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
        from lineage_service.why_not.within_run import why_not

        selection, stages = Selection.of(rid, key, where, all, reveal), Stages(self.progress)
        with self._masking("why-not") as masks:
            found = why_not(self.layout, self._current_questions, source, to, selection, stages, limit=limit, rids=rids)
            found.notes += self._current_questions.retention_cut_notes_of_runs([found.run_id])
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
        self._catalog.workflows()  # where there is no catalog, none is made
        self._prepare_home()
        run_id = self._save_query(sql, save, limits, reveal)
        answer = self.rows(f"{save}.{save}@{run_id}", limit=limit, reveal=reveal)
        answer.notes.append(f"saved as '{save}', run {run_id}")
        return answer

    @question
    def _run_query(self, sql: str, limits: Limits, limit: int | None, reveal: bool) -> Answer:
        with self._masking("query") as masks:
            found = self._consumer.query(sql, limits, limit, reveal=reveal)
        found.notes += masks.notes
        return found

    @question
    def _save_query(self, sql: str, name: str, limits: Limits, reveal: bool) -> str:
        """The id of the run that holds a query's rows."""
        latest = {flow: run for flow in self._catalog.workflows() if (run := self._catalog.latest_run(flow))}
        captures = {flow: run.capture for flow, run in latest.items()}
        with self._masking("query"):
            return self._consumer.save(sql, name, limits, captures, self._commit_callback("query"), reveal=reveal)

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
        self._finish_publications()  # before the snapshot, which does not know what was committed since
        options = IndexOptions(master, remote, dict(conf or {}))
        return self._refresh_outputs(asked, options, Stages(progress or self.progress))

    @question
    def _refresh_outputs(
        self, asked: Mapping[str, StatedChanges], options: IndexOptions, stages: Stages
    ) -> RefreshReport:
        from lineage_service.refresh.refresh_request import refresh

        with self._masking("refresh"):
            return refresh(
                self.layout, self._current_questions, asked, options, self._commit_callback("refresh"), self._publish, stages
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
        with self._masking("what-if") as masks:
            found = what_if(
                self.layout, self._current_questions, without, selection, _as_tuple(on) or (), options, stages
            )
        found.notes += masks.notes
        return found

    @question
    def runs(self, *, workflow: str | None = None, failed: bool = False, limit: int | None = None) -> Answer:
        """Committed runs, newest first; or those that `failed` a check and are kept until `gc`."""
        found = self._catalog.runs(workflow, status="failed" if failed else "committed")
        if workflow is not None and not found:
            self._refuse_unknown(workflow)
        return records(
            ["run_id", "workflow", "status", "capture", "lineage", "started_at", "committed_at", "workflow_version"],
            [
                (
                    r.id,
                    r.workflow,
                    r.status,
                    r.capture,
                    "none" if r.capture == "off" else r.lineage,
                    r.started_at,
                    None if failed else r.committed_at,
                    r.workflow_version,
                )
                for r in found
            ],
            limit,
        )

    def _refuse_unknown(self, workflow: str) -> None:
        known = sorted(
            {run.workflow for status in ("committed", "failed") for run in self._catalog.runs(status=status)}
        )
        if workflow not in known:
            raise NotFound(
                f"no workflow '{workflow}' has a run in the home '{self.layout.path}'; workflows: {join_names(known)}",
                hint=did_you_mean(workflow, known),
            )

    @question
    def datasets(self, dataset: Names = None, *, run: str | None = None, limit: int | None = None) -> Answer:
        """These datasets; else those of a run, or of each workflow's latest."""
        rows = []
        for each in self._find_datasets(dataset, run):
            version = self._catalog.version(each.version_id)
            rows.append((each.full_name, each.role, version.rows if version else 0,
                         version.bytes if version else 0, each.run_id, each.version_id))  # fmt: skip
        return records(["dataset", "kind", "rows", "bytes", "run_id", "version"], rows, limit)

    @question
    def columns(
        self, dataset: Names = None, *, run: str | None = None, through: bool = False, limit: int | None = None
    ) -> Answer:
        """The columns of these datasets (else of a run, or of each workflow's latest): type, whether a column shows
        personal data, what it is computed from, and what only influences it. `through` follows other workflows'
        outputs down to columns of files."""
        from lineage_service.query.column_listing import ColumnListing

        return ColumnListing(self._catalog, through).answer(self._find_datasets(dataset, run), limit)

    def _find_datasets(self, names: Names, run: str | None) -> list[DatasetRecord]:
        if names is not None:
            behind = "" if run is None else f"@{run}"
            return [
                find_dataset(self._catalog, f"{each}{behind}", str(self.layout.path)) for each in _as_tuple(names) or ()
            ]
        if run is not None:
            return self._catalog.datasets(find_run(self._catalog, run, str(self.layout.path)).id)
        runs = [latest for flow in self._catalog.workflows() if (latest := self._catalog.latest_run(flow))]
        # What a saved query reads is listed with the workflow that it is of.
        return [
            dataset
            for record in runs
            for dataset in self._catalog.datasets(record.id)
            if record.capture != "query" or dataset.role != "source"
        ]

    @question
    def graph(self) -> Picture:
        """Every workflow as of its latest run, linked where they share rows, as boxes and edges."""
        from lineage_service.runs.catalog_graph import catalog_picture

        return catalog_picture(self._catalog, str(self.layout.path))

    @question
    def last_run(self, workflow: str) -> LastRun | None:
        """The sizes of a workflow's latest run; None where there is none."""
        from lineage_service.runs.run_sizes import last_run

        return last_run(self._catalog, workflow) if self._has_catalog() else None

    @question
    def explained_run(self, run: str) -> Explanation:
        """What a run did; `run` is its id, a unique prefix of it, or a workflow, whose latest run is meant."""
        from lineage_service.plan.build import build_plan
        from lineage_service.plan.schema import Column, Schema
        from lineage_service.runs.explanation import explain_plan
        from lineage_service.runs.run_sizes import read_run_sizes
        from lineage_service.runs.unfinished_lineage import versions_of
        from lineage_service.runs.workflow_content import load_run

        found = self._catalog.latest_run(run) or find_run(self._catalog, run, str(self.layout.path))
        if found.capture == "query":
            raise QuestionError(
                f"run '{found.id}' is of the saved query '{found.workflow}', which has no steps",
                hint=f"its rows: {command(self.layout.path, 'rows', found.workflow)}",
            )
        loaded = load_run(self.layout, self._catalog.content(found.id), found.id)
        schemas = {
            space.removeprefix("source:"): Schema(
                tuple(Column(each.name, each.type, pii=each.pii) for each in version.columns)
            )
            for space, version in versions_of(self._catalog, found.id).items()
            if space.startswith("source:")
        }
        record = read_run_sizes(self._catalog, found)
        return explain_plan(loaded, build_plan(loaded, schemas), found.capture, (), record, as_run=True)

    def gc(self, *, dry_run: bool = False, retention: bool = False, actor: str | None = None) -> dict[str, Any]:
        """Removes what no committed run needs, also runs that failed a check; with `retention`, first all that is held
        of runs past the `retention_days` of their workflow, which is logged.

        A run at work is left alone, and one that another catalog has.
        """
        published = None
        if not dry_run and self._has_runs():
            published = self._finish_publications(by_name=True)
        kept = self.audit.retain(dry_run=dry_run, actor=actor) if retention else None
        swept: dict[str, Any] = self._sweep_files(dry_run=dry_run)
        if published is not None and published.problems:
            swept["unpublished"] = [str(each) for each in published.problems]
        if kept is None:
            return swept
        told = {"expired": [run.id for run in kept.runs], "cut": list(kept.cut), "published": list(kept.published),
                "files": kept.files, "notes": list(kept.notes)}  # fmt: skip
        return {**swept, "bytes": swept["bytes"] + kept.bytes, **told}

    def _has_runs(self) -> bool:
        """Whether there may be any. Runs without a catalog are an error, not rubbish: it may only not have been
        named."""
        return (self.layout.runs.is_dir() and any(self.layout.runs.iterdir())) or self._has_catalog()

    def _sweep_files(self, *, dry_run: bool) -> dict[str, int]:
        from lineage_service.store.garbage_collection import sweep

        if not self._has_runs():
            return {"removed": 0, "bytes": 0}
        with nullcontext() if dry_run else sweep_lock(self.layout):
            failed = [run.id for run in self._catalog.runs(status="failed")]
            idle = {run_id for run_id in failed if not is_at_work(self.layout.run_folder(run_id).path)}
            if not dry_run:
                self._forget_runs(sorted(idle))
            swept = sweep(self.layout, self._catalog, dry_run=dry_run, without=idle)
        if not dry_run:
            self._forget_files()
        return {"removed": swept.folders, "bytes": swept.bytes}

    def _forget_files(self) -> None:
        with catalog_errors(self.layout):
            engine = connect(self._url)
            try:
                forget_removed(engine, self.layout)
            finally:
                engine.dispose()

    @property
    def audit(self) -> Audit:
        """The verbs of `audit`: access, plan_erasure, apply, verify, log, …"""
        from lineage_service.audit.facade import Audit

        return Audit(
            self.layout, self._url, lambda: self._current_questions, self._prepare_home, self._forget_questions, self.progress,
            self.in_one_snapshot,
        )  # fmt: skip

    def _forget_questions(self) -> None:
        """What was read of runs is read anew."""
        if self._questions is not None:
            self._questions.session.take_rest()
            self._questions.close()
        self._questions = None

    # --- the catalog ------------------------------------------------------------------------------------------

    @question
    def version_of(self, dataset: str) -> Version:
        """The version that a dataset's name means now; NotFound where no committed run has made it."""
        found: DatasetRecord = find_dataset(self._catalog, dataset, str(self.layout.path))
        run = self._catalog.run(found.run_id)
        if run is not None and run.status != "committed":
            raise NotFound(
                f"run '{run.id}' failed a check and is not committed: '{found.full_name}' cannot be read of it"
            )
        version = self._known_version(found.version_id)
        if version is None:
            raise NotFound(f"version '{found.version_id}' is not in the catalog of '{self.layout.path}'")
        return version

    def _known_version(self, version_id: str) -> Version | None:
        record = self._catalog.version(version_id)
        return None if record is None else Version.from_json(record.id, record.body)

    def _lineage(
        self, dataset: str, direction: Direction, to: Names, selection: Selection, shape: AnswerShape
    ) -> Answer:
        with self._masking(direction) as masks:
            answer = self._current_questions.lineage(dataset, direction, _as_tuple(to), selection, shape)
        answer.notes += masks.notes
        return answer

    # --- masks ------------------------------------------------------------------------------------------------

    @contextmanager
    def _masking(self, verb: str) -> Iterator[Masks]:
        """Around a question: what it reveals is logged before its answer is given, also where that is an error, which
        tells something too. Where it cannot be logged, there is no answer."""
        masks = self._current_questions.masks
        masks.start()
        try:
            with self._current_questions.session.within():  # one time for all that a question evaluates
                yield masks
        finally:
            if revealed := masks.take_revealed():
                self._log_reveal(verb, revealed)

    def _commit_callback(self, verb: str) -> Callable[[Commit], None]:
        """Commits what begins to read now, once what it reveals is logged: a run that is there cannot be taken back."""
        erasures = self._catalog.erasures()

        def commit(made: Commit) -> None:
            if revealed := self._current_questions.masks.take_revealed():
                self._log_reveal(verb, revealed)
            self._commit(made, erasures)

        return commit

    def _log_reveal(self, verb: str, datasets: Sequence[str]) -> None:
        from lineage_service.audit.log.log_transactions import log_reveal

        self._current_questions.masks.note_logged(log_reveal(self.audit, verb, datasets))

    @property
    def _current_questions(self) -> Questions:
        if self._questions is None:
            self._questions = Questions(
                self.layout, self._catalog, self._engine, self._settle_for_question, self._capture_lazy_ways,
                self._capture_lazy_members,
            )  # fmt: skip
            self._questions.workflow_of = self._workflow_of
        return self._questions

    def _workflow_of(self, run_id: str) -> LoadedWorkflow:
        from lineage_service.runs.workflow_content import load_run

        return load_run(self.layout, self._catalog.content(run_id), run_id)

    @property
    def _consumer(self) -> SqlQuestions:
        from lineage_service.sql.preparations import Preparations
        from lineage_service.sql.question_in_sql import SqlQuestions
        from lineage_service.sql.question_rewriting import QueryContext

        if self._consuming is None or self._consuming.asking.ask is not self._current_questions:
            self._consuming = SqlQuestions(QueryContext(self._current_questions, Preparations(self._current_questions)))
        return self._consuming

    @property
    def _catalog(self) -> CatalogReader:
        if self._reader is None:
            self._reader = open_catalog(self.layout, self._url)
        return self._reader

    def _release(self) -> None:
        """Before the catalog is written: what is read after that is read anew."""
        if self._reader is not None:
            self._reader.release()

    def _has_catalog(self) -> bool:
        return has_catalog(self.layout, self._url)

    def _prepare_home(self) -> None:
        """A home that can be written to, with a catalog of the current revision."""
        with translate_disk_errors(self.layout.path):
            self.layout.runs.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.layout.path / ".lock", os.O_CREAT | os.O_RDWR, 0o600)
            self.layout.spill.mkdir(mode=0o700, exist_ok=True)
            if not is_private(self.layout.path):  # new, or of a version that did not care
                make_private(self.layout.path)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two first runs at once must not both create the catalog
            with catalog_errors(self.layout):
                engine = connect(self._url)
                if not require_head(engine):
                    migrate(self._url)
                engine.dispose()
            make_private(*self.layout.path.glob("catalog.db*"))
        finally:
            os.close(lock)

    def _forget_runs(self, run_ids: Sequence[str]) -> None:
        """Out of the catalog first: what it names must be there."""
        from lineage_catalog.writer import forget_runs

        if run_ids:
            self._release()
            with catalog_errors(self.layout):
                engine = connect(self._url)
                try:
                    forget_runs(engine, run_ids)
                finally:
                    engine.dispose()
            self._questions = None  # it keeps what it has read of runs

    def _capture_lazy_ways(
        self, ways: Sequence[Way], start: Start, begin: Place, direction: Direction
    ) -> Sequence[Way]:
        from lineage_service.query.lazy_lineage import capture_lazy_ways

        return capture_lazy_ways(
            self.layout, self._current_questions, ways, start, begin, direction, Stages(self.progress)
        )

    def _capture_lazy_members(self, place: Place, ids: Sequence[int]) -> str:
        from lineage_service.query.lazy_lineage import capture_lazy_members

        return capture_lazy_members(self.layout, self._current_questions, place, ids, Stages(self.progress))

    @question
    def sizes(self, workflow: str) -> Sizes:
        """What the last run of a workflow says of the rows that its steps give and read."""
        from lineage_service.capture.estimate import Sizes

        run = self._catalog.latest_run(workflow)
        steps = self._catalog.steps(run.id) if run is not None else []
        return Sizes(
            {},
            {step.node: step.rows for step in steps if step.rows is not None},
            {step.node: step.members for step in steps if step.members is not None},
        )

    def _settle(self, lineage: Lineage) -> bool:
        from lineage_catalog.writer import commit_lineage

        self._release()
        make_private(self.layout.run_folder(lineage.run_id).path)
        with commit_lock(self.layout), catalog_errors(self.layout):
            engine = connect(self._url)
            try:
                return commit_lineage(engine, lineage)
            finally:
                engine.dispose()

    def _commit(self, commit: Commit, erasures: int) -> None:
        from lineage_catalog.writer import ErasedMeanwhile, commit_run

        from lineage_service.store.garbage_collection import LostFiles, catalog_mark, refuse_lost_files
        from lineage_service.store.publications import withdraw

        self._release()
        folder = self.layout.run_folder(commit.run.id)
        make_private(folder.path)
        folder.mark_committed(
            catalog_mark(self.layout, self._catalog)
        )  # killed at any point, other catalogs leave it alone
        with commit_lock(self.layout), catalog_errors(self.layout):
            engine = connect(self._url)
            try:
                if self._catalog.erasures() == erasures:  # else it is refused for that reason
                    refuse_lost_files(self.layout, self._catalog, commit)
                commit_run(engine, with_noted_files(commit, self.layout), erasures)
            except (ErasedMeanwhile, LostFiles):
                withdraw(folder)
                folder.remove()  # surely not committed; it may hold what was erased
                raise
            finally:
                engine.dispose()


def _as_tuple(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    return (value,) if isinstance(value, str) else tuple(value)
