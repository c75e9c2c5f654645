"""Declared questions that no run could answer: between datasets that are not linked, or of witnesses that are none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lineage_service.capture.handles import Role, Space, Table
from lineage_service.capture.instrument import InstrumentedPlan, instrument
from lineage_service.capture.workload import hops_between, links_of
from lineage_service.plan.build import Plan
from lineage_service.plan.nodes import Intersect


def unanswerable(plan: Plan) -> Iterator[tuple[str, str]]:
    """Names of declared questions, each with what is wrong with it."""
    if not plan.workload:
        return
    instrumented = instrument(plan, "stage")
    tables = {table.space: table for table in instrumented.tables()}
    for question in instrumented.workload.questions:
        for (upper, lower), far in zip(question.ends, question.far, strict=True):
            near, name = (_name(plan, space) for space in (question.near, far))
            roles = _roles(upper, lower, tables)
            if not roles:
                yield question.name, f"'{near}' and '{name}' are not linked in this workflow"
            elif roles == {Role.ABSENCE}:
                yield (
                    question.name,
                    f"'{near}' and '{name}' are linked by the absence of a match only: no rows to ask for",
                )
            elif question.kind == "witnesses" and (steps := _intersections(instrumented, question.near, far)):
                yield question.name, f"witnesses through intersect '{steps[0]}' are not kept: it puts sides together"
            elif question.kind == "witnesses" and Role.PEER in roles:
                yield (
                    question.name,
                    f"witnesses of '{near}' in '{name}' have no meaning: a window puts rows beside each other, not "
                    "together",
                )


def _intersections(plan: InstrumentedPlan, near: Space, far: Space) -> list[str]:
    """The intersect steps on the way between two datasets."""
    links = links_of(plan.tables())
    passed = {space for hop in hops_between(links, near, far) for space in hop}
    return [
        each.node.step
        for each in plan.nodes
        if isinstance(each.node, Intersect) and any(table.space in passed for table in each.tables)
    ]


def _roles(upper: Space, lower: Space, tables: Mapping[Space, Table]) -> set[Role]:
    """The roles of all ways from one dataset to another; the largest counts along a way."""
    found: set[Role] = set()
    seen: set[tuple[Space, Role]] = set()
    pending = [(upper, Role.OWN)]
    while pending:
        space, role = pending.pop()
        if (space, role) in seen:
            continue
        seen.add((space, role))
        table = tables.get(space)
        if table is None:
            continue
        behind = [(handle.space, handle.role) for handle in table.handles]
        if table.everything is not None:
            behind = [(table.everything, Role.OWN)]
        for below, own in behind:
            largest = max(role, own)
            if below == lower:
                found.add(largest)
            pending.append((below, largest))
    return found


def _name(plan: Plan, space: Space) -> str:
    name = space.partition(":")[2]
    return next((output for output, step in plan.outputs.items() if step == name), name)
