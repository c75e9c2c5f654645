"""Lineage tables as a graph of spaces: which edges lie between datasets, and in which order."""

import numpy as np
import pytest

from lineage_service.capture.handles import Handle, Role, Table, group_space, side_space, source_space, step_space
from lineage_service.index.column_inversion import radix_order
from lineage_service.index.space_graph import SpaceEdge, build_space_graph, leading_to, through_absence

OUT, KEPT, A, B = step_space("out"), step_space("kept"), source_space("a"), source_space("b")
GROUP, SIDE = group_space("g"), side_space("s")
# out is made of groups of kept's rows; kept is made of a, where there is nothing in b.
TABLES = [
    Table(OUT, (Handle(GROUP, Role.OWN),)),
    Table(GROUP, (Handle(KEPT, Role.OWN),)),
    Table(KEPT, (Handle(A, Role.OWN), Handle(SIDE, Role.ABSENCE))),
    Table(SIDE, (), everything=B),
]


def ends(edges: list[SpaceEdge]) -> list[tuple]:
    return [(edge.source, edge.target) for edge in edges]


@pytest.fixture
def graph():
    return build_space_graph(TABLES, {})


def test_edges_are_the_handles_of_tables(graph):
    assert ends(graph.edges) == [(OUT, GROUP), (GROUP, KEPT), (KEPT, A), (KEPT, SIDE), (SIDE, B)]
    assert [edge.column for edge in graph.edges] == ["h0", "h0", "h0", "h1", None]
    assert [edge.everything for edge in graph.edges] == [False, False, False, False, True]
    assert graph.datasets() == [OUT, KEPT]


def test_ways_end_at_the_nearest_datasets(graph):
    assert ends(graph.between(OUT)) == [(OUT, GROUP), (GROUP, KEPT)]
    assert ends(graph.between(KEPT)) == [(KEPT, A), (KEPT, SIDE), (SIDE, B)]
    assert ends(graph.between(OUT, beyond=True)) == ends(graph.edges)


def test_edges_on_a_way_to_a_space(graph):
    assert ends(leading_to(graph.edges, A)) == [(OUT, GROUP), (GROUP, KEPT), (KEPT, A)]
    assert leading_to(graph.edges, source_space("c")) == []


def test_edges_on_a_way_with_an_absence(graph):
    assert ends(through_absence(graph.edges)) == [(OUT, GROUP), (GROUP, KEPT), (KEPT, SIDE), (SIDE, B)]


@pytest.mark.parametrize("largest", [0, 9, 2**16, 2**33])
def test_ids_are_ordered_as_a_stable_sort_orders_them(largest):
    ids = np.random.default_rng(3).integers(0, largest + 1, 500)
    assert radix_order(ids).tolist() == np.argsort(ids, kind="stable").tolist()
    assert radix_order(ids[:0]).tolist() == []
