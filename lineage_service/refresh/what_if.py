"""Computes what would change if rows of a source did not exist: runs a refresh without committing it and compares the
results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from lineage_catalog.records import DatasetRecord

from lineage_service.errors import QuestionError, join_names
from lineage_service.plan.identity_columns import identity_columns
from lineage_service.progress import Stages
from lineage_service.query.answer import Answer, AnswerPart
from lineage_service.query.cross_run_paths import RunOnTheWay, place_of, runs_between
from lineage_service.query.masks import shown_columns
from lineage_service.query.questions import Questions
from lineage_service.query.selection import Selection
from lineage_service.refresh.duckdb_refresh import DatasetState
from lineage_service.refresh.refresh_request import removed_rids
from lineage_service.refresh.run_refresh import Refresh
from lineage_service.refresh.source_changes import SourceChange, SourceChangeBuilder
from lineage_service.settings import IndexOptions
from lineage_service.store.duckdb_engine import column, private_column
from lineage_service.store.layout import HomeLayout, working_folder
from lineage_service.store.version_patcher import Ids
from lineage_service.store.version_scan import RID, VersionScan
from lineage_service.store.versions import Version

NOW, THEN = private_column("now"), private_column("then")  # the current rid, and the rid after the change


@dataclass(frozen=True)
class RemovedRows:
    """Rows of a source that are left out. Other sources that read the same files hold some of them too."""

    source: DatasetRecord
    rids: Ids

    def rids_in(self, ask: Questions, other: DatasetRecord) -> Ids:
        """The rows that another source shares, with its rids."""
        shared = ask.graph.shared_rows(place_of(self.source), place_of(other))
        return np.array([], np.int64) if shared is None else shared.translate(self.rids)

    def count_in(self, ask: Questions, others: Sequence[DatasetRecord]) -> int:
        """The number of rows that other sources share."""
        found = [np.array([], np.int64)]
        for each in others:
            shared = ask.graph.shared_rows(place_of(self.source), place_of(each))
            found += [] if shared is None else [shared.inverse.translate(shared.translate(self.rids))]
        return len(np.unique(np.concatenate(found)))


def what_if(
    home: HomeLayout,
    ask: Questions,
    without: str,
    selection: Selection,
    on: Sequence[str],
    options: IndexOptions,
    stages: Stages,
) -> Answer:
    """Rows of outputs that would change, appear or vanish without these rows of a source.

    Shows values before and after, masked unless the selection reveals them. If the output belongs to another workflow,
    refreshes each run on the way in turn.
    """
    if not selection.is_specified:
        raise QuestionError("say which rows are left out: where, key, rid or all")
    targets = [_target(ask, name) for name in dict.fromkeys(on)]
    source, runs = runs_between(ask, without, targets)
    answer = Answer([], "rows")
    by_spark: list[str] = []
    with ExitStack() as stack:
        refreshes: dict[str, Refresh] = {}
        removed = RemovedRows(source, removed_rids(ask, source, selection))
        for each in runs:
            is_asked = any(target.run_id == each.run_id for target in targets)
            refresh = _refresh_without(home, ask, each, removed, refreshes, options, stages, stack, is_asked=is_asked)
            if refresh is not None:
                refreshes[each.run_id] = refresh
                by_spark += [step if len(runs) == 1 else f"{refresh.run.workflow}.{step}" for step in refresh.by_spark]
        for target in targets:
            part = _difference_part(refreshes[target.run_id], target, selection)
            part.dataset = target.full_name if len(targets) > 1 else None
            answer.parts.append(part)
    rows = len(removed.rids)
    latest = ask.reader.latest_run(source.workflow)
    as_read = "" if latest is None or latest.id == source.run_id else f", as run '{source.run_id}' read it"
    answer.notes.append(f"without {rows:,} {'row' if rows == 1 else 'rows'} of '{source.full_name}'{as_read}")
    unread = rows - removed.count_in(ask, [one for each in runs for one in each.starts])
    if unread:
        answer.notes.append(
            f"{unread:,} of them {'is' if unread == 1 else 'are'} in no file that these outputs are made from: without "
            "effect"
        )
    others = [one.full_name for each in runs for one in each.starts if one != source]
    if others:
        answer.notes.append(f"{join_names(list(dict.fromkeys(others)))} reads the same files, and loses the rows too")
    if len(runs) > 1:
        workflows = [ask.graph.datasets(each.run_id)[0].workflow for each in runs]
        answer.notes.append(f"over the workflows {join_names(workflows)}")
    answer.notes += ask.cuts.notes_of_runs(each.run_id for each in targets)
    if by_spark:
        answer.notes.append(
            f"Spark was needed for {join_names(by_spark)}: parts of it may mean something else in DuckDB"
        )
    return answer


def _target(ask: Questions, name: str) -> DatasetRecord:
    found = ask.find(name)
    if found.role not in ("output", "step"):
        known = [each.name for each in ask.graph.datasets(found.run_id) if each.role in ("output", "step")]
        raise QuestionError(f"'{found.full_name}' is no output; outputs: {join_names(known)}")
    return found


def _refresh_without(
    home: HomeLayout,
    ask: Questions,
    way: RunOnTheWay,
    removed: RemovedRows,
    before: Mapping[str, Refresh],
    options: IndexOptions,
    stages: Stages,
    stack: ExitStack,
    *,
    is_asked: bool,
) -> Refresh | None:
    """Refreshes a run without the rows, on the changed inputs; None if nothing changes and the run is not the one asked
    about.
    """
    found = {source.name: state for source, maker in way.read if (state := _changed_state(before, maker)) is not None}
    if not way.starts and not found and not is_asked:
        return None
    run = ask.reader.run(way.run_id)
    assert run is not None
    if run.capture == "query":
        raise QuestionError(
            f"'{run.workflow}' is a saved query, which is on the way and cannot be recomputed",
            hint=f"ask up to what it reads: {join_names([maker.full_name for _, maker in way.read] or [run.workflow])}",
        )
    folder = stack.enter_context(working_folder(home))
    stack.callback(folder.remove)
    refresh = Refresh(home, ask, run, folder, options, stages)
    changes = {}
    for each in way.starts:
        scan = ask.scan(each)
        there = removed.rids_in(ask, each)
        changes[each.name] = SourceChangeBuilder(ask.engine, refresh.patcher, each.name, scan).build(
            there, None, None, ()
        )
    for source, _ in way.read:
        if source.name in found:
            changes[source.name] = inherited_change(source.name, ask.scan(source).version, found[source.name])
    refresh.refresh_datasets(changes, {each.space.name for each in way.made}, lineage=False)
    return refresh


def _changed_state(before: Mapping[str, Refresh], maker: DatasetRecord) -> DatasetState | None:
    """The new state of a dataset of an earlier run; None if it is unchanged."""
    refresh = before.get(maker.run_id)
    if refresh is None:
        return None
    state = refresh.states[refresh.plan.steps[maker.space.name].id]
    return state if state.is_changed else None


def inherited_change(name: str, version: Version, state: DatasetState) -> SourceChange:
    """The change of another workflow's output, as a change of the source that reads it, with its column names."""
    names = {each.original: each.name for each in version.columns}
    after = state.after.version
    columns = tuple(replace(each, name=names.get(each.original, each.name)) for each in after.columns)
    return SourceChange(
        name, version, replace(after, columns=columns), state.removed_rids, state.added_rids, found=True
    )


