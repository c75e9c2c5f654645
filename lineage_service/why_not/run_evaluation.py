"""A run's plan evaluated by Spark for `why-not`: verdicts on the rows asked for, at each step on their way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lineage_service.capture.drop_reasons import reasons_of
from lineage_service.capture.handles import Role, Space, source_space, step_space
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
    keeps_order,
)
from lineage_service.plan.plan_rewriting import nodes_below
from lineage_service.progress import Stages
from lineage_service.query.changed_files import changed_error, changed_files
from lineage_service.query.masks import masked_item
from lineage_service.query.query_engine import QueryEngine
from lineage_service.settings import IndexOptions
from lineage_service.spark.heavy_imports import allow_heavy_imports
from lineage_service.store.checksums import verify
from lineage_service.store.version_scan import VersionScan
from lineage_service.why_not.engine_transfer import copy_to_duckdb, copy_to_spark
from lineage_service.why_not.loss_counts import LossCounter
from lineage_service.why_not.question import WhyNotQuestion, cut_plan
from lineage_service.why_not.why_not_result import StepLoss

if TYPE_CHECKING:
    import pyarrow as pa

    from lineage_service.spark.evaluation import Evaluation, RowProvenance
    from lineage_service.spark.relation import Relation


@dataclass
class RunEvaluation:
    """What was found out, and how to tell it. `tables` are the engine's, and go with the question; `notes` say what
    could not be found out. Examples are masked unless they are to `reveal` personal data; `marked` are
    their columns that show some. `missing` says, by node, why rows of it could not be read."""

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
        """The rows that are in the output, where no index tells."""
        found = self.tally.behind.get(self.asked.target)
        if found is None:
            blocked = next(edge for edge in self.ways.edges if edge.state == "blocked")
            raise QuestionError(
                f"what becomes of these rows at step '{blocked.node.step}' cannot be told: {blocked.reason}",
                hint=f"keep its rows, `lineage: {{keep: [{blocked.chance}]}}`, and the lineage, "
                f"`workload: {workload_entry('forward', self.asked.source.name, self.asked.to.name)}`, and run again",
            )
        return found

    def count_peers(self) -> int:
        """How many are in the output only as rows that a window read for others, where no index tells."""
        from lineage_service.spark.capture_columns import col

        everything = replace(self.reach, most=Role.PEER, _found={})
        given = self.stage.computed[self.asked.target]
        carried = next(each.carried for each in self.ways.plan.nodes if each.node.id == self.asked.target)
        rows = everything.rows(given.frame, list(enumerate(carried)))
        table = self._copy_to_engine(rows.select(col(self.reach.rid).alias("rid")).distinct(), "peers")
        return self.engine.scalar(f"SELECT count(*) FROM {table}") - self.engine.scalar(
            f"SELECT count(*) FROM {self.arrived_rids()}"
        )

    def step_losses(self, arrived: str, limit: int) -> list[StepLoss]:
        return [each for _, each in self.losses_by_edge(self.tally.lost_rows(arrived), limit)]

    def losses_by_edge(self, lost: str, limit: int) -> list[tuple[PathEdge, StepLoss]]:
        """What ends at each edge of the rows in a table (rid, edge): those that are lost, and the last of their edges,
        where that is one of these."""
        self._lost = lost
        try:
            self._find_partners()
        except (RunError, WorkflowError):
            # Rows that a step no longer drops may be just those on which the steps behind it fail.
            self.notes.append("whether partners were lost at earlier steps could not be found out")
        steps = self.tally.steps(self._lost, limit)
        return [
            (edge, self._with_examples(edge, step, limit)) for edge, step in zip(self.ways.edges, steps, strict=True)
        ]

    def lost_rows_with_reasons(self, limit: int | None) -> pa.Table:
        return self.tally.lost_rows_with_reasons(self._lost, limit)

    # --- partners ---------------------------------------------------------------------------------------------

    def _find_partners(self) -> None:
        """Of rows that found no partner: at which step, if any, one was lost."""
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
        found: Any = None
        let_go = {edge.number: self._relaxations(edge) for edge in asked_for}
        for edge in asked_for:
            for number, relaxed in enumerate(let_go[edge.number]):
                rows = partner_rows(edge, number, relaxed, ended, self.reach, lowered)
                found = rows if found is None else found.unionByName(rows)
        if found is not None:
            kept = self._copy_to_engine(found, "partners", "looking for partners that were lost")
            self.tally.partners = f"(SELECT edge, rid, min(k) AS k FROM {kept} GROUP BY edge, rid)"
            self.tally.let_go = {number: [each.step for each in steps] for number, steps in let_go.items()}

    def _lacks_partners(self, edge: PathEdge) -> bool:
        if edge.state != "evaluated" or not isinstance(edge.node, Join | Intersect):
            return False
        if isinstance(edge.node, Join) and edge.node.how == "anti":
            return False
        return bool(self.engine.scalar(f"SELECT count(*) FROM ({self.tally.ended_rows(edge, self._lost)})"))

    def _relaxations(self, edge: PathEdge) -> list[RelaxedSide]:
        """The other side with steps let go; only what can be evaluated again, from sources that are what they were."""
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
            return step  # what is computed of some of the rows is not what the run computed
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
        """Of each row that is shown, the group that was dropped: its keys, and measures that the predicate reads."""
        from lineage_service.spark.capture_columns import col

        below = self.stage.read[edge.below.node.id]
        keys = [each.name for each in groups.keys]
        read = [
            each.name for each in groups.measures if each.name.lower() in node.where.words and each.name not in keys
        ]
        rids = sorted({rid for reason in step.reasons for rid in reason.rids})
        places = {name: f"v{index}" for index, name in enumerate((*keys, *read))}
        frame = below.frame.select(
            *[col(name).alias(place) for name, place in places.items()],
            *[col(self.stage.names.handle(index)) for index in range(below.handles)],
        )
        rows = self.reach.rows(frame, list(enumerate(edge.below.handles)), list(places.values()))
        table = self._copy_to_engine(
            rows.filter(col(self.reach.rid).isin(rids)).withColumnRenamed(self.reach.rid, "rid"), "groups"
        )
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

    # --- between the engines ----------------------------------------------------------------------------------

    def _copy_to_engine(self, frame: Any, label: str, told: str = "looking at what was dropped") -> str:
        """Rows of Spark's as a table of the engine."""
        table = copy_to_duckdb(self.engine, self.stage, frame, self.folder, label, self.stages, told)
        self.tables.append(table)
        return table

    def _copy_to_spark(self, query: str, label: str) -> Any:
        return copy_to_spark(self.engine, self.stage, query, self.folder, label)


