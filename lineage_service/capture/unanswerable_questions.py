"""Finds declared questions that no run could answer: between datasets that are not linked, or about one side of an
intersect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lineage_service.capture.handles import Role, Space, Table
from lineage_service.capture.instrument import instrument
from lineage_service.capture.workload import DeclaredQuestion, hops_between, links_of, neighbours
from lineage_service.errors import join_names
from lineage_service.plan.build import Plan


def unanswerable_questions(plan: Plan) -> Iterator[tuple[str, str]]:
    """The names of such questions, each with its problem."""
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
        if question.kind == "witnesses" and (half := _incomplete_intersect(question, tables)):
            step, lacking = half
            yield (
                question.name,
                f"witnesses through intersect '{step}' need rows of both its sides: 'to' leaves out "
                f"{join_names([_name(plan, space) for space in lacking])}",
            )


def _incomplete_intersect(question: DeclaredQuestion, tables: Mapping[Space, Table]) -> tuple[str, list[Space]] | None:
    """An intersect on the path, and the datasets behind it that the question does not include; its rows could not be
    distinguished without them.
    """
    links = links_of(tables.values())
    passed = {space for ends in question.ends for hop in hops_between(links, *ends) for space in hop}
    for space in passed:
        table = tables.get(space)
        lacking = (
            [] if table is None or table.left is None else [h.space for h in table.handles if h.space not in passed]
        )
        if lacking:
            behind = neighbours({**links, Space("step:"): lacking})[Space("step:")]
            return space.step_name, behind
    return None


def _roles(upper: Space, lower: Space, tables: Mapping[Space, Table]) -> set[Role]:
    """The roles of all paths from one dataset to another. Along a path the largest role counts."""
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
    name = space.name
    return next((output for output, step in plan.outputs.items() if step == name), name)
