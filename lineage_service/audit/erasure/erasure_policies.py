"""Policies of outputs for rows derived from an erased person: recompute, delete, or keep on a legal ground."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from lineage_service.audit.affected_rows import OtherPersons
from lineage_service.audit.person_search import required_key
from lineage_service.capture.handles import Space, step_space
from lineage_service.query.lineage_graph import Place
from lineage_service.query.lineage_walk import walk
from lineage_service.query.questions import Questions
from lineage_service.query.walk_sql import Start
from lineage_service.refresh.run_refresh import DeletedRows, Refresh
from lineage_service.spec.models import BrokenOutput, OutputSpec
from lineage_service.store.version_patcher import Ids


def rows_to_delete_by_step(
    ask: Questions, refresh: Refresh, rows: Mapping[Space, Ids], everywhere: str | None = None
) -> dict[str, DeletedRows]:
    """By step, the rows that are deleted instead of recomputed. `rows` are the removed rows by source space.
    `everywhere` is the reason why nothing of the run can be recomputed.
    """
    found: dict[str, DeletedRows] = {}
    outputs: dict[str, list[OutputSpec]] = {}
    for name, output in refresh.loaded.spec.outputs.items():
        if not isinstance(output, BrokenOutput):
            outputs.setdefault(output.step or name, []).append(output)
    steps = [*dict.fromkeys([*outputs, *refresh.plan.keep])]
    for step in steps:
        policies = {output.on_erasure for output in outputs.get(step, [])}
        if everywhere is not None:
            rids = derived_rows(ask, refresh.run.id, step, rows)
            # A row with no other contributors is removed anyway, so this is not the reason.
            reason = everywhere if has_remaining_contributors(ask, refresh.run.id, step, rids, rows) else None
            found[step] = DeletedRows(rids, reason)
        elif "delete" in policies:  # of two outputs of one step, the stricter policy applies
            found[step] = DeletedRows(derived_rows(ask, refresh.run.id, step, rows), "on_erasure: delete")
        elif policies == {"keep"}:
            found[step] = _rows_of_small_groups(ask, refresh, step, outputs[step], rows)
    return found


def _rows_of_small_groups(
    ask: Questions, refresh: Refresh, step: str, outputs: list[OutputSpec], rows: Mapping[Space, Ids]
) -> DeletedRows:
    """Rows of many persons stay as they are. Rows of fewer persons than the smallest group are deleted."""
    holds = [output.keep for output in outputs if output.keep is not None]
    smallest = max(hold.min_group for hold in holds)
    candidates = derived_rows(ask, refresh.run.id, step, rows)
    record = next(each for each in refresh.records if each.space == step_space(step))
    company = OtherPersons(ask, required_key(ask), {}).count_by_row(Place(record.run_id, record.space), candidates)
    # If the number of persons is unknown, they may be few.
    persons = {} if isinstance(company, str) else {rid: others.all for rid, others in company.items()}
    few = np.array([rid for rid in candidates.tolist() if persons.get(rid, 0) < smallest], np.int64)
    grounds = ", ".join(dict.fromkeys(hold.ground for hold in holds))
    reason = f"on_erasure: keep ({grounds}); rows of fewer than {smallest} persons are deleted"
    if isinstance(company, str):
        reason += f", and rows whose number of persons is unknown: {company}"
    return DeletedRows(few, reason, kept=len(candidates) - len(few))


def has_remaining_contributors(ask: Questions, run_id: str, step: str, rids: Ids, rows: Mapping[Space, Ids]) -> bool:
    """Whether any of these rows of a step also derives from remaining rows of the affected sources."""
    if not len(rids):
        return False
    begin = Place(run_id, step_space(step))
    table = ask.engine.keep_ids(pa.array(rids, pa.int64()))
    try:
        for space, removed in rows.items():
            ways = walk(ask.graph, begin, "backward", links=False).ways_toward(Place(run_id, space), absence=False)
            if not ways or not len(removed):
                continue
            sql = ask.walk_sql(ways, Start(table=table), begin, Place(run_id, space), "backward", pairs=False)
            went = ask.engine.keep_ids(pa.array(removed, pa.int64()))
            others = f"SELECT count(*) FROM ({sql.text}) p ANTI JOIN {went} g ON g.b = p.b"
            try:
                if ask.engine.scalar(others, sql.parameters):
                    return True
            finally:
                ask.engine.drop(went)
    finally:
        ask.engine.drop(table)
    return False


def derived_rows(ask: Questions, run_id: str, step: str, rows: Mapping[Space, Ids]) -> Ids:
    """Rows of a step to which these source rows contributed, within the run."""
    parts = [np.array([], np.int64)]
    end = Place(run_id, step_space(step))
    for space, rids in rows.items():
        if not len(rids):
            continue
        begin = Place(run_id, space)
        ways = walk(ask.graph, begin, "forward", links=False).ways_toward(end, absence=False)
        table = ask.engine.keep_ids(pa.array(rids, pa.int64()))
        sql = ask.walk_sql(ways, Start(table=table), begin, end, "forward", pairs=False)
        ids = ask.engine.id_array(f"SELECT DISTINCT b FROM ({sql.text})", sql.parameters)
        parts.append(ids.to_numpy(zero_copy_only=False).astype("int64"))
        ask.engine.drop(table)
    return np.unique(np.concatenate(parts))