def _difference_part(refresh: Refresh, target: DatasetRecord, selection: Selection) -> AnswerPart:
    """The rows that differ: keys once, other columns before and after."""
    step = target.space.name
    node = refresh.plan.steps[step]
    state, engine = refresh.states[node.id], refresh.ask.engine
    keys = identity_columns(node) or ()
    names = [each.name for each in state.before.version.columns]
    before, after = (
        _rows_query(refresh, state.before, state.removed_rids),
        _rows_query(refresh, state.after, state.added_rids),
    )
    names_given = _ColumnNames([RID])
    shown = [
        f"CASE WHEN a.{THEN} IS NULL THEN 'vanishes' WHEN b.{NOW} IS NULL THEN 'appears' ELSE 'changes' END "
        f"AS {names_given.unused_name('change', names)}",
        f"b.{NOW} AS {RID}",
    ]
    masks = refresh.ask.masks
    masked = masks.over(target, reveal=selection.reveal)
    masks.note_hidden(name for name in names if name.lower() in masked)
    old, new = (shown_columns(names, state.before, masked, table) for table in ("b.", "a."))
    hidden = list[int]()
    for name in names:
        mine, its, first = old[name], new[name], len(shown)
        if name in keys or not keys:  # without keys, rows can only appear and vanish
            shown.append(f"CASE WHEN b.{NOW} IS NULL THEN {its} ELSE {mine} END AS {names_given.unused_name(name, ())}")
        else:
            shown.append(f"{mine} AS {names_given.unused_name(f'{name}_before', names)}")
            shown.append(f"{its} AS {names_given.unused_name(f'{name}_after', names)}")
        if name.lower() in masked:
            hidden += range(first, len(shown))
    text = (
        f"SELECT {', '.join(shown)} FROM (SELECT * RENAME ({RID} AS {NOW}) FROM ({before})) b "
        f"FULL JOIN (SELECT * RENAME ({RID} AS {THEN}) FROM ({after})) a ON a.{THEN} = b.{NOW} "
        f"ORDER BY coalesce(b.{NOW}, a.{THEN})"
    )
    table = engine.connection.sql(text).to_arrow_table()
    return AnswerPart(
        table.column_names,
        lambda: pa.RecordBatchReader.from_batches(table.schema, table.to_batches()),
        masked=tuple(table.column_names[place] for place in hidden),
    )


def _rows_query(refresh: Refresh, scan: VersionScan, rids: Ids) -> str:
    if len(rids) <= 1000:
        return scan.select_positions([int(rid) for rid in np.sort(rids)])
    ids = refresh.ask.engine.keep_ids(pa.array(rids, pa.int64()))
    return f"SELECT t.* FROM ({scan.select()}) t SEMI JOIN {ids} x ON x.b = t.{RID}"


class _ColumnNames:
    """Allocates unique column names of an answer."""

    def __init__(self, taken: Sequence[str]) -> None:
        self.taken = {name.lower() for name in taken}

    def unused_name(self, name: str, others: Sequence[str]) -> str:
        """The quoted name, with a number appended if it is taken or one of `others`."""
        found, number = name, 0
        while found.lower() in self.taken | {other.lower() for other in others}:
            number += 1
            found = f"{name}_{number}"
        self.taken.add(found.lower())
        return column(found)
