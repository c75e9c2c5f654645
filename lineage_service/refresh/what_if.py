"""What would change if rows of a source were not there: a refresh that nobody commits, and what it brings beside what
there is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from lineage_catalog.records import DatasetRecord

from lineage_service.errors import QuestionError, listed
from lineage_service.plan.identity import identity_columns
from lineage_service.progress import Stages
from lineage_service.query.answer import Answer, Part
from lineage_service.query.ask import Questions
from lineage_service.query.masks import shown_columns
from lineage_service.query.selection import Selection
from lineage_service.refresh.ask import removed_rids
from lineage_service.refresh.changes import Changing
from lineage_service.refresh.refreshed import Refresh
from lineage_service.settings import IndexOptions
from lineage_service.store.engine import column, own
from lineage_service.store.layout import HomeLayout, working_folder
from lineage_service.store.patching import Ids
from lineage_service.store.scan import RID, VersionScan

NOW, THEN = own("now"), own("then")  # a row's id as it is, and as it would be


def what_if(
    home: HomeLayout,
    ask: Questions,
    without: str,
    selection: Selection,
    on: Sequence[str],
    options: IndexOptions,
    stages: Stages,
) -> Answer:
    """Rows of outputs that would change, appear or vanish without these rows of a source; before and after, masked
    unless the selection reveals."""
    if not selection.given:
        raise QuestionError("say which rows are left out: where, key, rid or all")
    source = ask.find(without)
    targets = [_target(ask, source, name) for name in dict.fromkeys(on)]
    run = ask.reader.run(source.run_id)
    assert run is not None
    with working_folder(home) as folder:
        try:
            refresh = Refresh(home, ask, run, folder, options, stages)
            changing = Changing(ask.engine, refresh.patcher, source.name, ask.scan(source))
            change = changing.changed(removed_rids(ask, source, selection), None, None, ())
            refresh.bring({source.name: change}, {each.space.removeprefix("step:") for each in targets}, lineage=False)
            answer = Answer([], "rows")
            for target in targets:
                part = _part(refresh, target, selection)
                part.dataset = target.full_name if len(targets) > 1 else None
                answer.parts.append(part)
        finally:
            folder.remove()
    rows = len(change.gone)
    answer.notes.append(f"without {rows:,} {'row' if rows == 1 else 'rows'} of '{source.full_name}'")
    if refresh.by_spark:
        answer.notes.append(f"Spark was needed for {listed(refresh.by_spark)}: not all of it means the same to DuckDB")
    return answer


def _target(ask: Questions, source: DatasetRecord, name: str) -> DatasetRecord:
    """An output or kept step of the run that read the source."""
    if source.role != "source":
        raise QuestionError(f"'{source.full_name}' is no source: rows are left out of what a workflow reads")
    known = [each for each in ask.graph.datasets(source.run_id) if each.role in ("output", "step")]
    found = ask.find(name)
    if found.run_id != source.run_id or found.role not in ("output", "step"):
        raise QuestionError(
            f"'{found.full_name}' is no output of the run that read '{source.full_name}'; outputs: "
            f"{listed([each.name for each in known])}"
        )
    return found


def _part(refresh: Refresh, target: DatasetRecord, selection: Selection) -> Part:
    """The rows that differ: keys once, other columns before and after."""
    step = target.space.removeprefix("step:")
    node = refresh.plan.steps[step]
    state, engine = refresh.states[node.id], refresh.ask.engine
    keys = identity_columns(node) or ()
    names = [each.name for each in state.before.version.columns]
    before, after = _rows(refresh, state.before, state.gone), _rows(refresh, state.after, state.came)
    names_given = _Free([RID])
    shown = [
        f"CASE WHEN a.{THEN} IS NULL THEN 'vanishes' WHEN b.{NOW} IS NULL THEN 'appears' ELSE 'changes' END "
        f"AS {names_given.free('change', names)}",
        f"b.{NOW} AS {RID}",
    ]
    masks = refresh.ask.masks
    masked = masks.over(target, reveal=selection.reveal)
    masks.note_hidden(name for name in names if name.lower() in masked)
    old, new = (shown_columns(names, state.before, masked, table) for table in ("b.", "a."))
    hidden = list[int]()
    for name in names:
        mine, its, first = old[name], new[name], len(shown)
        if name in keys or not keys:  # without keys rows only appear and vanish
            shown.append(f"CASE WHEN b.{NOW} IS NULL THEN {its} ELSE {mine} END AS {names_given.free(name, ())}")
        else:
            shown.append(f"{mine} AS {names_given.free(f'{name}_before', names)}")
            shown.append(f"{its} AS {names_given.free(f'{name}_after', names)}")
        if name.lower() in masked:
            hidden += range(first, len(shown))
    text = (
        f"SELECT {', '.join(shown)} FROM (SELECT * RENAME ({RID} AS {NOW}) FROM ({before})) b "
        f"FULL JOIN (SELECT * RENAME ({RID} AS {THEN}) FROM ({after})) a ON a.{THEN} = b.{NOW} "
        f"ORDER BY coalesce(b.{NOW}, a.{THEN})"
    )
    table = engine.connection.sql(text).to_arrow_table()
    return Part(
        table.column_names,
        lambda: pa.RecordBatchReader.from_batches(table.schema, table.to_batches()),
        masked=tuple(table.column_names[place] for place in hidden),
    )


def _rows(refresh: Refresh, scan: VersionScan, rids: Ids) -> str:
    if len(rids) <= 1000:
        return scan.select_positions([int(rid) for rid in np.sort(rids)])
    ids = refresh.ask.engine.keep_ids(pa.array(rids, pa.int64()))
    return f"SELECT t.* FROM ({scan.select()}) t SEMI JOIN {ids} x ON x.b = t.{RID}"


class _Free:
    """Names for columns of an answer, no two alike."""

    def __init__(self, taken: Sequence[str]) -> None:
        self.taken = {name.lower() for name in taken}

    def free(self, name: str, others: Sequence[str]) -> str:
        """The name, quoted; with a number behind it where it is taken, or one of `others`."""
        found, number = name, 0
        while found.lower() in self.taken | {other.lower() for other in others}:
            number += 1
            found = f"{name}_{number}"
        self.taken.add(found.lower())
        return column(found)
