"""How many distinct pairs of rows a run has between each dataset and each source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lineage_catalog.hop_forms import HopForm

from lineage_service.capture.handles import Space
from lineage_service.index.compose import (
    composable,
    composed_pairs,
    count_of_ways,
    is_chain,
    stays_distinct,
    targets_of,
    window_way,
)
from lineage_service.index.hop_writer import HopWriter
from lineage_service.index.index_engine import IndexEngine
from lineage_service.index.space_graph import SpaceEdge, SpaceGraph, leading_to

MOST_COUNTED = 20_000_000  # distinct pairs are counted up to so many ways


@dataclass
class PairCounter:
    """Counts the pairs of one run, from its hops where those tell, else from the tables behind them.

    countable: of windows, by the ends of their intervals: between which datasets pairs are counted by positions alone
    """

    engine: IndexEngine
    graph: SpaceGraph
    writer: HopWriter
    countable: dict[tuple[Space, Space], list[list[Space]]] = field(default_factory=dict)

    def count(self) -> dict[tuple[Space, Space], int | None]:
        """How many distinct pairs there are between each dataset and each source, also where they are not kept end to
        end. None where counting them would multiply out what the hops are kept for.
        """
        found: dict[tuple[Space, Space], int | None] = {}
        for start in self.graph.datasets():
            edges = composable(self.graph.between(start, beyond=True), start)
            for source in (space for space in targets_of(edges) if space.is_source):
                ways = leading_to(edges, source)
                direct = [hop for hop in self.writer.hops if (hop.source, hop.target) == (start, source)]
                if self._is_pruned(ways):
                    continue
                straight = all(edge.source == start or not edge.source.is_dataset for edge in ways)
                # Pairs that were written are distinct over all roles; of other forms two may have a pair in common.
                apart = len(direct) == 1 or all(hop.form in (HopForm.PAIRS, HopForm.EMPTY) for hop in direct)
                if any(self.graph.is_lazy(edge) for edge in ways) or any(hop.is_on_demand for hop in direct):
                    found[start, source] = None
                elif straight and direct and apart and not any(edge.frames for edge in ways):
                    found[start, source] = sum(hop.rows for hop in direct)
                else:
                    found[start, source] = self._count_distinct_pairs(ways, start, source)
        return found

    def _count_distinct_pairs(self, ways: Sequence[SpaceEdge], start: Space, source: Space) -> int | None:
        """The number of distinct pairs over these ways; None where nothing but multiplying them out would tell."""
        window = window_way(ways, start, source)
        if window is not None and (window.is_same_row or not self.engine.number(window.count_of_others())):
            nulls = bool(self.engine.number(window.count_of_nulls()))
            if not nulls:
                ends = window.frames.source, window.frames.target
                self.countable.setdefault(ends, []).append([start, source])
            return int(self.engine.number(window.count_of_pairs(nulls=nulls)))
        total = int(self.engine.number(count_of_ways(ways, start, source)))
        if total <= MOST_COUNTED:
            return int(self.engine.number(f"SELECT count(*) FROM ({composed_pairs(ways, start, source)}) x"))
        if is_chain(ways, start) and stays_distinct(ways):
            return total
        return None

    def _is_pruned(self, ways: Sequence[SpaceEdge]) -> bool:
        """Whether a part of the way is not kept."""
        return not all(self.writer.edge_directions(edge) for edge in ways)
