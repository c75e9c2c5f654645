"""The cost and benefit of a workload: what is kept for each declared question, what is pruned, and what that costs and
saves.

Seconds and bytes are estimates from measurements on two cores (benchmarks/README.md). Only their order of magnitude is
meaningful.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lineage_service.capture.handles import Role, Space, source_space
from lineage_service.capture.instrument import InstrumentedPlan
from lineage_service.capture.workload import DeclaredQuestion, links_of, neighbours
from lineage_service.plan.nodes import Source

A_PAIR = 2.4  # bytes, in one direction
A_VALUE = 3.0  # bytes of a column that is carried
PAIRED, SORTED, CARRIED, GROUPED, EVALUATED = 0.07e-6, 0.25e-6, 0.055e-6, 0.05e-6, 0.35e-6  # seconds a pair
WITNESSED = 0.2e-6


def workload_facts(plan: InstrumentedPlan, rows: Mapping[str, int | None]) -> dict[str, Any] | None:
    """The workload of a plan as plain values; None if there is none. `rows` are the row counts of sources by name."""
    if not plan.workload.questions:
        return None
    pairs = _expected_pairs(plan, rows)
    return {
        "questions": [_question(plan, each, pairs) for each in plan.workload.questions],
        "pruned": list(_pruned_directions(plan, pairs)),
        "sources_without_ids": sorted(plan.unreached_sources),
    }


def _question(
    plan: InstrumentedPlan, question: DeclaredQuestion, pairs: Mapping[tuple[Space, Space], int | None]
) -> dict[str, Any]:
    count = _sum([pairs.get(ends) for ends in question.ends])
    columns = _columns(plan, question)
    by_spark = question.kind in ("selection", "groups", "rows") and question.alike is None
    by_spark = by_spark and not (question.kind == "rows" and question.where is None)
    a_pair = {
        "pairs": (A_PAIR, PAIRED),
        "selection": (None, PAIRED),
        "rows": (A_PAIR + A_VALUE * columns, SORTED + CARRIED * columns),
        "groups": (None, GROUPED),
        "witnesses": (A_PAIR * len(question.far), WITNESSED),
    }
    size, seconds = a_pair[question.kind]
    return {
        "name": question.name,
        "direction": question.direction,
        "from": _name(plan, question.near),
        "to": [_name(plan, far) for far in question.far],
        "kept": _kept_data_text(question, columns),
        "evaluated_by": "Spark" if by_spark else "DuckDB",
        "saves": _savings_text(question),
        "pairs_expected": count,
        "bytes_expected": None if count is None or size is None else round(count * size),
        "seconds_expected": None if count is None else round(count * (seconds + EVALUATED * by_spark), 2),
    }


def _kept_data_text(question: DeclaredQuestion, columns: int) -> str:
    match question.kind:
        case "pairs":
            return f"pairs, {question.direction}"
        case "selection":
            return f"pairs of rows where {question.where}"
        case "rows":
            some = "all columns" if question.columns is None else f"{columns} columns"
            where = "" if question.where is None else f" where {question.where}"
            order = f" sorted by {', '.join(question.parameters)}" if question.parameters else ""
            return f"rows{where} with {some}{order}"
        case "groups":
            keys = ", ".join(name for name, _ in question.keys) or "nothing"
            return f"groups by {keys}: {', '.join(measure.text for measure in question.measures)}"
        case _:
            return "witnesses: row ids that belong together"


def _savings_text(question: DeclaredQuestion) -> str:
    return {
        "pairs": "the other direction and the other sources are not captured",
        "selection": "pairs of all other rows are not kept",
        "rows": "only the matching part is read, and the source is not",
        "groups": "no rows are read",
        "witnesses": "rows are not matched again",
    }[question.kind]


def _columns(plan: InstrumentedPlan, question: DeclaredQuestion) -> int:
    if question.columns is not None:
        return len({*question.columns, *question.parameters})
    name = question.far[0].name
    node = plan.plan.sources.get(name) if question.far[0].is_source else plan.plan.steps.get(name)
    return len(node.schema.names) if node is not None else 0


def _pruned_directions(
    plan: InstrumentedPlan, pairs: Mapping[tuple[Space, Space], int | None]
) -> Iterator[dict[str, Any]]:
    """The directions between neighbouring datasets in which pairs are not kept, and their estimated size."""
    near = neighbours(links_of(plan.tables()))
    kept = plan.workload.kept_directions(near) or {}
    for upper, behind in near.items():
        for lower in behind:
            for direction in ("backward", "forward"):
                if direction not in kept.get((upper, lower), set()):
                    count = pairs.get((upper, lower))
                    ends = (upper, lower) if direction == "backward" else (lower, upper)
                    yield {
                        "direction": direction,
                        "from": _name(plan, ends[0]),
                        "to": _name(plan, ends[1]),
                        "bytes_saved_expected": None if count is None else round(count * A_PAIR),
                        "seconds_saved_expected": None if count is None else round(count * PAIRED, 2),
                    }


def _expected_pairs(plan: InstrumentedPlan, rows: Mapping[str, int | None]) -> dict[tuple[Space, Space], int | None]:
    """The estimated pairs between datasets: the rows that the breaker between them reads, otherwise the rows of the
    source.
    """
    reads = {
        table.space: each.choice.estimate for each in plan.nodes if each.choice is not None for table in each.tables
    }
    tables = {table.space: table for table in plan.tables()}
    sources = {
        source_space(each.node.step): rows.get(each.node.step) for each in plan.nodes if isinstance(each.node, Source)
    }
    found: dict[tuple[Space, Space], int | None] = {}

    def visit(start: Space, space: Space, count: int | None, seen: frozenset[Space]) -> None:
        table = tables.get(space)
        for handle in table.handles if table is not None and table.everything is None else ():
            if handle.role is Role.ABSENCE or handle.space in seen:
                continue
            here = reads.get(handle.space) if handle.space in reads else count
            if handle.space.is_dataset:
                known = here if here is not None else sources.get(handle.space)
                before = found.get((start, handle.space))
                found[start, handle.space] = known if before is None else before
            visit(start, handle.space, here, seen | {handle.space})

    for space in tables:
        if space.is_dataset:
            visit(space, space, None, frozenset({space}))
    return found


def _sum(counts: list[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _name(plan: InstrumentedPlan, space: Space) -> str:
    name = space.name
    return next((output for output, step in plan.plan.outputs.items() if step == name), name)
