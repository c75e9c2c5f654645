"""Surveys the breakers of a plan before a strategy is chosen for each.

For each breaker: whether its members are stable, how many rows it reads, which dataset contains its groups as rows, and
whether its members can be looked up in the sources.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from lineage_service.capture.direct_indexing import DirectLookup, find_direct_lookup
from lineage_service.capture.estimate import Estimate, Sizes, estimate_rows
from lineage_service.capture.handles import Handle, source_space, step_space
from lineage_service.capture.rules import InputHandles, rule_for
from lineage_service.capture.stability import WRITTEN, Stability, stability, unstable_members_reason
from lineage_service.capture.strategies import Breaker
from lineage_service.plan.build import Plan
from lineage_service.plan.nodes import (
    Aggregate,
    Difference,
    Distinct,
    Explode,
    Filter,
    Intersect,
    Join,
    Limit,
    Node,
    Project,
    Sort,
    Source,
    Union,
    Window,
    WithColumns,
)


@dataclass(frozen=True)
class BreakerSurvey:
    """The facts from which a breaker's strategy is chosen, and the dataset whose rows are its groups (`carrier`)."""

    breaker: Breaker
    carrier: str | None
    direct: DirectLookup | None


def survey_breakers(
    plan: Plan, nodes: list[Node], sizes: Sizes, by_partition: bool = False
) -> dict[str, BreakerSurvey]:
    """The survey of every node that leaves tables, by node id."""
    datasets, above = dataset_steps(plan), _readers_by_node(nodes)
    below: dict[str, InputHandles] = {}
    stable: dict[str, Stability] = {}
    rows: dict[str, Estimate | None] = {}
    joins: dict[str, int] = {}
    found: dict[str, BreakerSurvey] = {}
    for node in nodes:
        inputs = [each.id for each in node.inputs]
        rule = rule_for(node, tuple(below[each] for each in inputs), by_partition=by_partition)
        rows[node.id] = estimate_rows(node, [rows[each] for each in inputs], sizes)
        joins[node.id] = isinstance(node, Join) + sum(joins[each] for each in inputs)
        if any(table.everything is None for table in rule.tables):
            chain = _chain_to_dataset(node, datasets, above, plan.checked)
            direct = find_direct_lookup(node, chain[1:], datasets) if chain is not None else None
            if direct and [source_space(each) for each in direct.sources] != [
                each.space for each in rule.tables[0].handles
            ]:
                raise AssertionError(f"members of '{node.id}' are not rows of just these sources")
            unstable = unstable_members_reason(node, [stable[each] for each in inputs])
            reads = _estimate_reads(node, [rows[each] for each in inputs], sizes)
            by_key = isinstance(node, Join) and node.how == "semi" and node.equi_condition is not None
            breaker = Breaker(
                node,
                unstable,
                direct is not None,
                len(rule.tables[0].handles),
                reads,
                joins[inputs[1]] if isinstance(node, Join) else joins[node.id],
                rows[inputs[0]] if by_key else None,
                chain is not None or (isinstance(node, Join) and node.how == "anti"),
            )
            found[node.id] = BreakerSurvey(breaker, chain[-1].step if chain else None, direct)
        stable[node.id] = stability(node, [stable[each] for each in inputs])
        is_dataset = node.id in datasets and not isinstance(node, Source)
        if is_dataset:
            stable[node.id], joins[node.id] = WRITTEN, 0
        whole = source_space(node.step) if isinstance(node, Source) else step_space(node.step) if is_dataset else None
        own = ((Handle(step_space(node.step)),), (True,)) if is_dataset else (rule.handles, rule.once)
        below[node.id] = InputHandles(*own, whole)
    return found


def _estimate_reads(node: Node, inputs: list[Estimate | None], sizes: Sizes) -> Estimate | None:
    """The rows that a breaker reads when it is captured: the right side of a semi join, all inputs of any other
    breaker.
    """
    wanted = inputs[1:] if isinstance(node, Join) else inputs
    scanned = sum(each.scanned for each in wanted if each is not None)
    if node.id in sizes.members:
        return Estimate(sizes.members[node.id], 1.0, scanned, remembered=True)
    known = [each for each in wanted if each is not None]
    if len(known) < len(wanted):
        return None
    remembered = all(each.remembered for each in known)
    base, rows = sum(each.base for each in known), sum(each.rows for each in known)
    return Estimate(base, rows / base if base else 1.0, scanned, remembered=remembered)


def dataset_steps(plan: Plan) -> set[str]:
    return {*plan.outputs.values(), *plan.keep}


def _readers_by_node(nodes: list[Node]) -> dict[str, list[Node]]:
    above: dict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        for below in node.inputs:
            above[below.id].append(node)
    return above


def _chain_to_dataset(
    node: Node, datasets: set[str], above: Mapping[str, list[Node]], checked: frozenset[str]
) -> list[Node] | None:
    """The nodes from a breaker up to the dataset whose rows are its groups, if no group occurs twice there; otherwise
    None.
    """
    if isinstance(node, Join) or getattr(node, "partition_by", None) is not None or getattr(node, "all", False):
        return None  # these give a group's row more than once
    chain: list[Node] = [node]
    while chain[-1].id not in datasets:
        readers = above.get(chain[-1].id, [])
        if len(readers) != 1 or chain[-1].id in checked:
            return None
        (reader,) = readers
        if not _keeps_rows_single(reader):
            return None
        if any(expression.is_generator for expression, _ in reader.expressions_with_schemas()):
            return None
        chain.append(reader)
    return chain


def _keeps_rows_single(node: Node) -> bool:
    """Whether each output row comes from one row of the only input, and each input row gives at most one output row.
    Generator expressions are checked separately.
    """
    match node:
        case Filter() | Project() | WithColumns() | Sort() | Limit():
            return True
        case Source() | Aggregate() | Distinct() | Join() | Union() | Intersect() | Difference():
            return False
        case Window() | Explode():
            return False
        case _:
            assert_never(node)
