"""The part of a refresh that needs Spark. Spark is started only when a dataset needs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from lineage_service.capture.handles import Space
from lineage_service.errors import QuestionError
from lineage_service.plan.build import Plan
from lineage_service.plan.nodes import Limit, Node, Sort, Source, keeps_order
from lineage_service.progress import Stages
from lineage_service.refresh.duckdb_refresh import DatasetState
from lineage_service.settings import IndexOptions
from lineage_service.spark.heavy_imports import allow_heavy_imports
from lineage_service.spec.loader import LoadedWorkflow
from lineage_service.spec.models import SourceSpec
from lineage_service.spec.step_models import CheckSpec
from lineage_service.store.layout import RunFolder
from lineage_service.store.publications import Publication
from lineage_service.store.version_patcher import Ids
from lineage_service.store.versions import Version

if TYPE_CHECKING:
    from lineage_service.spark.recomputation import Leaf, Recomputation, RecomputedRows
    from lineage_service.spark.relation import Relation
    from lineage_service.spark.spark_types import DataFrame, SparkSession


class SparkRefresh:
    """Spark's part of one refresh. `states` holds the datasets that are read, by node."""

    def __init__(
        self,
        plan: Plan,
        loaded: LoadedWorkflow,
        folder: RunFolder,
        states: Mapping[str, DatasetState],
        options: IndexOptions,
        stages: Stages,
        settings: Mapping[str, str] | None = None,
        old_rows: Callable[[str, Space], tuple[Version, Ids]] | None = None,
    ) -> None:
        self.settings, self.old_rows = settings, old_rows
        self.plan, self.loaded, self.folder, self.states = plan, loaded, folder, states
        self.options, self.stages = options, stages
        self._refreshing: Recomputation | None = None

    def is_touched(self, node: Node) -> bool:
        """Whether anything that a dataset is computed from has changed."""
        state = self.states.get(node.id)
        if state is not None:
            return state.is_changed
        return any(self.is_touched(below) for below in node.inputs)

    def recompute(self, step: str) -> RecomputedRows | None:
        refreshing = self._with_leaves(self.plan.steps[step])
        from lineage_service.spark.failed_expression import locate_failed_expression

        with locate_failed_expression(self.plan):
            return refreshing.recompute(step)

    def copy_source(self, name: str, spec: SourceSpec, workflow_folder: Path) -> Version:
        """Copies the current rows of a source to the run's folder."""
        from lineage_service.spark.open_sources import SourceOpener

        opener = SourceOpener(self._session(), self.folder, workflow_folder)
        with self.stages.stage(f"copying '{name}'"):
            return opener.open(name, spec, None).version

    def count_failing_rows(self, step: str, check: CheckSpec) -> int:
        """The number of rows of a step that fail a check now."""
        from lineage_service.spark.checks import count_failing

        return count_failing(check, self._current_rows(step), self.folder.home.path)

    def publish(self, publication: Publication) -> None:
        """Writes the new copy of an output, in its sort order."""
        from lineage_service.spark.publication_writer import write_publication

        write_publication(publication, self._current_rows(publication.step), self.folder.home.path)

    def _current_rows(self, step: str) -> Relation:
        """The current rows of a step."""
        return self._with_leaves(self.plan.steps[step]).current_rows(self.plan.steps[step])

    def _with_leaves(self, node: Node) -> Recomputation:
        """Registers the current state of all datasets that a step is computed from."""
        refreshing, pending = self._recomputation(), [node]
        while pending:
            each = pending.pop()
            if each.id not in self.states:
                pending += each.inputs
            elif each.id not in refreshing.leaves:
                refreshing.leaves[each.id] = self._leaf(each, self.states[each.id])
        return refreshing

    def _session(self) -> SparkSession:
        with self.stages.stage("starting Spark"):
            allow_heavy_imports()
            from lineage_service.spark.spark_session import session_under, spark_session

            spark = spark_session(self.options.master, self.options.remote, self.options.conf)
            if self.settings is None:
                return spark
            # Uses the settings of the original run, so that expressions mean the same, unless others are given.
            return session_under(spark, {**self.settings, **self.options.conf})

    def _recomputation(self) -> Recomputation:
        if self._refreshing is not None:
            return self._refreshing
        self.spark = self._session()
        from lineage_service.spark.capture_columns import CaptureColumnNames
        from lineage_service.spark.open_sources import SourceOpener
        from lineage_service.spark.recomputation import Recomputation

        self.names = CaptureColumnNames.apart_from(name for node in self.plan.nodes() for name in node.schema.names)
        self.opener = SourceOpener(self.spark, self.folder)
        self._refreshing = Recomputation(
            self.spark, self.plan, self.names, self.folder, self.stages, {}, self._old_relations
        )
        return self._refreshing

    def _leaf(self, node: Node, state: DatasetState) -> Leaf:
        from lineage_service.spark.recomputation import Leaf

        now = self._relation(node, state.after.version)
        if isinstance(node, Sort):
            from lineage_service.spark.lowering import sort_again

            now = sort_again(node, now)
        elif keeps_order(node) and self._order_counts(node):
            raise QuestionError(
                f"step '{node.step}' has an order and is read by other steps: it cannot be refreshed in part",
                hint="run the workflow again",
            )
        if not state.is_changed:
            return Leaf(now, now)
        if not state.readable:
            return Leaf(now, now, self._rid_frame(state.removed_rids), self._rid_frame(state.added_rids), lost=True)
        then = self._relation(node, state.before.version)
        return Leaf(then, now, self._rid_frame(state.removed_rids), self._rid_frame(state.added_rids))

    def _old_relations(self, step: str, seed: Space) -> tuple[Relation, DataFrame | None]:
        """The old rows of a dataset, and the rids of those that derive from removed rows of a leaf."""
        assert self.old_rows is not None
        version, rids = self.old_rows(step, seed)
        return self.opener.reopen_dataset(step, version).relation(self.names, captured=True), self._rid_frame(rids)

    def _order_counts(self, node: Node) -> bool:
        """Whether a step above selects rows by their order."""
        above = [each for each in self.plan.nodes() if node in each.inputs]
        return any(
            (isinstance(each, Limit) and not each.by)
            or (not each.repeatable and not isinstance(each, Limit))
            or self._order_counts(each)
            for each in above
        )

    def _relation(self, node: Node, version: Version) -> Relation:
        if not isinstance(node, Source):
            return self.opener.reopen_dataset(node.step, version).relation(self.names, captured=True)
        spec = self.loaded.spec.valid_sources[node.step]
        if spec.output is not None:  # columns are named as in the source
            return self.opener.reopen_dataset(node.step, version).relation(self.names, captured=True)
        return self.opener.reopen(node.step, spec, version).relation(self.names, captured=True)

    def _rid_frame(self, rids: Ids) -> DataFrame | None:
        if not len(rids):
            return None
        from lineage_service.spark.spark_session import local_frame

        return local_frame(self.spark, pa.table({self.names.handle(0): pa.array(rids, pa.int64())}))
