"""Spark's part of a refresh: finds the touched rows of a dataset and computes them again, with their lineage.

A dataset is computed from the nearest datasets below it, whose rows before and after the change are known. Only touched
rows are requested. Spark pushes that filter down to the scans as far as the plan allows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from lineage_service.capture.handles import Space, Table, step_space
from lineage_service.capture.instrument import InstrumentedNode, InstrumentedPlan, instrument
from lineage_service.capture.strategies import Choice
from lineage_service.plan.build import Plan
from lineage_service.plan.nodes import Node, Source
from lineage_service.progress import Stages
from lineage_service.spark.capture_columns import CaptureColumnNames, col
from lineage_service.spark.faults import executing
from lineage_service.spark.file_scan import read_files
from lineage_service.spark.group_capture import MustStage
from lineage_service.spark.lowering import lower_plan
from lineage_service.spark.relation import Relation
from lineage_service.spark.staging import Rehearsal, RunWriter, new_salt
from lineage_service.spark.touched_rows import TouchedRowFinder
from lineage_service.spark.touches import AllRowsTouched, Touch, comparable_columns, is_row_wise, restrict_rows
from lineage_service.store.layout import RunFolder
from lineage_service.store.lineage_tables import TableRows
from lineage_service.store.versions import Version


@dataclass(frozen=True)
class Leaf:
    """A dataset that is read, before and after the change, with rids; and the rids of removed and added rows.

    A changed row is in both. Both are None if nothing changed. `lost`: removed rows can no longer be read.
    """

    before: Relation
    after: Relation
    removed_rids: DataFrame | None = None
    added_rids: DataFrame | None = None
    lost: bool = False  # rows that were removed can no longer be read

    @property
    def is_changed(self) -> bool:
        return self.removed_rids is not None or self.added_rids is not None


@dataclass(frozen=True)
class TouchedRowFiles:
    """Touched rows of a dataset, as files of ids of the seed's rows (column k0) or of column values (k0, k1, …)."""

    seed: Space | None
    columns: tuple[str, ...]
    files: tuple[str, ...]


@dataclass(frozen=True)
class RecomputedRows:
    """The recomputed rows of a dataset.

    meant: the touched rows; None if all rows are recomputed, for `reason`
    version: the rows as a version of their own
    tables: their lineage tables
    """

    meant: tuple[TouchedRowFiles, ...] | None
    reason: str | None
    version: Version
    tables: tuple[Table, ...]
    rows: Mapping[Space, TableRows]


@dataclass
class TouchedRowWriter(RunWriter):
    """A stage that writes only the touched rows of a dataset."""

    keeps_windows: bool = False
    restrict: Callable[[InstrumentedNode, Relation], Relation] = lambda _, relation: relation

    def dataset(self, each: InstrumentedNode, relation: Relation) -> Relation:
        return super().dataset(each, self.restrict(each, relation))


