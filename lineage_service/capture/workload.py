"""Questions that a workflow declares in advance: what is kept for them, and what is pruned.

For a plain question, pairs are kept in its direction. For others, files are prepared: pairs of selected rows, rows
sorted by parameters with the columns that are read, groups with their measures, or witnesses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from lineage_service.capture.handles import Space, Table
from lineage_service.plan.expressions import quote_identifier
from lineage_service.plan.mergeable_measures import MergeableMeasure

Direction = Literal["backward", "forward"]
Kind = Literal["pairs", "selection", "rows", "groups", "witnesses"]


@dataclass(frozen=True, slots=True)
class DuckDbExpressions:
    """Expressions in DuckDB's SQL over a source's columns as t0: the predicate, and the values computed for
    each row.
    """

    where: str | None
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeclaredQuestion:
    """A declared question from the dataset `near` to the datasets `far`; several only if pairs or witnesses are kept.

    Expressions are Spark SQL over the columns of `far`. `alike` has them in DuckDB's SQL, if they mean the same there.
    """

    name: str
    kind: Kind
    direction: Direction
    near: Space
    far: tuple[Space, ...]
    where: str | None = None
    parameters: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None
    by: tuple[tuple[str, str], ...] = ()
    measures: tuple[MergeableMeasure, ...] = ()
    alike: DuckDbExpressions | None = None

    @property
    def keys(self) -> list[tuple[str, str]]:
        """The columns that define groups: parameters, then `by`."""
        return [*((name, quote_identifier(name)) for name in self.parameters), *self.by]

    @property
    def values(self) -> list[str]:
        """The expressions that are computed for each row of `far` to group it: keys, then arguments of measures."""
        if self.kind != "groups":
            return []
        arguments = [each.argument for each in self.measures if each.argument is not None]
        return [*(text for _, text in self.keys), *dict.fromkeys(arguments)]

    @property
    def ends(self) -> list[tuple[Space, Space]]:
        """For each dataset of `far`, the two ends: first the one nearer to the outputs, then the one nearer to the
        sources.
        """
        return [(self.near, far) if self.direction == "backward" else (far, self.near) for far in self.far]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> DeclaredQuestion:
        measures = tuple(MergeableMeasure(**each) for each in body["measures"])
        columns = None if body["columns"] is None else tuple(body["columns"])
        return cls(
            body["name"], body["kind"], body["direction"], Space(body["near"]), tuple(map(Space, body["far"])),
            body["where"], tuple(body["parameters"]), columns, tuple((name, text) for name, text in body["by"]),
            measures,
            None
            if body["alike"] is None
            else DuckDbExpressions(body["alike"]["where"], tuple(body["alike"]["values"])),
        )  # fmt: skip


def links_of(tables: Iterable[Table]) -> dict[Space, list[Space]]:
    """For each space, the spaces that its ids refer to."""
    found: dict[Space, list[Space]] = {}
    for table in tables:
        behind = [handle.space for handle in table.handles]
        found.setdefault(table.space, []).extend(behind if table.everything is None else [table.everything])
    return found


def neighbours(links: Mapping[Space, Sequence[Space]]) -> dict[Space, list[Space]]:
    """For each dataset, the nearest datasets behind it, with only breakers between."""

    def behind(space: Space, seen: set[Space]) -> Iterator[Space]:
        for below in links.get(space, ()):
            if below.is_dataset:
                yield below
            elif below not in seen:
                seen.add(below)
                yield from behind(below, seen)

    return {space: list(dict.fromkeys(behind(space, set()))) for space in links if space.is_dataset}


@dataclass(frozen=True)
class Workload:
    """All declared questions of a run. Without any, everything is kept in both directions."""

    questions: tuple[DeclaredQuestion, ...] = ()

    @property
    def prepared_questions(self) -> tuple[DeclaredQuestion, ...]:
        """The questions for which files are prepared in addition to pairs."""
        return tuple(each for each in self.questions if each.kind != "pairs")

    def kept_directions(
        self, edges: Mapping[Space, Sequence[Space]]
    ) -> dict[tuple[Space, Space], set[Direction]] | None:
        """The directions in which pairs are kept between neighbouring datasets; None if all are kept.

        `edges` maps each dataset to its neighbours.
        """
        if not self.questions:
            return None
        found: dict[tuple[Space, Space], set[Direction]] = {}
        for each in self.questions:
            if each.kind == "pairs":
                for upper, lower in each.ends:
                    for hop in hops_between(edges, upper, lower):
                        found.setdefault(hop, set()).add(each.direction)
        return found

    def needed_spaces(self, edges: Mapping[Space, Sequence[Space]]) -> set[Space] | None:
        """The spaces on the path of any declared question; None if all are needed."""
        followed = self.needed_hops(edges)
        return None if followed is None else {space for hop in followed for space in hop}

    def needed_hops(self, edges: Mapping[Space, Sequence[Space]]) -> set[tuple[Space, Space]] | None:
        """The hops on the path of any declared question; None if all are needed."""
        if not self.questions:
            return None
        return {hop for each in self.questions for ends in each.ends for hop in hops_between(edges, *ends)}


def hops_between(edges: Mapping[Space, Sequence[Space]], upper: Space, lower: Space) -> Iterator[tuple[Space, Space]]:
    """Every hop between two datasets, over all paths."""
    reaching: dict[Space, bool] = {lower: True}

    def reaches(space: Space) -> bool:
        if space not in reaching:
            reaching[space] = False
            reaching[space] = any(reaches(below) for below in edges.get(space, ()))
        return reaching[space]

    seen: set[Space] = set()
    pending = [upper]
    while pending:
        space = pending.pop()
        if space in seen or space == lower or not reaches(space):
            continue
        seen.add(space)
        for below in edges.get(space, ()):
            if reaches(below):
                yield space, below
                pending.append(below)


def workload_entry(direction: Direction, near: str, far: str) -> str:
    """The workload entry that keeps the pairs of a question."""
    return f"- {{name: {near}_{'to' if direction == 'forward' else 'from'}_{far}, {direction}: {near}, to: {far}}}"
