"""The SQL of walks over several hops, executed over small index files."""

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lineage_catalog.records import HopRecord

from lineage_service.capture.handles import Role, source_space, step_space
from lineage_service.query.home_files import HomeFiles
from lineage_service.query.lineage_graph import Place, Way
from lineage_service.query.walk_sql import Start, own_ways, reverse_ways, translated_rid, walk_sql
from lineage_service.store.shared_rows import SAME, PairRanges, SharedRows

OUT, MIDDLE, OTHER, IN = (
    Place("r1", space) for space in (step_space("out"), step_space("middle"), step_space("other"), source_space("in"))
)


@pytest.fixture
def files(tmp_path: Path) -> HomeFiles:
    return HomeFiles(lambda path: str(tmp_path / path), lambda place: pytest.fail(str(place)))


@pytest.fixture
def way(tmp_path: Path):
    """A way over pairs, which are written for both directions."""

    def made(start: Place, end: Place, pairs: list[tuple[int, int]], role: Role = Role.OWN) -> Way:
        paths = []
        for number, name in enumerate(("backward", "forward")):
            rows = sorted(pairs, key=lambda pair: pair[number])
            paths.append(f"{start.space}-{end.space}.{name}.parquet".replace(":", "_"))
            columns = [pa.array([row[at] for row in rows], pa.int64()) for at in (0, 1)]
            pq.write_table(pa.table(columns, names=["a", "b"]), tmp_path / paths[-1])
        hop = HopRecord("r1", start.space, end.space, int(role), "pairs", len(pairs), 0, *paths)
        return Way(start, end, hop)

    return made


def ask(walk) -> list[tuple]:
    with duckdb.connect() as connection:
        return sorted(connection.execute(walk.text, walk.parameters).fetchall())


def test_no_way_leads_nowhere(files):
    walk = walk_sql([], Start((1,)), OUT, IN, "backward", files)
    assert ask(walk) == [] and walk.presorted


def test_one_hop_is_a_look_up(files, way):
    ways = [way(OUT, IN, [(0, 1), (0, 2), (1, 2)])]
    assert ask(walk_sql(ways, Start((0,)), OUT, IN, "backward", files)) == [(0, 1, 0), (0, 2, 0)]
    everything = walk_sql(ways, Start(), OUT, IN, "backward", files)
    assert everything.presorted and ask(everything) == [(0, 1, 0), (0, 2, 0), (1, 2, 0)]
    reached = walk_sql(ways, Start((0, 1)), OUT, IN, "backward", files, pairs=False)
    assert ask(reached) == [(0, 1, 0), (0, 2, 0)], "only what is reached, each once"


def test_one_hop_forward(files, way):
    back = way(OUT, IN, [(0, 1), (0, 2), (1, 2)])
    ways = [Way(IN, OUT, back.hop)]
    assert ask(walk_sql(ways, Start((2,)), IN, OUT, "forward", files)) == [(2, 0, 0), (2, 1, 0)]


def test_two_ways_to_a_row_are_one_pair_with_the_stronger_role(files, way):
    """A row that is a peer on one way and itself on another is itself."""
    ways = [
        way(OUT, MIDDLE, [(0, 0)]),
        way(OUT, OTHER, [(0, 0)], Role.PEER),
        way(MIDDLE, IN, [(0, 7)]),
        way(OTHER, IN, [(0, 7), (0, 8)]),
    ]
    assert ask(walk_sql(ways, Start((0,)), OUT, IN, "backward", files)) == [(0, 7, 0), (0, 8, 1)]


def test_own_ways_are_those_without_windows(way):
    own = [way(OUT, MIDDLE, [(0, 0)]), way(MIDDLE, IN, [(0, 7)])]
    peers = [way(OUT, OTHER, [(0, 0)], Role.PEER), way(OTHER, IN, [(0, 7)])]
    assert own_ways([own[0], peers[0], own[1], peers[1]]) == own
    assert own_ways(peers) == [] and own_ways([]) == []


def test_ways_in_reverse(way):
    shared = SharedRows(PairRanges.of_pairs(np.array([0, 1]), np.array([5, 6])))
    ways = [way(OUT, MIDDLE, [(0, 0)]), Way(MIDDLE, IN, None, shared)]
    back = reverse_ways(ways)
    assert [(each.start, each.end) for each in back] == [(IN, MIDDLE), (MIDDLE, OUT)]
    assert back[0].shared.rid(5) == 0 and back[1].hop is ways[0].hop


@pytest.mark.parametrize(
    ("shared", "expected"),
    [
        (None, [0, 1, 2, 3, 4]),
        (SAME, [0, 1, 2, 3, 4]),
        (SharedRows(PairRanges.of_pairs(np.array([1, 2]), np.array([11, 12]))), [11, 12]),
        (SharedRows(PairRanges.of_pairs(np.array([0, 3]), np.array([20, 9]))), [9, 20]),
    ],
    ids=["no change", "all rows", "one run of rows", "several runs of rows"],
)
def test_rids_that_rows_have_elsewhere(shared, expected):
    rid, condition = translated_rid("r.b", shared)
    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT {rid} FROM (SELECT unnest(range(5)) AS b) r{condition}").fetchall()
    assert sorted(value for (value,) in found) == expected
