"""Finds declared questions whose answer would be incomplete: another source has the same rows, and lineage to it is
pruned or not part of what is prepared. Such questions are refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lineage_service.capture.handles import Role, Space, Table, source_space
from lineage_service.capture.instrument import instrument
from lineage_service.capture.workload import (
    DeclaredQuestion,
    Direction,
    Workload,
    hops_between,
    links_of,
    neighbours,
    workload_entry,
)
from lineage_service.errors import join_names
from lineage_service.plan.build import Plan


@dataclass(frozen=True, slots=True)
class PartiallyAnswerableQuestion:
    """A question by name, its problem, and the workload entries that would keep all paths. `asked`: how the question
    has to be asked then, if its prepared data cannot be used.
    """

    name: str
    reason: str
    lines: tuple[str, ...]
    asked: str | None = None

    @property
    def hint(self) -> str:
        lines = "\n".join(self.lines)
        if self.asked is None:
            return f"add this to `lineage: workload:`  {lines}"
        return f"ask with {self.asked}(…)" + (f", and add this to `lineage: workload:`  {lines}" if lines else "")


def partially_answerable_questions(
    plan: Plan, same_rows: Mapping[str, Sequence[str]]
) -> Iterator[PartiallyAnswerableQuestion]:
    """The declared questions for which a pruned path may add to the answer. `same_rows` maps each source to the sources
    that share rows with it.
    """
    if not plan.workload or not same_rows:
        return
    instrumented = instrument(plan, "stage")
    judging = _CoverageCheck(plan, instrumented.workload, instrumented.tables(), same_rows)
    for question in instrumented.workload.questions:
        found = [each for far in question.far if (each := judging.fault(question, far)) is not None]
        yield from found[:1]


class _CoverageCheck:
    def __init__(
        self, plan: Plan, workload: Workload, tables: Sequence[Table], same_rows: Mapping[str, Sequence[str]]
    ) -> None:
        self.plan, self.same_rows = plan, same_rows
        self.kept = workload.kept_directions(neighbours(links_of(tables))) or {}
        # A side that influences by absence has no pairs that could be missing.
        self.edges = neighbours(links_of(_without_absence(tables)))

    def fault(self, question: DeclaredQuestion, far: Space) -> PartiallyAnswerableQuestion | None:
        direction = question.direction
        upper, lower = (question.near, far) if direction == "backward" else (far, question.near)
        sources = {source_space(name): name for name in self.plan.sources}
        if lower not in sources or question.kind == "witnesses":
            return None
        own, output = sources[lower], _name(self.plan, upper)
        others = [each for each in self.same_rows.get(own, ()) if self._hops(upper, each)]
        lost = [each for each in others if not self._is_kept(upper, each, direction)]
        if not others or (question.kind == "pairs" and not lost):
            return None
        named = join_names([f"'{each}'" for each in others])
        several = "sources" if len(others) > 1 else "source"
        reason = f"will be refused: '{own}' and {several} {named} read the same rows, and "
        if question.kind == "pairs":
            pruned = join_names([f"'{each}'" for each in lost])
            reason += f"lineage between '{output}' and {pruned} is pruned"
        else:
            reason += f"what is prepared is of '{own}' alone"
            lost = [each for each in (own, *others) if not self._is_kept(upper, each, direction)]
        ends = [(output, each) if direction == "backward" else (each, output) for each in lost]
        lines = tuple(workload_entry(direction, near, end) for near, end in ends)
        return PartiallyAnswerableQuestion(
            question.name, reason, lines, None if question.kind == "pairs" else direction
        )

    def _hops(self, upper: Space, source: str) -> list[tuple[Space, Space]]:
        return list(hops_between(self.edges, upper, source_space(source)))

    def _is_kept(self, upper: Space, source: str, direction: Direction) -> bool:
        return all(direction in self.kept.get(hop, ()) for hop in self._hops(upper, source))


def _without_absence(tables: Sequence[Table]) -> Iterator[Table]:
    for table in tables:
        handles = tuple(handle for handle in table.handles if handle.role is not Role.ABSENCE)
        if handles or table.everything is not None:
            yield Table(table.space, handles, table.everything)


def _name(plan: Plan, space: Space) -> str:
    name = space.name
    return next((output for output, step in plan.outputs.items() if step == name), name)
