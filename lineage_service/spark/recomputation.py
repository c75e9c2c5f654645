"""Spark's part of a refresh: which rows of a dataset are touched, and those rows computed anew with their lineage.

A dataset is computed from the datasets next below it, whose rows before and after the change are known. Only the rows
that are touched are asked for; Spark pushes that down to the scans as far as the plan allows.
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
from lineage_service.spark.touched_rows import AllRowsTouched, Touch, TouchedRowFinder, comparable_columns, is_row_wise
from lineage_service.store.layout import RunFolder
from lineage_service.store.lineage_tables import TableRows
from lineage_service.store.versions import Version


@dataclass(frozen=True)
class Leaf:
    """A dataset that is read, before and after the change, each row with its rid; the rids that went, and that came.

    A row that was changed went and came. Neither is given where nothing changed.
    """

    before: Relation
    after: Relation
    gone: DataFrame | None = None
    came: DataFrame | None = None
    lost: bool = False  # rows that went can no longer be read

    @property
    def is_changed(self) -> bool:
        return self.gone is not None or self.came is not None


@dataclass(frozen=True)
class TouchedRowFiles:
    """Touched rows of a dataset, as files: ids of the seed's rows (column k0), or values of columns (k0, k1, …)."""

    seed: Space | None
    columns: tuple[str, ...]
    files: tuple[str, ...]


@dataclass(frozen=True)
class RecomputedRows:
    """A dataset's touched rows, computed anew: which they are (None: all of them, for `reason`), the rows as a version
    of their own, the lineage tables that came with them."""

    meant: tuple[TouchedRowFiles, ...] | None
    reason: str | None
    version: Version
    tables: tuple[Table, ...]
    rows: Mapping[Space, TableRows]


@dataclass
class TouchedRowWriter(RunWriter):
    """A stage that writes only those rows of a dataset that are meant."""

    keeps_windows: bool = False
    restrict: Callable[[InstrumentedNode, Relation], Relation] = lambda _, relation: relation

    def dataset(self, each: InstrumentedNode, relation: Relation) -> Relation:
        return super().dataset(each, self.restrict(each, relation))


@dataclass
class Recomputation:
    """The datasets of one plan brought up to date, one after the other, those below first.

    leaves: what was read or has been brought up to date already, by node · old_rows: rows of a step before, and the
    rids of those that come from rows of a leaf which went
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
        """The touched rows of a step; None where none are."""
        node = self.plan.steps[step]
        while True:
            try:
                return self._recompute_node(node)
            except MustStage as found:
                self._chosen[found.each.node.id] = Choice("stage", found.reason)
                self._instrumented = None

    def current_rows(self, node: Node) -> Relation:
        """The rows of a node as they are now; of a dataset that was brought up to date, those."""
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
            return self._compute_rows(nodes, each, None, str(everything), touching)
        found = [(touch, meant) for touch, meant in touches if meant is not None]
        if not found:
            return None
        return self._compute_rows(
            nodes, each, [touch for touch, _ in found], None, touching, [meant for _, meant in found]
        )

    def _compute_rows(
        self,
        nodes: Sequence[InstrumentedNode],
        each: InstrumentedNode,
        touches: Sequence[Touch] | None,
        reason: str | None,
        touching: TouchedRowFinder,
        meant: Sequence[TouchedRowFiles] = (),
    ) -> RecomputedRows:
        def restrict(_: InstrumentedNode, relation: Relation) -> Relation:
            if touches is None:
                return relation
            frame = touching.restrict_rows(relation, each.carried, touches)
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
        told = None if touches is None else tuple(meant)
        return RecomputedRows(told, reason, version, (own, *tables), rows)

    def _lower_nodes(
        self, nodes: Sequence[InstrumentedNode], given: Mapping[str, Relation], stage: Rehearsal | RunWriter
    ) -> dict[str, Relation]:
        plan = replace(self._plan(), nodes=tuple(nodes))
        return lower_plan(plan, {}, stage, self.names, given=given)

    def _plan(self) -> InstrumentedPlan:
        """Few rows are expected, so that members ride along wherever they can."""
        if self._instrumented is None:
            self._instrumented = instrument(replace(self.plan, workload=()), "inject", chosen=self._chosen)
        return self._instrumented

    def _nodes_below(self, node: Node) -> list[InstrumentedNode]:
        """The nodes from a dataset down to those that are there already."""
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
        """Rows of a leaf that changed, as they were and as they are."""
        leaf = self.leaves[name]
        if not leaf.is_changed:
            return None
        gone = None if leaf.lost else leaf.gone
        parts = [
            relation.frame.join(F.broadcast(rids), self.names.handle(0), "left_semi")
            for relation, rids in ((leaf.before, gone), (leaf.after, leaf.came))
            if rids is not None
        ] or [leaf.after.frame.filter("false")]
        columns = [*leaf.after.columns, self.names.handle(0)]
        frame = parts[0].select(*map(col, columns))
        for other in parts[1:]:
            frame = frame.union(other.select(*map(col, columns)))
        return Relation(frame, leaf.after.columns, 1)

    def _unreadable_rids(self, name: str) -> DataFrame | None:
        """The rids of rows of a leaf that went and can no longer be read."""
        leaf = self.leaves.get(name)
        return leaf.gone if leaf is not None and leaf.lost else None

    def _rows_before_and_after(self, node: Node, nodes: Sequence[InstrumentedNode]) -> Callable[[Node], Relation]:
        """Gives the rows of nodes below a dataset, before and after; nothing is computed until somebody asks."""
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
        """Touched rows of a dataset as files; None where there are none. Everything where nothing tells them."""
        by_rows = touch.seed is not None and is_row_wise(each.carried)
        shown = {name.lower() for name in each.node.schema.names}
        columns = () if by_rows else tuple(name for name in comparable_columns(touch) if name.lower() in shown)
        if not by_rows and not columns:
            raise AllRowsTouched(f"the rows of '{each.node.step}' that are touched show nothing that tells them")
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