def evaluate_run(
    asked: WhyNotQuestion,
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
    """`rows` is a table of the rows asked for, `pairs` are those of the datasets on the way whose lineage is known.
    `given` are pairs of the sources that they start from, where those hold rows that were made of the ones asked for.

    Tables that are made are added to `tables`.
    """
    given = given or {}
    plan = cut_plan(asked, frozenset(pairs))
    instrumented = _stage_every_breaker(plan)
    stage, relations, plain, gone = _open_inputs(asked, instrumented, engine, rows, given, folder, stages)
    from lineage_service.spark.evaluation import RowProvenance, evaluate_plan
    from lineage_service.spark.faults import executing
    from lineage_service.spark.verdicts import is_order_total

    with stages.stage("evaluating the steps again"):
        evaluate_plan(instrumented, relations, stage, stage.names)

    def is_ordered(node: Limit | Window) -> bool:
        if node.id in pairs:
            return False  # what it gave is known, whatever its order leaves open
        told = f"looking at the order of '{node.step}'"
        with stages.stage(told), executing(None, f"step '{node.step}'", asked.run.home.path):
            return is_order_total(node, stage.read[node.input.id])

    computed: dict[str, Nondeterminism] = {}
    read: dict[str, Nondeterminism] = {}
    missing: dict[str, str | None] = {}
    for each in instrumented.nodes:
        found = nondeterminism_of(each.node, [read[below.node.id] for below in each.inputs], is_ordered)
        lacking = [missing[below.node.id] for below in each.inputs]
        leads = [any(one.id in asked.starts for one in contributing_nodes(below.node)) for below in each.inputs]
        computed[each.node.id], missing[each.node.id] = nondeterminism_without_rows(each.node, found, lacking, leads)
        if isinstance(each.node, Source):
            missing[each.node.id] = gone.get(each.node.step)
        written = each.is_dataset and each.node.step in pairs
        read[each.node.id] = NONE if written else computed[each.node.id]
        if written:
            missing[each.node.id] = None
    ways = find_row_paths(instrumented, asked.spaces, asked.target, frozenset(pairs), computed, read)
    everything = engine.scalar(f"SELECT count(*) FROM {rows}") == asked.run.versions[asked.source.space].rows
    wanted = None if everything else copy_to_spark(engine, stage, f"SELECT b AS rid FROM {rows}", folder, "asked")
    known: dict[Space, Any] = {
        step_space(step): copy_to_spark(engine, stage, f"SELECT rid, id, role FROM {table}", folder, f"pairs-{step}")
        for step, table in pairs.items()
    }
    for number, (space, table) in enumerate(given.items()):
        known[space] = copy_to_spark(engine, stage, f"SELECT rid, id, role FROM {table}", folder, f"given-{number}")
    start = None if given else source_space(asked.start)
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
        engine, asked, ways, tally, stage, reach, folder, plain, stages, tables, reveal=reveal, missing=missing
    )


