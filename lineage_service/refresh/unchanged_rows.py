"""Preserves the old values of recomputed rows that have no change behind them.

A refresh sometimes recomputes more rows than necessary, and a sum of doubles may then differ in its last digits. A row
stays as it was if the same rows are behind it as before and none of those was added, removed or changed. All other rows
are written as computed. Erasure and rectification do not use this, because an old value could still disclose erased
data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lineage_service.capture.handles import Space
from lineage_service.plan.nodes import Difference, Join, Limit, Node, Window
from lineage_service.query.diff.diff_sql import comparable
from lineage_service.query.diff.tolerance import TOLERANCE, differs, has_floating
from lineage_service.query.lineage_graph import Place
from lineage_service.query.lineage_walk import walk
from lineage_service.query.query_engine import QueryEngine
from lineage_service.query.questions import Questions
from lineage_service.query.walk_sql import Start
from lineage_service.refresh.duckdb_refresh import DatasetState
from lineage_service.refresh.fresh_lineage import without_touched
from lineage_service.refresh.row_replacement import RowReplacement
from lineage_service.store.duckdb_engine import column, literal
from lineage_service.store.version_patcher import AddedFile, Ids
from lineage_service.store.version_scan import RID, VersionScan


@dataclass(frozen=True)
class RecomputedDataset:
    """A dataset's recomputed rows beside the old ones.

    behind_new: returns for some new rows, by position, a table (id, space, b) of the rows behind them, at least for
    rows that have no added row behind them; None if it was not requested
    behind_old: returns for a table of rids (column b) a query (id, space, b) of the rows behind them before
    determined: whether the rows behind a row determine its values
    """

    before: VersionScan
    after: VersionScan
    behind_new: Callable[[Ids], str | None]
    behind_old: Callable[[str], str]
    determined: bool


def is_determined(node: Node, leaves: Mapping[str, DatasetState]) -> bool:
    """Whether the rows behind a row determine its values. They do not if absent rows or rows cut off by a limit
    matter.
    """
    seen, pending = set[str](), [node]
    while pending:  # iterative: a chain of steps may exceed Python's recursion limit
        each = pending.pop()
        if each.id in leaves or each.id in seen:
            continue
        seen.add(each.id)
        # The rows that a window reads do not determine the order of ties.
        if isinstance(each, Limit | Difference | Window) or (isinstance(each, Join) and each.how == "anti"):
            return False
        pending += each.inputs
    return True


def rows_behind(ask: Questions, run_id: str, space: Space, table: str) -> str:
    """A query (id, space, b): the rows of the nearest datasets of a run behind these rids (column b)."""
    parts = ["SELECT 0::BIGINT AS id, '' AS space, 0::BIGINT AS b WHERE false"]
    start = Place(run_id, space)
    walked = walk(ask.graph, start, "backward", links=False, nearest=True)
    for end in walked.reachable_places(absence=False):
        if end.space.is_dataset:
            ways = walked.ways_toward(end, absence=False)
            sql = ask.walk_sql(ways, Start(table=table), start, end, "backward")
            found = ask.engine.keep(f"SELECT DISTINCT a, b FROM ({sql.text})", sql.parameters)
            parts.append(f"SELECT a AS id, {literal(end.space)} AS space, b FROM {found}")
    return " UNION ALL ".join(parts)


def keep_unchanged(
    engine: QueryEngine, rows: RowReplacement, computed: RecomputedDataset, below: Sequence[DatasetState]
) -> RowReplacement:
    """The replacement of a dataset's rows without the rows that stay as they were. `below` includes the datasets that
    its rows are computed from.
    """
    new = np.isin(rows.rids, rows.added_rids)
    if not new.any() or not len(rows.removed_rids):
        return rows
    behind = computed.behind_new(rows.places[new])
    if behind is None:
        return rows
    keeping = _UnchangedRowSearch(engine, computed, [])
    try:
        kept = keeping.unchanged_pairs(behind, rows, below)
    finally:
        keeping.drop()
    return rows if not len(kept) else _drop_unchanged(rows, kept[:, 0], kept[:, 1])


def _drop_unchanged(rows: RowReplacement, places: Ids, rids: Ids) -> RowReplacement:
    """Removes the new rows at these positions, which replace these rids."""
    left = ~np.isin(rows.places, places)
    replaced, removed = np.setdiff1d(rows.replaced, rids), np.setdiff1d(rows.removed_rids, rids)
    added = np.setdiff1d(rows.added_rids, rows.rids[~left])
    files = []
    for each in rows.files:
        stay = ~np.isin(each.positions + each.file.base, places)
        files.append(AddedFile(each.file, each.positions[stay], each.rids[stay]))
    changed = len(np.intersect1d(removed, added))
    counts = {"removed": len(removed) - changed, "changed": changed, "added": len(added) - changed}
    return RowReplacement(replaced, files, rows.rids[left], removed, added, counts, rows.places[left])


@dataclass
class _UnchangedRowSearch:
    """Finds unchanged rows with tables of one engine. `fresh` and `then` hold the rows behind new and old rows, as (id,
    space, b).
    """

    engine: QueryEngine
    computed: RecomputedDataset
    tables: list[str]

    def keep(self, query: str) -> str:
        self.tables.append(self.engine.keep(query))
        return self.tables[-1]

    def keep_ids(self, ids: Ids) -> str:
        self.tables.append(self.engine.keep_ids(pa.array(ids, pa.int64())))
        return self.tables[-1]

    def drop(self) -> None:
        for table in self.tables:
            self.engine.drop(table)

    def unchanged_pairs(self, behind: str, rows: RowReplacement, below: Sequence[DatasetState]) -> Ids:
        """The positions of new rows, and the rids of the old rows they replace, for rows with no change behind them."""
        added = {each.space: each.added_rids for each in below if len(each.added_rids)}
        removed = {each.space: each.removed_rids for each in below if len(each.removed_rids)}
        fresh = self._without_changed_inputs(behind, added)
        if not self.engine.scalar(f"SELECT count(*) FROM {fresh}"):
            return np.empty((0, 2), np.int64)
        then = self._without_changed_inputs(
            self.keep(self.computed.behind_old(self.keep_ids(rows.removed_rids))), removed
        )
        both = np.intersect1d(rows.removed_rids, rows.added_rids)
        of_key = np.isin(rows.rids, both)
        keyed = self._pair_table(rows.places[of_key], rows.rids[of_key])
        names, types = self._columns()
        pairs = f"SELECT place, rid FROM {keyed}"
        if any(has_floating(types[name]) for name in names):
            pairs += f" UNION ALL {self._match_by_values(fresh, then, keyed)}"
        matched = self.keep(pairs)
        if not self.computed.determined:
            matched = self.keep(self._pairs_with_equal_values(matched))
        return self._pairs_with_same_inputs(matched, fresh, then)

    def _without_changed_inputs(self, behind: str, touched: Mapping[Space, Ids]) -> str:
        return self.keep(without_touched(behind, {space: self.keep_ids(ids) for space, ids in touched.items()}))

    def _pair_table(self, places: Ids, rids: Ids) -> str:
        given = pa.table({"place": pa.array(places, pa.int64()), "rid": pa.array(rids, pa.int64())})
        self.engine.connection.register("given_rows", given)
        try:
            return self.keep("SELECT place, rid FROM given_rows")
        finally:
            self.engine.connection.unregister("given_rows")

    def _columns(self) -> tuple[list[str], dict[str, str]]:
        names = [each.name for each in self.computed.before.version.columns]
        return names, self.engine.types(self.computed.before.select())

    def _match_by_values(self, fresh: str, then: str, keyed: str) -> str:
        """Matches rows without a key: those with the same rows behind them and equal values except floating-point
        numbers.

        If their number is the same as before, they are considered the same rows.
        """
        names, types = self._columns()
        exact = [comparable(f"t.{column(name)}", types[name]) for name in names if not has_floating(types[name])]
        loose = [f"t.{column(name)}" for name in names if has_floating(types[name])]
        listed = [f"{text} AS e{index}" for index, text in enumerate(exact)]
        listed += [f"{text} AS l{index}" for index, text in enumerate(loose)]
        alike = ["marks", "mark", *(f"e{index}" for index in range(len(exact)))]
        order = ", ".join([*(f"l{index}" for index in range(len(loose))), "id"])
        sides = []
        for scan, behind, known in ((self.computed.after, fresh, "place"), (self.computed.before, then, "rid")):
            marked = f"SELECT id, count(*) AS marks, bit_xor(hash(space, b)) AS mark FROM {behind} GROUP BY id"
            rows = (
                f"SELECT m.*, {', '.join(listed)} FROM ({scan.select()}) t JOIN ({marked}) m ON m.id = t.{RID} "
                f"ANTI JOIN {keyed} k ON k.{known} = m.id"
            )
            numbered = f"row_number() OVER (PARTITION BY {', '.join(alike)} ORDER BY {order}) AS number"
            copies = f"count(*) OVER (PARTITION BY {', '.join(alike)}) AS copies"
            sides.append(self.keep(f"SELECT *, {numbered}, {copies} FROM ({rows})"))
        same = " AND ".join(f"n.{name} IS NOT DISTINCT FROM o.{name}" for name in (*alike, "number", "copies"))
        return f"SELECT n.id AS place, o.id AS rid FROM {sides[0]} n JOIN {sides[1]} o ON {same}"

    def _pairs_with_equal_values(self, matched: str) -> str:
        """The pairs with equal values, where floating-point numbers may differ within the tolerance of a diff."""
        names, types = self._columns()
        tests = []
        for name in names:
            one, other = (comparable(f"{side}.{column(name)}", types[name]) for side in "no")
            tests.append(differs(one, other, types[name], TOLERANCE))
        return (
            f"SELECT p.place, p.rid FROM {matched} p JOIN ({self.computed.after.select()}) n ON n.{RID} = p.place "
            f"JOIN ({self.computed.before.select()}) o ON o.{RID} = p.rid WHERE NOT ({' OR '.join(tests)})"
        )

    def _pairs_with_same_inputs(self, matched: str, fresh: str, then: str) -> Ids:
        """The pairs that have exactly the same rows behind both rows."""
        both = (
            f"SELECT p.place, p.rid, count(*) AS n FROM {matched} p JOIN {fresh} f ON f.id = p.place "
            f"JOIN {then} t ON t.id = p.rid AND t.space = f.space AND t.b = f.b GROUP BY p.place, p.rid"
        )
        new, old = (f"(SELECT id, count(*) AS n FROM {table} GROUP BY id)" for table in (fresh, then))
        found = self.engine.connection.sql(
            f"SELECT x.place, x.rid FROM ({both}) x JOIN {new} f ON f.id = x.place AND f.n = x.n "
            f"JOIN {old} t ON t.id = x.rid AND t.n = x.n"
        ).to_arrow_table()
        columns = [each.to_numpy().astype("int64") for each in found.columns]
        kept: Ids = np.column_stack(columns)
        return kept
