"""Computed columns and filters that follow each other become one node: loops of programs make long plans of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from lineage_service.plan.expressions import Expression
from lineage_service.plan.from_connect.expression_rendering import conjunction
from lineage_service.plan.nodes import Filter, Node, WithColumns
from lineage_service.plan.plan_rewriting import nodes_inputs_first, with_inputs


def merge_nodes(last: Node, step: str) -> Node:
    """The plan with one node for several of a step that are read by each other only."""
    nodes = nodes_inputs_first(last)
    readers = Counter(below.id for node in nodes for below in node.inputs)
    runs: dict[str, list[Node]] = {}  # by the id of the highest node, from it downwards
    taken: set[str] = set()
    for node in reversed(nodes):
        if node.id in taken or node.step != step:
            continue
        run = [node]
        while (below := _mergeable(run, readers, step)) is not None:
            run.append(below)
            taken.add(below.id)
        if len(run) > 1:
            runs[node.id] = run
    done: dict[str, Node] = {}
    for node in nodes:
        if node.id in taken:
            continue
        run = runs.get(node.id, [node])
        inputs = [done[each.id] for each in run[-1].inputs]
        done[node.id] = _merged(run, inputs[0]) if len(run) > 1 else with_inputs(node, inputs)
    return done[last.id]


def _mergeable(run: list[Node], readers: Counter[str], step: str) -> Node | None:
    """The node below a run that can be merged with it."""
    lowest = run[-1]
    if not isinstance(lowest, WithColumns | Filter):
        return None
    below = lowest.input
    if below.step != step or readers[below.id] != 1 or type(below) is not type(lowest):
        return None
    if isinstance(below, WithColumns) and isinstance(lowest, WithColumns):
        made = {each.name.lower() for each in below.columns}
        new = {each.name.lower() for each in lowest.columns}
        read = {ref.parts[0].lower() for each in lowest.columns for ref in each.expression.columns}
        above = (each for node in run[:-1] if isinstance(node, WithColumns) for each in node.columns)
        read |= {ref.parts[0].lower() for each in above for ref in each.expression.columns}
        return None if made & (read | new) else below
    assert isinstance(lowest, Filter)
    assert isinstance(below, Filter)
    conditions = (lowest.where, below.where)
    is_plain = all(type(each) is Expression and each.repeatable for each in conditions)
    return below if is_plain and len(run) < _MOST_CONDITIONS else None


_MOST_CONDITIONS = 50  # of one filter: a longer text is nested too deeply for the parser


def _merged(run: list[Node], below: Node) -> Node:
    first, position = run[0], run[0].position
    if isinstance(first, WithColumns):
        columns = [each for node in reversed(run) if isinstance(node, WithColumns) for each in node.columns]
        return replace(first, input=below, columns=tuple(columns))
    assert isinstance(first, Filter)
    texts = [node.where.text for node in reversed(run) if isinstance(node, Filter)]
    return replace(first, input=below, where=Expression(conjunction(texts), position))