# --- the plan -----------------------------------------------------------------------------------------------------


def _stage_every_breaker(plan: Plan) -> InstrumentedPlan:
    """Every breaker staged: the one way that is always sound, and that leaves members at once."""
    staged = Choice("stage", "evaluated for a question")
    return instrument(plan, "stage", chosen={node.id: staged for node in plan.nodes()})


def _uncut_node(plan: Plan, node: Node) -> Node:
    return next(each for step in plan.steps.values() for each in nodes_below(step) if each.id == node.id)


def _chances(node: Node) -> dict[str, Nondeterminism]:
    """What is left to chance of a node and those below it, where no order is looked at."""
    found: dict[str, Nondeterminism] = {}

    def visit(each: Node) -> None:
        if each.id not in found:
            for below in each.inputs:
                visit(below)
            found[each.id] = nondeterminism_of(each, [found[below.id] for below in each.inputs], lambda _: False)

    visit(node)
    return found


# --- Spark --------------------------------------------------------------------------------------------------------


def _open_inputs(
    asked: WhyNotQuestion,
    plan: InstrumentedPlan,
    engine: QueryEngine,
    rows: str,
    given: Mapping[Space, str],
    folder: Path,
    stages: Stages,
) -> tuple[Evaluation, dict[str, Relation], dict[str, Relation], dict[str, str]]:
    """A stage, the relations that the plan reads, those of all sources that are what they were, without ids; and of
    sources of which only some files are what they were, what is to be said of the others."""
    scans = {name: _scan(asked, name) for name in asked.plan.sources}
    changed = {name: found for name, scan in scans.items() if (found := _changed_files(scan))}
    read = [each.node.step for each in plan.nodes if isinstance(each.node, Source)]
    gone: dict[str, str] = {}
    for name in read:
        if name not in changed:
            continue
        scan, full = scans[name], f"{asked.run.workflow_name}.{name}"
        paths = [scan.paths[index] for index in changed[name]]
        hint = "run the workflow again and ask that run; `snapshot: true` keeps old runs answerable"
        inside = 0
        if name in asked.starts:
            held = f"(SELECT DISTINCT id AS b FROM {given[source_space(name)]})" if given else rows
            rids = " UNION ALL ".join(scan.rids_of_file(index) for index in changed[name])
            inside = engine.scalar(f"SELECT count(*) FROM {held} s SEMI JOIN ({rids}) f ON f.b = s.b")
        if inside or len(paths) == len(scan.paths) or scan.version.kind != "source" or scan.version.gaps:
            total = engine.scalar(f"SELECT count(*) FROM {rows}") if inside else None
            raise changed_error(full, asked.run.id, paths, inside if inside else None, total, hint)
        gone[name] = changed_error(full, asked.run.id, paths).problems[0].message
    with stages.stage("starting Spark"):
        allow_heavy_imports()
        from lineage_service.spark.capture_columns import CaptureColumnNames
        from lineage_service.spark.evaluation import Evaluation
        from lineage_service.spark.open_sources import SourceOpener
        from lineage_service.spark.spark_session import session_under, spark_session
        from lineage_service.spark.staging import new_salt

        options, run_folder = IndexOptions(), asked.run.folder
        # Expressions must mean what they meant to the run.
        spark = session_under(spark_session(options.master, options.remote, options.conf), asked.run.settings or {})
    names = CaptureColumnNames.apart_from(name for node in asked.plan.nodes() for name in node.schema.names)
    steps = asked.run.step_versions
    stage = Evaluation(
        spark, names, run_folder, versions=steps, stages=stages, salt=new_salt(), temporary=folder, target=asked.target
    )
    opener = SourceOpener(spark, run_folder)
    relations: dict[str, Relation] = {}
    plain: dict[str, Relation] = {}
    below = {each.step for each in nodes_below(asked.plan.steps[asked.target]) if isinstance(each, Source)}
    for name, source in asked.run.sources.items():
        if name not in below or (name in changed and name not in gone):
            continue
        version = asked.run.source_version(name)
        if name in gone:
            left = [file for index, file in enumerate(version.files) if index not in changed[name]]
            version = replace(version, files=tuple(left), top=version.end)
        opened = opener.reopen(name, source, version)
        relations[name] = opened.relation(names, captured=True)
        if name not in gone:
            plain[name] = opened.relation(names, captured=False)
    for name in read:
        if name not in asked.plan.sources:
            relations[name] = stage.written_rows(steps[name], in_order=keeps_order(asked.plan.steps[name]))
    return stage, relations, plain, gone


