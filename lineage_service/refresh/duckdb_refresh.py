"""Finds and recomputes the affected rows of a dataset in DuckDB, for plans that `duckdb_sql` can translate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lineage_catalog.hop_forms import HopForm
from lineage_catalog.records import HopRecord

from lineage_service.capture.handles import Space, step_space
from lineage_service.equivalence.portable_predicates import NotTranslatable
from lineage_service.equivalence.stored_values import is_read_alike
from lineage_service.index.index_engine import sorted_pairs
from lineage_service.index.pairs import ROW_GROUP, write_pairs
from lineage_service.plan.identity_columns import identity_columns
from lineage_service.plan.nodes import Filter, Limit, Node
from lineage_service.query.query_engine import QueryEngine
from lineage_service.refresh.duckdb_groups import (
    GroupByShape,
    apply_above_groups,
    group_by_shape,
    group_keys,
    group_rows,
    order_terms,
)
from lineage_service.refresh.duckdb_sql import DuckDbPlan, Leaves, select_as_spark_types
from lineage_service.refresh.duckdb_values import MEMBERS, DuckDbRelation, TypedColumn, handle_column
from lineage_service.refresh.row_replacement import RowReplacement
from lineage_service.store.duckdb_engine import column, literal, private_column
from lineage_service.store.layout import RunFolder
from lineage_service.store.output_versions import version_of_folder
from lineage_service.store.version_patcher import Ids
from lineage_service.store.version_scan import RID, VersionScan
from lineage_service.store.versions import Version, parquet_footer

PLACE = private_column("place")
MOST_FILES = 64  # number of files of a dataset whose footers are read


@dataclass(frozen=True)
class DatasetState:
    """A dataset that is read, before and after the change, with the rids removed and added."""

    space: Space
    before: VersionScan
    after: VersionScan
    removed_rids: Ids
    added_rids: Ids
    readable: bool = True  # whether the removed rows can still be read

    @property
    def is_changed(self) -> bool:
        return bool(len(self.removed_rids) or len(self.added_rids))


@dataclass(frozen=True)
class DuckDbRecomputedRows:
    """Recomputed rows of a dataset.

    Holds a query of the old rids (column b), or None if the lineage of the removed rows determines them (by leaf); the
    rows as a version; and the rows as a table with their members.
    """

    touched: str | None
    seeds: dict[Space, Ids]
    version: Version
    table: str
    spaces: tuple[Space, ...]
    members: bool = True  # whether the table has members


@dataclass
class DuckDbRefresh:
    """Refreshes datasets of one plan. `states` holds the datasets below them, by node."""

    engine: QueryEngine
    folder: RunFolder
    states: dict[str, DatasetState]
    ahead: Callable[[Space, Mapping[Space, Ids]], str]  # query of a dataset's rids derived from rows below
    members: bool = True  # whether the rows behind rows are needed
    _columns: dict[str, list[tuple[str, str, bool]]] = field(default_factory=dict)
    _deltas: dict[tuple[str, str], str] = field(default_factory=dict)

    def recompute(self, node: Node, before: VersionScan) -> DuckDbRecomputedRows | None:
        """The recomputed rows of a dataset; None if none are affected. Raises NotTranslatable if only Spark can compute
        them."""
        shape = group_by_shape(node, self.states)
        leaves = Leaves(self._columns_below(shape.tree), self._rows_now)
        plan = DuckDbPlan(leaves)
        rows = plan.rows(shape.tree)
        changed = [n for n, name in enumerate(leaves.occurrences) if self.states[name].is_changed]
        if not changed:
            return None
        columns = [(each.name, each.type) for each in before.version.columns]
        spaces = tuple(self.states[name].space for name in leaves.occurrences)
        if shape.breaker is None:
            return self._row_by_row(node, plan, rows, changed, columns, spaces)
        shown = identity_columns(node)
        keys = group_keys(shape.breaker, rows)
        if shown is None or len(shown) != len(keys):
            raise NotTranslatable
        apply_above_groups(
            shape.above, group_rows(shape.breaker, rows)
        )  # nothing is searched if it could not be recomputed
        touched = self._touched_keys(plan, shape, node, before, shown, changed)
        if touched is None:
            return None
        rows = self._restrict_to_keys(plan, shape.tree, keys, touched)
        keys = group_keys(shape.breaker, rows)
        same = " AND ".join(f"{text} IS NOT DISTINCT FROM k.k{index}" for index, (text, _) in enumerate(keys))
        # With a single change below, every affected group has a changed row behind it, so its other rows do not matter.
        members = self.members or len(changed) > 1
        groups = group_rows(shape.breaker, rows, f" SEMI JOIN {touched} k ON {same}", members=members)
        fresh = apply_above_groups(shape.above, groups)
        table = self._number_places(select_as_spark_types(fresh, columns, f", t.{MEMBERS}"))
        old = " AND ".join(f"t.{column(name)} IS NOT DISTINCT FROM k.k{index}" for index, name in enumerate(shown))
        query = f"SELECT {RID} AS b FROM ({before.select(shown)}) t SEMI JOIN {touched} k ON {old}"
        if shape.limit is not None:
            query, table = self._limit_rows(shape.limit, fresh, before, query, table)
        return DuckDbRecomputedRows(query, {}, self._write_version(node, table, columns), table, spaces, members)

    # --- leaves -----------------------------------------------------------------------------------------------

    def _columns_below(self, node: Node) -> dict[str, list[tuple[str, str, bool]]]:
        if node.id in self.states:
            return {node.id: self._columns_with_portability(node)}
        found: dict[str, list[tuple[str, str, bool]]] = {}
        for below in node.inputs:
            found |= self._columns_below(below)
        return found

    def _columns_with_portability(self, node: Node) -> list[tuple[str, str, bool]]:
        """The columns of a dataset, and whether DuckDB reads the same values as Spark for each."""
        if node.id not in self._columns:
            state = self.states[node.id]
            known: dict[str, bool] = {}
            for scan in (state.before, state.after) if state.readable else (state.after,):
                files = [path for path, file in zip(scan.paths, scan.version.files, strict=True) if file.only is None]
                if len(files) > MOST_FILES:
                    raise NotTranslatable
                footers = [parquet_footer(path) for path in files]
                for each in scan.version.columns:
                    known[each.name] = known.get(each.name, True) and is_read_alike(each, footers, rebased=False)
            self._columns[node.id] = [(each.name, each.type, known[each.name]) for each in state.after.version.columns]
        return self._columns[node.id]

    def _rows_now(self, _: int, name: str, columns: Sequence[str]) -> str:
        return self.states[name].after.select(columns)

    def _delta(self, name: str, which: str) -> str:
        """A table of the removed or added rows."""
        if (name, which) not in self._deltas:
            state = self.states[name]
            scan, rids = (state.before, state.removed_rids) if which == "removed" else (state.after, state.added_rids)
            names = [each for each, _, alike in self._columns[name] if alike]
            if len(rids) <= 1000:
                query = scan.select_positions([int(rid) for rid in rids], names)
            else:
                import pyarrow as pa

                ids = self.engine.keep_ids(pa.array(rids, pa.int64()))
                query = f"SELECT t.* FROM ({scan.select(names)}) t SEMI JOIN {ids} x ON x.b = t.{RID}"
            self._deltas[name, which] = self.engine.keep(query)
        return self._deltas[name, which]

    def _select_with_rid(self, table: str, columns: Sequence[str]) -> str:
        return f"SELECT {''.join(f'{column(each)}, ' for each in columns)}{RID} FROM {table}"

    # --- groups -----------------------------------------------------------------------------------------------

    def _touched_keys(
        self,
        plan: DuckDbPlan,
        shape: GroupByShape,
        node: Node,
        before: VersionScan,
        shown: Sequence[str],
        changed: Sequence[int],
    ) -> str | None:
        """Keys of groups that contain or contained a removed or added row."""
        assert shape.breaker is not None
        parts, tree, breaker = self._unreadable_keys(plan, shape, node, before, shown), shape.tree, shape.breaker
        for at in changed:

            def leaf_rows(number: int, name: str, columns: Sequence[str], at: int = at) -> str:
                state, now = self.states[name], self.states[name].after.select(columns)
                if not state.is_changed:
                    return now
                rows = self._select_with_rid(self._delta(name, "added"), columns) if number == at else now
                # Groups of rows that can no longer be read are found through their lineage.
                return (
                    f"{rows} UNION ALL {self._select_with_rid(self._delta(name, 'removed'), columns)}"
                    if state.readable
                    else rows
                )

            plan.leaves.rows = leaf_rows
            found = plan.rows(tree)
            keys = group_keys(breaker, found)
            listed = ", ".join(f"{text} AS k{index}" for index, (text, _) in enumerate(keys))
            parts.append(f"SELECT {listed} FROM ({found.text}) t WHERE t.{handle_column(at)} IS NOT NULL")
        table = self.engine.keep(f"SELECT DISTINCT * FROM ({' UNION ALL '.join(parts)})")
        return table if self.engine.scalar(f"SELECT count(*) FROM {table}") else None

    def _unreadable_keys(
        self, plan: DuckDbPlan, shape: GroupByShape, node: Node, before: VersionScan, shown: Sequence[str]
    ) -> list[str]:
        """Queries of the keys of groups that contained removed rows which can no longer be read.

        Below the group-by there are only operators under which a removed row removes only what was derived from it. A
        group that was in the output is therefore found through its lineage. A group that was not in the output but
        exists now may appear in it.
        """
        assert shape.breaker is not None
        lost = {state.space: state.removed_rids for state in self._unreadable_states(plan)}
        if not lost:
            return []
        listed = ", ".join(f"t.{column(name)} AS k{index}" for index, name in enumerate(shown))
        old = before.select(shown)
        ahead = self.ahead(step_space(node.step), lost)
        parts = [f"SELECT {listed} FROM ({old}) t SEMI JOIN ({ahead}) x ON x.b = t.{RID}"]
        if shape.limit is not None or any(isinstance(each, Filter) for each in shape.above):
            plan.leaves.rows = self._rows_now
            found = plan.rows(shape.tree)
            keys = group_keys(shape.breaker, found)
            named = ", ".join(f"{text} AS k{index}" for index, (text, _) in enumerate(keys))
            same = " AND ".join(f"o.{column(n)} IS NOT DISTINCT FROM k.k{index}" for index, n in enumerate(shown))
            now = f"SELECT DISTINCT {named} FROM ({found.text}) t"
            parts.append(f"SELECT k.* FROM ({now}) k ANTI JOIN ({old}) o ON {same}")
        return parts

    def _unreadable_states(self, plan: DuckDbPlan) -> list[DatasetState]:
        states = (self.states[name] for name in dict.fromkeys(plan.leaves.occurrences))
        return [state for state in states if not state.readable and len(state.removed_rids)]

    def _restrict_to_keys(
        self, plan: DuckDbPlan, tree: Node, keys: Sequence[tuple[str, TypedColumn]], touched: str
    ) -> DuckDbRelation:
        """The tree, restricted to leaf rows that can belong to an affected group as far as their own columns show."""
        wanted: dict[int, list[tuple[str, str]]] = {}
        for index, (_, typed) in enumerate(keys):
            for occurrence, name in typed.origins:
                wanted.setdefault(occurrence, []).append((name, f"k{index}"))
        nulls = self.engine.rows(
            "SELECT " + ", ".join(f"count(*) - count(k{index})" for index in range(len(keys))) + f" FROM {touched}"
        )[0]

        def leaf_rows(number: int, name: str, columns: Sequence[str]) -> str:
            now = self.states[name].after.select(columns)
            same = [
                f"t.{column(own)} {'IS NOT DISTINCT FROM' if nulls[int(key[1:])] else '='} k.{key}"
                for own, key in wanted.get(number, [])
                if own in columns
            ]
            if not same:
                return now
            return f"SELECT t.* FROM ({now}) t SEMI JOIN {touched} k ON {' AND '.join(same)}"

        plan.leaves.rows = leaf_rows
        return plan.rows(tree)

    def _limit_rows(
        self, limit: Limit, rows: DuckDbRelation, before: VersionScan, touched: str, fresh: str
    ) -> tuple[str, str]:
        """Refreshes a top-n from the unaffected old rows and the recomputed rows. Returns the replaced rids and the new
        rows.

        Rows beyond the limit are unknown. Raises NotTranslatable if one of them might enter the result.
        """
        if limit.n is None or limit.offset:
            raise NotTranslatable
        columns = [each.name for each in before.version.columns]
        listed = ", ".join(map(column, columns))
        known = replace(rows, columns=tuple(each for each in rows.columns if each.name in columns))
        order = order_terms(limit, known)
        shown = ", ".join(f"{text} AS o{index}" for index, (text, _) in enumerate(order))
        by = ", ".join(f"o{index} {how}" for index, (_, how) in enumerate(order))
        removed = self.engine.keep(touched)
        stay = f"({before.select()}) t ANTI JOIN {removed} g ON g.b = {RID}"
        first = self.engine.keep(
            f"SELECT * FROM (SELECT {RID} AS rid, NULL::BIGINT AS place, {shown} FROM {stay} "
            f"UNION ALL SELECT NULL, t.{PLACE}, {shown} FROM {fresh} t) ORDER BY {by} LIMIT {limit.n}"
        )
        if before.version.rows >= limit.n and self.engine.scalar(f"SELECT count(*) FROM {removed}"):
            # Rows beyond the limit cannot rank higher than the last of the old rows.
            marks = ", ".join(f"o{index}" for index in range(len(order)))
            last = (
                f"(SELECT {shown}, 0 AS is_first FROM ({before.select()}) t ORDER BY {by} LIMIT 1 OFFSET {limit.n - 1})"
            )
            both = f"SELECT {marks}, 1 AS is_first FROM {first} UNION ALL FROM {last}"
            ranked = self.engine.keep(f"SELECT is_first, rank() OVER (ORDER BY {by}) AS place FROM ({both})")
            cut = f"(SELECT min(place) FROM {ranked} WHERE is_first = 0)"
            behind = self.engine.scalar(f"SELECT count(*) FROM {ranked} WHERE is_first = 1 AND place > {cut}")
            if behind or self.engine.scalar(f"SELECT count(*) FROM {first}") < limit.n:
                raise NotTranslatable
        pushed = f"SELECT {RID} AS b FROM ({before.select(columns[:1])}) t ANTI JOIN {first} f ON f.rid = t.{RID}"
        kept = f"SELECT {listed}, {MEMBERS} FROM {fresh} t SEMI JOIN {first} f ON f.place = t.{PLACE}"
        return pushed, self._number_places(kept)

    # --- rows without groups ----------------------------------------------------------------------------------

    def _row_by_row(
        self,
        node: Node,
        plan: DuckDbPlan,
        rows: DuckDbRelation,
        changed: Sequence[int],
        columns: Sequence[tuple[str, str]],
        spaces: tuple[Space, ...],
    ) -> DuckDbRecomputedRows | None:
        select_as_spark_types(rows, columns, "")
        parts = []
        for at in changed:

            def leaf_rows(number: int, name: str, wanted: Sequence[str], at: int = at) -> str:
                now = self.states[name].after.select(wanted)
                if number == at:
                    return self._select_with_rid(self._delta(name, "added"), wanted)
                if number in changed and number < at:  # a pair of two added rows is found once
                    return f"SELECT t.* FROM ({now}) t ANTI JOIN {self._delta(name, 'added')} x ON x.{RID} = t.{RID}"
                return now

            plan.leaves.rows = leaf_rows
            found = plan.rows(node)
            # Excludes rows of other branches of a union.
            found = replace(found, text=f"SELECT t.* FROM ({found.text}) t WHERE t.{handle_column(at)} IS NOT NULL")
            members = ", ".join(f"{handle_column(each)} := t.{handle_column(each)}" for each in found.handles)
            parts.append(select_as_spark_types(found, columns, f", [struct_pack({members})] AS {MEMBERS}"))
        table = self._number_places(" UNION ALL ".join(parts))
        seeds = {
            state.space: state.removed_rids
            for state in self.states.values()
            if state.is_changed and state.space in spaces
        }
        return DuckDbRecomputedRows(None, seeds, self._write_version(node, table, columns), table, spaces)

    # --- results ----------------------------------------------------------------------------------------------

    def _number_places(self, query: str) -> str:
        """A table of rows with the position that each will have in the file."""
        return self.engine.keep(f"SELECT *, row_number() OVER () - 1 AS {PLACE} FROM ({query})")

    def _write_version(self, node: Node, table: str, columns: Sequence[tuple[str, str]]) -> Version:
        folder = self.folder.dataset(node.step)
        folder.mkdir(parents=True, exist_ok=True)
        listed = ", ".join(column(name) for name, _ in columns)
        path = literal(str(folder / "part-00000.parquet"))
        self.engine.rows(f"COPY (SELECT {listed} FROM {table} ORDER BY {PLACE}) TO {path} (FORMAT parquet)")
        return version_of_folder(folder, columns, self.folder)

    def behind(self, rows: DuckDbRecomputedRows, places: Ids) -> str | None:
        """The rows behind some of the rows, by position, as a table (id, space, b); None if they were not requested."""
        import pyarrow as pa

        if not rows.members:
            return None
        wanted = self.engine.keep_ids(pa.array(places, pa.int64()))
        members = (
            f"WITH members AS (SELECT {PLACE} AS id, unnest({MEMBERS}) AS m FROM {rows.table} "
            f"SEMI JOIN {wanted} w ON w.b = {PLACE})"
        )
        parts = [
            f"SELECT id, {literal(space)} AS space, m.{handle_column(occurrence)} AS b FROM members"
            for occurrence, space in enumerate(rows.spaces)
        ]
        table = self.engine.keep(f"{members} SELECT DISTINCT * FROM ({' UNION ALL '.join(parts)}) WHERE b IS NOT NULL")
        self.engine.drop(wanted)
        return table

    def hops(self, step: str, found: DuckDbRecomputedRows, rows: RowReplacement, number: int) -> list[HopRecord]:
        """Hops with the pairs of these rows and the rows behind them."""
        import pyarrow as pa

        connection = self.engine.connection
        given = pa.table({"place": rows.places, "rid": rows.rids})
        connection.register("rids_given", given)
        hops: list[HopRecord] = []
        try:
            for space in dict.fromkeys(found.spaces):
                parts = [
                    f"SELECT place, m.{handle_column(occurrence)} AS b FROM members"
                    for occurrence, each in enumerate(found.spaces)
                    if each == space
                ]
                members = f"WITH members AS (SELECT {PLACE} AS place, unnest({MEMBERS}) AS m FROM {found.table}) "
                pairs = (
                    f"{members}SELECT DISTINCT g.rid AS a, p.b FROM ({' UNION ALL '.join(parts)}) p "
                    "JOIN rids_given g ON g.place = p.place WHERE p.b IS NOT NULL"
                )
                table = self.engine.keep(pairs)
                count = self.engine.scalar(f"SELECT count(*) FROM {table}")
                if count:
                    hops.append(self._hop(step, space, table, count, f"{number}-{len(hops)}"))
                self.engine.drop(table)
        finally:
            connection.unregister("rids_given")
        return hops

    def _hop(self, step: str, space: Space, table: str, count: int, name: str) -> HopRecord:
        self.folder.index.mkdir(parents=True, exist_ok=True)
        paths = []
        for way in ("backward", "forward"):
            rows = self.engine.connection.sql(sorted_pairs(f"SELECT a, b FROM {table}", way, None, distinct=False))
            paths.append(write_pairs(self.folder.index / f"{name}.{way}", rows.to_arrow_reader(ROW_GROUP)))
        size = sum(path.stat().st_size for path in paths)
        inside = [self.folder.home.relative(path) for path in paths]
        return HopRecord(self.folder.run_id, step_space(step), space, 0, HopForm.PAIRS, count, size, *inside)