@dataclass
class Recomputation:
    """Recomputes the datasets of one plan, one after the other, inputs first.

    leaves: datasets that were read or recomputed already, by node
    old_rows: rows of a step before the change, and the rids of those that derive from removed rows of a leaf
    """

    spark: SparkSession
    plan: Plan
    names: CaptureColumnNames
    folder: RunFolder
    stages: Stages
    leaves: dict[str, Leaf]
    old_rows: Callable[[str, Space], tuple[Relation, DataFrame | None]]
    _instrumented: InstrumentedPlan | None = None
    _chosen: dict[str, Choice] = field(default_factory=dict)
    _number: int = 0

    def recompute(self, step: str) -> RecomputedRows | None:
        """The touched rows of a step; None if there are none."""
        node = self.plan.steps[step]
        while True:
            try:
                return self._recompute_node(node)
            except MustStage as found:
                self._chosen[found.each.node.id] = Choice("stage", found.reason)
                self._instrumented = None

    def current_rows(self, node: Node) -> Relation:
        """The rows of a node after the change."""
        if node.id in self.leaves:
            return self.leaves[node.id].after
        given = {name: leaf.after for name, leaf in self.leaves.items()}
        return self._lower_nodes(self._nodes_below(node), given, Rehearsal(self.names, new_salt()))[node.id]

    def _recompute_node(self, node: Node) -> RecomputedRows | None:
        nodes = self._nodes_below(node)
        touching = TouchedRowFinder(
            {each.node.id: each for each in nodes},
            {each.node.id: self._changed_rows(each.node.id) for each in nodes if each.node.id in self.leaves},
            self._rows_before_and_after(node, nodes),
            self.names,
            {each.node.id: rids for each in nodes if (rids := self._unreadable_rids(each.node.id)) is not None},
            node,
            lambda seed: self.old_rows(node.step, seed),
        )
        if not touching.is_touched(node):
            return None
        each = next(each for each in nodes if each.node.id == node.id)
        try:
            touches = [self._write_touch(touch, each) for touch in touching.touches_of(node)]
        except AllRowsTouched as everything:
            return self._compute_rows(nodes, each, None, str(everything))
        found = [(touch, meant) for touch, meant in touches if meant is not None]
        if not found:
            return None
        return self._compute_rows(nodes, each, [touch for touch, _ in found], None, [meant for _, meant in found])

    def _compute_rows(
        self,
        nodes: Sequence[InstrumentedNode],
        each: InstrumentedNode,
        touches: Sequence[Touch] | None,
        reason: str | None,
        meant: Sequence[TouchedRowFiles] = (),
    ) -> RecomputedRows:
        def restrict(_: InstrumentedNode, relation: Relation) -> Relation:
            if touches is None:
                return relation
            frame = restrict_rows(relation, each.carried, touches, self.names)
            return Relation(frame, relation.columns, relation.handles)

        stage = TouchedRowWriter(
            self.spark, self.names, self.folder, stages=self.stages, salt=new_salt(), restrict=restrict
        )
        given = {name: leaf.after for name, leaf in self.leaves.items()}
        self._lower_nodes(nodes, given, stage)
        step = each.node.step
        version = stage.versions[step]
        spaces = {space for one in nodes if one.node.id not in self.leaves for space in (t.space for t in one.tables)}
        tables = [table for one in nodes if one.node.id not in self.leaves for table in one.tables]
        own = Table(step_space(step), each.carried)
        rows = {space: found for space, found in stage.tables.items() if space in spaces}
        handles = tuple(self.names.handles(len(each.carried)))
        rows[own.space] = TableRows("files", tuple(file.path for file in version.files), None, handles)
        touched = None if touches is None else tuple(meant)
        return RecomputedRows(touched, reason, version, (own, *tables), rows)

    def _lower_nodes(
        self, nodes: Sequence[InstrumentedNode], given: Mapping[str, Relation], stage: Rehearsal | RunWriter
    ) -> dict[str, Relation]:
        plan = replace(self._plan(), nodes=tuple(nodes))
        return lower_plan(plan, {}, stage, self.names, given=given)

    def _plan(self) -> InstrumentedPlan:
        """The instrumented plan. Few rows are expected, so members are injected wherever possible."""
        if self._instrumented is None:
            self._instrumented = instrument(replace(self.plan, workload=()), "inject", chosen=self._chosen)
        return self._instrumented

    def _nodes_below(self, node: Node) -> list[InstrumentedNode]:
        """The nodes from a dataset down to the leaves."""
        wanted, pending = set[str](), [node]
        while pending:
            each = pending.pop()
            if each.id in wanted:
                continue
            wanted.add(each.id)
            if each.id not in self.leaves:
                pending += each.inputs
        return [each for each in self._plan().nodes if each.node.id in wanted]

    def _changed_rows(self, name: str) -> Relation | None:
        """The changed rows of a leaf, before and after."""
        leaf = self.leaves[name]
        if not leaf.is_changed:
            return None
        removed = None if leaf.lost else leaf.removed_rids
        parts = [
            relation.frame.join(F.broadcast(rids), self.names.handle(0), "left_semi")
            for relation, rids in ((leaf.before, removed), (leaf.after, leaf.added_rids))
            if rids is not None
        ] or [leaf.after.frame.filter("false")]
        columns = [*leaf.after.columns, self.names.handle(0)]
        frame = parts[0].select(*map(col, columns))
        for other in parts[1:]:
            frame = frame.union(other.select(*map(col, columns)))
        return Relation(frame, leaf.after.columns, 1)

    def _unreadable_rids(self, name: str) -> DataFrame | None:
        """The rids of removed rows of a leaf that can no longer be read."""
        leaf = self.leaves.get(name)
        return leaf.removed_rids if leaf is not None and leaf.lost else None

    def _rows_before_and_after(self, node: Node, nodes: Sequence[InstrumentedNode]) -> Callable[[Node], Relation]:
        """Returns a function that gives the rows of a node below a dataset, before and after. Nothing is lowered until
        it is called.
        """
        built: dict[bool, dict[str, Relation]] = {}

        def lower_state(after: bool) -> dict[str, Relation]:
            if after not in built:
                given = {name: leaf.after if after else leaf.before for name, leaf in self.leaves.items()}
                inner = [each for each in nodes if each.node.id != node.id or node.id in self.leaves]
                built[after] = self._lower_nodes(inner, given, Rehearsal(self.names, new_salt()))
            return built[after]

        def either(wanted: Node) -> Relation:
            now = lower_state(True)[wanted.id]
            if not self._is_changed(wanted):
                return now
            then = lower_state(False)[wanted.id]
            columns = [*now.columns, *self.names.handles(now.handles)]
            frame = now.frame.select(*map(col, columns)).union(then.frame.select(*map(col, columns)))
            return Relation(frame, now.columns, now.handles)

        return either

    def _is_changed(self, node: Node) -> bool:
        if node.id in self.leaves:
            return self.leaves[node.id].is_changed
        return not isinstance(node, Source) and any(self._is_changed(below) for below in node.inputs)

    def _write_touch(self, touch: Touch, each: InstrumentedNode) -> tuple[Touch, TouchedRowFiles | None]:
        """Writes the touched rows of a dataset to files; None if there are none. Raises AllRowsTouched if they cannot
        be identified.
        """
        by_rows = touch.seed is not None and is_row_wise(each.carried)
        shown = {name.lower() for name in each.node.schema.names}
        columns = () if by_rows else tuple(name for name in comparable_columns(touch) if name.lower() in shown)
        if not by_rows and not columns:
            raise AllRowsTouched(
                f"the rows of '{each.node.step}' that are touched cannot be identified by their columns"
            )
        names = [self.names.row] if by_rows else columns
        frame = touch.frame.select(*[col(name).alias(f"k{index}") for index, name in enumerate(names)]).distinct()
        folder = self.folder.temporary / f"touched-{self._number}"
        self._number += 1
        what = f"looking for touched rows of '{each.node.step}'"
        with executing(each.node.position, what, self.folder.home.path):
            frame.write.option("compression", "none").parquet(str(folder))
        files = [str(path) for path in sorted(folder.glob("*.parquet"))]
        if not _has_rows(files):
            return touch, None
        written = read_files(self.spark, files)
        renamed = written.select(*[col(f"k{index}").alias(name) for index, name in enumerate(names)])
        seed = touch.seed if by_rows else None
        return Touch(renamed, columns, seed), TouchedRowFiles(seed, columns, tuple(files))


def _has_rows(files: Sequence[str]) -> bool:
    from lineage_service.store.versions import parquet_rows

    return any(parquet_rows(file) for file in files)