def _scan(asked: WhyNotQuestion, name: str) -> VersionScan:
    version = asked.run.versions[f"source:{name}"]
    return VersionScan(
        version, tuple(asked.run.home.absolute(file.path) for file in version.files), asked.run.home.absolute
    )


def _changed_files(scan: VersionScan) -> list[int]:
    """The files that are no longer what they were, or are gone."""
    gone = [index for index, path in enumerate(scan.paths) if not Path(path).exists()]
    verify(*(scan.paths[index] for index in gone))  # DamagedFile where it is a file of the home that should be there
    return sorted({*changed_files(scan), *gone})


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
        # A condition that Spark does not come to evaluate in the predicate may fail where it is evaluated alone.
        guarded = all_verdicts(Verdicts(stage, reach, guarded=True), edges)
        rows = copy_to_duckdb(engine, stage, guarded, folder, "guarded", stages)
    table = engine.keep(
        "SELECT edge, rid, bool_or(passed) AS passed, bit_or(CASE WHEN passed THEN 0 ELSE marks END) AS marks, "
        f"min(n) AS n FROM {rows} GROUP BY edge, rid"
    )
    engine.drop(rows)
    return table


def _with_example_values(step: StepLoss, examples: Mapping[int, dict[str, Any]]) -> StepLoss:
    """The step with what is known of the rows that are shown of each reason."""
    reasons = tuple(
        replace(each, examples=tuple({"rid": rid, **examples[rid]} for rid in each.rids if rid in examples))
        for each in step.reasons
    )
    return replace(step, reasons=reasons)
