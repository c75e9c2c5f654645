"""Evaluates a run's plan on Spark for `why-not`: a verdict on each requested row at each step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lineage_service.capture.drop_reasons import reasons_of
from lineage_service.capture.handles import Space, source_space, step_space
from lineage_service.capture.instrument import InstrumentedPlan, instrument
from lineage_service.capture.join_relaxation import RelaxedSide, partner_columns, relaxations
from lineage_service.capture.missing_rows import nondeterminism_without_rows
from lineage_service.capture.nondeterminism import NONE, Nondeterminism, nondeterminism_of
from lineage_service.capture.row_paths import PathEdge, RowPaths, contributing_nodes, find_row_paths
from lineage_service.capture.strategies import Choice
from lineage_service.capture.workload import workload_entry
from lineage_service.errors import QuestionError, RunError, WorkflowError
from lineage_service.plan.build import Plan
from lineage_service.plan.column_lineage import column_lineage
from lineage_service.plan.nodes import (
    Aggregate,
    Filter,
    Intersect,
    Join,
    Limit,
    Node,
    Source,
    Window,
)
from lineage_service.plan.plan_rewriting import nodes_below
from lineage_service.progress import Stages
from lineage_service.query.masks import masked_item
from lineage_service.query.query_engine import QueryEngine
from lineage_service.why_not.engine_transfer import copy_to_duckdb, copy_to_spark
from lineage_service.why_not.loss_counts import LossCounter
from lineage_service.why_not.question import WhyNotQuestion, cut_plan
from lineage_service.why_not.run_inputs import open_inputs
from lineage_service.why_not.why_not_result import StepLoss

if TYPE_CHECKING:
    import pyarrow as pa

    from lineage_service.spark.evaluation import Evaluation, RowProvenance
    from lineage_service.spark.relation import Relation
    from lineage_service.spark.spark_types import DataFrame


@dataclass
class RunEvaluation:
    """The result of an evaluation, and how to report it.

    `tables` are tables of the engine that are dropped with the question. `notes` say what could not be determined.
    Examples are masked unless `reveal` is set; `marked` are their columns with personal data. `missing` gives, by node,
    the reason why its rows could not be read.
    """

    engine: QueryEngine
    asked: WhyNotQuestion
    ways: RowPaths
    tally: LossCounter
    stage: Evaluation
    reach: RowProvenance
    folder: Path
    sources: Mapping[str, Relation]
    stages: Stages
    tables: list[str]
    notes: list[str] = field(default_factory=list)
    reveal: bool = False
    marked: list[str] = field(default_factory=list)
    missing: Mapping[str, str | None] = field(default_factory=dict)
    _lost: str = ""

    def arrived_rids(self) -> str:
        """The rows that are in the output, if no index is available."""
        found = self.tally.behind.get(self.asked.target)
        if found is None:
            blocked = next(edge for edge in self.ways.edges if edge.state == "blocked")
            raise QuestionError(
                f"what becomes of these rows at step '{blocked.node.step}' cannot be determined: {blocked.reason}",
                hint=f"keep its rows, `lineage: {{keep: [{blocked.chance}]}}`, and the lineage, "
                f"`workload: {workload_entry('forward', self.asked.source.name, self.asked.to.name)}`, and run again",
            )
        return found

    def count_peers(self) -> int:
        """The number of rows that are in the output only because a window read them, if no index is available."""
        from lineage_service.spark.evaluated_rows import rids_behind_node

        carried = next(each.carried for each in self.ways.plan.nodes if each.node.id == self.asked.target)
        table = self._copy_to_engine(rids_behind_node(self.reach, self.asked.target, carried), "peers")
        return self.engine.scalar(f"SELECT count(*) FROM {table}") - self.engine.scalar(
            f"SELECT count(*) FROM {self.arrived_rids()}"
        )

    def step_losses(self, arrived: str, limit: int) -> list[StepLoss]:
        return [each for _, each in self.losses_by_edge(self.tally.lost_rows(arrived), limit)]

    def losses_by_edge(self, lost: str, limit: int) -> list[tuple[PathEdge, StepLoss]]:
        """The losses at each edge, for the rows in a table (rid, edge) whose last edge is one of these."""
        self._lost = lost
        try:
            self._find_partners()
        except (RunError, WorkflowError):
            # Rows that a step no longer drops may be the ones on which later steps fail.
            self.notes.append("whether partners were lost at earlier steps could not be determined")
        steps = self.tally.steps(self._lost, limit)
        return [
            (edge, self._with_examples(edge, step, limit)) for edge, step in zip(self.ways.edges, steps, strict=True)
        ]

    def lost_rows_with_reasons(self, limit: int | None) -> pa.Table:
        return self.tally.lost_rows_with_reasons(self._lost, limit)

    # --- partners ---------------------------------------------------------------------------------------------

    def _find_partners(self) -> None:
        """For rows without a partner, finds the step at which a partner was lost, if any."""
        from lineage_service.spark.evaluated_rows import union_rows
        from lineage_service.spark.missing_partners import partner_rows, plain_lowering

        asked_for = [edge for edge in self.ways.edges if self._lacks_partners(edge)]
        if not asked_for:
            return
        lowered = plain_lowering(self.asked.plan, self.sources, self.stage)
        ended = self._copy_to_spark(
            " UNION ALL ".join(
                f"SELECT {edge.number} AS edge, rid FROM ({self.tally.ended_rows(edge, self._lost)})"
                for edge in asked_for
            ),
            "ended",
        )
        let_go = {edge.number: self._relaxations(edge) for edge in asked_for}
        found = [
            partner_rows(edge, number, relaxed, ended, self.reach, lowered)
            for edge in asked_for
            for number, relaxed in enumerate(let_go[edge.number])
        ]
        if found:
            kept = self._copy_to_engine(union_rows(found), "partners", "looking for partners that were lost")
            self.tally.partners = f"(SELECT edge, rid, min(k) AS k FROM {kept} GROUP BY edge, rid)"
            self.tally.let_go = {number: [each.step for each in steps] for number, steps in let_go.items()}

    def _lacks_partners(self, edge: PathEdge) -> bool:
        if edge.state != "evaluated" or not isinstance(edge.node, Join | Intersect):
            return False
        if isinstance(edge.node, Join) and edge.node.how == "anti":
            return False
        return bool(self.engine.scalar(f"SELECT count(*) FROM ({self.tally.ended_rows(edge, self._lost)})"))

    def _relaxations(self, edge: PathEdge) -> list[RelaxedSide]:
        """The other input with steps relaxed. Only steps that can be evaluated again from unchanged sources are
        used.
        """
        node = edge.node
        assert isinstance(node, Join | Intersect)
        other = _uncut_node(self.asked.plan, node).inputs[1 - edge.place]
        found = []
        for relaxed in relaxations(other, partner_columns(node, 1 - edge.place)):
            sources = {each.step for each in nodes_below(relaxed.node) if isinstance(each, Source)}
            if not sources <= self.sources.keys() or _chances(relaxed.node)[relaxed.node.id].reason is not None:
                break
            found.append(relaxed)
        return found

    # --- examples ---------------------------------------------------------------------------------------------

    def _with_examples(self, edge: PathEdge, step: StepLoss, limit: int) -> StepLoss:
        if not step.reasons or not limit or self.missing.get(edge.below.node.id) is not None:
            return step  # computed from some of the rows, it differs from what the run computed
        if isinstance(edge.node, Limit):
            shown = {rid for reason in step.reasons for rid in reason.rids}
            wanted = ", ".join(map(str, sorted(shown)))
            ranks = dict(
                self.engine.rows(
                    f"SELECT rid, n FROM {self.tally.verdicts} WHERE edge = {edge.number} AND rid IN ({wanted}) "
                    "AND n IS NOT NULL"
                )
            )
            return _with_example_values(step, {rid: {"rank": rank} for rid, rank in ranks.items()})
        if isinstance(edge.node, Filter) and isinstance(edge.node.input, Aggregate):
            return _with_example_values(step, self._groups(edge, edge.node, edge.node.input, step))
        return step

    def _groups(self, edge: PathEdge, node: Filter, groups: Aggregate, step: StepLoss) -> dict[int, dict[str, Any]]:
        """For each shown row, the dropped group: its keys and the measures that the predicate reads."""
        from lineage_service.spark.evaluated_rows import values_behind_node

        keys = [each.name for each in groups.keys]
        read = [
            each.name for each in groups.measures if each.name.lower() in node.where.words and each.name not in keys
        ]
        rids = sorted({rid for reason in step.reasons for rid in reason.rids})
        places = {name: f"v{index}" for index, name in enumerate((*keys, *read))}
        rows = values_behind_node(self.reach, edge.below.node.id, edge.below.handles, places, rids)
        table = self._copy_to_engine(rows, "groups")
        marks = column_lineage(_uncut_node(self.asked.plan, groups))
        masked = {name for name in (*keys, *read) if marks[name].pii}
        self.marked += sorted(masked)

        def masked_value(name: str, row: dict[str, Any]) -> Any:
            value = row[places[name]]
            return masked_item(value) if name in masked and not self.reveal else value

        hidden = {"masked": sorted(masked)} if masked and not self.reveal else {}
        found: dict[int, dict[str, Any]] = {}
        for row in self.engine.stream(f"SELECT * FROM {table}").read_all().to_pylist():
            found.setdefault(
                row["rid"],
                {
                    "group": {name: masked_value(name, row) for name in keys},
                    "values": {name: masked_value(name, row) for name in read},
                    **hidden,
                },
            )
        return found

    # --- transfer between the engines -------------------------------------------------------------------------

    def _copy_to_engine(self, frame: DataFrame, label: str, stage_label: str = "looking at what was dropped") -> str:
        """Copies a DataFrame to a table of the engine."""
        table = copy_to_duckdb(self.engine, self.stage, frame, self.folder, label, self.stages, stage_label)
        self.tables.append(table)
        return table

    def _copy_to_spark(self, query: str, label: str) -> DataFrame:
        return copy_to_spark(self.engine, self.stage, query, self.folder, label)


def evaluate_run(
    question: WhyNotQuestion,
    engine: QueryEngine,
    rows: str,
    pairs: Mapping[str, str],
    folder: Path,
    stages: Stages,
    tables: list[str],
    *,
    reveal: bool = False,
    given: Mapping[Space, str] | None = None,
) -> RunEvaluation:
    """Evaluates the plan of a run.

    `rows` is a table of the requested rows, `pairs` are those of the datasets on the way with known lineage. `given`
    are pairs of the start sources, if those hold rows derived from the requested ones. Tables created here are added to
    `tables`.
    """
    given = given or {}
    plan = cut_plan(question, frozenset(pairs))
    instrumented = _stage_every_breaker(plan)
    stage, relations, plain, gone = open_inputs(question, instrumented, engine, rows, given, folder, stages)
    from lineage_service.spark.evaluation import RowProvenance, evaluate_plan
    from lineage_service.spark.faults import executing
    from lineage_service.spark.verdicts import is_order_total

    with stages.stage("evaluating the steps again"):
        evaluate_plan(instrumented, relations, stage, stage.names)

    def is_ordered(node: Limit | Window) -> bool:
        if node.id in pairs:
            return False  # its result is known, whatever its order leaves undefined
        stage_label = f"looking at the order of '{node.step}'"
        with stages.stage(stage_label), executing(None, f"step '{node.step}'", question.run.home.path):
            return is_order_total(node, stage.read[node.input.id])

    computed: dict[str, Nondeterminism] = {}
    read: dict[str, Nondeterminism] = {}
    missing: dict[str, str | None] = {}
    for each in instrumented.nodes:
        found = nondeterminism_of(each.node, [read[below.node.id] for below in each.inputs], is_ordered)
        lacking = [missing[below.node.id] for below in each.inputs]
        leads = [any(one.id in question.starts for one in contributing_nodes(below.node)) for below in each.inputs]
        computed[each.node.id], missing[each.node.id] = nondeterminism_without_rows(each.node, found, lacking, leads)
        if isinstance(each.node, Source):
            missing[each.node.id] = gone.get(each.node.step)
        written = each.is_dataset and each.node.step in pairs
        read[each.node.id] = NONE if written else computed[each.node.id]
        if written:
            missing[each.node.id] = None
    ways = find_row_paths(instrumented, question.spaces, question.target, frozenset(pairs), computed, read)
    everything = engine.scalar(f"SELECT count(*) FROM {rows}") == question.run.versions[question.source.space].rows
    wanted = None if everything else copy_to_spark(engine, stage, f"SELECT b AS rid FROM {rows}", folder, "asked")
    known: dict[Space, DataFrame] = {
        step_space(step): copy_to_spark(engine, stage, f"SELECT rid, id, role FROM {table}", folder, f"pairs-{step}")
        for step, table in pairs.items()
    }
    for number, (space, table) in enumerate(given.items()):
        known[space] = copy_to_spark(engine, stage, f"SELECT rid, id, role FROM {table}", folder, f"given-{number}")
    start = None if given else source_space(question.start)
    reach = RowProvenance(stage, instrumented, start, wanted, known)
    reasons = {
        edge.number: reasons_of(edge, read[edge.below.node.id])
        for edge in ways.edges
        if edge.state in ("evaluated", "witnessed")
    }
    verdicts = _verdicts(engine, stage, reach, ways, read, folder, stages)
    tables.append(verdicts)
    tally = LossCounter(engine, ways, rows, pairs, verdicts, reasons, tables, given=given)
    tally.count()
    return RunEvaluation(
        engine, question, ways, tally, stage, reach, folder, plain, stages, tables, reveal=reveal, missing=missing
    )


# --- the plan -----------------------------------------------------------------------------------------------------


def _stage_every_breaker(plan: Plan) -> InstrumentedPlan:
    """Stages every breaker. This strategy is always sound and makes members available immediately."""
    staged = Choice("stage", "evaluated for a question")
    return instrument(plan, "stage", chosen={node.id: staged for node in plan.nodes()})


def _uncut_node(plan: Plan, node: Node) -> Node:
    return next(each for step in plan.steps.values() for each in nodes_below(step) if each.id == node.id)


def _chances(node: Node) -> dict[str, Nondeterminism]:
    """The nondeterminism of a node and the nodes below it, ignoring order."""
    found: dict[str, Nondeterminism] = {}

    def visit(each: Node) -> None:
        if each.id not in found:
            for below in each.inputs:
                visit(below)
            found[each.id] = nondeterminism_of(each, [found[below.id] for below in each.inputs], lambda _: False)

    visit(node)
    return found


# --- Spark --------------------------------------------------------------------------------------------------------


def _verdicts(
    engine: QueryEngine,
    stage: Evaluation,
    reach: RowProvenance,
    ways: RowPaths,
    read: Mapping[str, Nondeterminism],
    folder: Path,
    stages: Stages,
) -> str:
    """A table (edge, rid, passed, marks, n) of all edges at which rows may end."""
    from lineage_service.spark.verdicts import Verdicts, all_verdicts

    edges = [(edge, read[edge.below.node.id]) for edge in ways.edges if edge.state in ("evaluated", "witnessed")]
    if not edges:
        return engine.keep(
            "SELECT 0 AS edge, 0::BIGINT AS rid, false AS passed, 0::BIGINT AS marks, 0::BIGINT AS n WHERE false"
        )
    try:
        rows = copy_to_duckdb(engine, stage, all_verdicts(Verdicts(stage, reach), edges), folder, "verdicts", stages)
    except RunError:
        # A conjunct that Spark skips by short-circuiting may fail when it is evaluated alone.
        guarded = all_verdicts(Verdicts(stage, reach, guarded=True), edges)
        rows = copy_to_duckdb(engine, stage, guarded, folder, "guarded", stages)
    table = engine.keep(
        "SELECT edge, rid, bool_or(passed) AS passed, bit_or(CASE WHEN passed THEN 0 ELSE marks END) AS marks, "
        f"min(n) AS n FROM {rows} GROUP BY edge, rid"
    )
    engine.drop(rows)
    return table


def _with_example_values(step: StepLoss, examples: Mapping[int, dict[str, Any]]) -> StepLoss:
    """The step with example values for the shown rows of each reason."""
    reasons = tuple(
        replace(each, examples=tuple({"rid": rid, **examples[rid]} for rid in each.rids if rid in examples))
        for each in step.reasons
    )
    return replace(step, reasons=reasons)
